"""Published measurements of the hardware, run again on the model.

The measurements are data, `table`; `run` makes the kernels and instructions behind them and gives
what the model predicts; `summarise` has the errors by class. `trn3.validation.claims` does the same
for what is published about systems. ``trn3 validate`` is all of it on the command line.

Examples
--------
>>> from trn3 import validation
>>> [result] = validation.run(validation.select(["exp-128-trn2"]))
>>> result.row.published, round(result.predicted)
(403.0, 403)
>>> result.verdict
'within'
"""

from trn3.validation.documents import (
    BEGIN,
    CLAIMS_BEGIN,
    CLAIMS_END,
    END,
    figure,
    markdown,
    percent,
    replace_section,
)
from trn3.validation.rows import (
    Absent,
    PublishedRow,
    Row,
    RowError,
    Table,
    fits,
    select,
    table,
)
from trn3.validation.run import ClassSummary, Result, RowResult, run, summarise

__all__ = [
    "BEGIN",
    "CLAIMS_BEGIN",
    "CLAIMS_END",
    "END",
    "Absent",
    "ClassSummary",
    "PublishedRow",
    "Result",
    "Row",
    "RowError",
    "RowResult",
    "Table",
    "figure",
    "fits",
    "markdown",
    "percent",
    "replace_section",
    "run",
    "select",
    "summarise",
    "table",
]
