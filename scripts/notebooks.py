"""Writes docs/notebooks/*.ipynb as the repository keeps them, after they were run or edited.

Outputs, counts of execution and what editors note about themselves go; cells are numbered through.
"""

from __future__ import annotations

from pathlib import Path

import nbformat

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def kept(text: str) -> str:
    """Return the text of a notebook as it is kept.

    Raises
    ------
    nbformat.ValidationError
        If it is no notebook of version 4.
    """
    notebook = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    notebook.metadata = nbformat.from_dict(METADATA)  # type: ignore[no-untyped-call]
    notebook.nbformat_minor = 5
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"cell-{number}"
        tags = {"tags": cell.metadata["tags"]} if cell.metadata.get("tags") else {}
        cell.metadata = nbformat.from_dict(tags)  # type: ignore[no-untyped-call]
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.validate(notebook)
    written: str = nbformat.writes(notebook)  # type: ignore[no-untyped-call]
    return written.rstrip("\n") + "\n"


def main() -> None:
    """Write every notebook anew."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        path.write_text(kept(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
