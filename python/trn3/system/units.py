"""Numbers with units, as people read them."""

from __future__ import annotations

import math
from collections.abc import Sequence

_BYTES = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps"))


def rate(value: float) -> str:
    """Return bytes a second with a unit and four digits.

    >>> rate(254.2222e9), rate(11.52e12), rate(float("inf"))
    ('254.2 GB/s', '11.52 TB/s', 'unlimited')
    """
    return "unlimited" if math.isinf(value) else f"{_scaled(value, _BYTES)}/s"


def size(value: float) -> str:
    """Return bytes with a decimal unit and four digits.

    >>> size(234_881_024)
    '234.9 MB'
    """
    return _scaled(value, _BYTES)


def time(value: float) -> str:
    """Return seconds with a unit and four digits.

    >>> time(3.5e-6), time(0.00092391)
    ('3.5 us', '923.9 us')
    """
    return _scaled(value, _TIMES)


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    if value == 0:
        return f"0 {units[-1][1]}" if units is _BYTES else "0 s"
    # Half a unit of the fourth digit below the next unit is that unit.
    factor, unit = next(
        ((factor, unit) for factor, unit in units if value >= factor * 0.99995), units[-1]
    )
    return f"{value / factor:.4g} {unit}"
