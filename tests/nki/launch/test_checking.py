"""Kernels whose results are held against goldens: element types on the way, lines that deviate."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki
from trn3.nki.launch.checking import CheckedRun
from trn3.nki.launch.golden import ResultTolerance

Check = Callable[..., Any]
X = 1e-3 * np.random.default_rng(0).standard_normal((128, 16), dtype=np.float32)


def line_of(mark: str) -> int:
    """Return the line of this file that ends with a comment."""
    source = inspect.getsource(inspect.getmodule(line_of)).splitlines()
    return next(i for i, text in enumerate(source, 1) if text.endswith(f"# {mark}"))


def expm1(x: Any) -> Any:
    return np.exp(np.asarray(x, np.float64)) - 1.0


@nki.jit
def cancelling(x: Any) -> Any:
    tile = nl.load(x)
    rounded = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.sbuf)
    nisa.activation(rounded, nl.exp, tile)
    nisa.tensor_scalar(tile, rounded, nl.subtract, 1.0)  # cancelled
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def doubled(x: Any) -> Any:
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.multiply, 2.0)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def logarithm(x: Any) -> Any:
    tile = nl.load(x)
    nisa.activation(tile, nl.log, tile)  # nan
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def in_place(x: Any) -> Any:
    tile = nl.load(x)
    nisa.tensor_scalar(tile, tile, nl.add, 1.0)
    nl.store(x, tile)
    return x


@nki.jit
def beside(x: Any) -> Any:
    """Fill a float8 tile that nothing of the result comes through."""
    tile = nl.load(x)
    nisa.tensor_copy(nl.ndarray(x.shape, nl.float8_e4m3, buffer=nl.sbuf), tile)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def through(x: Any) -> Any:
    tile = nl.load(x)
    small = nl.ndarray(x.shape, nl.float8_e4m3, buffer=nl.sbuf)
    nisa.tensor_copy(small, tile)  # rounded
    nisa.tensor_copy(tile, small)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def halves(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    rows = nl.ds(64 * nl.program_id(0), 64)
    tile = nl.ndarray((64, x.shape[1]), nl.bfloat16, buffer=nl.sbuf)
    nisa.dma_copy(tile, x[rows])
    nisa.core_barrier(out, (0, 1))
    nisa.dma_copy(out[rows], tile)
    return out


def checked(kernel: Any, golden: Any, x: Any = X, **options: Any) -> Any:
    attempt = CheckedRun(kernel, [x], **options)
    attempt.run()
    return attempt.check(attempt.golden(golden))


@pytest.mark.parametrize(
    ("kernel", "x", "dtype"),
    [
        (doubled, X, "float32"),
        (cancelling, X, "bfloat16"),
        (doubled, X.astype(np.float16), "float16"),
        (beside, X, "float32"),
        (through, X, "float8_e4m3"),
    ],
)
def test_the_narrowest_type_is_that_of_what_the_result_came_through(
    kernel: Any, x: Any, dtype: str
) -> None:
    found = checked(kernel, np.zeros(x.shape), x)
    assert f"{dtype} is the narrowest type on the way" in found.reason


def test_integers_are_exact() -> None:
    x = np.arange(128 * 4, dtype=np.int32).reshape(128, 4)
    assert not checked(beside_integers, x, x).is_wrong
    assert "integers are exact" in checked(beside_integers, x + 1, x).reason


@nki.jit
def beside_integers(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out


def test_cores_that_meet_have_the_types_of_the_run() -> None:
    found = checked(halves[2], X)
    assert "bfloat16 is the narrowest type of the run, whose cores met" in found.reason
    assert not found.is_wrong


@pytest.mark.parametrize("options", [{}, {"shadow": True}])
def test_the_first_line_that_deviates_is_named(options: dict[str, Any]) -> None:
    found = checked(cancelling, expm1, **options)
    assert found.is_wrong
    assert found.line == f"{__file__}:{line_of('cancelled')}"
    assert "deviates first" in found.headline()


def test_what_deviates_is_told_by_the_tolerance() -> None:
    attempt = CheckedRun(through, [100 * X])
    attempt.run()
    assert not attempt.check(100 * X).is_wrong
    found = attempt.check(100 * X, ResultTolerance(scaled=1e-3))
    assert found.line == f"{__file__}:{line_of('rounded')}"


def test_a_kernel_that_computes_something_else_has_no_such_line() -> None:
    found = checked(doubled, expm1)
    assert (found.is_wrong, found.line) == (True, None)
    assert "rounding is not why" in found.headline()


def test_the_line_that_makes_a_nan_is_named() -> None:
    found = checked(logarithm, expm1)
    assert found.line == f"{__file__}:{line_of('nan')}"
    assert found.figures()["error"] is None


def test_goldens_and_second_runs_see_arguments_as_they_came() -> None:
    x = X.copy()
    assert not checked(in_place, lambda x: x + 1.0, x).is_wrong
    assert np.array_equal(x, X + np.float32(1.0))
    assert checked(in_place, lambda x: x + 3.0, X.copy()).is_wrong


def test_shadows_need_values() -> None:
    with pytest.raises(ValueError, match="shadow is True"):
        CheckedRun(doubled, [X], shadow=True, values=False)


def test_trn3_check_returns_what_the_kernel_returns(trn3_check: Check) -> None:
    assert np.array_equal(trn3_check(doubled, X, golden=lambda x: 2 * x), 2 * X)
    assert np.array_equal(trn3_check(doubled, x=X, golden=2 * X), 2 * X)
    trn3_check(cancelling, X, golden=expm1, atol=0.1)


def test_trn3_check_fails_tests_whose_kernels_are_wrong(trn3_check: Check) -> None:
    with pytest.raises(AssertionError, match=r"WRONG: result\[.*deviates first") as failure:
        trn3_check(cancelling, X, golden=expm1)
    assert f"test_checking.py:{line_of('cancelled')}" in str(failure.value)
    with pytest.raises(AssertionError, match="rtol 1e-05, atol 0 as given"):
        trn3_check(doubled, X, golden=2.001 * X, rtol=1e-5)
    with pytest.raises(ValueError, match="rtol is -1"):
        trn3_check(doubled, X, golden=2 * X, rtol=-1.0)
    with pytest.raises(TypeError, match="golden"):
        trn3_check(doubled, X)


def test_plain_calls_find_results_that_were_never_written() -> None:
    """As profiles do, and strict runs."""

    @nki.jit
    def half(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out[0:64], nl.load(x[0:64]))
        return out

    half(X)
    plain = nki.last_findings()
    _, profile = nki.profile(half, X)
    assert [each.kind for each in plain] == ["uninitialized_read"]
    assert nki.last_findings() == profile.findings
    assert [(each.kind, each.message, each.allocated) for each in plain] == [
        (each.kind, each.message, each.allocated) for each in profile.findings
    ]
    with pytest.raises(RuntimeError, match="uninitialised"):
        nki.profile(half, X, strict=True)
