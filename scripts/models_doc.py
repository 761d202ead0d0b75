"""Writes the table of docs/reference/models.md from the models of the planner."""

from __future__ import annotations

from pathlib import Path

from trn3.planner import model, models

DOCUMENT = Path(__file__).parents[1] / "docs" / "reference" / "models.md"
BEGIN, END = "<!-- models: begin -->\n", "<!-- models: end -->\n"


def table() -> str:
    """Return the table: a row for each model."""
    rows = [
        "| name | family | parameters | of a token | published | source |",
        "|---|---|--:|--:|--:|---|",
    ]
    for name in models():
        one = model(name)
        published = one.shapes["published_parameters"]
        exact = f"{published:,.0f}" if published % 1e6 else f"{published / 1e9:,.5g} B"
        source = one.source.replace("parameters: ", "")
        counts = f"{one.parameters:,} | {one.parameters_active:,} | {exact}"
        rows.append(f"| {name} | {one.family} | {counts} | {source} |")
    return "\n".join(rows) + "\n"


def page(text: str) -> str:
    """Return the page with the table between its marks."""
    head, _, rest = text.partition(BEGIN)
    tail = rest.partition(END)[2]
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


if __name__ == "__main__":
    DOCUMENT.write_text(page(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
