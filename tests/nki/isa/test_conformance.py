"""Every row and refusal of the tables of `support.conformance`."""

from __future__ import annotations

from collections import Counter

import pytest

from support.conformance.suite import REFUSALS, ROWS
from support.conformance.table import Refusal, Row


@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in ROWS])
def test_row_gives_what_numpy_gives(row: Row) -> None:
    row.check()


@pytest.mark.parametrize("refusal", [pytest.param(each, id=each.id) for each in REFUSALS])
def test_refusal_raises_and_issues_nothing(refusal: Refusal) -> None:
    refusal.check()


@pytest.mark.parametrize("table", [ROWS, REFUSALS], ids=["rows", "refusals"])
def test_labels_are_unique(table: list[Row] | list[Refusal]) -> None:
    counts = Counter(entry.id for entry in table)
    assert not [label for label, count in counts.items() if count > 1]
