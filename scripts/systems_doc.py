"""Writes the tables of docs/reference/systems.md from the spec files."""

from __future__ import annotations

from pathlib import Path

from trn3.facts.documents import markdown
from trn3.validation.documents import replace_section

DOCUMENT = Path(__file__).parents[1] / "docs" / "reference" / "systems.md"


def main() -> None:
    """Replace what stands between the document's marks."""
    text = replace_section(DOCUMENT.read_text(encoding="utf-8"), markdown())
    DOCUMENT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
