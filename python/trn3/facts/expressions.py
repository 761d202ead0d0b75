"""Arithmetic in spec files: ``derived: 144*2.517``, and formulas over named figures.

Only numbers, names, ``+ - * / **``, the sign ``-``, parentheses, ``min`` and ``max`` are read, so
that a spec file from anywhere can be evaluated.
"""

from __future__ import annotations

from trn3._trn3.facts import ExpressionError, changed, evaluate, names_in, what_if

__all__ = ["ExpressionError", "changed", "evaluate", "names_in", "what_if"]
