"""The page on budgets: what a wrong kernel prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "budget.md").read_text()
SOURCE, RIGHT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_page_checks_what_it_says(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    pytester.makeconftest("import trn3.nki\ntrn3.nki.install()")
    pytester.makepyfile(test_page=f"{SOURCE}\n{RIGHT}")
    pytester.runpytest_subprocess("-p", "trn3_pytest").assert_outcomes(passed=2)
    wrong = SOURCE.replace("nl.load(x), 2.0", "nl.load(x), 2.1")
    assert wrong != SOURCE
    pytester.makepyfile(test_page=f"{wrong}\n{RIGHT}")
    outcome = pytester.runpytest_subprocess("-p", "trn3_pytest")
    outcome.assert_outcomes(failed=2)
    outcome.stdout.fnmatch_lines(
        [
            "*trn3_check(doubled, x, golden=lambda x: 2 * x)",
            "E*AssertionError: WRONG: result[[]0, 0[]] is 2.1, the golden 2; no line deviates*",
        ]
    )
