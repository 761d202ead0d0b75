"""Kernels that leave places on chip to a compiler: right where they fit, refused elsewhere."""

from __future__ import annotations

import re
from typing import Any

import pytest

import plainlib
from plainlib import CASES, PlainCase
from trn3 import nki
from trn3.machine import PsumCapacityError, SbufCapacityError

ARCHES = ("trn1", "trn2")
LACKS: dict[str, type[Exception]] = {"psum": PsumCapacityError, "sbuf": SbufCapacityError}
RUNS = [(case, arch, lack) for case in CASES for arch, lack in zip(ARCHES, case.lacks, strict=True)]
FITTING = [(case, arch) for case, arch, lack in RUNS if lack is None]
REFUSED = [(case, arch) for case, arch, lack in RUNS if lack is not None]


def ids(pairs: list[tuple[PlainCase, str]]) -> list[str]:
    return [f"{case.name}-{arch}" for case, arch in pairs]


def run(case: PlainCase, arch: str, sizes: dict[str, int], *, values: bool) -> tuple[Any, Any]:
    arguments = case.arguments(sizes, values=values)
    return nki.profile(case.kernel, arch=arch, values=values, **arguments)


def several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


@pytest.fixture(autouse=True)
def as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the default of the dialect is."""
    monkeypatch.setenv("TRN3_COMPILE", "as-written")


def test_names_are_one_each() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 25


def test_the_table_names_what_does_not_fit() -> None:
    row = r"^\| `(\w+)` \| (\w+) \| (\w+) \| (\w+) \|"
    stated = {
        name: tuple(None if fit == "yes" else lack.lower() for fit in fits)
        for name, lack, *fits in re.findall(row, plainlib.__doc__ or "", re.MULTILINE)
    }
    assert stated == {case.name: case.lacks for case in CASES if any(case.lacks)}
    assert len(stated) >= 9


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_small_equals_numpy(case: PlainCase) -> None:
    arguments = case.arguments(case.small)
    result, profile = nki.profile(case.kernel, arch="trn1", **arguments)
    case.check(result, arguments)
    assert profile.latency_us > 0
    # What a mask leaves out of the last tile is read, and left out again in the end.
    assert profile.data.findings == () or case.small.get("rows") == 200


@pytest.mark.parametrize(("case", "arch"), FITTING, ids=ids(FITTING))
def test_real_size_fits_as_written(case: PlainCase, arch: str) -> None:
    _, profile = run(case, arch, case.real, values=False)
    assert profile.latency_us > 0


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize(("case", "arch"), REFUSED, ids=ids(REFUSED))
def test_what_does_not_fit_as_written_is_refused(case: PlainCase, arch: str, values: bool) -> None:
    sizes = case.tight or case.real if values else case.real
    lack = LACKS[str(case.lacks[ARCHES.index(arch)])]
    with pytest.raises(lack, match=rf"plainlib/\w+\.py:\d+: {lack.__name__[:4].upper()} "):
        run(case, arch, sizes, values=values)


def compiled(profile: Any) -> dict[str, Any]:
    """Return what a profile says of its compilation, checked for what holds of every one."""
    report: dict[str, Any] = profile.compile
    assert report["level"] == "neuronx-cc"
    assert report["compiled_us"] == profile.latency_us
    assert 0 < report["bound_us"] <= profile.latency_us
    return report


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_compiled_equals_numpy(case: PlainCase) -> None:
    sizes = case.tight or case.small
    arguments = case.arguments(sizes)
    result, profile = nki.profile(case.kernel, arch="trn1", compile="neuronx-cc", **arguments)
    case.check(result, arguments)
    compiled(profile)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_compiled_gives_the_bits_of_as_written(case: PlainCase) -> None:
    arguments = case.arguments(case.small)
    wanted, _ = nki.profile(case.kernel, arch="trn1", **arguments)
    found, _ = nki.profile(case.kernel, arch="trn1", compile="neuronx-cc", **arguments)
    for one, other in zip(several(found), several(wanted), strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_compiled_fits_at_real_size(case: PlainCase) -> None:
    arguments = case.arguments(case.real, values=False)
    _, profile = nki.profile(
        case.kernel, arch="trn1", values=False, compile="neuronx-cc", **arguments
    )
    report = compiled(profile)
    # What waits does so for the first load, the last store, or a chain that nothing shortens.
    assert report["compiled_us"] < 1.7 * report["bound_us"]
    if case.lacks[ARCHES.index("trn1")] is None:
        _, written = run(case, "trn1", case.real, values=False)
        assert report["as_written_us"] == pytest.approx(written.latency_us, rel=1e-9)
    else:
        assert report["as_written_us"] is None
