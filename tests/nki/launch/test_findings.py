"""What runs find: where NaN and infinity come from, ranges of functions, memory used again."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki
from trn3.profile import Finding

ONES = np.ones((128, 8), np.float32)


def line_of(mark: str) -> int:
    """Return the line of this file that ends with a comment."""
    source = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    return next(i for i, text in enumerate(source, 1) if text.endswith(f"# {mark}"))


def findings(body: Any, x: Any = ONES, **options: Any) -> list[Finding]:
    """Return what a kernel finds that works on a tile of x and gives it back."""

    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, nl.float32, name="tile")
        nisa.dma_copy(tile, x)
        result = body(tile)
        out = nl.ndarray(x.shape, nl.float32, buffer=nl.shared_hbm, name="out")
        nisa.dma_copy(out, tile if result is None else result)
        return out

    _, profile = nki.profile(kernel, x, **options)
    found = profile.findings
    assert nki.last_findings() == found
    return found


def with_at(value: float, *place: int) -> np.ndarray[Any, Any]:
    x = ONES.copy()
    x[place] = value
    return x


def test_nan_is_reported_where_it_is_made_and_nowhere_else() -> None:
    def body(tile: Any) -> Any:
        nisa.activation(tile, nl.log, tile)  # nan made
        nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
        nisa.tensor_tensor(tile, tile, tile, op=nl.add)
        other = nl.ndarray(tile.shape, nl.float32)
        nisa.tensor_copy(other, tile)
        nisa.tensor_scalar(other, other, nl.add, 1.0)
        return other

    found = [each for each in findings(body, with_at(-1.0, 3, 5)) if each.kind == "nan_origin"]
    (one,) = found
    assert (one.file, one.line) == (__file__, line_of("nan made"))
    assert (one.instruction, one.tensor, one.element) == ("activation", "tile", (3, 5))
    assert (one.origin, one.dtype) == ("computed", "float32")
    assert str(one).startswith(f"{__file__}:{one.line}: NaN first written here")


def test_each_line_in_a_loop_is_reported_once() -> None:
    def body(tile: Any) -> None:
        for _ in range(5):
            fresh = nl.ndarray(tile.shape, nl.float32)
            nisa.activation(fresh, nl.log, tile)

    found = findings(body, with_at(-1.0, 0, 0))
    assert [each.kind for each in found] == ["nan_origin"]


def test_nan_of_infinities_is_an_origin_of_its_own() -> None:
    def body(tile: Any) -> None:
        nisa.reciprocal(tile, tile)
        nisa.tensor_tensor(tile, tile, tile, op=nl.subtract)

    found = findings(body, with_at(0.0, 7, 1))
    assert [(each.kind, each.element) for each in found] == [
        ("infinity_origin", (7, 1)),
        ("nan_origin", (7, 1)),
    ]
    assert "held infinities" in found[1].message


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_argument_that_holds_it_is_named_once(value: float, in_place: bool, dtype: str) -> None:
    @nki.jit
    def kernel(given: Any) -> Any:
        for _ in range(2):
            tile = nl.ndarray(given.shape, getattr(nl, dtype))
            nisa.dma_copy(tile, given)  # given read
            other = tile if in_place else nl.ndarray(given.shape, nl.float32)
            nisa.tensor_scalar(other, tile, nl.multiply, 2.0)
        tile = nl.ndarray(given.shape, nl.float32)
        nisa.dma_copy(tile, given)
        return given

    nki.simulate(kernel, nan_origin=True)(with_at(value, 2, 2))
    (found,) = nki.last_findings()
    assert (found.origin, found.element) == ("argument", (2, 2))
    assert (found.instruction, found.line) == ("dma_copy", line_of("given read"))
    assert "argument `given` holds it already" in found.message


def test_clean_part_of_an_argument_hides_no_origin() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray((64, 8), nl.float32)
        nisa.dma_copy(tile, x[64:128])
        nisa.activation(tile, nl.log, tile)
        return x

    x = with_at(np.nan, 0, 0)
    x[64, 3] = -1.0
    nki.simulate(kernel, nan_origin=True)(x)
    assert [(each.origin, each.element) for each in nki.last_findings()] == [("computed", (0, 3))]


def test_uninitialised_memory_is_a_distinct_origin() -> None:
    def body(tile: Any) -> None:
        nothing = nl.ndarray(tile.shape, nl.float32, name="nothing")
        nisa.tensor_tensor(tile, tile, nothing, op=nl.add)

    read, nan = findings(body)
    assert read.kind == "uninitialized_read"
    assert (nan.kind, nan.origin) == ("nan_origin", "uninitialized_memory")
    assert "tensor `nothing`" in nan.message


@pytest.mark.parametrize(
    ("dtype", "value"), [("float16", 70000.0), ("float8_e5m2", 1e5), ("bfloat16", 3.4e38)]
)
def test_overflow_names_the_value(dtype: str, value: float) -> None:
    def body(tile: Any) -> None:
        narrow = nl.ndarray(tile.shape, getattr(nl, dtype), name="narrow")
        nisa.tensor_copy(narrow, tile)

    (found,) = findings(body, with_at(value, 1, 1))
    assert (found.kind, found.origin) == ("infinity_origin", "overflow")
    assert f"is beyond what {dtype} holds" in found.message


def test_largest_numbers_are_no_overflow() -> None:
    def body(tile: Any) -> None:
        narrow = nl.ndarray(tile.shape, nl.float16)
        nisa.tensor_copy(narrow, tile)

    assert findings(body, with_at(65519.0, 1, 1)) == []


def test_infinities_that_the_kernel_names_are_meant() -> None:
    def body(tile: Any) -> None:
        nisa.memset(tile, float("-inf"))
        nisa.tensor_scalar(tile, tile, nl.maximum, float("-inf"))

    assert findings(body) == []


def test_division_by_zero_of_a_language_function_is_found() -> None:
    def body(tile: Any) -> Any:
        zero = nl.zeros(tile.shape, nl.float32)
        return nl.divide(zero, zero)

    assert [each.kind for each in findings(body)] == ["nan_origin"]


def test_sum_in_psum_is_watched() -> None:
    x = np.full((128, 128), 1e30, np.float32)

    def body(tile: Any) -> Any:
        psum = nl.ndarray(tile.shape, nl.float32, buffer=nl.psum, name="psum")
        nisa.nc_matmul(psum, tile, tile)
        return psum_copied(psum)

    def psum_copied(psum: Any) -> Any:
        out = nl.ndarray(psum.shape, nl.float32)
        nisa.tensor_copy(out, psum)
        return out

    (found,) = findings(body, x)
    assert (found.kind, found.tensor) == ("infinity_origin", "psum")


def test_range_of_a_function_is_one_summary_a_line() -> None:
    def body(tile: Any) -> None:
        for _ in range(3):
            out = nl.ndarray(tile.shape, nl.float32)
            nisa.activation(out, nl.sin, tile)

    (found,) = findings(body, with_at(4.0, 0, 0))
    assert (found.kind, found.instruction) == ("outside_range", "sin")
    assert "3 of 3072 elements" in found.message
    assert "the first is 4" in found.message


def test_reading_what_another_tensor_took_is_found() -> None:
    def body(tile: Any) -> None:
        first = nl.ndarray(tile.shape, nl.float32, name="first", address=(0, 4096))
        nisa.tensor_copy(first, tile)
        second = nl.ndarray(tile.shape, nl.float32, name="second", address=(0, 4112))
        nisa.tensor_scalar(second, tile, nl.add, 1.0)  # bytes taken
        nisa.tensor_copy(tile[:, 0:4], first[:, 0:4])
        nisa.tensor_copy(tile, first)  # bytes read

    (found,) = findings(body)
    assert (found.kind, found.tensor) == ("use_after_reuse", "first")
    assert found.line == line_of("bytes read")
    assert f"{__file__}:{line_of('bytes taken')}" in found.message


def test_tensors_that_take_turns_at_an_address_are_meant() -> None:
    def body(tile: Any) -> None:
        buffers = [nl.ndarray(tile.shape, nl.float32, address=(0, 4096)) for _ in range(2)]
        for step in range(6):
            buffer = buffers[step % 2]
            nisa.tensor_copy(buffer, tile)
            nisa.tensor_copy(tile, buffer)

    assert findings(body) == []


def test_findings_of_a_failed_run_are_kept() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, nl.float32)
        nisa.dma_copy(tile, x)
        nisa.reciprocal(tile, tile)
        raise RuntimeError("later")

    with pytest.raises(RuntimeError, match="later"):
        nki.simulate(kernel, nan_origin=True)(with_at(0.0, 0, 0))
    assert [each.kind for each in nki.last_findings()] == ["infinity_origin"]


@pytest.mark.parametrize("lnc", [1, 2])
def test_cores_and_ranks_are_named(lnc: int) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, nl.float32)
        nisa.dma_copy(tile, x)
        if nl.program_id(0) == lnc - 1:
            nisa.reciprocal(tile, tile)
        return x

    kernel = nki.simulate(kernel[lnc], nan_origin=True)
    kernel(with_at(0.0, 0, 0))
    own = lnc - 1 if lnc > 1 else None
    assert [(each.core, each.rank) for each in nki.last_findings()] == [(own, None)]
    nki.simulate_ranks(kernel, [(ONES,), (with_at(0.0, 0, 0),)])
    assert [(each.core, each.rank) for each in nki.last_findings()] == [(own, 1)]


def test_findings_are_shown_with_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    import rich

    def kernel(x: Any) -> Any:
        tile = nl.ndarray(x.shape, nl.float32)
        nisa.dma_copy(tile, x)
        nisa.reciprocal(tile, tile)  # shown
        return x

    _, profile = nki.profile(kernel, with_at(0.0, 0, 0))
    rich.print(profile.summary())
    text = "".join(capsys.readouterr().out.split())
    assert f"test_findings.py:{line_of('shown')}:infinityfirstwrittenhere" in text
    assert profile.figures()["findings"][0]["kind"] == "infinity_origin"
