"""Rules that changed between releases: one table, which code asks and the documentation shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from trn3.nki.lint import RULES
from trn3.nki.values import releases
from trn3.nki.values.releases import RELEASE_RULES
from trn3.nki.values.version import DEFAULT, VERSIONS

ROOT = Path(__file__).parents[3]
FOLLOWING = [rule for rule in RELEASE_RULES.values() if not rule.here]


def test_each_rule_says_what_it_was_and_what_trn3_does() -> None:
    for rule in RELEASE_RULES.values():
        begins = [VERSIONS.index(change.since) for change in rule.changes]
        assert begins == sorted(set(begins)), rule.id
        assert len(begins) > 1, rule.id
        assert rule.rule, rule.id
        assert rule.source, rule.id
        assert all(change.does for change in rule.changes), rule.id
        # Either code asks for a value, or the table says what every version does.
        assert all(bool(change.value) != bool(rule.here) for change in rule.changes), rule.id


def test_values_follow_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    for rule in FOLLOWING:
        for version in VERSIONS:
            monkeypatch.setenv("TRN3_NKI_VERSION", version)
            begun = [change for change in rule.changes if change.since <= version]
            assert rule.value() == (begun or rule.changes)[-1 if begun else 0].value
    monkeypatch.delenv("TRN3_NKI_VERSION")
    assert releases.QUANTIZE_MX_SCALE.value() == "one_larger"
    assert releases.DYNAMIC_LOOPS.value() == "accepted"
    assert DEFAULT == "0.6"


def test_a_rule_that_does_not_follow_has_no_value() -> None:
    with pytest.raises(ValueError, match="transpose_engine is the same in every version; allowed"):
        RELEASE_RULES["transpose_engine"].value()


def test_every_portability_rule_comes_with_one_release_rule() -> None:
    named = [found for rule in RELEASE_RULES.values() for found in rule.lint]
    assert sorted(named) == sorted(rule.id for rule in RULES)


def test_rules_that_follow_are_asked_for() -> None:
    """A value that no code asks for would switch nothing."""
    sources = (ROOT / "python" / "trn3" / "nki").rglob("*.py")
    code = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    for rule in FOLLOWING:
        asked = re.search(rf"\b{rule.id.upper()}\.value\(\)", code)
        assert asked or rule.lint, rule.id


def test_no_other_module_compares_versions() -> None:
    for path in (ROOT / "python" / "trn3").rglob("*.py"):
        if path.name not in ("version.py", "releases.py"):
            assert "at_least(" not in path.read_text(encoding="utf-8"), path


def test_the_page_on_porting_has_the_table() -> None:
    page = (ROOT / "docs" / "how-to" / "porting.md").read_text(encoding="utf-8")
    table = re.search(r"<!-- releases -->\n(.*?)<!-- end of releases -->", page, re.DOTALL)
    assert table is not None
    assert table[1] == releases.markdown(), "run: python scripts/nki_coverage_doc.py"
