"""Sample kernels with loops that the hardware runs, scans, printing and searches by registers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.samples import FLOATS, every_way, near, normal, wide
from trn3 import nki
from trn3.machine import SkippedValueError


@nki.jit
def double_by_fori_loop(x: Any) -> Any:
    """Double one block of rows in each turn; the index is a register."""
    blocks, rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)

    def body(i: Any) -> None:
        tile = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=x.select(0, i))
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out.select(0, i), src=tile)

    nl.fori_loop(0, blocks, body)
    return out


@nki.jit
def double_by_dynamic_range(x: Any) -> Any:
    """Do the same in a for statement, with slices and with access patterns."""
    blocks, rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    pattern = [[columns, rows], [1, columns]]
    for i in nl.dynamic_range(0, blocks, 2):
        tile = nl.load(x[i])
        nl.store(out.ap(pattern, scalar_offset=i, indirect_dim=0), nl.add(tile, tile))
    for i in nl.dynamic_range(1, blocks, 2):
        nl.store(out[i], nl.multiply(nl.load(x.ap(pattern, scalar_offset=i)), 2.0))
    return out


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(4, 128, 64), (3, 5, 7), (2, 1, 1)])
@pytest.mark.parametrize("kernel", [double_by_fori_loop, double_by_dynamic_range])
def test_dynamic_loops_equal_numpy(kernel: Any, shape: Any, dtype: Any) -> None:
    x = normal(*shape, dtype=dtype)
    for lnc in (1, 2):
        near(every_way(kernel[lnc], x), 2 * wide(x), dtype)


@nki.jit
def powers_by_while_loop(x: Any, count: Any) -> Any:
    """Multiply as often as a tensor says; its copy in SBUF counts down."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    base, result = nl.load(x), nl.ones(x.shape, x.dtype)
    left = nl.load(count)
    register = nisa.register_alloc()
    nisa.register_load(register, left)

    def body(register: Any) -> Any:
        nisa.tensor_tensor(result, result, base, nl.multiply)
        nisa.tensor_scalar(left, left, nl.subtract, 1)
        nisa.register_load(register, left)
        return register

    nl.while_loop(register, body)
    nl.store(out, result)
    return out


@nki.jit
def powers_by_while(x: Any, count: Any) -> Any:
    """Do the same in a while statement, and count on in a register of the loop."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    base, result = nl.load(x), nl.ones(x.shape, x.dtype)
    left = nl.load(count)
    register = nisa.register_alloc(left)
    while register:
        nisa.tensor_tensor(result, result, base, nl.multiply)
        nisa.tensor_scalar(left, left, nl.add, -1)
        nisa.register_load(src=left, dst=register)
    nl.store(out, result)
    return out


@nki.jit
def powers_by_bound(x: Any, count: Any) -> Any:
    """Do the same with the register as the bound."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    base, result = nl.load(x), nl.ones(x.shape, x.dtype)
    bound = nisa.register_alloc()
    nisa.register_load(bound, count)
    for _ in nl.dynamic_range(bound):
        nisa.tensor_tensor(result, result, base, nl.multiply)
    nl.store(out, result)
    return out


POWERS = [powers_by_while_loop, powers_by_while, powers_by_bound]


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("kernel", POWERS)
def test_loops_that_end_by_data_equal_numpy(kernel: Any, count: int) -> None:
    x = normal(33, 9)
    given = np.array([[count]], np.int32)
    for lnc in (1, 2):
        near(kernel[lnc](x, given), wide(x) ** count)
    assert (nki.simulate(kernel)(x, given) == kernel(x, given)).all()


@pytest.mark.parametrize("kernel", POWERS)
def test_loops_that_end_by_data_take_their_time_without_values(kernel: Any) -> None:
    x = normal(33, 9)
    times = [
        nki.profile(kernel, x, np.array([[count]], np.int32), values=False)[1].latency_us
        for count in (1, 4)
    ]
    assert times[0] < times[1]


def test_loops_that_end_by_what_is_skipped_say_so() -> None:
    x = normal(33, 9)
    floats = np.array([[1.0]], np.float32)

    @nki.jit
    def computed(x: Any, count: Any) -> Any:
        total = nl.sum(nl.load(count), axis=1)
        whole = nl.copy(total, dtype=nl.int32)
        register = nisa.register_alloc(whole)
        for _ in nl.dynamic_range(register):
            nl.load(x)
        return x

    computed(x, floats)
    with pytest.raises(SkippedValueError, match="its values are needed and were not computed"):
        nki.profile(computed, x, floats, values=False)


@nki.jit
def gather_rows(table: Any, places: Any) -> Any:
    """Pick rows of a table in HBM, one after the other by registers and all at once by DMA."""
    rows, columns = places.shape[0], table.shape[1]
    one_by_one = nl.ndarray((rows, columns), table.dtype, buffer=nl.shared_hbm)
    at_once = nl.ndarray((rows, columns), table.dtype, buffer=nl.shared_hbm)
    index = nl.load(places)
    line = nl.load(places.reshape((1, rows)))
    for i in nl.sequential_range(rows):
        place = nisa.register_alloc(line[0, i])
        nl.store(one_by_one[i : i + 1], nl.load(table[nl.ds(place, 1)]))
    tile = nl.ndarray((rows, columns), table.dtype)
    nisa.dma_copy(tile, table.ap([[columns, rows], [1, columns]], vector_offset=index))
    nl.store(at_once, tile)
    return one_by_one, at_once


@pytest.mark.parametrize("dtype", [*FLOATS, np.int32])
def test_gather_rows_equals_numpy(dtype: Any) -> None:
    table = (10 * normal(50, 17)).astype(dtype)
    places = np.random.default_rng(1).integers(0, 50, (21, 1)).astype(np.int32)
    for result in every_way(gather_rows, table, places):
        assert (result == table[places[:, 0]]).all()


@nki.jit
def selective_scan(delta: Any, u: Any, A: Any, B: Any, C: Any) -> Any:  # noqa: N803
    """Sum states of h = exp(delta A) h + delta u B along time; channels are on partitions."""
    channels, length = delta.shape
    out = nl.ndarray((channels, length), dtype=delta.dtype, buffer=nl.shared_hbm)
    programs = nl.num_programs(0) if nl.program_ndim() else 1
    own = -(-channels // programs)
    last = min(channels, (nl.program_id(0) + 1) * own)
    piece = 100
    for first in nl.affine_range(nl.program_id(0) * own, last, 128):
        here = nl.ds(first, min(128, last - first))
        rates = nl.load(A[here])
        steps, inputs = nl.load(delta[here]), nl.load(u[here])
        driven = nl.multiply(steps, inputs)
        total = nl.zeros((here.size, length), dtype=nl.float32, buffer=nl.sbuf)
        for state in nl.affine_range(A.shape[1]):
            carry = nl.zeros((here.size, 1), dtype=nl.float32)
            for start in nl.sequential_range(0, length, piece):
                span = slice(start, min(length, start + piece))
                shape = (here.size, span.stop - span.start)
                decay = nl.ndarray(shape, nl.float32)
                nisa.activation(decay, nl.exp, steps[:, span], scale=rates[:, state])
                drive, read = (
                    nl.broadcast_to(nl.load(v[state : state + 1, span]), shape) for v in (B, C)
                )
                h = nl.ndarray(shape, nl.float32)
                nisa.tensor_tensor_scan(
                    h, decay, nl.multiply(driven[:, span], drive), carry, nl.multiply, nl.add
                )
                nisa.tensor_copy(carry, h[:, shape[1] - 1 : shape[1]])
                total[:, span] = nl.add(total[:, span], nl.multiply(h, read))
        nl.store(out[here], nl.copy(total, dtype=delta.dtype))
    return out


@pytest.mark.parametrize(("channels", "length", "states"), [(130, 250, 3), (1, 1, 1), (9, 101, 2)])
def test_selective_scan_equals_numpy(channels: int, length: int, states: int) -> None:
    delta, u = 0.1 * np.abs(normal(channels, length)), normal(channels, length, seed=1)
    a = -np.abs(normal(channels, states, seed=2))
    b, c = (normal(states, length, seed=seed) for seed in (3, 4))
    h, wanted = np.zeros((channels, states)), np.zeros((channels, length))
    for t in range(length):
        h = np.exp(wide(delta[:, t : t + 1]) * a) * h + (delta[:, t] * u[:, t])[:, None] * b[:, t]
        wanted[:, t] = (h * c[:, t]).sum(1)
    for lnc in (1, 2):
        if channels > 1 or lnc == 1:
            near(every_way(selective_scan[lnc], delta, u, a, b, c), wanted, factor=5)


@nki.jit
def printing(x: Any) -> Any:
    tile = nl.load(x)
    nl.device_print("before:", x)
    doubled = nl.multiply(tile, 2.0)
    nl.device_print(prefix="doubled:", tensor=doubled[:, 0:2])
    for i in nl.static_range(2):
        nl.device_print("row", doubled[i : i + 1])
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, doubled)
    return out


def test_device_print_shows_values_and_saves_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NEURON_RT_DEBUG_OUTPUT_DIR", str(tmp_path))
    x = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    printing(x)
    shown = capsys.readouterr().out
    assert "before:" in shown
    assert "[[ 2.  4.]\n [ 8. 10.]]" in shown
    rows = [np.load(tmp_path / "row" / "core_0" / str(i) / "tensor.npy") for i in range(2)]
    assert (np.concatenate(rows) == 2 * x).all()


@nki.jit
def topk(x: Any, n: int, k: int) -> Any:
    """Find the k largest of n elements that lie snake-wise over 16 partitions."""
    tile = nl.load(x)
    values = nl.ndarray((x.shape[0], k), nl.bfloat16)
    places = nl.ndarray((x.shape[0], k), nl.uint32)
    nisa.topk(values, places, tile, n)
    outs = [nl.ndarray(tile.shape, tile.dtype, buffer=nl.shared_hbm) for tile in (values, places)]
    nl.store(outs[0], values)
    nl.store(outs[1], places)
    return outs[0], outs[1]


@pytest.mark.parametrize(("n", "k"), [(42, 5), (8, 8), (200, 17)])
def test_topk_equals_numpy(n: int, k: int) -> None:
    groups, columns = 2, -(-n // 16)
    rng = np.random.default_rng(0)
    lists = [rng.permutation(n) - n // 2 for _ in range(groups)]
    x = np.full((16 * groups, columns), 1000.0)
    for group, values in enumerate(lists):
        for element, value in enumerate(values):
            x[16 * group + element % 16, element // 16] = value
    found, places = every_way(topk, x.astype(ml_dtypes.bfloat16), n, k)
    for group, values in enumerate(lists):
        rows = slice(16 * group, 16 * group + 16)
        order = np.argsort(values)[-k:]
        assert (wide(found[rows]) == values[order]).all()
        assert (places[rows] == order).all()
