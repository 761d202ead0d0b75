"""Write the widths of predictions' bands from how far `trn3 validate` finds published rows off.

``python scripts/plan_bands.py`` writes rust/facts/specs/models/bands.toml, which the next build of
the extension takes in; ``--check`` only says whether it is what the rows give.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trn3 import validation
from trn3.validation import claims, commands

TABLE = Path(__file__).parents[1] / "rust" / "facts" / "specs" / "models" / "bands.toml"

#: Part of a class' rows that the width holds before it is widened.
HELD = 0.9
#: By how much a width is taken further: constants were fitted to most rows, which flatters them.
WIDENING = 1.5
#: The same where rows are fewer than `FEW`.
WIDENING_OF_FEW = 2.0
FEW = 5
#: No band is narrower.
LEAST = 0.25

HEAD = f"""\
# How far predictions are off where somebody measured. scripts/plan_bands.py writes it from the
# rows of `trn3 validate` that are commands; a test fails where it is not what they give.
#
# width: the measured figure is looked for from the predicted one over 1 + width to that times
# 1 + width. Constants were fitted to most rows and none can be left out, so that the width that
# holds {100 * HELD:.0f} % of a class' rows is taken {WIDENING:g} times ({WIDENING_OF_FEW:g} \
times of fewer than {FEW} rows, and no less than that of
# the phase's rows of all generations), {100 * LEAST:.0f} % at least, so that it holds 80 % of
# rows that nobody has seen **(choice)**. Rows that are off for
# a reason that `trn3 validate` gives make no band wider; they count among its rows, of which
# `within` lie in it.
"""


#: The rows that are served with traffic.
UNDER_LOAD = "under load"
#: A figure of a claim that is one number of a command line.
ONE = re.compile(r"plan\.(\w+)\.(\w+)")


@dataclass(frozen=True)
class Row:
    """A published figure: ``fit`` or ``hold``, predicted over published, and the verdict."""

    kind: str
    ratio: float
    verdict: str

    @property
    def factor(self) -> float:
        """How many times it is off, either way."""
        return max(self.ratio, 1 / self.ratio)


def measured() -> dict[str, list[Row]]:
    """Return the published rows by the class of the band that their command prints."""
    found: dict[str, list[Row]] = {}

    def add(command: str, quantity: str, row: Row) -> None:
        band = commands.document(command)["ttft_band" if "ttft" in quantity else "band"]
        found.setdefault(band["class"], []).append(row)

    for result in validation.run(commands.published()):
        # What is refused has no figure; `trn3 validate` says so. Figures under load are of prompts
        # and of decoding at once, which is no class.
        alone = result.row.group != UNDER_LOAD
        if alone and result.refusal is None and result.row.command is not None:
            row = Row(result.row.class_, result.ratio, result.verdict)
            add(result.row.command, result.row.quantity, row)
    models = [claim for claim in claims.table() if claim.status == "model"]
    for claim in claims.run(claim for claim in models if claim.area == "planner"):
        for entry in claim.figures:
            one = ONE.fullmatch(entry.figure.inputs.get("formula", ""))
            if one is not None and entry.ratio is not None:
                kind = "fit" if entry.figure.is_fitted else "hold"
                command = claims.planner.command(one[1])
                add(command, one[2], Row(kind, entry.ratio, entry.verdict))
    return found


def width(factors: Iterable[float], alike: Iterable[float] = ()) -> float:
    """Return the width of a class from how many times its rows are off, rounded up to percents.

    `alike` are those of the same phase of all generations: few rows are no narrower.

    >>> width([1.1] * 9 + [3.0]), width([1.2, 1.4]), width([1.01], [1.4] * 9)
    (0.25, 0.8, 0.6)
    """
    errors = sorted(factor - 1 for factor in factors)
    held = errors[math.ceil(HELD * len(errors)) - 1]
    if len(errors) >= FEW:
        return _rounded(held * WIDENING)
    others = list(alike)
    return max(_rounded(held * WIDENING_OF_FEW), width(others) if len(others) >= FEW else LEAST)


def _rounded(wide: float) -> float:
    return max(LEAST, math.ceil(round(100 * wide, 6)) / 100)


def text() -> str:
    """Return the table."""
    found = measured()
    told = {
        name: [row.factor for row in rows if row.verdict != "explained miss"]
        for name, rows in found.items()
    }
    parts = [HEAD]
    for name, rows in sorted(found.items()):
        phase = name.partition(" ")[2]
        alike = [f for other, of in told.items() if other.partition(" ")[2] == phase for f in of]
        wide = width(told[name] or [row.factor for row in rows], alike)
        kinds = {row.kind.replace("hold", "held") for row in rows}
        basis = "rows, fit and held" if len(kinds) > 1 else f"{kinds.pop()} rows"
        parts.append(
            f'[class."{name}"]\nrows = {len(rows)}\n'
            f"within = {sum(row.factor <= 1 + wide for row in rows)}\nwidth = {wide:g}\n"
            f'basis = "{basis}"\n'
        )
    return "\n".join(parts)


def main() -> int:
    """Write the table, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 if it differs")
    given = parser.parse_args()
    made = text()
    if given.check:
        return int(made != TABLE.read_text(encoding="utf-8"))
    TABLE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
