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
times of fewer than {FEW} rows, and no less than that of the
# phase's rows of all generations), {100 * LEAST:.0f} % at least, so that it holds 80 % of rows that nobody
# has seen **(choice)**. within: rows in the band.
"""


#: A figure of a claim that is one number of a command line.
ONE = re.compile(r"plan\.(\w+)\.(\w+)")


def measured() -> dict[str, list[tuple[str, float]]]:
    """Return predicted over published, with the class of the row, by the class of the band."""
    found: dict[str, list[tuple[str, float]]] = {}

    def add(command: str, quantity: str, kind: str, ratio: float) -> None:
        band = commands.document(command)["ttft_band" if "ttft" in quantity else "band"]
        found.setdefault(band["class"], []).append((kind, ratio))

    for result in validation.run(commands.published()):
        # What is refused has no figure; `trn3 validate` says so.
        if result.refusal is None and result.row.command is not None:
            add(result.row.command, result.row.quantity, result.row.class_, result.ratio)
    models = [claim for claim in claims.table() if claim.status == "model"]
    for claim in claims.run(claim for claim in models if claim.area == "planner"):
        for entry in claim.figures:
            one = ONE.fullmatch(entry.figure.inputs.get("formula", ""))
            if one is not None and entry.ratio is not None:
                kind = "fit" if entry.figure.is_fitted else "hold"
                add(claims.planner.command(one[1]), one[2], kind, entry.ratio)
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
    factors = {
        name: [max(ratio, 1 / ratio) for _, ratio in rows] for name, rows in measured().items()
    }
    kinds = {name: {kind for kind, _ in rows} for name, rows in measured().items()}
    parts = [HEAD]
    for name, mine in sorted(factors.items()):
        phase = name.partition(" ")[2]
        alike = [f for other, of in factors.items() if other.partition(" ")[2] == phase for f in of]
        wide = width(mine, alike)
        one = next(iter(kinds[name])).replace("hold", "held")
        basis = "rows, fit and held" if len(kinds[name]) > 1 else f"{one} rows"
        parts.append(
            f'[class."{name}"]\nrows = {len(mine)}\n'
            f"within = {sum(factor <= 1 + wide for factor in mine)}\nwidth = {wide:g}\n"
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
