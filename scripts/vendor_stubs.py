"""Writes the stub-only packages python/*-stubs, by which editors know the names kernels import.

Each module that `trn3.nki.install` stands in for has a stub with all names of the module of trn3.
Type checkers read them (PEP 561); no program can import them, so that they are in nobody's way.
"""

from __future__ import annotations

import importlib
import inspect
import shutil
import symtable
from pathlib import Path
from typing import Any

from isa_stub import WIDTH, function
from trn3.nki.dialects.vendor.aliases import ALIASES, OWNED, PACKAGES

FOLDER = Path(__file__).parents[1] / "python"
HEAD = "# Written by scripts/vendor_stubs.py.\n"
#: What declarations of functions name; `bool` is an element type in languages of kernels.
IMPORTS = "import builtins\nfrom typing import Any\n"
TENSOR = "from trn3.nki.dialects.legacy.views import Tensor\n"
#: What a package of stubs lacks, checkers look up in the vendor's own where that is installed.
MARKER = "partial\n"


def made(module: str) -> dict[str, Any]:
    """Return what a module offers and makes as it runs, which no checker can see in its text."""
    found = importlib.import_module(module)
    table = symtable.symtable(inspect.getsource(found), module, "exec")
    written = {each.get_name() for each in table.get_symbols() if each.is_local()}
    return {name: getattr(found, name) for name in found.__all__ if name not in written}


def declaration(name: str, value: Any) -> str:
    """Return the declaration of a function of a module's own making."""
    signature = inspect.signature(value)
    parameters: list[str] = []
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and "*" not in parameters:
            parameters.append("*")
        mark = "*" * (each.kind is each.VAR_POSITIONAL) + "**" * (each.kind is each.VAR_KEYWORD)
        annotation = {"bool": "builtins.bool"}.get(each.annotation, each.annotation)
        default = "" if each.default is each.empty else f" = {each.default!r}"
        parameters.append(f"{mark}{each.name}: {annotation}{default}")
    return function(name, parameters, signature.return_annotation)


def stub(alias: str) -> str:
    """Return the text of the stub of a module by the name that kernels import."""
    stem = f"{alias}."
    below = {name.removeprefix(stem) for name in [*ALIASES, *PACKAGES] if name.startswith(stem)}
    names = [f"{name} as {name}" for name in sorted(below) if "." not in name]
    module = ALIASES.get(alias)
    functions = made(module) if module else {}
    # First, so that what lies below is the stub of that name.
    imported = f"from {module} import *  # noqa: F403\n" if module else ""
    texts = [IMPORTS, imported + TENSOR] if functions else [imported]
    if names:
        line = f"from . import {', '.join(names)}\n"
        rows = "".join(f"    {name},\n" for name in names)
        texts.append(line if len(line) <= WIDTH else f"from . import (\n{rows})\n")
    texts.append("".join(declaration(name, value) for name, value in functions.items()))
    return HEAD + "\n".join(text for text in texts if text)


def stubs() -> dict[str, str]:
    """Return the texts of all files, by their paths below python/."""
    aliases = [*ALIASES, *PACKAGES, *OWNED]
    packages = {alias.rpartition(".")[0] for alias in aliases} | {*PACKAGES, *OWNED}
    texts = {f"{name}-stubs/py.typed": MARKER for name in OWNED}
    for alias in dict.fromkeys(aliases):
        top, *below = alias.split(".")
        file = [*below, "__init__"] if alias in packages else below
        texts[f"{top}-stubs/{'/'.join(file)}.pyi"] = stub(alias)
    return texts


def main() -> None:
    """Write the packages anew."""
    for name in OWNED:
        shutil.rmtree(FOLDER / f"{name}-stubs", ignore_errors=True)
    for path, text in stubs().items():
        (FOLDER / path).parent.mkdir(parents=True, exist_ok=True)
        (FOLDER / path).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
