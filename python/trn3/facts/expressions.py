"""Arithmetic in spec files: ``derived: 144*2.517``, and formulas over named figures.

Only numbers, names, ``+ - * / **``, the sign ``-``, parentheses, ``min`` and ``max`` are read, so
that a spec file from anywhere can be evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping

from trn3._trn3 import facts as _core
from trn3._trn3.facts import ExpressionError

__all__ = ["ExpressionError", "evaluate", "names_in"]


def evaluate(text: str, names: Mapping[str, float] | None = None) -> float:
    """Return the value of an expression.

    Parameters
    ----------
    text
        The expression. A name may have dots: ``core.clock_tensor``.
    names
        What the names stand for.

    Raises
    ------
    ExpressionError
        If the text is something else, names what is not there, or has no finite value.

    Examples
    --------
    >>> evaluate("512*128*2*2.4e9*8/1e12")
    2516.5824
    >>> evaluate("chips * chip.hbm_bandwidth", {"chips": 144, "chip.hbm_bandwidth": 4.9e12})
    705600000000000.0
    """
    return _core.evaluate(text, dict(names or {}))


def names_in(text: str) -> tuple[str, ...]:
    """Return the names that an expression reads, sorted.

    Examples
    --------
    >>> names_in("cores * core.pe_rows * max(2, cores)")
    ('core.pe_rows', 'cores')
    """
    return tuple(_core.names_in(text))
