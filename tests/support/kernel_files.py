"""The kernels under examples, imported as ``trn3 profile`` imports them."""

from __future__ import annotations

import functools
from pathlib import Path
from types import ModuleType

from trn3.cli import kernel_file

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FOLDER = EXAMPLES / "kernels"


@functools.cache
def kernels_of(name: str, folder: Path = FOLDER) -> ModuleType:
    """Return the module ``examples/kernels/NAME.py``, or that of another folder."""
    return kernel_file.import_file(folder / f"{name}.py")
