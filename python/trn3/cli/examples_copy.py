"""What ``trn3 examples`` does: list the kernels that the package brings, and copy them."""

from __future__ import annotations

import ast
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer

from trn3.cli.consoles import output, print_json, table
from trn3.cli.refusal import RefusedError
from trn3.cli.settings import JsonForTable
from trn3.files import write_bytes
from trn3.text import nearest


def register(app: typer.Typer) -> None:
    """Add the group ``examples`` to the command."""
    group = typer.Typer(help="Kernels to read, run and begin with.", no_args_is_help=True)
    group.command("list")(_list)
    group.command("copy")(_copy)
    app.add_typer(group, name="examples", rich_help_panel="Kernels")


def _texts() -> dict[str, str]:
    folder = resources.files("trn3.cli").joinpath("examples")
    files = {each.name.removesuffix(".txt"): each for each in folder.iterdir()}
    return {name: files[name].read_text(encoding="utf-8") for name in sorted(files)}


def _list(as_json: JsonForTable = False) -> None:
    """List the examples: what each file holds."""
    rows = {
        name: " ".join((ast.get_docstring(ast.parse(text)) or "").split()).partition(". ")[0]
        for name, text in _texts().items()
    }
    if as_json:
        print_json({"examples": [{"name": name, "holds": what} for name, what in rows.items()]})
        return
    shown = table("name", "holds", pad_edge=False)
    for row in rows.items():
        shown.add_row(*row)
    output().print(shown, markup=False)


def _copy(
    names: Annotated[
        list[str] | None, typer.Argument(help="As `trn3 examples list` has them; without, all.")
    ] = None,
    folder: Annotated[Path, typer.Option("--to", help="An existing folder.")] = Path(),
) -> None:
    """Copy examples into a folder; files that are there are left alone."""
    texts = _texts()
    for name in names or ():
        if name not in texts:
            message = f"there is no example {name!r}; nearest: {nearest(name, texts)}"
            raise RefusedError(message)
    paths = {folder / f"{name}.py": texts[name] for name in names or texts}
    for path in paths:
        if path.exists():
            message = f"{path}: is there already; nothing was copied"
            raise RefusedError(message)
    for path, text in paths.items():
        write_bytes(path, [text.encode()])
        typer.echo(f"wrote {path}")
