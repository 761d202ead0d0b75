"""Writes the table of operations into docs/reference/graph.md."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "graph.md"


def main() -> None:
    """Replace what stands between the page's marks."""
    from trn3.graph import markdown

    before, mark, rest = PAGE.read_text(encoding="utf-8").partition("<!-- operations -->\n")
    _, end, after = rest.partition("<!-- end of operations -->")
    PAGE.write_text(f"{before}{mark}{markdown()}{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
