"""Which code is trn3's own: lines in errors, warnings and profiles are of whoever calls it."""

from __future__ import annotations

import os
import sys
import types
import warnings
from pathlib import Path
from typing import Final

import trn3

__all__ = ["OWN_FOLDER", "is_own", "warn_caller"]

#: Code under this folder is no kernel.
OWN_FOLDER: Final = str(Path(trn3.__file__).parent) + os.sep


def is_own(code: types.CodeType) -> bool:
    """Return whether code is trn3's."""
    return code.co_filename.startswith(OWN_FOLDER)


def warn_caller(message: str) -> None:
    """Warn at the innermost line that is not trn3's own."""
    level = 2
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame.f_code) and frame.f_back is not None:
        frame = frame.f_back
        level += 1
    warnings.warn(message, stacklevel=level)
