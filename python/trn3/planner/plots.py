"""Pictures of plans: where the time goes, and speed for a user against throughput of a chip."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trn3.planner.results import Phase, Plan

SMALL = 0.02
"""Parts below this share of a phase are drawn as one."""


def plot_plan(plan: Plan, path: Path) -> Path:
    """Draw a plan into a file and return its path."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.2, 1))
    _breakdown(left, plan)
    _frontier(right, plan)
    figure.suptitle(f"{plan.model.name} on {plan.system}: {plan.layout}, batch {plan.batch}")
    figure.savefig(path, dpi=150)
    return path


def _breakdown(axes: Any, plan: Plan) -> None:
    from matplotlib import colormaps

    colours = [colormaps["tab20"](number) for number in range(20)]
    known: dict[str, Any] = {}
    for row, (name, phase) in enumerate((("prompt", plan.prefill), ("a token", plan.decode))):
        start = 0.0
        for part, share in _parts(phase):
            is_new = part not in known
            colour = known.setdefault(part, colours[len(known) % len(colours)])
            axes.barh(row, share, left=start, color=colour, label=part if is_new else None)
            start += share
        milliseconds = (plan.ttft if row == 0 else plan.tpot) * 1e3
        axes.text(100.5, row, f"{milliseconds:,.3g} ms\n{name}", va="center")
    axes.set(xlim=(0, 118), yticks=[], xlabel="% of the time", title="Where the time goes")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, fontsize=7, frameon=False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _parts(phase: Phase) -> list[tuple[str, float]]:
    """Return the shares of a phase in percent, small ones as one."""
    shares = [(part.name, 100 * part.seconds / phase.seconds) for part in phase.parts]
    large = [(name, share) for name, share in shares if share >= 100 * SMALL]
    rest = sum(share for _, share in shares) - sum(share for _, share in large)
    return [*large, ("other", rest)] if rest > 0 else large


def _frontier(axes: Any, plan: Plan) -> None:
    if plan.searched is not None:
        points = [
            (point.tokens_per_second_per_user, point.tokens_per_second_per_chip)
            for point in plan.searched.frontier
        ]
        axes.plot(*zip(*points, strict=True), marker=".", label="best of all layouts")
    else:
        powers = (1 << power for power in range(plan.largest_batch.bit_length()))
        points = [
            (one.tokens_per_second_per_user, one.tokens_per_second_per_chip)
            for one in plan.sweep(batch=powers)
        ]
        axes.plot(*zip(*points, strict=True), marker=".", label="this layout, by batch")
    own = (plan.tokens_per_second_per_user, plan.tokens_per_second_per_chip)
    axes.plot(*own, marker="o", linestyle="none", color="tab:red", label="this plan")
    axes.set(
        xlabel="tokens/s for a user",
        ylabel="tokens/s a chip",
        yscale="log",
        title="Speed against throughput (decoding)",
    )
    axes.grid(alpha=0.3)
    axes.legend()
