"""Kernels written otherwise: the same values, by a text that takes less time."""

from __future__ import annotations

from trn3.compiler.rewrite.apply import rewritten
from trn3.compiler.rewrite.moves import lines_that_name
from trn3.compiler.rewrite.text import ByHandError, KernelText

__all__ = ["ByHandError", "KernelText", "lines_that_name", "rewritten"]
