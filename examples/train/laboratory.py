"""Train recipes on several seeds, and say which published orderings show: what `make train` runs.

Writes a table, the histories and pictures into ``build/train``. Two runs go side by side, one
thread each; they need JAX and matplotlib.
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

from language import MarkovLanguage
from orderings import JudgedOrdering, judge
from step_costs import StepCost, cost_of
from train_jax import LANGUAGE_SEED, WORDS, TrainingHistory
from training_pictures import draw
from training_recipes import SIZES, TrainingRecipe, names

OUTPUT = Path(__file__).resolve().parents[2] / "build" / "train"
# Those that the orderings are about, and float32 to compare with.
RECIPES = (
    *("float32", "bf16", "bf16_nearest", "bf16_stochastic", "mxfp8", "mxfp8_e5m2"),
    *("mxfp4_naive", "mxfp4_hadamard"),
)


def one_run(recipe: str, seed: int, size: str, steps: int, output: Path) -> TrainingHistory:
    """Train in a process of its own, on one thread."""
    file = output / f"{recipe}.{seed}.json"
    script = Path(__file__).with_name("train_jax.py")
    words = ["--recipe", recipe, "--seed", str(seed), "--size", size, "--steps", str(steps)]
    done = subprocess.run(
        [sys.executable, script, *words, "--out", str(file)],
        env={**os.environ, "TRN3_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        message = f"{recipe}, seed {seed}, stopped:\n{done.stderr}"
        raise RuntimeError(message)
    return TrainingHistory(**json.loads(file.read_text()))


def all_runs(
    recipes: Iterable[str], seeds: int, size: str, steps: int, output: Path
) -> dict[str, list[TrainingHistory]]:
    """Train every recipe on every seed, two runs at a time."""
    jobs = [(recipe, seed) for seed in range(seeds) for recipe in recipes]
    found: dict[str, list[TrainingHistory]] = {}
    with ThreadPoolExecutor(2) as pool:
        histories = pool.map(lambda job: one_run(job[0], job[1], size, steps, output), jobs)
        for (recipe, seed), history in zip(jobs, histories, strict=True):
            found.setdefault(recipe, []).append(history)
            text = f"loss {history.held_out:.4f} after {history.seconds:.0f} s"
            print(f"  {recipe:<16} seed {seed}: {text}", flush=True)
    return found


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
    histories: dict[str, list[TrainingHistory]], costs: dict[str, StepCost], best: float
) -> Table:
    """Make the table of recipes."""
    table = Table(title=f"loss of sentences not seen, in nats; the best there is: {best:.4f}")
    for name in ("recipe", "loss", "spread", "norm", "clipped", "us a step", "mJ a step"):
        table.add_column(name, justify="left" if name == "recipe" else "right", no_wrap=True)
    for name, runs in histories.items():
        ends = [at_the_end(run) for run in runs]
        norms = [mean(run.norms[-10:]) for run in runs]
        cost = costs[name]
        table.add_row(
            name,
            f"{mean(ends):.4f}",
            f"{spread(ends):.4f}",
            f"{mean(norms):.3f}",
            f"{mean(most_clipped(run) for run in runs):.2%}",
            f"{cost.microseconds:,.0f}",
            f"{1e3 * cost.joules:.3f}",
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


def main() -> None:
    """Run the laboratory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipes", nargs="+", default=list(RECIPES), choices=names())
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--size", default="small", choices=SIZES)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    language, size = MarkovLanguage.of(WORDS, LANGUAGE_SEED), SIZES[given.size]
    count = size.parameters(language.words)
    runs = f"{len(given.recipes)} recipes, {given.seeds} seeds, {given.steps} steps"
    print(f"{runs}; a decoder of {count:,} parameters", flush=True)
    histories = all_runs(given.recipes, given.seeds, given.size, given.steps, given.output)
    recipes = [TrainingRecipe.read(name) for name in given.recipes]
    costs = {recipe.name: cost_of(recipe, size, language.words) for recipe in recipes}
    best = language.entropy()
    judged = judge({name: [at_the_end(run) for run in runs] for name, runs in histories.items()})
    tables: list[Any] = [losses_table(histories, costs, best), orderings_table(judged)]
    with (given.output / "table.txt").open("w") as file:
        for console in (Console(), Console(file=file, width=120)):
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
