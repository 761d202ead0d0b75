"""Pictures of plans: where the time goes, and speed for a user against throughput of a chip."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from trn3.planner.parts import PlanPhase

SMALL = 0.02
"""Parts below this share of a phase are drawn as one."""


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
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
    _breakdown(left, phases)
    _frontier(right, label, frontier, own)
    figure.suptitle(title)
    return figure


def plot_frontiers(
    path: Path,
    title: str,
    lines: Sequence[tuple[str, Sequence[tuple[float, float]], tuple[float, float]]],
) -> Path:
    """Draw the frontiers of several systems into a file and return its path.

    Parameters
    ----------
    path, title
        The file, and what stands above the picture.
    lines
        Of each system its name, its frontier and the speeds of its plan, as for `draw_plan`.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axes = figure.subplots()
    for name, frontier, own in lines:
        (line,) = axes.plot(*zip(*frontier, strict=True), marker=".", label=name)
        axes.plot(*own, marker="o", linestyle="none", color=line.get_color())
    _describe(axes)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    figure.suptitle(title)
    figure.savefig(path, dpi=150)
    return path


def speeds(plan: Any) -> tuple[float, float]:
    """Return the speeds of a plan, or of a point of a frontier: for a user, and for a chip."""
    return plan.tokens_per_second_per_user, plan.tokens_per_second_per_chip


def _breakdown(axes: Any, phases: Sequence[tuple[str, PlanPhase, float]]) -> None:
    from matplotlib import colormaps

    colours = [colormaps["tab20"](number) for number in range(20)]
    known: dict[str, Any] = {}
    for row, (name, phase, seconds) in enumerate(phases):
        start = 0.0
        for part, share in _parts(phase):
            is_new = part not in known
            colour = known.setdefault(part, colours[len(known) % len(colours)])
            axes.barh(row, share, left=start, color=colour, label=part if is_new else None)
            start += share
        axes.text(100.5, row, f"{seconds * 1e3:,.3g} ms\n{name}", va="center")
    axes.set(xlim=(0, 118), yticks=[], xlabel="% of the time", title="Where the time goes")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, fontsize=7, frameon=False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _parts(phase: PlanPhase) -> list[tuple[str, float]]:
    """Return the shares of a phase in percent, small ones as one."""
    shares = [(part.name, 100 * part.seconds / phase.seconds) for part in phase.parts]
    large = [(name, share) for name, share in shares if share >= 100 * SMALL]
    rest = sum(share for _, share in shares) - sum(share for _, share in large)
    return [*large, ("other", rest)] if rest > 0 else large


def _frontier(
    axes: Any, label: str, frontier: Sequence[tuple[float, float]], own: tuple[float, float]
) -> None:
    axes.plot(*zip(*frontier, strict=True), marker=".", label=label)
    axes.plot(*own, marker="o", linestyle="none", color="tab:red", label="this plan")
    _describe(axes)
    axes.legend()


def _describe(axes: Any) -> None:
    axes.set(
        xlabel="tokens/s for a user",
        ylabel="tokens/s a chip",
        yscale="log",
        title="Speed against throughput (decoding)",
    )
    axes.grid(alpha=0.3)
