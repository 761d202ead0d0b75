"""Writes the table of figures in docs/explanation/timing.md from the machine descriptions."""

from __future__ import annotations

from pathlib import Path

from trn3.validation.documents import replace_section
from trn3.validation.sources import sources_table

DOCUMENT = Path(__file__).parents[1] / "docs" / "explanation" / "timing.md"


def main() -> None:
    """Replace what stands between the document's marks."""
    text = replace_section(DOCUMENT.read_text(encoding="utf-8"), sources_table())
    DOCUMENT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
