"""Writes the tables on NKI into the documentation.

Those of docs/reference/nki-coverage.md from the conformance suite, those of docs/how-to/porting.md
and docs/reference/portability.md from the rules in the code.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "reference" / "nki-coverage.md"
PORTING = ROOT / "docs" / "how-to" / "porting.md"
PORTABILITY = ROOT / "docs" / "reference" / "portability.md"


def main() -> None:
    """Replace what stands between the document's marks."""
    sys.path.insert(0, str(ROOT / "tests"))
    from support.conformance.coverage import markdown
    from trn3.nki.lint import rules
    from trn3.nki.values import releases
    from trn3.validation.documents import replace_section

    text = replace_section(DOCUMENT.read_text(encoding="utf-8"), markdown())
    DOCUMENT.write_text(text, encoding="utf-8")
    for page, mark, table in (
        (PORTING, "releases", releases.markdown()),
        (PORTABILITY, "rules", rules.markdown()),
    ):
        text = page.read_text(encoding="utf-8")
        before, _, rest = text.partition(f"<!-- {mark} -->\n")
        after = rest.partition(f"<!-- end of {mark} -->")[2]
        text = f"{before}<!-- {mark} -->\n{table}<!-- end of {mark} -->{after}"
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
