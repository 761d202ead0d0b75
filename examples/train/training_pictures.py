"""Pictures of runs of training: loss, gradient norms, saturation, time and energy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from numpy.typing import NDArray

from step_costs import StepCost
from training_run import TrainingHistory

mpl.use("Agg")

Histories = Mapping[str, Sequence[TrainingHistory]]
# Steps that a line is smoothed over.
SMOOTHED = 10


def draw(
    histories: Histories, costs: Mapping[str, StepCost], best: float | None, output: Path
) -> list[Path]:
    """Draw every picture into a folder; their files."""
    loss = _lines(histories, "loss, nats", lambda run: np.asarray(run.losses))
    if best is not None:
        loss.axes[0].axhline(best, color="black", linestyle=":", label="entropy of the language")
        loss.axes[0].legend(fontsize="small")
    norms = _lines(histories, "norm of the gradients", lambda run: np.asarray(run.norms))
    norms.axes[0].set_yscale("log")
    figures = {
        "loss": loss,
        "norms": norms,
        "saturation": _lines(
            histories,
            "share clipped, the operand with most",
            lambda run: np.asarray(run.clipped).reshape(len(run.clipped), -1).max(1),
        ),
        "cost": _bars(costs),
    }
    paths = []
    for name, figure in figures.items():
        path = output / f"{name}.png"
        figure.savefig(path, dpi=120, bbox_inches="tight")
        paths.append(path)
    return paths


def _lines(histories: Histories, title: str, of: Callable[[TrainingHistory], NDArray[Any]]) -> Any:
    """Draw the mean over seeds of each recipe, and the range between the least and the greatest."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5))
    axes = figure.subplots()
    for name, runs in histories.items():
        rows = np.stack([_smooth(of(run)) for run in runs])
        steps = np.arange(rows.shape[1])
        (line,) = axes.plot(steps, rows.mean(0), label=name, linewidth=1.2)
        axes.fill_between(steps, rows.min(0), rows.max(0), alpha=0.2, color=line.get_color())
    axes.set_xlabel("step")
    axes.set_ylabel(title)
    axes.legend(fontsize="small")
    return figure


def _smooth(row: NDArray[Any]) -> NDArray[Any]:
    width = min(SMOOTHED, len(row))
    return np.convolve(row, np.ones(width) / width, mode="valid")


def _bars(costs: Mapping[str, StepCost]) -> Any:
    """Draw time and energy of a step beside those of float32, where they are known."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5))
    known = {name: cost for name, cost in costs.items() if math.isfinite(cost.microseconds)}
    figures = {
        "time, us": [cost.microseconds for cost in known.values()],
        "energy, mJ": [1e3 * cost.joules for cost in known.values()],
    }
    for axes, (title, lengths) in zip(figure.subplots(1, 2), figures.items(), strict=True):
        axes.barh(list(known), lengths)
        if "float32" in known:
            wide = lengths[list(known).index("float32")]
            axes.axvline(wide, color="black", linestyle=":", label="float32")
        axes.invert_yaxis()
        axes.set_xlabel(f"{title} a step, each core")
    figure.tight_layout()
    return figure
