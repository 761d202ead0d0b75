"""The questions of ``tests/doors``, which every door answers alike."""

from __future__ import annotations

import tomllib
from typing import Any

from support.commands import ROOT

PICOSECONDS = 10**12


def questions(field: str) -> list[Any]:
    """Return the questions that have a field, as parameters of a test named by what they ask."""
    import pytest

    text = (ROOT / "tests" / "doors" / "questions.toml").read_text(encoding="utf-8")
    asked = [question for question in tomllib.loads(text)["question"] if field in question]
    return [pytest.param(question, id=question["ask"].replace(" ", "-")) for question in asked]
