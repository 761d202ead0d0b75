"""The page on budgets: its test and its commands give the text it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "how-to" / "budget.md").read_text()
SOURCE, RIGHT = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(TEXT,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
UPDATE, CHECK, BY = re.findall(r"```sh\npytest (.*?)\n```", PAGE)


def test_page_shows_what_a_slower_kernel_prints(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    pytester.makeconftest("import trn3.nki\ntrn3.nki.install()")
    pytester.makepyfile(test_page=SOURCE)
    # In processes of their own: what an inner session installs would be forgotten with it.
    run = pytester.runpytest_subprocess
    run("-p", "trn3_pytest", UPDATE).assert_outcomes(passed=1)
    run("-p", "trn3_pytest", CHECK).assert_outcomes(passed=1)
    run("-p", "trn3_pytest", *BY.split()).assert_outcomes(passed=1)
    assert "hbm_read_bytes" in (pytester.path / "trn3-budget.json").read_text()
    slower = SOURCE.replace("nl.load(x)", "nl.multiply(nl.load(x), 1.0)")
    assert slower != SOURCE
    pytester.makepyfile(test_page=slower)
    outcome = run("-p", "trn3_pytest", CHECK)
    outcome.assert_outcomes(failed=1)
    assert TEXT in outcome.stdout.str()


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
