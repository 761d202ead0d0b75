"""Plans of training: what one step takes in time, memory, energy and money.

`Training` says what is trained and, where it matters, how it is laid out; degrees that it leaves
open are searched for, thousands of layouts a second. Nothing is measured here: one rate is fitted
to published runs, and every result lists what it rests on.

Examples
--------
>>> from trn3.planner.training import Training, plan_training
>>> llama = Training(1024, 8192, tp=32, pp=1, dp=32, zero=1, micro_batch=1, recompute="selective")
>>> plan = plan_training("llama-3-8b", "trn1", llama)
>>> plan.chips, round(plan.sequences_per_second, 1)  # published: 47.95
(512, 50.7)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, cast

from trn3._trn3 import planner as _planner
from trn3.economics.cost import Price, price_sets, prices
from trn3.planner.models import ModelLike, request_of
from trn3.planner.requests import system_request, whole
from trn3.planner.several import on_each
from trn3.planner.training_results import (
    Layout,
    Memory,
    Phase,
    Published,
    TrainingLayout,
    TrainingPhase,
    TrainingPlan,
    TrainingSchedule,
    TrainingSearch,
    plan_of,
)

__all__ = [
    "Layout",
    "Memory",
    "Phase",
    "Published",
    "Training",
    "TrainingLayout",
    "TrainingPhase",
    "TrainingPlan",
    "TrainingSchedule",
    "TrainingSearch",
    "plan",
    "plan_training",
    "published",
    "search",
    "search_training",
]

Recompute = Literal["none", "selective", "full"]
Optimizer = Literal["master", "stochastic_rounding", "all_bf16"]


@dataclass(frozen=True, slots=True)
class Training:
    """What is trained and how it is laid out.

    Attributes
    ----------
    global_batch : int
        Sequences of a step, over all replicas.
    sequence : int
        Tokens of a sequence.
    tp, pp, dp, cp, ep : int, optional
        Tensor, pipeline, data, context and expert parallelism. What is not given is searched for;
        `cp` among 1, 2, 4, 8.
    interleave : int, optional
        Parts of the model on each stage; 1 is plain 1F1B.
    zero : int, optional
        What is sharded over replicas: 0 nothing, 1 optimizer states, 2 gradients too, 3 weights too
        (FSDP).
    micro_batch : int, optional
        Sequences of a replica that pass at a time.
    recompute : {"none", "selective", "full"}, optional
        What of the forward pass is computed again: nothing, attention, whole layers.
    sequence_parallel : bool
        Whether norms and residuals are split over `tp` along the sequence.
    optimizer : {"master", "stochastic_rounding", "all_bf16"}
        Adam with FP32 moments and master weights; without a master, BF16 weights rounded
        stochastically; with everything in BF16.
    objective : str
        ``"step_time"``, ``"energy"`` or ``"memory"``; ``"throughput"``, ``"mfu"`` and ``"cost"``
        are the first one, as the chips are given.
    tdp : float, optional
        Thermal design power of a chip, watts; by default the one that the facts choose.
    price : float, str or Price, optional
        US dollars for a chip and hour, or the name of a dated price (`trn3.cost.prices`); without
        it there is no cost.

    Examples
    --------
    >>> import trn3
    >>> step = trn3.plan("llama-3-8b", "gen2", training=trn3.Training(1152, 8192, tp=4))
    >>> step.layout.tp, step.chips
    (4, 144)
    """

    global_batch: int
    sequence: int
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    cp: int | None = None
    ep: int | None = None
    interleave: int | None = None
    zero: int | None = None
    micro_batch: int | None = None
    recompute: Recompute | None = None
    sequence_parallel: bool = True
    optimizer: Optimizer = "master"
    objective: str = "step_time"
    tdp: float | None = None
    price: float | str | Price | None = None


def plan_training(
    model: ModelLike,
    system: Any,
    training: Training,
    *,
    dtype: str | Mapping[str, str] | None = None,
    chips: int | None = None,
    lnc: int | None = None,
    links: str | None = None,
    collectives: str = "levels",
    uncertainty: int | None = None,
    seed: int = 0,
) -> TrainingPlan:
    """Plan one training step; degrees that `training` leaves open are searched for.

    Parameters
    ----------
    model : str, path or mapping
        Name of a model that comes with the package, a ``config.json``, a ``.toml`` file, or the
        content of a ``config.json``.
    system : str, path or system
        A name (``"gen2"``, ``"trn1"``), a system, a cluster, or a spec file. A named system is
        taken as often as the chips or degrees need, joined by its network. A list of them gives
        `trn3.planner.several.Plans`, one recipe on each.
    training : Training
        What is trained.
    dtype : str or Mapping[str, str], optional
        Format of products: one for all, or by class of tensor; BF16 by default.
    chips : int, optional
        How many to use; by default those of the system, or of the degrees that are given.
    lnc : int, optional
        Physical cores of a logical one.
    links : {"docs", "headline"}, optional
        Rates of links, for systems given by name.
    collectives : {"levels", "schedules"}
        Where times of collectives come from: closed forms over the levels of the fabric, or the
        schedules that `trn3.collectives` executes, on the graph of one system.
    uncertainty, seed : int, optional
        How often to draw the constants that nobody publishes from their ranges, for
        `TrainingPlan.uncertainty`, and what decides the draws.

    Returns
    -------
    TrainingPlan

    Raises
    ------
    ValueError
        If a name is unknown, or a degree does not divide the model, the batch or the system; the
        message names what would.
    trn3._trn3.system.DoesNotFitError
        If it does not fit in memory; the message has the table and the nearest layout that fits.

    Examples
    --------
    >>> plan = plan_training("llama-3.3-70b", "gen2", Training(1152, 8192))
    >>> plan.memory.fits, plan.chips
    (True, 144)
    """
    if isinstance(system, (list, tuple)):
        given = locals()
        return cast(TrainingPlan, on_each(plan_training, given.pop("system"), given))
    found = search_training(
        model,
        system,
        training,
        dtype=dtype,
        chips=chips,
        lnc=lnc,
        links=links,
        collectives=collectives,
        uncertainty=uncertainty,
        seed=seed,
        keep=1,
    )
    return found.best


def search_training(
    model: ModelLike,
    system: Any,
    training: Training,
    *,
    dtype: str | Mapping[str, str] | None = None,
    chips: int | None = None,
    lnc: int | None = None,
    links: str | None = None,
    collectives: str = "levels",
    uncertainty: int | None = None,
    seed: int = 0,
    keep: int = 10,
) -> TrainingSearch:
    """Return the best layouts for a training step; `plan_training` has parameters and errors.

    Examples
    --------
    >>> found = search_training("llama-3-8b", "gen2", Training(1152, 8192), keep=3)
    >>> [plan.step_time for plan in found.plans] == sorted(p.step_time for p in found.plans)
    True
    """
    _check(training, chips, keep)
    source = system_request(system)
    own_lnc = source.pop("lnc", None)
    if links is not None:
        source["links"] = links
    # A system that was made is taken as it is; a name stands for as many as are needed.
    if not isinstance(system, str | os.PathLike):
        source.setdefault("instances", 1)
    # Of a cluster only the systems that work count, behind its network.
    if failed := getattr(system, "failed", None) if hasattr(system, "ultraserver") else None:
        source["instances"] -= len(failed)
    price = _price(training.price)
    request = {
        "oversubscription": getattr(system, "oversubscription", None),
        "model": request_of(model),
        "system": source,
        "global_batch": training.global_batch,
        "sequence": training.sequence,
        "dtype": dict(dtype) if isinstance(dtype, Mapping) else dtype,
        "optimizer": training.optimizer,
        "tdp": training.tdp,
        "price": None if price is None else float(price),
        "objective": training.objective,
        "collectives": collectives,
        "uncertainty": None if uncertainty is None else whole("uncertainty", uncertainty),
        "seed": whole("seed", seed),
        "space": {
            **{name: _one(training, name) for name in DEGREES},
            "dp": training.dp,
            "sequence_parallel": training.sequence_parallel,
            "chips": chips,
            "lnc": own_lnc if lnc is None else lnc,
            "keep": keep,
        },
    }
    found = _planner.plan_training(request)
    return TrainingSearch(
        plans=tuple(plan_of(entry, price) for entry in found["plans"]),
        evaluated=found["evaluated"],
        fitting=found["fitting"],
    )


def plan(model: ModelLike, system: Any, training: object, **given: Any) -> TrainingPlan:
    """Plan one training step: what ``trn3.plan(..., training=...)`` calls.

    Parameters
    ----------
    model, system
        As in `plan_training`.
    training : Training, Mapping or True
        What is trained; its fields may stand beside it as arguments of their own.
    **given
        Fields of `Training`, and ``dtype``, ``chips``, ``lnc``, ``links``, ``collectives``.

    Examples
    --------
    >>> plan("llama-3-8b", "gen2", True, global_batch=1152, sequence=4096, tp=4, pp=1).layout.dp
    144
    """
    where = {name: given.pop(name) for name in WHERE if name in given}
    asked = _training(training, given)
    _only_training(given)
    return plan_training(model, system, asked, **where)


def search(model: ModelLike, system: Any, training: object, **given: Any) -> TrainingSearch:
    """Find the best layouts: what ``trn3.search(..., training=...)`` calls.

    Parameters
    ----------
    model, system, training
        As in `plan`.
    **given
        As in `plan`, and ``objective``, ``keep``, ``constraints``: fields of `Training` and
        ``chips`` or ``lnc`` that are fixed.

    Examples
    --------
    >>> found = search("llama-3-8b", "gen2", Training(1152, 4096), constraints={"tp": 4})
    >>> {plan.layout.tp for plan in found.plans}
    {4}
    """
    given |= given.pop("constraints", None) or {}
    where = {name: given.pop(name) for name in WHERE if name in given}
    keep = given.pop("keep", None)
    asked = _training(training, given)
    _only_training(given)
    return search_training(model, system, asked, **where, keep=10 if keep is None else keep)


def published() -> tuple[Published, ...]:
    """Return the published rates of training beside the model's.

    Examples
    --------
    >>> [row.name for row in published() if row.fitted]
    ['llama-8b-train-trn1']
    """
    return tuple(Published(**entry) for entry in _planner.published_training())


DEGREES = ("tp", "pp", "cp", "ep", "interleave", "zero", "micro_batch", "recompute")
CHOICES = {
    "recompute": ("none", "selective", "full"),
    "optimizer": ("master", "stochastic_rounding", "all_bf16"),
}


def _check(training: Training, chips: int | None, keep: int) -> None:
    for name, allowed in CHOICES.items():
        value = getattr(training, name)
        if value is not None and value not in allowed:
            message = f"{name} is {value!r}; allowed: {', '.join(allowed)}"
            raise ValueError(message)
    counts = {entry.name: getattr(training, entry.name) for entry in fields(training)}
    names = (*DEGREES[:-1], "dp", "global_batch", "sequence")
    for name, value in {**{n: counts[n] for n in names}, "chips": chips, "keep": keep}.items():
        least = 0 if name == "zero" else 1
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            message = f"{name} is {value!r}; needed: a whole number of at least {least}"
            raise ValueError(message)
        if value > 2**32:
            message = f"{name} is {value}; needed: at most {2**32}"
            raise ValueError(message)
    if training.zero is not None and training.zero > 3:
        message = f"zero is {training.zero}; allowed: 0, 1, 2, 3"
        raise ValueError(message)


def _one(training: Training, name: str) -> list[Any]:
    value = getattr(training, name)
    return [] if value is None else [value]


def _price(price: float | str | Price | None) -> float | Price | None:
    if isinstance(price, str):
        sets = {name: found for one in price_sets() for name, found in prices(one).items()}
        if price not in sets:
            message = f"price {price!r} is unknown; allowed: a number, or {', '.join(sorted(sets))}"
            raise ValueError(message)
        price = sets[price]
    if isinstance(price, Price) and price.unit != "USD/chip/h":
        message = f"price is {price.name} in {price.unit}; needed: USD/chip/h"
        raise ValueError(message)
    return price


def _training(training: object, given: dict[str, Any]) -> Training:
    """Make a `Training` of what `trn3.plan` was given, which knows many ways to say it."""
    names = {entry.name for entry in fields(Training)}
    said = {name: given.pop(name) for name in tuple(given) if name in names}
    said = {name: value for name, value in said.items() if value is not None}
    if isinstance(training, Training):
        return replace(training, **said)
    if isinstance(training, Mapping):
        if wrong := sorted(set(training) - names):
            message = f"training has no {wrong[0]!r}; allowed: {', '.join(sorted(names))}"
            raise ValueError(message)
        said = {**training, **said}
    elif training is not True:
        got = type(training).__name__
        message = f"training is a {got}; needed: Training(...), a mapping, or True"
        raise TypeError(message)
    for name in ("global_batch", "sequence"):
        if name not in said:
            message = f"training lacks {name}; needed: Training(global_batch, sequence, ...)"
            raise ValueError(message)
    return Training(**said)


# What is no field of `Training`.
WHERE = ("dtype", "chips", "lnc", "links", "collectives", "uncertainty", "seed")

# What `trn3.plan` and `trn3.search` have for serving alone, with the value that says nothing.
SERVING: Mapping[str, Any] = {
    "batch": None,
    "context": None,
    "input_tokens": None,
    "output_tokens": 0,
    "replicas": None,
    "ttft_slo": None,
    "tpot_slo": None,
    "times": "roofline",
    "calibration": "fitted",
    "memory_rate": "engines",
    "layer_overhead": None,
    "speculation": None,
    "profiling": False,
    "on_overflow": "error",
}


def _only_training(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name not in SERVING:
            message = f"training has no argument {name!r}; it has those of Training"
            raise TypeError(message)
        if value != SERVING[name]:
            message = f"{name}={value!r} is for serving; training has global_batch and sequence"
            raise ValueError(message)
