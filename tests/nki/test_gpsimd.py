"""Functions of one's own that kernels call as instructions of GpSimdE."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.core import Machine, run
from trn3 import nki
from trn3.nki import gpsimd
from trn3.profile import ENGINES

#: Cycles of GpSimdE's start, and its clock: 150 at 1.2 GHz.
DTYPES = {"float32": nl.float32, "bfloat16": nl.bfloat16}
START, CYCLE_PS = 150, 1_000_000 / 1_200


def assert_equal(got: Any, wanted: Any) -> None:
    """Compare element types and bits."""
    assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    assert got.tobytes() == wanted.tobytes()


def held_cycles(issue: Callable[[Any, Any], Any], dtype: str = "float32") -> int:
    """Return the cycles beyond the start for which an instruction holds the engine."""
    with Machine() as m:
        source, target = m.tensor((128, 60), DTYPES[dtype]), m.tensor((128, 60), DTYPES[dtype])
        nisa.memset(source, 1.0)
        issue(target, source)
        instructions = m.core.to_profile().data.instructions
        held = int(instructions.slot_end_ps[-1] - instructions.start_ps[-1])
    return round(held / CYCLE_PS) - START


def test_a_kernel_calls_a_function() -> None:
    def order_of(rows: Any) -> Any:
        return np.argsort(np.argsort(rows, axis=1), axis=1).astype(np.int32)

    ranks = gpsimd.operation(order_of, cycles=lambda shape: 3 * shape[1], op="ranks")

    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.load(x)
        order = nl.ndarray(x.shape, nl.int32)
        ranks(order, tile, name="order")
        doubled = nl.ndarray(x.shape, nl.int32)
        nisa.tensor_tensor(doubled, order, order, nl.add)
        out = nl.ndarray(x.shape, nl.int32, buffer=nl.shared_hbm)
        nl.store(out, doubled)
        return out

    x = np.random.default_rng(0).standard_normal((128, 40), dtype=np.float32)
    result, profile = nki.profile(kernel, x)
    assert_equal(result, 2 * order_of(x))
    data = profile.data
    own = data.instructions.opcode.tolist().index(data.opcodes.index("ranks"))
    assert ENGINES[data.instructions.engine[own]] == "gpsimd"
    assert data.labels[data.instructions.label[own]] == "order"


def test_several_outputs_narrow_types_and_views() -> None:
    def extremes(rows: Any) -> Any:
        return rows.min(axis=1, keepdims=True), rows.max(axis=1, keepdims=True)

    x = np.random.default_rng(1).standard_normal((64, 12)).astype(ml_dtypes.bfloat16)
    with Machine() as m:
        pair, source = m.empty((64, 2), "bfloat16"), m.sbuf(x)
        gpsimd.call(extremes, (pair[:, 0:1], pair[:, 1:2]), source[:, 2:12:3])
        part = x[:, 2:12:3].astype(np.float32)
        wanted = np.stack([part.min(axis=1), part.max(axis=1)], axis=1)
        assert_equal(m.get(pair), wanted.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(("cycles", "held"), [(77, 77), (lambda shape: 2 * shape[1], 120)])
def test_the_authors_cycles_are_what_it_takes(cycles: Any, held: int) -> None:
    assert held_cycles(lambda dst, src: gpsimd.call(abs, dst, src, cycles=cycles)) == held


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_without_cycles_it_costs_one_pass(dtype: str) -> None:
    def plain(dst: Any, src: Any) -> Any:
        return nisa.tensor_tensor(dst, src, src, nl.add, engine=nisa.gpsimd_engine)

    own = held_cycles(lambda dst, src: gpsimd.call(abs, dst, src), dtype)
    assert own == held_cycles(plain, dtype) > 0


SOURCE = """\
#include <stdint.h>
void scale_add(const float *x, const float *y, float *out, int64_t partitions) {
    for (int64_t i = 0; i < partitions * 6; i++) out[i] = 2.0f * x[i] + y[i];
}
"""


def test_a_compiled_c_function(tmp_path: Path) -> None:
    (tmp_path / "own.c").write_text(SOURCE)
    command = ["cc", "-shared", "-fPIC", "-O1", "-o", "libown.so", "own.c"]
    try:
        subprocess.run(command, cwd=tmp_path, check=True)
    except FileNotFoundError:
        pytest.skip("no C compiler")
    scale_add = ctypes.CDLL(str(tmp_path / "libown.so")).scale_add
    x, y = np.random.default_rng(2).standard_normal((2, 32, 6), dtype=np.float32)
    own = gpsimd.operation(scale_add, cycles=12)
    assert own.name == "scale_add"

    @nki.jit
    def kernel(x: Any, y: Any) -> Any:
        left, right = nl.load(x), nl.load(y)
        own(left, left, right)
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, left)
        return out

    assert_equal(kernel(x, y), 2 * x + y)


def broken(rows: Any) -> Any:
    """Raise what a user's function may."""
    return rows[:, 99]


def test_an_exception_names_the_kernels_line_and_its_own() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.load(x)
        gpsimd.call(broken, tile, tile)  # the line
        return x

    with pytest.raises(ValueError, match="broken: IndexError: index 99 is out of bounds") as caught:
        kernel(np.ones((128, 4), np.float32))
    text = Path(__file__).read_text().splitlines()
    line = next(number for number, each in enumerate(text, 1) if each.endswith("# the line"))
    assert f"test_gpsimd.py:{line}" in str(caught.value)
    cause = caught.value.__cause__
    assert isinstance(cause, IndexError)
    frame = cause.__traceback__
    names = set()
    while frame is not None:
        names.add(frame.tb_frame.f_code.co_name)
        frame = frame.tb_next
    assert "broken" in names


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda rows: rows[:, :2], r"gpsimd_call returned float32 \(8, 2\); its output tile is"),
        (lambda rows: rows.astype(np.float64), "gpsimd_call returned float64"),
        (lambda rows: (rows, rows), "zip"),
    ],
)
def test_a_wrong_result_is_an_error_with_the_line(function: Any, message: str) -> None:
    def body() -> None:
        tile = nl.ndarray((8, 4), nl.float32)
        nisa.memset(tile, 1.0)
        gpsimd.call(function, tile, tile)

    with pytest.raises(ValueError, match=message) as caught:
        run(body)
    assert "test_gpsimd.py:" in str(caught.value)


def test_psum_is_out_of_its_reach() -> None:
    with Machine() as m, pytest.raises(nisa.NkiValidationError, match="outputs must be in"):
        gpsimd.call(abs, m.tensor((8, 4), nl.float32, nl.psum), m.empty((8, 4)))


@pytest.mark.parametrize(
    ("function", "options", "error", "message"),
    [
        (abs, {"op": "two words"}, ValueError, "name is 'two words', which is no identifier"),
        (3, {}, TypeError, "function is of type int; allowed: a callable"),
        (abs, {"cycles": -1}, ValueError, "cycles is -1; allowed: 0 or more"),
        (abs, {"cycles": 1.5}, TypeError, "cycles is of type float; allowed"),
    ],
)
def test_operations_are_checked_where_they_are_made(
    function: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        gpsimd.operation(**options)(function)


def test_outside_a_kernel_there_is_no_core() -> None:
    with pytest.raises(RuntimeError):
        gpsimd.operation(abs)(None)


def test_timing_only_runs_call_what_writes_known_integers() -> None:
    called: list[str] = []

    def count(rows: Any) -> Any:
        called.append(str(rows.dtype))
        return rows

    def kernel(x: Any) -> Any:
        places, values = nl.ndarray((8, 4), nl.int32), nl.ndarray((8, 4), nl.float32)
        nisa.iota(places, [[1, 4]])
        nisa.dma_copy(values, x)
        gpsimd.call(count, places, places)
        gpsimd.call(count, values, values)
        return x

    _, timed = nki.profile(kernel, np.ones((8, 4), np.float32), values=False)
    assert called == ["int32"]
    _, both = nki.profile(kernel, np.ones((8, 4), np.float32))
    assert called == ["int32", "int32", "float32"]
    assert timed.latency_us == both.latency_us


def test_programs_hold_functions_by_name() -> None:
    def kernel(x: Any) -> Any:
        tile = nl.load(x)
        gpsimd.call(abs, tile, tile)
        return x

    program = nki.record(kernel, np.ones((8, 4), np.float32))
    assert program.functions == ("abs",)
    with pytest.raises(NotImplementedError, match="abs"):
        program.run({"x": np.ones((8, 4), np.float32)})
