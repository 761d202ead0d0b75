"""Published measurements of the hardware, run again on the model.

The measurements are data, `table`; `run` makes the kernels and instructions behind them and gives
what the model predicts. `commands.published` are figures of systems, each with the command line
that computes it. `summarise` has the errors by class, or by group of command lines,
`summarise_levels` by whose text ran, and `summarise_band` how often the hardware's latency lies
within the bounds of profiles.
`trn3.validation.claims` does the same for what is published about systems,
`trn3.validation.silicon` for the bits of real chips, and `trn3.validation.probe` makes kernels that
find out more of those. ``trn3 validate`` and ``trn3 probe`` are all of it on the command line.

Examples
--------
>>> from trn3 import validation
>>> [result] = validation.run(validation.select(["exp-128-trn2"]))
>>> result.row.published, round(result.predicted)
(403.0, 403)
>>> result.verdict
'within'
"""

from trn3.validation import commands
from trn3.validation.bands import BandSummary, summarise_band
from trn3.validation.documents import (
    BEGIN,
    CLAIMS_BEGIN,
    CLAIMS_END,
    END,
    SECTIONS,
    at_several_levels,
    command_tables,
    figure,
    markdown,
    numbers,
    percent,
    ratios,
    replace_section,
)
from trn3.validation.recomputed import Compared
from trn3.validation.rows import (
    LEVELS,
    Absent,
    Level,
    PublishedRow,
    Row,
    RowError,
    Table,
    fits,
    select,
    table,
)
from trn3.validation.run import (
    ClassSummary,
    LevelSummary,
    Result,
    RowResult,
    run,
    summarise,
    summarise_levels,
)

__all__ = [
    "BEGIN",
    "CLAIMS_BEGIN",
    "CLAIMS_END",
    "END",
    "LEVELS",
    "SECTIONS",
    "Absent",
    "BandSummary",
    "ClassSummary",
    "Compared",
    "Level",
    "LevelSummary",
    "PublishedRow",
    "Result",
    "Row",
    "RowError",
    "RowResult",
    "Table",
    "at_several_levels",
    "command_tables",
    "commands",
    "figure",
    "fits",
    "markdown",
    "numbers",
    "percent",
    "ratios",
    "replace_section",
    "run",
    "select",
    "summarise",
    "summarise_band",
    "summarise_levels",
    "table",
]
