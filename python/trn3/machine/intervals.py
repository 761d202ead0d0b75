"""Spans of time as pairs of arrays: unions, gaps, lanes and sums by bin."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.integer[Any]]


def _sorted(
    start: Times, end: Times
) -> tuple[NDArray[np.intp], NDArray[np.int64], NDArray[np.int64]]:
    order = np.lexsort((end, start))
    return order, start[order].astype(np.int64), end[order].astype(np.int64)


def _end_before(end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each span, sorted by start, the latest end of those before it; first 0."""
    before = np.zeros_like(end)
    np.maximum.accumulate(end[:-1], out=before[1:])
    return before


def union_length(start: Times, end: Times) -> int:
    """Return how long at least one span lasts.

    >>> union_length(np.array([0, 2, 10]), np.array([5, 4, 12]))
    7
    """
    _, start, end = _sorted(start, end)
    return int(np.maximum(end - np.maximum(start, _end_before(end)), 0).sum())


def gaps(start: Times, end: Times) -> NDArray[np.int64]:
    """Return for each span how long no earlier one, nor time before 0, covers ahead of its start.

    >>> gaps(np.array([3, 4, 10]), np.array([5, 8, 12])).tolist()
    [3, 0, 2]
    """
    order, start, end = _sorted(start, end)
    room = np.empty_like(start)
    room[order] = np.maximum(start - _end_before(end), 0)
    return room


def lanes(start: Times, end: Times) -> NDArray[np.intp]:
    """Return for each span a lane, from 0, such that no two spans of one lane overlap.

    >>> lanes(np.array([0, 2, 5, 6]), np.array([5, 4, 7, 7])).tolist()
    [0, 1, 0, 1]
    """
    order, start, end = _sorted(start, end)
    chosen = np.zeros(len(start), np.intp)
    if not np.any(start < _end_before(end)):
        return chosen
    free: list[int] = []
    running: list[tuple[int, int]] = []
    used = 0
    for row, begins, ends in zip(order.tolist(), start.tolist(), end.tolist(), strict=True):
        while running and running[0][0] <= begins:
            heapq.heappush(free, heapq.heappop(running)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, used = used, used + 1
        chosen[row] = lane
        heapq.heappush(running, (ends, lane))
    return chosen


def sum_by_bin(
    start: Times, end: Times, amount: NDArray[np.number[Any]], edges: NDArray[np.number[Any]]
) -> NDArray[np.float64]:
    """Return how much of amounts, each spread evenly over its span, falls between the edges.

    A span without length counts as one of length 1.

    >>> sum_by_bin(np.array([0]), np.array([4]), np.array([8]), np.array([0, 1, 4, 9])).tolist()
    [2.0, 6.0, 0.0]
    """
    if not len(start):
        return np.zeros(len(edges) - 1)
    begins = start.astype(np.int64)
    ends = np.maximum(end.astype(np.int64), begins + 1)
    rate = amount.astype(np.float64) / (ends - begins)
    # The rate changes where a span begins or ends; between, the sum grows linearly.
    times = np.concatenate([begins, ends])
    order = np.argsort(times, kind="stable")
    times = times[order]
    rates = np.cumsum(np.concatenate([rate, -rate])[order])[:-1]
    total = np.concatenate([[0.0], np.cumsum(np.maximum(rates, 0) * np.diff(times))])
    return np.diff(np.interp(edges.astype(np.float64), times.astype(np.float64), total))
