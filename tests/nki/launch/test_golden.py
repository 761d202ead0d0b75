"""Results held against goldens: tolerances, worst places, NaN, shapes."""

from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from trn3.nki.launch.golden import (
    NARROWEST,
    GoldenShapeError,
    ResultTolerance,
    hold,
)
from trn3.nki.values.element_types import canonicalise

ONES = np.ones((4, 8), np.float32)
TIGHT = [ResultTolerance(scaled=1e-3)]


def off(value: float, *place: int) -> np.ndarray[Any, Any]:
    x = ONES.copy()
    x[place] = value
    return x


def test_the_worst_place_is_named() -> None:
    found = hold(off(1.5, 2, 3), ONES, TIGHT)
    assert (found.verdict, found.error, found.worst_index) == ("wrong", 0.5, (2, 3))
    assert (found.got, found.wanted, found.result) == (1.5, 1.0, None)
    assert str(found).startswith("WRONG: result[2, 3] is 1.5, the golden 1")


@pytest.mark.parametrize(("value", "verdict"), [(1.0009, "right"), (1.0011, "wrong")])
def test_the_difference_is_part_of_the_largest_magnitude(value: float, verdict: str) -> None:
    golden = off(10.0, 0, 0)
    small = golden.copy()
    small[1, 1] += 10 * (value - 1)
    assert hold(small, golden, TIGHT).verdict == verdict


@pytest.mark.parametrize(
    ("rtol", "atol", "verdict"),
    [(0.2, None, "wrong"), (None, 0.6, "right"), (0.6, None, "right"), (0.2, 0.4, "right")],
)
def test_tolerances_that_are_given_are_of_each_element(
    rtol: float | None, atol: float | None, verdict: str
) -> None:
    """A small element beside a large one counts by itself, as in NumPy."""
    golden = off(100.0, 0, 0)
    result = golden.copy()
    result[1, 1] = 1.5
    found = hold(result, golden, [ResultTolerance.given(rtol, atol)])
    assert found.verdict == verdict
    assert np.allclose(result, golden, rtol or 0, atol or 0) == (verdict == "right")
    assert (found.error > found.tolerance) == (verdict == "wrong")


@pytest.mark.parametrize(
    ("got", "golden", "verdict"),
    [
        (np.nan, 1.0, "wrong"),
        (np.inf, 1.0, "wrong"),
        (1.0, np.nan, "wrong"),
        (np.inf, -np.inf, "wrong"),
        (np.nan, np.inf, "wrong"),
        (np.nan, np.nan, "right"),
        (-np.inf, -np.inf, "right"),
    ],
)
def test_nan_and_infinity_are_right_only_where_the_golden_has_them(
    got: float, golden: float, verdict: str
) -> None:
    found = hold(off(got, 3, 1), off(golden, 3, 1), [ResultTolerance(scaled=10.0)])
    assert found.verdict == verdict
    if verdict == "wrong":
        assert found.worst_index == (3, 1)
        assert found.figures()["error"] is None
        json.dumps(found.figures(), allow_nan=False)
        assert "NaN or infinite" in found.details()


def test_of_several_results_the_worst_counts() -> None:
    found = hold((ONES, {"second": off(1.2, 0, 1)}), (ONES, ONES), TIGHT)
    assert (found.verdict, found.result, found.worst_index) == ("wrong", 1, (0, 1))
    assert found.place == "result[1][0, 1]"


def test_other_shapes_and_numbers_are_refused() -> None:
    with pytest.raises(GoldenShapeError, match=r"returns shape \(4, 8\), the golden \(8,\)"):
        hold(ONES, ONES[0], TIGHT)
    with pytest.raises(GoldenShapeError, match="returns 1 tensors, the golden 2"):
        hold(ONES, (ONES, ONES), TIGHT)
    with pytest.raises(GoldenShapeError, match="no tensor"):
        hold((), (), TIGHT)


@pytest.mark.parametrize("value", [-1.0, float("nan"), "much", True])
@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_figures_that_are_none_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} is .*; allowed: a number of at least 0"):
        ResultTolerance.given(**{name: value})


def test_the_figures_of_types_are_those_that_the_documentation_names() -> None:
    assert {name: NARROWEST[name] for name in ("float32", "bfloat16", "float16")} == {
        "float32": 1e-4,
        "bfloat16": 2e-2,
        "float16": 2e-2,
    }
    narrow = {name: figure for name, figure in NARROWEST.items() if name and name.startswith("fl")}
    assert all(
        figure == 1e-1 for name, figure in narrow.items() if name.startswith(("float8", "float4"))
    )
    for name in filter(None, NARROWEST):
        assert canonicalise(name).name == name


def test_the_narrowest_of_several_cores_counts() -> None:
    assert ResultTolerance.of_types([(None, True)]).scaled == 0
    one = ResultTolerance.of_types([("float32", True), ("float8_e5m2", True)])
    assert (one.scaled, "on the way" in one.reason) == (0.1, True)
    met = ResultTolerance.of_types([("bfloat16", False), ("float32", True)])
    assert "of the run, whose cores met" in met.reason


def test_results_of_narrow_types_and_integers() -> None:
    assert hold(ONES.astype(ml_dtypes.bfloat16), ONES, TIGHT).verdict == "right"
    whole = np.arange(8, dtype=np.int32)
    assert hold(whole, whole, [ResultTolerance()]).verdict == "right"
    assert hold(whole + 1, whole, [ResultTolerance()]).verdict == "wrong"
