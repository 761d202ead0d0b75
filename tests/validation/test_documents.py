"""The comparison in documents, and the measures that are not the machine's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from trn3 import validation
from trn3.validation.documents import BEGIN, END
from trn3.validation.experiments.measure import union


def test_replace_section_keeps_what_stands_around() -> None:
    document = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert validation.replace_section(document, "new") == (
        f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    )


@pytest.mark.parametrize("document", ["", BEGIN, END, f"{BEGIN}{END}{BEGIN}", f"{END}{BEGIN}"])
def test_replace_section_refuses_documents_without_one_place(document: str) -> None:
    with pytest.raises(ValueError, match="needs one line"):
        validation.replace_section(document, "new")


def test_markdown_has_every_row_and_every_reason() -> None:
    results = list(validation.run(validation.select(["exp-*", "store-32k-trn2"])))
    text = validation.markdown(results, validation.table().absent)
    for result in results:
        assert f"| {result.row.id} |" in text
    assert "- **store-32k-trn2** (1.181). The documented rate" in text
    for absent in validation.table().absent:
        assert absent.reason in text


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), max_size=12))
def test_union_counts_each_moment_once(spans: list[tuple[int, int]]) -> None:
    starts = np.array([start for start, _ in spans], dtype=np.uint64)
    ends = np.array([start + length for start, length in spans], dtype=np.uint64)
    moments = {t for start, length in spans for t in range(start, start + length)}
    assert union(starts, ends) == len(moments)
