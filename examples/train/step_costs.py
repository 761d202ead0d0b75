"""Time and energy of a step on a core of a Trainium3, without computing its values."""

from __future__ import annotations

import math
from dataclasses import dataclass

from training_recipes import OWN_TYPES, TrainingRecipe
from training_run import Trainer
from trn3 import power
from trn3.facts.spec import spec_of
from trn3.graph import GraphError


@dataclass(frozen=True)
class StepCost:
    """What a step costs; `note` says what the figures do not hold.

    Energy is that of the model of `trn3.power`, of one core: its own arithmetic and memory, and its
    share of what the chip draws always. Of several ranks all is that of each of them;
    `collective_microseconds` is how long its queues of collectives are busy meanwhile.
    """

    microseconds: float
    joules: float
    note: str
    collective_microseconds: float = 0.0


def cost_of(recipe: TrainingRecipe, trainer: Trainer) -> StepCost:
    """Time a step by instructions; NaN and the reason where no template has it."""
    try:
        step = trainer.time()
    except GraphError as refusal:
        return StepCost(math.nan, math.nan, str(refusal).rpartition("/")[2])
    account = step.account()
    flops: dict[str, float] = {}
    for cost in account:
        kind = recipe.mx_type if cost.operation.startswith("mx_dot") else OWN_TYPES[recipe.dtype]
        flops[kind] = flops.get(kind, 0.0) + 2.0 * cost.macs
    used = power.energy(
        flops=flops,
        hbm_bytes=float(sum(cost.hbm_bytes for cost in account)),
        seconds=step.latency_us * 1e-6,
    )
    own = sum(joules for name, joules in used.parts.items() if name != "static")
    joules = own + used.parts.get("static", 0.0) / spec_of("trainium3")["cores"].si
    fallbacks = sum(cost.is_fallback for cost in account)
    note = f"{fallbacks} operations on GpSimdE" if fallbacks else ""
    collectives = sum(cost.busy_us for cost in account if cost.template == "collective")
    return StepCost(step.latency_us, joules, note, collectives)
