"""Kernels on two cores: values, one result whatever the host does, launch grids."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.two_cores import (
    RNG,
    F,
    P,
    halves,
    split,
    swap_by_barrier,
    swap_by_sendrecv,
    tile_of,
)
from trn3 import nki

# --- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lnc", [1, 2, (2,), np.int64(2)])
def test_split_work_gives_the_same_values_on_any_number_of_cores(lnc: Any) -> None:
    x = RNG.standard_normal((4, P, F)).astype(np.float32)
    assert np.array_equal(split[lnc](x), x * 2)


@pytest.mark.parametrize("kernel", [swap_by_barrier, swap_by_sendrecv])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, nl.bfloat16])
def test_swap_exchanges_the_halves(kernel: Any, dtype: Any) -> None:
    x = (RNG.standard_normal((2, P, F)) * 50).astype(np.float32)
    x = np.abs(x).astype(dtype) if dtype is np.uint8 else x.astype(dtype)
    assert np.array_equal(kernel[2](x), x[::-1])


def test_program_queries_on_two_cores() -> None:
    seen: list[Any] = []

    @nki.jit
    def kernel(x: Any) -> Any:
        seen.append((nl.program_id(0), nl.num_programs(axes=0), nl.program_ndim(), x.buffer))
        return x

    kernel[2](halves())
    assert seen == [(core, 2, 1, nl.shared_hbm) for core in (0, 1)]


def test_shared_hbm_is_one_tensor_and_private_hbm_two() -> None:
    seen: dict[str, list[int]] = {}

    @nki.jit
    def kernel(x: Any) -> Any:
        own = nl.program_id(0)
        names = ["a", "b"] if own == 0 else ["b", "a"]
        for name in names:
            tensor = nl.ndarray((2, 2), nl.float32, buffer=nl.shared_hbm, name=name)
            seen.setdefault(name, []).append(tensor.storage_id)
        for key in ("first", "second"):
            tensor = nl.ndarray((2, 2), nl.float32, buffer=nl.shared_hbm)
            seen.setdefault(key, []).append(tensor.storage_id)
        private = nl.ndarray((2, 2), nl.float32, buffer=nl.private_hbm)
        seen.setdefault("private", []).append(private.storage_id)
        seen.setdefault("input", []).append(x.storage_id)
        constant = nl.shared_constant(np.arange(3, dtype=np.float32))
        seen.setdefault("constant", []).append(constant.storage_id)
        return x

    kernel[2](halves())
    one = {key for key, (first, second) in seen.items() if first == second}
    assert one == {"a", "b", "first", "second", "input", "constant"}


def test_shared_tensors_that_differ_are_refused() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        size = 2 + nl.program_id(0)
        nl.ndarray((size, 2), nl.float32, buffer=nl.shared_hbm, name="t")
        return x

    with pytest.raises(ValueError, match=r"'t' has shape \(3, 2\).*\(2, 2\).*test_lnc2.py:\d+\)"):
        kernel[2](halves())


def test_cores_have_sbuf_and_registers_of_their_own() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((2, 1), nl.int32, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        tile = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf, address=(0, 0))
        nisa.memset(tile, 10 + own)
        register = nisa.register_alloc(tile)
        nisa.core_barrier(x, (0, 1))
        nisa.register_store(out[own], register)
        return out

    assert kernel[2](halves()).tolist() == [[10], [11]]


def test_inputs_written_by_either_core_are_updated_in_place() -> None:
    @nki.jit
    def kernel(x: Any) -> None:
        own = nl.program_id(0)
        nl.store(x[own], nl.full((P, F), own + 1.0, nl.float32))

    x = halves()
    assert kernel[2](x) is None
    assert (x[0] == 1).all()
    assert (x[1] == 2).all()


def test_arguments_may_hold_tensors_and_are_bound_for_each_core() -> None:
    class Config(nl.NKIObject):
        x: Any
        seen: list[int]

    @nki.jit
    def kernel(config: Any, names: list[Any]) -> Any:
        names.append(nl.program_id(0))
        assert len(names) == 2
        return config.x

    x = halves()
    assert np.array_equal(kernel[2](Config(x=x, seen=[]), [1]), x)


@pytest.mark.parametrize("launch", [2, (2, 2)])
def test_objects_that_kernels_write_to_are_copied_for_each_instance(launch: Any) -> None:
    class Allocator(nl.NKIObject):
        def __init__(self) -> None:
            self.next = 0
            self.owner = self

        def take(self, size: int) -> int:
            self.next += size
            return self.next - size

    @dataclass(frozen=True)
    class Config(nl.NKIObject):
        allocator: Any

    @nki.jit
    def kernel(x: Any, allocator: Any, config: Any) -> Any:
        assert config.allocator is allocator
        assert allocator.owner is allocator
        assert [allocator.take(64), config.allocator.take(64)] == [0, 64]
        return x

    allocator = Allocator()
    kernel[launch](halves(), allocator, Config(allocator))
    assert allocator.next == 0


def test_results_that_differ_are_refused() -> None:
    @nki.jit
    def private(x: Any) -> Any:
        return nl.ndarray(x.shape, x.dtype, buffer=nl.private_hbm, name="mine")

    @nki.jit
    def one_only(x: Any) -> Any:
        return x if nl.program_id(0) == 0 else None

    for kernel in (private, one_only):
        with pytest.raises(ValueError, match=r"program 1 returned .*nl.shared_hbm"):
            kernel[2](halves())


def test_sendrecv_reads_both_tiles_before_it_writes() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((2, P, 2 * F), x.dtype, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        both = tile_of((P, 2 * F), x.dtype)
        nisa.dma_copy(both[:, 0:F], x[own])
        peer = {"send_to_rank": 1 - own, "recv_from_rank": 1 - own}
        nisa.sendrecv(both[:, nl.ds(0, F)], both[:, nl.ds(F, F)], **peer, pipe_id=0)
        nisa.sendrecv(both[:, nl.ds(F, F)], both[:, nl.ds(F, F)], **peer, pipe_id=1)
        nl.store(out[own], both)
        return out

    x = halves()
    got = kernel[2](x)
    for own in (0, 1):
        assert np.array_equal(got[own], np.concatenate([x[own], x[own]], axis=1))


def test_pipes_that_cross_are_independent() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((2, 2, P, F), x.dtype, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        received = [tile_of((P, F), x.dtype) for _ in range(2)]
        mine = nl.load(x[own])
        twice = nl.multiply(mine, 2.0)
        for pipe in (0, 1) if own == 0 else (1, 0):
            nisa.sendrecv(
                src=twice if pipe else mine,
                dst=received[pipe],
                send_to_rank=1 - own,
                recv_from_rank=1 - own,
                pipe_id=pipe,
            )
        nisa.core_barrier(out, [0, 1])
        for pipe in (0, 1):
            nl.store(out[own, pipe], received[pipe])
        return out

    x = halves()
    got, profile = nki.profile(kernel[2], x)
    assert np.array_equal(got, np.stack([[x[1], 2 * x[1]], [x[0], 2 * x[0]]]))
    assert profile.findings == []


def test_lists_of_one_core_wait_for_nobody() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        if nl.program_id(0) == 0:
            nisa.core_barrier(x, (0,))
        return x

    kernel(halves())
    kernel[2](halves())


def test_barrier_inside_a_dynamic_loop() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        total = nl.ndarray((2, 1), nl.float32, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        flag = nl.zeros((1, 1), nl.float32)
        for _ in nl.dynamic_range(3):
            nisa.tensor_scalar(flag, flag, op0=nl.add, operand0=1.0 + own)
            nisa.core_barrier(flag, (0, 1))
        nisa.dma_copy(total[own], flag)
        return total

    assert kernel[2](halves()).tolist() == [[3.0], [6.0]]


def test_a_jitted_kernel_inside_runs_inline_on_both_cores() -> None:
    @nki.jit
    def outer(x: Any) -> Any:
        return swap_by_barrier(x)

    @nki.jit
    def bracketed(x: Any) -> Any:
        return swap_by_barrier[2](x)

    x = halves()
    assert np.array_equal(outer[2](x), x[::-1])
    assert np.array_equal(bracketed[2](x), x[::-1])


@pytest.mark.parametrize(("outer", "inner"), [(None, 2), (1, 2), (2, 1)])
def test_a_kernel_inside_with_other_cores_is_refused(outer: Any, inner: Any) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        return split[inner](x)

    with pytest.raises(ValueError, match=r"split\[\d\]> is called by a kernel that runs on"):
        (kernel[outer] if outer else kernel)(halves())


def test_device_print_says_which_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NEURON_RT_DEBUG_OUTPUT_DIR", str(tmp_path))

    @nki.jit
    def kernel(x: Any) -> Any:
        nl.device_print("x", nl.full((1, 2), float(nl.program_id(0)), nl.float32))
        return x

    kernel[2](halves())
    for core in (0, 1):
        assert np.load(tmp_path / "x" / f"core_{core}" / "0" / "tensor.npy").tolist() == [
            [core] * 2
        ]
    assert capsys.readouterr().out.startswith("x ")


# --- one result, whatever the host does ---------------------------------------------------------


@pytest.fixture
def jitter() -> Iterator[Callable[[], None]]:
    """Let threads switch often and sleep at will."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    noise = np.random.default_rng()
    yield lambda: time.sleep(float(noise.uniform(0, 0.002)))
    sys.setswitchinterval(before)


def test_values_and_times_do_not_depend_on_threads(jitter: Callable[[], None]) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        own = nl.program_id(0)
        mine = nl.load(x[own])
        theirs = tile_of(mine.shape)
        for step in range(6):
            jitter()
            nisa.sendrecv(mine, theirs, 1 - own, 1 - own, pipe_id=step % 2)
            nisa.tensor_tensor(mine, mine, theirs, op=nl.add if step % 2 else nl.subtract)
            if step == 3:
                nisa.core_barrier(out, (0, 1))
            jitter()
        nl.store(out[own], mine)
        return out

    x = halves()
    results = []
    for _ in range(20):
        values, profile = nki.profile(kernel[2], x)
        times = [core.data.instructions.start_ps.tolist() for core in profile.cores]
        results.append((values.tobytes(), times))
    assert all(result == results[0] for result in results)


def test_order_of_prints_is_the_same_in_every_run(capsys: pytest.CaptureFixture[str]) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        for step in range(3):
            sys.stdout.write(f"{nl.program_id(0)} {step}\n")
            nisa.core_barrier(x, (0, 1))
        return x

    x = halves()
    for _ in range(5):
        kernel[2](x)
        assert capsys.readouterr().out.split("\n")[:3] == ["0 0", "1 0", "1 1"]


# --- launch grids -------------------------------------------------------------------------------


def grid_kernel(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    i, j = nl.program_id(0), nl.program_id(1)
    assert nl.program_ndim() == 2
    assert (nl.num_programs((0, 1)), nl.num_programs(None)) == ((4, 2), 8)
    rows, columns = nl.ds(i * 32, 32), nl.ds(j * 64, 64)
    nl.store(out[rows, columns], nl.add(nl.load(x[rows, columns]), float(10 * i + j)))
    return out


GRIDS: list[Any] = [
    (4, 2),
    (nl.nc(2) * 2, 2),
    (2 * nl.nc(2), 2),
    (nl.spmd_dim(2, nl.nc(2)), 2),
    (nl.spmd_dim(nl.nc(2), 2), 2),
    (4, nl.nc(2)),
]


@pytest.mark.parametrize("grid", GRIDS)
def test_grids_run_every_instance(grid: Any) -> None:
    x = RNG.standard_normal((P, P)).astype(np.float32)
    expected = x + 10 * np.repeat(np.arange(4), 32)[:, None] + np.repeat(np.arange(2), 64)
    got, profile = nki.profile(nki.jit(grid_kernel)[grid], x)
    np.testing.assert_array_equal(got, expected.astype(np.float32))
    assert len(profile.cores) == (1 if grid == (4, 2) else 2)
    counts = [len(core.data.instructions) for core in profile.cores]
    assert len(set(counts)) == 1


def test_grids_place_instances_as_they_say() -> None:
    from trn3.nki.launch.grid import launch_of

    def placed(*axes: Any) -> tuple[int, ...]:
        return launch_of(axes, legacy=True).placement

    assert placed(nl.nc(2) * 2) == (0, 0, 1, 1)
    assert placed(2 * nl.nc(2)) == placed(nl.spmd_dim(2, nl.nc(2))) == (0, 1, 0, 1)
    assert placed(nl.spmd_dim(nl.nc(2), 2)) == (0, 0, 1, 1)
    assert placed(2) == (0, 0)
    assert placed(2, nl.nc(2)) == (0, 1, 0, 1)


def test_a_grid_on_two_cores_is_faster_than_on_one() -> None:
    x = RNG.standard_normal((P, P)).astype(np.float32)
    kernel = nki.jit(grid_kernel)
    one, two = (nki.profile(kernel[grid], x)[1].latency_us for grid in GRIDS[:2])
    assert two < one


@pytest.mark.parametrize(
    "make", [lambda: nl.nc(0), lambda: nl.nc(2) * 0, lambda: nl.spmd_dim(2, 2)]
)
def test_bad_axes_are_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="allowed"):
        make()
