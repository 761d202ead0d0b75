"""What is published about systems, claim by claim, computed again.

The claims are data, ``claims.toml``; formulas in it and functions here compute the figures, from
spec files, fabrics, collectives, plans and the simulated core. `run` compares. ``trn3 validate``
shows them beside the measurements of kernels.

Examples
--------
>>> from trn3.validation import claims
>>> [result] = claims.run(claims.select(["chip-mxfp8"]))
>>> [(figure.name, figure.verdict, figure.figure.published) for figure in result.figures]
[('eight arrays and their clock', 'exact', '2.517')]
"""

from trn3.validation.claims import collectives, energy, fabric, facts, machine, planner
from trn3.validation.claims.check import (
    ClaimResult,
    FigureResult,
    Result,
    StatusSummary,
    Verdict,
    known,
    run,
    summarise,
)
from trn3.validation.claims.documents import cells, markdown, number
from trn3.validation.claims.table import (
    STATUS_TEXTS,
    Claim,
    Figure,
    PublishedClaim,
    fits,
    select,
    table,
)

__all__ = [
    "STATUS_TEXTS",
    "Claim",
    "ClaimResult",
    "Figure",
    "FigureResult",
    "PublishedClaim",
    "Result",
    "StatusSummary",
    "Verdict",
    "cells",
    "collectives",
    "energy",
    "fabric",
    "facts",
    "fits",
    "known",
    "machine",
    "markdown",
    "number",
    "planner",
    "run",
    "select",
    "summarise",
    "table",
]
