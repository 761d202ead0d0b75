"""All tables."""

from __future__ import annotations

from typing import Final

from support.conformance import (
    activations,
    elementwise,
    indirections,
    matmuls,
    meetings,
    moves,
    reductions,
    selections,
    states,
    transfers,
)
from support.conformance.table import Refusal, Row

_MODULES: Final = (
    elementwise, moves, reductions, activations, selections, matmuls, transfers, states,
    indirections, meetings,
)  # fmt: skip

ROWS: Final[list[Row]] = [row for module in _MODULES for row in module.rows()]
REFUSALS: Final[list[Refusal]] = [refusal for module in _MODULES for refusal in module.refusals()]
