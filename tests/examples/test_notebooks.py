"""The notebooks of the documentation run from top to bottom, and show what they promise."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import notebooks

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
#: What draws stands last in its cell: a figure that a method returns, or one of pyplot.
DRAWS = re.compile(r"\.plot\(\)$|plt\.subplots|^draw\(.*\)$", re.MULTILINE)


def read(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)  # type: ignore[no-untyped-call]


def executed(name: str) -> Any:
    """Return a notebook with its outputs; a cell that fails raises."""
    notebook = read(name)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook, kernel_name="python3", timeout=60, resources={"metadata": {"path": folder}}
        )
        # Sockets of files: nobody else's business, and no port.
        manager = client.create_kernel_manager()
        manager.transport, manager.ip = "ipc", f"{folder}/kernel"
        manager.connection_file = f"{folder}/kernel.json"
        path = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
        client.execute(env={**os.environ, "PYTHONPATH": path})
    return notebook


def test_there_are_five() -> None:
    assert NAMES == [
        "first-kernel",
        "numerics-tour",
        "optimise-a-kernel",
        "plan-a-model",
        "what-if-chip",
    ]


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_and_shows(name: str) -> None:
    """Cells assert their own figures; besides, pictures are there, and nothing is complained of."""
    drawn = 0
    for cell in executed(name).cells:
        if cell.cell_type != "code":
            continue
        kinds = {kind for output in cell.outputs for kind in output.get("data", {})}
        texts = [output.text for output in cell.outputs if output.get("name") == "stderr"]
        assert texts == [], cell.source
        if DRAWS.search(cell.source) and not cell.source.startswith("def "):
            drawn += 1
            assert "image/png" in kinds, cell.source
    assert drawn >= 1


@pytest.mark.parametrize("name", NAMES)
def test_it_is_kept_without_outputs(name: str) -> None:
    """`python scripts/notebooks.py` writes them as they are kept, after an editor had them."""
    text = (FOLDER / f"{name}.ipynb").read_text(encoding="utf-8")
    assert notebooks.kept(text) == text


def test_outputs_and_what_editors_note_go() -> None:
    notebook = read("first-kernel")
    cell = next(cell for cell in notebook.cells if cell.cell_type == "code")
    cell.execution_count, cell.metadata["collapsed"] = 7, False
    cell.outputs = [nbformat.v4.new_output("stream", text="x")]  # type: ignore[no-untyped-call]
    notebook.metadata["language_info"]["version"] = "3.99"
    written = nbformat.writes(notebook)  # type: ignore[no-untyped-call]
    assert notebooks.kept(written) == (FOLDER / "first-kernel.ipynb").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_it_uses_public_names_and_asserts(name: str) -> None:
    code = "\n".join(cell.source for cell in read(name).cells if cell.cell_type == "code")
    assert re.findall(r"\._\w+|import _\w+", code) == []
    assert len(re.findall(r"^ *(?:assert |np\.testing\.)", code, re.MULTILINE)) >= 5


@pytest.mark.parametrize("name", NAMES)
def test_the_index_offers_it(name: str) -> None:
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert f"]({name}.ipynb)" in index
    assert f"{{download}}`{name}.ipynb`" in index
    assert re.search(rf"^{name}$", index, re.MULTILINE)
