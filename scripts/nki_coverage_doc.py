"""Writes the tables of docs/reference/nki-coverage.md from the conformance suite."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "reference" / "nki-coverage.md"


def main() -> None:
    """Replace what stands between the document's marks."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.conformance.coverage import markdown
    from trn3.validation.documents import replace_section

    text = replace_section(DOCUMENT.read_text(encoding="utf-8"), markdown())
    DOCUMENT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
