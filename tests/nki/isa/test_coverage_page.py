"""The page on coverage is counted from the suite."""

from __future__ import annotations

from pathlib import Path

import pytest

import trn3.nki.isa as nisa
from support.conformance.behaviours import BEHAVIOURS
from support.conformance.coverage import FUNCTIONS, markdown, missing
from support.conformance.release_names import MODULES, documented
from support.conformance.suite import REFUSALS, ROWS
from trn3.nki.values.version import VERSIONS
from trn3.validation import BEGIN, END

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "nki-coverage.md"


def test_the_page_is_current() -> None:
    section = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()
    assert section == markdown(), "run: python scripts/nki_coverage_doc.py"


def test_behaviours_are_run_under_every_release() -> None:
    root = Path(__file__).parents[2]
    for what, (file, names) in BEHAVIOURS.items():
        text = (root / file).read_text(encoding="utf-8")
        assert 'pytestmark = pytest.mark.usefixtures("every_release")' in text, what
        assert names, what
        for name in names:
            assert f"def {name}(" in text, (what, name)


def test_tables_name_functions_that_exist() -> None:
    assert {entry.function for entry in [*ROWS, *REFUSALS]} <= set(FUNCTIONS)
    assert all(callable(getattr(nisa, name)) for name in FUNCTIONS)


def test_nothing_that_a_release_documents_is_missing() -> None:
    found = {
        (module, release, name)
        for release in VERSIONS
        for module in MODULES
        if documented(module, release)
        for name in missing(module, release)
    }
    assert not found


def test_a_name_that_is_not_there_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(nisa, "topk")
    assert missing("nki.isa", "0.6") == ["topk"]
    assert missing("nki.isa", "0.5") == []
    assert "`nki.isa.topk`" in markdown()
