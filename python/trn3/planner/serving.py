"""`plan` and `search`: from arguments to requests of the core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from trn3._trn3 import planner as _planner
from trn3.planner.models import ModelLike
from trn3.planner.requests import seconds, serving_request, speculation_request, whole
from trn3.planner.results import Plan, Search, plan_of
from trn3.planner.several import on_each

USUAL_TPOT = 0.05
"""Seconds a token that a search keeps if no promise and no batch is given **(choice)**."""

CONSTRAINTS = (
    "ttft", "tpot", "chips", "memory", "batch", "tp", "cp", "dp", "ep", "pp", "replicas", "lnc",
)  # fmt: skip
"""Names that `search` takes as constraints."""


def plan(
    model: ModelLike,
    system: Any = "gen2",
    *,
    dtype: str | Mapping[str, str] | None = None,
    batch: int | None = None,
    context: int | None = None,
    input_tokens: int | None = None,
    output_tokens: int = 0,
    tp: int | None = None,
    ep: int | None = None,
    pp: int | None = None,
    dp: int | None = None,
    cp: int | None = None,
    replicas: int | None = None,
    lnc: int | None = None,
    ttft_slo: float | str | None = None,
    tpot_slo: float | str | None = None,
    chips: int | None = None,
    objective: str | None = None,
    times: str = "roofline",
    calibration: str = "fitted",
    memory_rate: str = "engines",
    collectives: str = "levels",
    layer_overhead: float | None = None,
    speculation: Mapping[str, Any] | None = None,
    profiling: bool = False,
    on_overflow: str = "error",
    tdp: float | None = None,
    price: float | str | None = None,
    uncertainty: int | None = None,
    seed: int = 0,
    training: Any = None,
    **training_options: Any,
) -> Plan:
    """Plan a model on a system.

    With a degree of parallelism, the plan is of that layout; without any, it is the best one that
    `search` finds.

    Parameters
    ----------
    model
        As in `trn3.planner.model`: a name, the path of a ``config.json``, or its mapping.
    system
        A name (``"gen2"``, ``"trn2"``, ``"gb300_nvl72"``), a system of `trn3.systems`, a cluster,
        or the path of a spec file, with changes if need be: ``"gen2:hbm_bandwidth=+100%"``. A list
        of them gives `trn3.planner.several.Plans`, one recipe on each.
    dtype
        One format (``"bf16"``, ``"mxfp8"``, ``"mxfp4"``, ``"fp8"``, ``"int8"`` in memory) or one
        for each class of tensors (``{"experts": "mxfp4", "kv": "mxfp8", "default": "bf16"}``).
        None takes the format that the checkpoint is published in. A format that the chip does
        not multiply is replaced by BF16, and the assumptions say so.
    batch
        Sequences that a replica decodes at once; 1 with a layout, searched for without.
    context
        Decode after this many tokens; the prompt is as long.
    input_tokens, output_tokens
        Tokens of a prompt and of its answer, instead: decoding is at the mean context, and memory
        holds all.
    tp, ep, pp, dp, cp, replicas, lnc
        Degrees: see `Layout`. `ep` is as large as it can be and `replicas` fill the system if not
        given; `lnc` is 2 where a chip has it.
    ttft_slo, tpot_slo
        Promises to keep while searching: seconds, or texts like ``"1s"`` and ``"20ms"``.
    chips
        Most chips to use.
    objective
        ``"throughput"`` (a chip), ``"tpot"``, ``"ttft"`` or ``"cost"``.
    times
        ``"roofline"``, or ``"machine"``: products are timed on the simulated core.
    calibration
        ``"fitted"``: overheads and rates that published measurements fit; ``"peak"``: none.
    memory_rate
        ``"engines"``: the DMA engines or the memory, whichever is slower; ``"peak"``: the memory.
    collectives
        ``"levels"``: closed forms over rates and latencies of the fabric's levels;
        ``"schedules"``: the schedules that `trn3.collectives` executes, on the fabric's graph.
    layer_overhead
        Seconds of a layer beside its operations, instead of the fitted constant.
    speculation
        ``{"length": 5, "accepted": 3.5, "draft": MODEL}`` or ``"draft_share"`` in place of
        ``"draft"``.
    profiling
        Keep room for the profiler's buffers.
    on_overflow
        ``"error"`` or ``"report"``: return a plan that does not fit, with `Plan.why_not`.
    tdp
        Watts of a chip, instead of what its facts choose.
    price
        US dollars a chip and hour, or the name of one of ``trn3 cost``'s prices.
    uncertainty, seed
        How often to draw the constants that nobody publishes from their ranges, for
        `Plan.uncertainty`, and what decides the draws.
    training
        For training instead of serving: see `trn3.planner.training`.
    **training_options
        Likewise.

    Returns
    -------
    Plan

    Raises
    ------
    DoesNotFitError
        If memory does not hold it: the message has the table and the smallest layout that fits.
    ValueError
        If an argument is wrong, the layout does not divide the model, or no plan keeps the
        promises.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import trn3
    >>> plan = trn3.plan("llama-3.3-70b", "trn2", tp=64, input_tokens=10_000, output_tokens=1_500)
    >>> round(plan.tpot * 1e3, 1), round(plan.ttft * 1e3)  # 19.6 and 814 ms are published
    (18.5, 791)
    >>> trn3.plan("llama-3-8b", "gen2", tp=3)
    Traceback (most recent call last):
        ...
    ValueError: tp is 3: the 32 heads of queries of llama-3-8b do not divide by it; what divides: \
1, 2, 4, 8, 16, 32
    """
    if isinstance(system, (list, tuple)):
        given = {**locals(), **training_options}
        systems = given.pop("system")
        del given["training_options"]
        return cast(Plan, on_each(plan, systems, given))
    if training is not None and training is not False:
        return cast(Plan, _training(locals()))
    if training_options:
        names = ", ".join(sorted(training_options))
        message = f"plan() has no argument {names} for serving; with training=... it might"
        raise TypeError(message)
    if on_overflow not in {"error", "report"}:
        message = f"on_overflow is {on_overflow!r}; allowed: 'error', 'report'"
        raise ValueError(message)
    request, said = serving_request(model, system, dtype, context, input_tokens, output_tokens, lnc)
    degrees = {"tp": tp, "ep": ep, "pp": pp, "dp": dp, "cp": cp, "replicas": replicas}
    fixed = any(value is not None for value in degrees.values())
    promises = {
        "ttft_slo": seconds("ttft_slo", ttft_slo),
        "tpot_slo": seconds("tpot_slo", tpot_slo),
    }
    asked = any(promise is not None for promise in promises.values())
    if not fixed and batch is None and objective is None and not asked:
        promises["tpot_slo"] = USUAL_TPOT
        said = (
            *said,
            f"no promise asked for: the search keeps {USUAL_TPOT * 1e3:.0f} ms a token (choice)",
        )
    request |= {
        name: None if value is None else whole(name, value)
        for name, value in {**degrees, "batch": batch, "chips": chips}.items()
    }
    request |= {
        **promises,
        "objective": objective,
        "times": times,
        "calibration": calibration,
        "memory_rate": memory_rate,
        "collectives": collectives,
        "layer_overhead": layer_overhead,
        "speculation": speculation_request(speculation),
        "profiling": bool(profiling),
        "report_overflow": on_overflow == "report",
        "tdp": tdp,
        "price": price,
        "uncertainty": None if uncertainty is None else whole("uncertainty", uncertainty),
        "seed": whole("seed", seed),
    }
    return plan_of(_planner.plan(request), request, said)


def search(
    model: ModelLike,
    system: Any = "gen2",
    objective: str = "throughput",
    constraints: Mapping[str, Any] | None = None,
    *,
    dtype: str | Mapping[str, str] | None = None,
    context: int | None = None,
    input_tokens: int | None = None,
    output_tokens: int = 0,
    keep: int = 10,
    training: Any = None,
    **options: Any,
) -> Search:
    """Find the best layouts of a model on a system.

    Parameters
    ----------
    model, system, dtype, context, input_tokens, output_tokens
        As in `plan`.
    objective
        ``"throughput"`` (tokens a second a chip, prompts included where `output_tokens` is given),
        ``"tpot"``, ``"ttft"`` or ``"cost"``.
    constraints
        Promises ``ttft`` and ``tpot`` (seconds, or texts like ``"1s"``), limits ``chips`` and
        ``memory`` (share of a bank), and degrees to keep: ``batch``, ``tp``, ``cp``, ``dp``,
        ``ep``, ``pp``, ``replicas``, ``lnc``.
    keep
        How many plans to return, each of another layout.
    training
        For training instead of serving: see `trn3.planner.training`.
    **options
        What else `plan` takes: `calibration`, `memory_rate`, `collectives`, `layer_overhead`,
        `speculation`, `tdp`, `price`, `profiling`.

    Returns
    -------
    Search
        The best first. The order depends on nothing but the arguments.

    Raises
    ------
    DoesNotFitError
        If no layout fits.
    ValueError
        If an argument is wrong, or no plan keeps the promises; the text says how near they come.

    Examples
    --------
    >>> import trn3
    >>> found = trn3.search("gpt-oss-120b", "gen2", "throughput", {"ttft": "1s", "tpot": "20ms"},
    ...                     input_tokens=10_000, output_tokens=3_000)
    >>> found.best.ttft <= 1.0, found.best.tpot <= 0.02, len(found)
    (True, True, 10)
    """
    if training is not None and training is not False:
        return cast(Search, _training(locals()))
    allowed = {
        "calibration", "memory_rate", "collectives", "layer_overhead", "speculation", "tdp",
        "price", "profiling",
    }  # fmt: skip
    if wrong := sorted(set(options) - allowed):
        message = f"search() has no argument {wrong[0]!r}; options are {', '.join(sorted(allowed))}"
        raise TypeError(message)
    kept = dict(constraints or {})
    for short in ("ttft", "tpot"):
        if f"{short}_slo" in kept:
            kept[short] = kept.pop(f"{short}_slo")
    if wrong := sorted(set(kept) - set(CONSTRAINTS)):
        message = f"constraint {wrong[0]!r} is unknown; allowed: {', '.join(CONSTRAINTS)}"
        raise ValueError(message)
    lnc = kept.pop("lnc", None)
    request, said = serving_request(model, system, dtype, context, input_tokens, output_tokens, lnc)
    for name, value in kept.items():
        if name in {"ttft", "tpot"}:
            request[f"{name}_slo"] = seconds(name, value)
        elif value is not None:
            request[name] = float(value) if name == "memory" else whole(name, value)
    options["speculation"] = speculation_request(options.get("speculation"))
    request |= {
        **options,
        "objective": objective,
        "times": "roofline",
        "keep": whole("keep", keep),
    }
    found = _planner.search(request)
    ranked = tuple(plan_of(one, request, said) for one in (found["best"], *found["ranked"]))
    return Search(ranked[0], ranked)


def _training(arguments: dict[str, Any]) -> Any:
    """Hand the arguments to the planner of training."""
    from trn3.planner import training

    given = dict(arguments)
    for rest in ("training_options", "options"):
        given |= given.pop(rest, {})
    return training.search(**given) if "constraints" in given else training.plan(**given)
