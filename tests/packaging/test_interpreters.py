"""The wheel on the other interpreters of this machine: installed, and tested by itself."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import wheels
from support.sandbox import ROOT

# Where no `make test` has built the extension before, the wheel takes minutes.
pytestmark = pytest.mark.timeout(1800)
OTHERS = [each for each in wheels.PYTHONS if each != "{}.{}".format(*sys.version_info)]


@pytest.mark.parametrize("version", OTHERS)
def test_the_wheel_works_on(
    version: str, wheel: Path, gather: Callable[[Path, Sequence[str]], Path]
) -> None:
    """One wheel serves every version, with the same bits."""
    python = wheels.interpreters().get(version)
    if python is None:
        pytest.skip(f"there is no CPython {version} on this machine")
    with (ROOT / "pyproject.toml").open("rb") as source:
        wanted: list[str] = tomllib.load(source)["project"]["dependencies"]
    house = gather(python, [*wanted, *wheels.TEST_PACKAGES])
    last = wheels.attempt(wheel, python, ["--no-index", "--find-links", str(house)])
    assert " passed" in last
    assert "failed" not in last


def test_a_failing_test_is_told(tmp_path: Path) -> None:
    """Without the package every file of tests is an error."""
    bare = wheels.environment(Path(sys.executable), tmp_path / "venv", "--without-pip")
    with pytest.raises(wheels.WheelError, match="No module named pytest"):
        wheels.run_tests(bare, tmp_path)
