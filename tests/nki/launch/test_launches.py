"""Observers of launches: each is told once, of what a profile would say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trn3.nki.language as nl
from trn3 import nki
from trn3.nki.launch import observers

X = np.ones((128, 256), np.float32)


@nki.jit
def inner(x: Any, out: Any) -> None:
    nl.store(out, nl.load(x))


@nki.jit
def outer(x: Any, fail: bool = False) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    inner(x, out)
    if fail:
        raise ValueError
    return out


def seen_by(*calls: Any) -> list[observers.Launched]:
    seen: list[observers.Launched] = []
    with observers.observing(seen.append):
        for call in calls:
            call()
    return seen


def test_observing_sees_each_launch_once_with_its_latency() -> None:
    _, profile = nki.profile(outer, X)
    _, pair = nki.profile(outer[2], X, arch="trn2")
    seen = seen_by(
        lambda: outer(X),
        lambda: nki.profile(outer[2], X, arch="trn2"),
        lambda: nki.simulate(outer)(X),
    )
    one = observers.Launched("outer", "trn3", 1, profile.data.latency_ps)
    two = observers.Launched("outer[2]", "trn2", 1, max(c.data.latency_ps for c in pair.cores))
    assert seen == [one, two, one]


def test_observing_sees_ranks_as_one_launch() -> None:
    _, profiles = nki.profile_ranks(outer, [{"x": X}, {"x": X[:64]}])
    (seen,) = seen_by(lambda: nki.simulate_ranks(outer, [{"x": X}, {"x": X[:64]}]))
    assert seen.ranks == 2
    assert seen.latency_ps == max(profile.data.latency_ps for profile in profiles)


def test_observing_sees_no_launch_that_fails() -> None:
    seen: list[observers.Launched] = []
    with pytest.raises(ValueError), observers.observing(seen.append):  # noqa: PT011
        outer(X, fail=True)
    assert seen == []
    assert not observers.is_observed()


def test_observing_leaves_results_as_they_are() -> None:
    results = []
    seen_by(lambda: results.append(outer(X)))
    assert np.array_equal(results[0], outer(X))


def test_observers_nest() -> None:
    first: list[observers.Launched] = []
    with observers.observing(first.append):
        second = seen_by(lambda: outer(X))
        outer(X)
    assert first == second * 2
