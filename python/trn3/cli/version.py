"""The version of the package, without loading anything where its installation tells it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

import trn3

_INSTALLED: Final = re.compile(r"trn3-(\d+\.\d+\.\d+)\.dist-info")


def version() -> str:
    """Return the version, as `trn3.__version__` has it.

    Installers name a folder by it: beside the package, or beside a ``trn3.pth`` that names the
    folder where the package stands. Elsewhere the compiled core says it.

    >>> version() == trn3.__version__
    True
    """
    package = Path(trn3.__file__).resolve().parent.parent
    found = {
        named[1]
        for folder in sys.path
        for entry in Path(folder).glob("trn3-*.dist-info")
        if (named := _INSTALLED.fullmatch(entry.name)) and package in _packages(Path(folder))
    }
    return found.pop() if len(found) == 1 else trn3.__version__


def _packages(folder: Path) -> list[Path]:
    """Return where the package that is installed in a folder may stand."""
    try:
        lines = (folder / "trn3.pth").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    return [folder.resolve(), *(Path(line).resolve() for line in lines)]
