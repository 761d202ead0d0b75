"""The environment that `make` builds: what of it is made anew, and what serves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import environment
from environment import RELEASE, TESTED, Environment, extension_profile
from steps import Result


class Builds:
    """Stands in for a runner: which profiles were built, None where nothing had to be."""

    def __init__(self) -> None:
        self.profiles: list[str | None] = []

    def run(self, name: str, command: Sequence[str | Path], **_: object) -> Result:
        words = [str(word) for word in command]
        self.profiles.append(words[words.index("--profile") + 1])
        return Result(name, ok=True, seconds=0.0, log=Path())

    def note(self, *_: str) -> None:
        self.profiles.append(None)


def test_a_release_serves_for_tests_and_not_the_other_way_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "STAMPS", tmp_path)
    runner = Builds()
    made = Environment(runner)
    for profile in (TESTED, TESTED, RELEASE, TESTED, RELEASE):
        assert made.extension(profile=profile)
    assert runner.profiles == [TESTED, None, RELEASE, None, None]
    assert extension_profile() == RELEASE
