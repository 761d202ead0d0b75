"""Sums of a profile over time, point by point."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from trn3._trn3.profile import sum_by_bin

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)
Times = npt.NDArray[np.uint64]


def as_arrays(spans: list[tuple[int, int]]) -> tuple[Times, Times]:
    start = np.array([begin for begin, _ in spans], np.uint64)
    return start, start + np.array([length for _, length in spans], np.uint64)


@given(SPANS)
def test_sum_by_bin_against_points(spans: list[tuple[int, int]]) -> None:
    spans = [(begin, max(length, 1)) for begin, length in spans]
    start, end = as_arrays(spans)
    amount = np.array([3.0 * length for _, length in spans])
    edges = np.array([0.0, 7, 8, 30, 90])
    expected = [
        sum(3 * (begin <= p < begin + length) for begin, length in spans for p in range(low, high))
        for low, high in pairwise(edges.astype(int).tolist())
    ]
    assert sum_by_bin(start, end, amount, edges) == pytest.approx(expected, abs=1e-9)
