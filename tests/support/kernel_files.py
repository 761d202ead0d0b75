"""The kernels under examples/kernels, imported as ``trn3 profile`` imports them."""

from __future__ import annotations

import functools
from pathlib import Path
from types import ModuleType

from trn3.cli import kernel_file

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "kernels"


@functools.cache
def kernels_of(name: str) -> ModuleType:
    """Return the module ``examples/kernels/NAME.py``."""
    return kernel_file.import_file(FOLDER / f"{name}.py")
