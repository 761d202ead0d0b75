"""Time and energy of a step on one core of a Trainium3, without computing its values."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

import trn3.jax
from decoder_jax import new_state, step_of
from training_recipes import DecoderSize, TrainingRecipe
from trn3 import power
from trn3.facts.spec import spec_of
from trn3.graph import GraphError

_TYPES = {"float32": "fp32", "bfloat16": "bf16"}


@dataclass(frozen=True)
class StepCost:
    """What a step costs; `note` says what the figures do not hold.

    Energy is that of the model of `trn3.power`, of one core: its own arithmetic and memory, and its
    share of what the chip draws always.
    """

    microseconds: float
    joules: float
    note: str


def cost_of(recipe: TrainingRecipe, size: DecoderSize, words: int) -> StepCost:
    """Time a step by instructions; NaN and the reason where no template has it."""
    state = new_state(recipe, size, words, 0)
    tokens = jnp.zeros((size.batch, size.context + 1), jnp.int32)
    numbers = (np.float32(1), np.float32(1e-3), np.uint32(0))
    try:
        step = trn3.jax.compile(step_of(recipe, size)).time(state, tokens, *numbers)
    except GraphError as refusal:
        return StepCost(math.nan, math.nan, str(refusal).rpartition("/")[2])
    account = step.account()
    flops: dict[str, float] = {}
    for cost in account:
        kind = _TYPES[recipe.dtype]
        if cost.operation.startswith("mx_dot") and recipe.products is not None:
            is_narrow = "mxfp4" in recipe.name
            kind = "mxfp4" if is_narrow else "mxfp8"
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
    return StepCost(step.latency_us, joules, note)
