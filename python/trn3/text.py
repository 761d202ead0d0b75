"""Names, numbers with units and near misses, as people read them; one copy for the whole house."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

_BYTES = ((1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"), (1e-12, "ps"))


def printable(text: str) -> str:
    r"""Return `text` with everything a terminal would obey, or not show, escaped.

    >>> printable("weight\x1b[31m")
    'weight\\x1b[31m'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def nearest(word: object, known: Iterable[object], likeness: float = 0.0) -> str | None:
    """Return the name that was probably meant, or None if none is like enough.

    Parameters
    ----------
    word
        What came.
    known
        The names there are, of which capitals do not matter.
    likeness
        From 0, where any name will do, to 1, where it must be the same.

    Examples
    --------
    >>> nearest("Cuont", ["count", "selectors"]), nearest("zzz", ["count"], 0.6)
    ('count', None)
    """
    from difflib import get_close_matches

    folded = {str(each).lower(): str(each) for each in known}
    close = get_close_matches(str(word).lower(), folded, n=1, cutoff=likeness)
    return folded[close[0]] if close else None


def rate(value: float) -> str:
    """Return bytes a second with a unit and four digits.

    >>> rate(254.2222e9), rate(11.52e12), rate(float("inf"))
    ('254.2 GB/s', '11.52 TB/s', 'unlimited')
    """
    return "unlimited" if math.isinf(value) else f"{size(value, digits=4)}/s"


def size(num_bytes: float, digits: int | None = None) -> str:
    """Return bytes with a decimal unit: with so many digits, else with one decimal up to TB.

    >>> size(234_881_024), size(234_881_024, digits=4), size(999)
    ('234.9 MB', '234.9 MB', '999 bytes')
    >>> size(90_868_376), size(90_868_376, digits=4)
    ('90.9 MB', '90.87 MB')
    """
    if digits is not None:
        return _scaled(num_bytes, _BYTES, f".{digits}g")
    return f"{num_bytes} bytes" if num_bytes < 1000 else _scaled(num_bytes, _BYTES[1:], ".1f")


def kibibytes(num_bytes: float) -> str:
    """Return a size of a memory in KiB.

    >>> kibibytes(262144), kibibytes(100)
    ('256 KiB', '0.1 KiB')
    """
    value = num_bytes / 1024
    return f"{value:.0f} KiB" if value == int(value) else f"{value:.1f} KiB"


def time(value: float, like: float | None = None) -> str:
    """Return seconds with a unit and four digits; in a column, with unit and decimals of the same.

    >>> time(3.5e-6), time(0.00092391)
    ('3.5 us', '923.9 us')
    >>> time(3.5e-6, like=0.0363373), time(0.0363373, like=0.0363373)
    ('0.00 ms', '36.34 ms')
    """
    if like is None:
        return _scaled(value, _TIMES, ".4g") if value else "0 s"
    factor, unit = _unit(like, _TIMES)
    decimals = 3 if like < 9.9995 * factor else 2 if like < 99.995 * factor else 1
    return f"{value / factor:,.{decimals}f} {unit}"


def time_unit(longest: float) -> tuple[float, str]:
    """Return the unit for times up to one of so many seconds: its seconds, and its name.

    >>> time_unit(0.0363373), time_unit(0.0)
    ((0.001, 'ms'), (1e-12, 'ps'))
    """
    return _unit(longest, _TIMES)


def decibels(value: float) -> str:
    """Return a signal-to-noise ratio for a table cell.

    >>> decibels(31.4159), decibels(float("inf")), decibels(float("nan"))
    ('31.42', 'exact', '-')
    """
    if math.isnan(value):
        return "-"
    return "exact" if math.isinf(value) else f"{value:.2f}"


def verification(outputs: int, passes: int) -> str:
    """Return what was verified of a compiled program, in words.

    Examples
    --------
    >>> verification(outputs=1, passes=3)
    'verified: 1 output equal bit for bit, the schedule legal after each of 3 passes'
    """
    what = f"{outputs} output{'' if outputs == 1 else 's'} equal bit for bit"
    return f"verified: {what}, the schedule legal after each of {passes} passes"


def _unit(value: float, units: Sequence[tuple[float, str]]) -> tuple[float, str]:
    # Half a unit of the fourth digit below the next unit is that unit.
    return next(((factor, unit) for factor, unit in units if value >= factor * 0.99995), units[-1])


def _scaled(value: float, units: Sequence[tuple[float, str]], form: str) -> str:
    factor, unit = _unit(value, units)
    return f"{value / factor:{form}} {unit}"
