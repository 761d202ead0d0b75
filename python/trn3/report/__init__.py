"""One file that shows what a run did, what it cost and why: `report.html`.

The compiled core writes the page of a run; those of plans, comparisons and the like are put
together here, and so is the list of runs that ``trn3 view`` serves. `report.js` and `report.css`
draw all of them, which ``scripts/join_report.py`` makes of the modules in `web`.
"""

from __future__ import annotations

import warnings
from typing import Any

from trn3 import offers
from trn3.report.writing import page, rebuild, save

__all__ = ["page", "rebuild", "save"]


def __getattr__(name: str) -> Any:
    # A module of this name had the tables of `trn3 quantize` in an earlier release.
    found = getattr(offers.take("tables of a quantization"), name, None)
    if found is None or name.startswith("_"):
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    warnings.warn(
        f"{__name__}.{name} is now trn3.cli.quantize_tables.{name}; "
        "the old name goes with the next release",
        DeprecationWarning,
        stacklevel=2,
    )
    return found
