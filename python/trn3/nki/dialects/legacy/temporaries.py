"""Whether a value that is assigned is known by no other name.

An instruction may write to where its result goes only if nobody sees the result by itself: else
the name would change with what is assigned.
"""

from __future__ import annotations

import sys
from typing import Any, Final


class _Probe:
    """Counts references as tensors' own methods see them."""

    count = 0

    def __setitem__(self, key: Any, value: Any) -> None:
        self.count = sys.getrefcount(value)


def _calibrated() -> int:
    """Return how many references a value without a name has, or 0 where names do not count."""
    probe = _Probe()
    probe[0] = object()
    nameless = probe.count
    named = object()
    probe[0] = named
    return nameless if probe.count > nameless else 0


#: References that a method of a tensor finds to a value without a name, while its instruction
#: waits: one is the waiting itself.
TEMPORARY: Final = _calibrated() + 1
