"""``trn3 plan`` with several systems: one table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trn3.cli.consoles import output, table
from trn3.text import printable

if TYPE_CHECKING:
    from trn3.planner.several import Plans


def show(plans: Plans, model: str) -> None:
    """Print plans of one recipe, a line for each system, without columns that nothing fills."""
    from trn3.planner.several import HEADINGS

    rows = plans.table()
    filled = [column for column in range(len(HEADINGS)) if any(row[column] for row in rows)]
    names = [HEADINGS[column] for column in filled]
    shown = table(*names, right=set(names) - {"system", "plan"}, title=printable(model))
    for row in rows:
        shown.add_row(*(printable(row[column]) for column in filled))
    output(120).print(shown)
