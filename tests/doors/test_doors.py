"""The same question by the command line and by Python gives the same answer, to the last digit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.questions import questions
from trn3.__main__ import main
from trn3.facts import factor
from trn3.facts.spec import spec_of
from trn3.machine import arch


def test_there_are_twenty_questions() -> None:
    assert len(questions("system")) >= 20


@pytest.mark.parametrize("question", questions("figure"))
def test_command_line(question: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spec", question["system"], "--json"]) == 0
    figure = json.loads(capsys.readouterr().out)["quantities"][question["figure"]]
    assert figure["value"] * factor(figure["unit"]) == question["answer"]


@pytest.mark.parametrize("question", questions("figure"))
def test_python_figures(question: dict[str, Any]) -> None:
    assert spec_of(question["system"])[question["figure"]].si == question["answer"]


@pytest.mark.parametrize("question", questions("peak"))
def test_python_peaks(question: dict[str, Any]) -> None:
    assert spec_of(question["system"]).peak(question["peak"]) == question["answer"]


@pytest.mark.parametrize("question", questions("entry"))
def test_machines(question: dict[str, Any]) -> None:
    described = arch(question.get("machine", question.get("arch")))
    assert described[question["entry"]] * factor(question["entry_unit"]) == question["answer"]
