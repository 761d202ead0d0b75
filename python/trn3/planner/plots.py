"""Pictures of plans: where the time goes, and speed for a user against throughput of a chip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trn3.pictures import ACCENT, SERIES, drawing, ink_on, literal, plain_ticks, write_title
from trn3.text import time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from trn3.planner.parts import PlanPhase

SMALL = 0.02
"""Parts below this share of a phase are drawn as one."""
HATCHES = ("", "///", "...", "xxx")
"""What tells parts apart whose colours have come before."""
LETTERS_PER_PERCENT = 0.62
"""How much of a part's name fits a bar, by its share."""


def draw_plan(
    title: str,
    phases: Sequence[tuple[str, PlanPhase, float]],
    label: str,
    frontier: Sequence[tuple[float, float]],
    own: tuple[float, float],
) -> Figure:
    """Draw a plan.

    Parameters
    ----------
    title
        What stands above both pictures.
    phases
        What takes time: a name, its parts, and the seconds that stand beside it.
    label, frontier
        A name for other plans, and their speeds.
    own
        Tokens a second for a user, and for a chip.
    """
    with drawing(11, 4.6) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
        _breakdown(
            left,
            [
                (name, [(part.name, part.seconds / phase.seconds) for part in phase.parts], seconds)
                for name, phase, seconds in phases
            ],
        )
        right.plot(*zip(*frontier, strict=True), marker=".", color=SERIES[0], label=literal(label))
        right.plot(*own, marker="o", linestyle="none", color=ACCENT, label="this plan")
        _describe(right)
        right.legend(frameon=False)
        write_title(figure, title)
    return figure


def draw_step(title: str, parts: Sequence[tuple[str, float]], seconds: float) -> Figure:
    """Draw where the time of a training step goes: names of its parts, and their shares of 1."""
    with drawing(8, 3.2) as figure:
        _breakdown(figure.add_subplot(), [("a step", parts, seconds)])
        write_title(figure, title)
    return figure


def draw_frontiers(
    title: str,
    lines: Sequence[tuple[str, Sequence[tuple[float, float]], tuple[float, float]]],
) -> Figure:
    """Draw the frontiers of several systems.

    Parameters
    ----------
    title
        What stands above the picture.
    lines
        Of each system its name, its frontier and the speeds of its plan, as for `draw_plan`.
    """
    with drawing(7, 4.6 + 0.1 * len(lines)) as figure:
        axes = figure.add_subplot()
        for number, (name, frontier, own) in enumerate(lines):
            color = SERIES[number % len(SERIES)]
            dashes = "-" if number < len(SERIES) else "--"
            axes.plot(
                *zip(*frontier, strict=True),
                marker=".",
                color=color,
                linestyle=dashes,
                label=literal(name, 40),
            )
            axes.plot(*own, marker="o", linestyle="none", color=color)
        _describe(axes)
        figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
        write_title(figure, f"{title}: large dots are the plans")
    return figure


def speeds(plan: Any) -> tuple[float, float]:
    """Return the speeds of a plan, or of a point of a frontier: for a user, and for a chip."""
    return plan.tokens_per_second_per_user, plan.tokens_per_second_per_chip


def _breakdown(
    axes: Axes, phases: Sequence[tuple[str, Sequence[tuple[str, float]], float]]
) -> None:
    known: dict[str, int] = {}
    for row, (name, parts, seconds) in enumerate(phases):
        start = 0.0
        for part, share in _large(parts):
            is_new = part not in known
            number = known.setdefault(part, len(known))
            color = SERIES[number % len(SERIES)]
            axes.barh(
                row,
                share,
                left=start,
                height=0.7,
                color=color,
                edgecolor="w",
                linewidth=0.6,
                hatch=HATCHES[number // len(SERIES) % len(HATCHES)],
                label=literal(part, 30) if is_new else None,
            )
            if text := _fitting(part, share):
                axes.text(
                    start + share / 2,
                    row,
                    text,
                    ha="center",
                    va="center",
                    color=ink_on(color),
                    fontsize=7,
                )
            start += share
        axes.text(101, row, f"{time(seconds)}\n{name}", va="center")
    axes.set(xlim=(0, 118), ylim=(len(phases) - 0.5, -0.5), yticks=[], xticks=range(0, 101, 20))
    axes.set_title("Where the time goes (%)")
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.45, 0),
        borderaxespad=3,
        ncols=3,
        fontsize=7,
        frameon=False,
    )
    axes.spines[["top", "right", "left"]].set_visible(False)


def _fitting(part: str, share: float) -> str:
    """Return what of a part's name and share fits into its bar."""
    room, said = share * LETTERS_PER_PERCENT, f"{share:.0f} %"
    if len(part) <= room:
        return f"{literal(part)}\n{said}"
    return said if len(said) <= room else ""


def _large(parts: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return the shares of parts in percent, small ones as one."""
    shares = [(name, 100 * share) for name, share in parts]
    large = [(name, share) for name, share in shares if share >= 100 * SMALL]
    rest = sum(share for _, share in shares) - sum(share for _, share in large)
    return [*large, ("other", rest)] if rest > 0 else large


def _describe(axes: Axes) -> None:
    axes.set(
        xlabel="tokens/s for a user",
        ylabel="tokens/s a chip",
        yscale="log",
        title="Speed against throughput (decoding)",
    )
    plain_ticks(axes.xaxis)
    plain_ticks(axes.yaxis)
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
