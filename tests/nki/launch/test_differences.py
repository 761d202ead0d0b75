"""One kernel on several machines: times are those of profiles, refusals are rows."""

from __future__ import annotations

import json
import math
from io import StringIO
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from rich.console import Console

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki
from trn3.machine import ArchError, arch

X = np.random.default_rng(0).standard_normal((128, 512), dtype=np.float32)


@nki.jit
def doubled(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out


@nki.jit
def of_generation(x: Any, values: Any = ()) -> Any:
    """Return another value on each machine: the version times the input, or what is given."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    version = int(nisa.get_nc_version())
    given = dict(values)
    nl.store(out, nl.multiply(nl.load(x), given.get(version, float(version))))
    return out


def test_diff_times_are_those_of_profiles() -> None:
    found = nki.diff(doubled, [X], archs=["trn1", "trn2", "trn3"])
    for row in found:
        result, profile = nki.profile(doubled, X, arch=row.arch)
        assert row.latency_us == profile.latency_us
        assert row.busy_us == {each.engine: each.busy_us for each in profile.engines()}
        assert row.verdict == profile.verdict()
        assert row.profile is not None
        assert row.profile.hbm_read_bytes == profile.hbm_read_bytes
        assert np.array_equal(row.result, result)
        assert (row.error, row.equal, row.difference) == (None, True, 0.0)
        first = found[0].latency_us
        assert first is not None
        assert row.speedup == pytest.approx(first / profile.latency_us)
    assert found["trn2"] is found[1]
    assert len(found) == 3


def test_diff_of_a_slower_clock_is_slower() -> None:
    slow = arch("trn3").replace(name="slow", vector_clock_mhz=100)
    found = nki.diff(doubled, [X], archs=["trn3", slow, {"base": "trn3", "vector_clock_mhz": 2400}])
    times = [row.latency_us for row in found]
    assert times[1] > times[0] > times[2]  # type: ignore[operator]
    assert [row.arch for row in found] == ["trn3", "slow", "trn3:vector_clock_mhz=2400"]
    assert found["slow"].speedup < 1 < found[2].speedup  # type: ignore[operator]


def test_diff_measures_results_against_the_first() -> None:
    found = nki.diff(of_generation, [X], archs=["trn2", "trn3"])
    assert found["trn2"].difference == 0
    # 4 x and 3 x differ by a third of the largest 3 x.
    assert found["trn3"].difference == pytest.approx(1 / 3, rel=1e-5)
    assert found["trn3"].equal is False
    assert nki.diff(of_generation, [X], archs=["trn2", "trn3"], rtol=0.34)["trn3"].equal is True


@pytest.mark.parametrize(
    ("values", "difference"),
    [
        (((3, math.nan), (4, math.nan)), 0.0),
        (((3, math.inf), (4, math.inf)), 0.0),
        (((3, 1.0), (4, math.nan)), math.inf),
        (((3, 1.0), (4, math.inf)), math.inf),
        (((3, 0.0), (4, 0.0)), 0.0),
    ],
)
def test_diff_of_what_is_not_finite(values: Any, difference: float) -> None:
    ones = np.ones((4, 4), np.float32)
    found = nki.diff(of_generation, [ones], archs=["trn2", "trn3"], kwargs={"values": values})
    assert found["trn3"].difference == difference
    assert found["trn3"].equal is (difference == 0)
    json.dumps(found.figures(), allow_nan=False)


def test_diff_has_refusals_as_rows() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        tile = nl.load(x)
        nisa.exponential(tile, tile)
        nl.store(out, tile)
        return out

    found = nki.diff(kernel, [X], archs=["trn2", "trn3", "trn1"])
    assert [row.error is None for row in found] == [False, True, False]
    row = found["trn2"]
    assert row.error is not None
    assert "available from gen4" in row.error
    assert (row.latency_us, row.profile, row.equal, row.bottleneck) == (None,) * 4
    assert found["trn3"].speedup == 1.0
    shown = StringIO()
    Console(file=shown, width=200).print(found)
    assert "trn2: refused: NkiValidationError" in shown.getvalue()
    small = nki.diff(doubled, [X], archs=["trn3:sbuf_partition_bytes=17000", "trn3"])
    assert "SbufCapacityError" in str(small[0].error)


def test_diff_gives_each_machine_its_own_arguments() -> None:
    @nki.jit
    def added(x: Any) -> Any:
        nl.store(x, nl.add(nl.load(x), 1.0))
        return x

    x = X.copy()
    found = nki.diff(added, {"x": x}, archs=["trn2", "trn3"])
    assert all(row.equal for row in found)
    assert np.array_equal(found["trn3"].result, X + 1)
    assert np.array_equal(x, X)


def test_diff_without_values_compares_time_alone() -> None:
    found = nki.diff(doubled, [X], archs=["trn2", "trn3"], values=False)
    assert [(row.equal, row.difference, row.result) for row in found] == [(None, None, None)] * 2
    assert [row.latency_us for row in found] == [
        row.latency_us for row in nki.diff(doubled, [X], archs=["trn2", "trn3"])
    ]


def test_diff_takes_two_cores_and_other_types() -> None:
    x = X.astype(ml_dtypes.bfloat16)

    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        rows = nl.ds(64 * nl.program_id(0), 64)
        nl.store(out[rows], nl.load(x[rows]))
        return out, {"again": out}

    found = nki.diff(kernel[2], [x], archs=["trn2", "trn3", "trn1"])
    assert [row.equal for row in found] == [True, True, None]
    assert "at most 1 cores" in str(found["trn1"].error)


@pytest.mark.parametrize(
    ("archs", "kind", "text"),
    [
        ([], ValueError, "allowed: a list of machines"),
        ("trn3", ValueError, "allowed: a list of machines"),
        (["trn3", "trn9"], ValueError, "arch is 'trn9'"),
        (["trn3", "gen4"], ValueError, "trn3 twice"),
        (["trn3:psum=3"], ArchError, "nearest: psum_banks"),
    ],
)
def test_diff_looks_at_machines_first(archs: Any, kind: type, text: str) -> None:
    def never(x: Any) -> Any:
        raise AssertionError

    with pytest.raises(kind, match=text):
        nki.diff(never, [X], archs=archs)
    with pytest.raises(ValueError, match="rtol is -1"):
        nki.diff(never, [X], archs=["trn3"], rtol=-1)
