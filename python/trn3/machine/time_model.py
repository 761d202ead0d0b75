"""The versions of the model of time: what recorded latencies are of, and why newer ones differ."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

#: What each version changed in latencies, by its number; a change that moves any adds one here.
TIME_MODELS: Final[Mapping[int, str]] = MappingProxyType(
    {
        1: "the model of trn3 0.1.0",
        2: (
            "no DMA engine draws more of HBM than its part of the rate, which moves latencies "
            "where an arch gives HBM less than its DMA engines move; transfers with a priority "
            "overtake those of less urgent classes"
        ),
    }
)
#: The version of this trn3.
TIME_MODEL: Final = max(TIME_MODELS)


def changes_since(version: int) -> list[str]:
    """Return what later versions of the model changed, oldest first.

    Examples
    --------
    >>> len(changes_since(1)) == TIME_MODEL - 1
    True
    >>> changes_since(TIME_MODEL)
    []
    """
    return [f"{number}: {change}" for number, change in TIME_MODELS.items() if number > version]
