"""Train recipes on several seeds, and say which published orderings show: what `make train` runs.

Writes a table, the histories and pictures into ``build/train``. Two runs go side by side, one
thread each; they need JAX (or torch, with ``--framework torch``) and matplotlib.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from rich.console import Console
from rich.table import Table

from orderings import JudgedOrdering, judge
from step_costs import StepCost, cost_of
from training_pictures import draw
from training_recipes import SIZES, DecoderSize, TrainingRecipe, names
from training_run import MakesTrainer, TrainingHistory, language_of

# Of tables, whose figures are cut off by no terminal.
WIDTH = 110
OUTPUT = Path(__file__).resolve().parents[2] / "build" / "train"
# Those that the orderings are about, and float32 to compare with.
RECIPES = (
    *("float32", "bf16", "bf16_nearest", "bf16_stochastic", "mxfp8", "mxfp8_e5m2"),
    *("mxfp4_naive", "mxfp4_hadamard"),
)
# Those that a framework's decoder does not have.
NOT_IN = {"jax": set[str](), "torch": {"bf16_stochastic"}}


def trainer_of(framework: str) -> MakesTrainer:
    """Return what takes steps in a framework; only that one has to be installed."""
    if framework == "torch":
        from train_torch import TorchTrainer

        return TorchTrainer
    from train_jax import JaxTrainer

    return JaxTrainer


def one_run(recipe: str, seed: int, given: argparse.Namespace) -> TrainingHistory:
    """Train in a process of its own, on one thread."""
    file = given.output / f"{Path(recipe).stem}.{seed}.json"
    script = Path(__file__).with_name(f"train_{given.framework}.py")
    words = ["--recipe", recipe, "--seed", str(seed), "--size", given.size]
    words += ["--steps", str(given.steps), "--ranks", str(given.ranks)]
    words += ["--text", str(given.text)] if given.text else []
    done = subprocess.run(
        [sys.executable, script, *words, "--out", str(file)],
        env={**os.environ, "TRN3_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        message = f"{recipe}, seed {seed}, stopped:\n{done.stderr}"
        raise RuntimeError(message)
    return TrainingHistory(**json.loads(file.read_text()))


def all_runs(given: argparse.Namespace) -> dict[str, list[TrainingHistory]]:
    """Train every recipe on every seed, two runs at a time."""
    jobs = [(recipe, seed) for seed in range(given.seeds) for recipe in given.recipes]
    found: dict[str, list[TrainingHistory]] = {}
    with ThreadPoolExecutor(2) as pool:
        histories = pool.map(lambda job: one_run(job[0], job[1], given), jobs)
        for (_, seed), history in zip(jobs, histories, strict=True):
            found.setdefault(history.recipe, []).append(history)
            text = f"loss {history.held_out:.4f} after {history.seconds:.0f} s"
            print(f"  {history.recipe:<16} seed {seed}: {text}", flush=True)
    return found


def costs_of(
    recipes: Iterable[TrainingRecipe], size: DecoderSize, words: int, given: argparse.Namespace
) -> dict[str, StepCost]:
    """Time a step of each recipe, and of float32 to see them beside, by their names."""
    make = trainer_of(given.framework)
    found = {recipe.name: recipe for recipe in [TrainingRecipe.read("float32"), *recipes]}
    return {
        name: cost_of(recipe, make(recipe, size, words, 0, given.ranks))
        for name, recipe in found.items()
    }


def at_the_end(history: TrainingHistory) -> float:
    """Return the loss of sentences not seen; infinite where training diverged."""
    return history.held_out if math.isfinite(history.held_out) else math.inf


def spread(numbers: list[float]) -> float:
    """Return the standard deviation over seeds; NaN where there is none."""
    is_known = len(numbers) > 1 and all(map(math.isfinite, numbers))
    return stdev(numbers) if is_known else math.nan


def most_clipped(history: TrainingHistory) -> float:
    """Return the greatest of the shares clipped, of any operand, as a mean over the steps."""
    steps = len(history.clipped)
    sides = ((product, side) for product in range(3) for side in range(2))
    return max(sum(step[p][s] for step in history.clipped) / steps for p, s in sides)


def losses_table(
    histories: dict[str, list[TrainingHistory]], costs: dict[str, StepCost], best: float | None
) -> Table:
    """Make the table of recipes."""
    known = "" if best is None else f"; the best there is: {best:.4f}"
    table = Table(title=f"loss of sentences not seen, in nats{known}")
    columns = ["recipe", "loss", "spread", "norm", "clipped", "us a step", "mJ a step"]
    are_ranked = any(cost.collective_microseconds for cost in costs.values())
    columns += ["us collective"] if are_ranked else []
    for name in columns:
        table.add_column(name, justify="left" if name == "recipe" else "right", no_wrap=True)
    for name, runs in histories.items():
        ends = [at_the_end(run) for run in runs]
        norms = [mean(run.norms[-10:]) for run in runs]
        clipped = mean(most_clipped(run) for run in runs)
        cost = costs[name]
        table.add_row(
            name,
            f"{mean(ends):.4f}",
            f"{spread(ends):.4f}",
            f"{mean(norms):.3f}",
            "-" if math.isnan(clipped) else f"{clipped:.2%}",
            f"{cost.microseconds:,.0f}",
            f"{1e3 * cost.joules:.3f}",
            *([f"{cost.collective_microseconds:,.0f}"] if are_ranked else []),
        )
    return table


def orderings_table(judged: Iterable[JudgedOrdering]) -> Table:
    """Make the table of what was published, and of what our runs say."""
    table = Table(title="orderings: a gap counts from twice the spread over seeds")
    for name in ("published", "gap", "spread", "here"):
        table.add_column(name, justify="right" if name in {"gap", "spread"} else "left")
    for row in judged:
        numbers = f"{row.gap:+.4f}", f"{row.spread:.4f}"
        table.add_row(row.published.text, *numbers, row.verdict)
    return table


def asked() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--recipes", nargs="+", default=None, help=f"of {', '.join(names())}, or files"
    )
    parser.add_argument("--framework", default="jax", choices=("jax", "torch"))
    parser.add_argument("--ranks", type=int, default=1, help="data-parallel, sharing each batch")
    parser.add_argument("--text", type=Path, help="a file to learn; a made language if not given")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--size", default="small", choices=SIZES)
    parser.add_argument("--steps", type=int, default=900)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args()
    if given.recipes is None:
        given.recipes = [name for name in RECIPES if name not in NOT_IN[given.framework]]
    return given


def main() -> None:
    """Run the laboratory."""
    given = asked()
    given.output.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    language, size = language_of(given.text), SIZES[given.size]
    count = size.parameters(language.words)
    recipes = [TrainingRecipe.read(name) for name in given.recipes]
    runs = f"{len(recipes)} recipes, {given.seeds} seeds, {given.steps} steps, {given.framework}"
    print(f"{runs}, {given.ranks} ranks; a decoder of {count:,} parameters", flush=True)
    # First, so that what a framework or its ranks cannot do is refused before hours of work.
    costs = costs_of(recipes, size, language.words, given)
    histories = all_runs(given)
    best = language.entropy()
    judged = judge({name: [at_the_end(run) for run in runs] for name, runs in histories.items()})
    tables: list[Any] = [losses_table(histories, costs, best), orderings_table(judged)]
    with (given.output / "table.txt").open("w") as file:
        for console in (Console(width=WIDTH), Console(file=file, width=WIDTH)):
            for table in tables:
                console.print(table)
            for name, cost in costs.items():
                if cost.note:
                    console.print(f"{name}: {cost.note}", markup=False, highlight=False)
    for path in draw(histories, costs, best, given.output):
        print(f"wrote {path.name}")
    print(f"{time.monotonic() - started:.0f} s; all files are in {given.output}")


if __name__ == "__main__":
    main()
