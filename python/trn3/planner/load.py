"""`serve` and `size`: from arguments to requests of the core for serving under load."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from trn3._trn3 import load as _load
from trn3.planner.load_results import ServedLoad, SizedFleets, served_load, sized_fleets
from trn3.planner.models import ModelLike
from trn3.planner.requests import serving_request, speculation_request, whole

#: Options of a plan that a service takes too; the plan finds what is not given.
PLAN_OPTIONS: Final = (
    "dtype", "tp", "ep", "pp", "dp", "cp", "lnc", "chips", "calibration", "memory_rate",
    "collectives", "layer_overhead", "speculation", "tdp", "price",
)  # fmt: skip
#: Options of a server, by vLLM's names.
SERVER_OPTIONS: Final = (
    "max_num_seqs", "max_num_batched_tokens", "max_model_len", "chunked_prefill", "prefix_caching",
    "block_size", "kv_blocks", "scheduling_policy", "preemption_mode", "max_queue", "acceptance",
)  # fmt: skip
#: What comes.
TRAFFIC_OPTIONS: Final = (
    "arrival", "burstiness", "burst_size", "on", "off", "period", "peak_to_mean", "normalize",
    "range_ratio", "longest_input", "longest_output", "prefix", "prefixes", "turns", "pause",
    "priorities", "requests", "users", "max_concurrency",
)  # fmt: skip
#: How many replicas, and which requests they get.
FLEET_OPTIONS: Final = (
    "replicas", "prefill_replicas", "decode_replicas", "router", "autoscaling",
)  # fmt: skip


def serve(
    model: ModelLike,
    system: Any = "gen2",
    *,
    rate: float | str | None = None,
    input_tokens: int | str | None = None,
    output_tokens: int | str | None = None,
    trace: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    goodput: Mapping[str, float] | None = None,
    others: Sequence[Mapping[str, Any]] = (),
    shares: Sequence[float] | None = None,
    seed: int = 0,
    bands: bool = True,
    **options: Any,
) -> ServedLoad:
    """Serve traffic with a model on a system, step by step, and say what its users wait for.

    Replicas batch requests as vLLM does (on Neuron: whole prompts at compiled lengths before
    decoding goes on; on GPUs: pieces of prompts beside it), over paged keys and values; what a step
    takes is what `trn3.plan` says. The same arguments give the same answer to the last digit.

    Parameters
    ----------
    model, system
        As in `trn3.plan`. Degrees that are left open are those that it chooses for one request at a
        time.
    rate
        Requests a second; ``"inf"``, the default without a trace or users, sends all at once.
    input_tokens, output_tokens
        Tokens of a prompt (1,024) and of an answer (128): a number or a distribution:
        ``"uniform:100:900"``, ``"normal:MEAN:DEVIATION"``, ``"lognormal:MEAN:DEVIATION"``,
        ``"exponential:MEAN"``, ``"choice:128@0.5,2048@0.5"``.
    trace
        A file to replay: what vLLM's benchmark writes, Azure's LLM traces of 2023 and 2024,
        Mooncake's, BurstGPT's, ShareGPT's, or a CSV or JSONL file with ``arrival``, ``input`` and
        ``output``. A mapping has its ``path`` and options: ``format``, ``offset``, ``rate_scale``,
        ``sort``, ``models``, ``block``, ``turns``.
    goodput
        Which requests are good: longest ``ttft``, ``tpot`` and ``e2el`` in milliseconds.
    others, shares
        More models that the same traffic is for: mappings with ``model``, ``system`` and what
        `options` has of a plan, a server and a fleet; and the share of requests of each, the first
        model's first.
    seed
        What decides everything that is drawn.
    bands
        Whether to serve twice more, with the times of steps at both ends of their bands.
    **options
        Of the plan: ``dtype``, ``tp``, ``ep``, ``pp``, ``dp``, ``cp``, ``lnc``, ``chips``,
        ``calibration``, ``memory_rate``, ``collectives``, ``layer_overhead``, ``speculation``,
        ``tdp``, ``price``.

        Of the server, by vLLM's names: ``max_num_seqs`` (256), ``max_num_batched_tokens``,
        ``max_model_len``, ``chunked_prefill``, ``prefix_caching``, ``block_size`` (16),
        ``kv_blocks``, ``scheduling_policy`` (``"fcfs"`` or ``"priority"``), ``preemption_mode``
        (``"recompute"`` or ``"swap"``), ``max_queue``, ``acceptance`` (chances by position, with
        ``speculation``).

        Of the fleet: ``replicas`` (1), or ``prefill_replicas`` and ``decode_replicas`` apart;
        ``router`` (``"least_loaded"``, ``"round_robin"``, ``"prefix_aware"``); ``autoscaling``
        (``{"least": 1, "most": 8, "target": 16, "interval": 15, "patience": 300}``, ``target`` in
        requests a replica).

        Of the traffic: ``arrival`` (``"poisson"``, ``"gamma"``, ``"constant"``, ``"burst"``,
        ``"on_off"``, ``"diurnal"``), ``burstiness``, ``burst_size``, ``on``, ``off``, ``period``,
        ``peak_to_mean``, ``normalize``, ``range_ratio``, ``longest_input``, ``longest_output``,
        ``prefix``, ``prefixes``, ``turns``, ``pause``, ``priorities``, ``requests`` (1,000),
        ``users``, ``max_concurrency``.

    Returns
    -------
    ServedLoad

    Raises
    ------
    DoesNotFitError
        If the model, or the longest request, has no room.
    ValueError
        If an argument is wrong; the text names it.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import trn3
    >>> served = trn3.serve("llama-3-8b", "trn2", tp=8, rate=4, input_tokens=512, output_tokens=64,
    ...                     requests=200)
    >>> served.completed, served.total_output_tokens
    (200, 12800)
    >>> served.p50_ttft_ms < served.p99_ttft_ms
    True
    """
    models = [_deployment(model, system, options)]
    for other in others:
        rest = {key: value for key, value in other.items() if key not in ("model", "system")}
        if "model" not in other:
            message = "others has an entry without 'model'; needed: what is served"
            raise ValueError(message)
        _check(rest, (*PLAN_OPTIONS, *SERVER_OPTIONS, *FLEET_OPTIONS), "others")
        where = other.get("system", system)
        models.append(_deployment(other["model"], where, rest))
    traffic = _traffic(rate, input_tokens, output_tokens, trace, options)
    if shares is not None:
        traffic["models"] = [float(share) for share in shares]
    elif others and trace is None:
        traffic["models"] = [1.0] * len(models)
    request = {
        "models": models,
        "traffic": traffic,
        "goodput": None if goodput is None else dict(goodput),
        "seed": whole("seed", seed),
        "bands": bool(bands),
    }
    return served_load(_load.serve(request))


def size(
    model: ModelLike,
    target: str,
    systems: Sequence[Any] = ("gen2",),
    *,
    input_tokens: int | str | None = None,
    output_tokens: int | str | None = None,
    trace: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    seed: int = 0,
    **options: Any,
) -> SizedFleets:
    """Find the least machines that keep a rate of requests and what users are promised.

    Layouts that a search for plans finds, numbers of sequences, and splits of prompts and
    generation are each tried under load: first how much one replica keeps, then how few replicas
    keep all.

    Parameters
    ----------
    model
        As in `trn3.plan`.
    target
        A rate and limits: ``"500 req/s, p99 ttft < 1 s, p99 tpot < 50 ms"``; limits are on
        ``mean``, ``p50``, ``p90``, ``p95`` or ``p99`` of ``ttft``, ``tpot``, ``itl`` or ``e2el``.
    systems
        What to compare, each as in `trn3.plan`.
    input_tokens, output_tokens, trace, seed, **options
        As in `serve`; a number of replicas is what is looked for. Degrees that are given are kept.

    Returns
    -------
    SizedFleets

    Raises
    ------
    ValueError
        If an argument is wrong.

    Examples
    --------
    >>> from trn3.planner import size
    >>> found = size("llama-3-8b", "20 req/s, p99 ttft < 2 s", ["trn2"], tp=8, max_num_seqs=64,
    ...              input_tokens=512, output_tokens=64)
    >>> found.systems[0].best.served.waits["p99_ttft_ms"] < 2000
    True
    """
    if options.get("replicas") is not None:
        message = "replicas is what size() looks for; give none"
        raise ValueError(message)
    request = {
        "target": target,
        "models": [_deployment(model, system, options) for system in systems],
        "traffic": _traffic(None, input_tokens, output_tokens, trace, options),
        "seed": whole("seed", seed),
    }
    return sized_fleets(_load.size(request))


def live(
    model: ModelLike,
    system: Any = "gen2",
    *,
    input_tokens: int = 1024,
    output_tokens: int = 128,
    seed: int = 0,
    **options: Any,
) -> _load.LiveService:
    """Return a service that is driven from outside, request by request, in simulated seconds.

    Parameters
    ----------
    model, system, seed, **options
        As in `serve`, of the plan, the server and the fleet.
    input_tokens, output_tokens
        Tokens of a usual request, for which a layout is looked for.

    Examples
    --------
    >>> from trn3.planner import live
    >>> service = live("llama-3-8b", "trn2", tp=8)
    >>> request = service.submit(0.0, 512, 2)
    >>> [(tokens, last) for _, _, tokens, last in service.advance(10.0)]
    [(1, False), (1, True)]
    """
    _check(options, (*PLAN_OPTIONS, *SERVER_OPTIONS, *FLEET_OPTIONS), "live()")
    deployment = _deployment(model, system, options)
    deployment["plan"] |= {"input": input_tokens, "output": output_tokens}
    return _load.LiveService({"model": deployment, "seed": whole("seed", seed)})


def _check(options: Mapping[str, Any], allowed: Sequence[str], what: str) -> None:
    if wrong := sorted(set(options) - set(allowed)):
        message = f"{what} has no option {wrong[0]!r}; options are {', '.join(sorted(allowed))}"
        raise TypeError(message)


def _deployment(model: ModelLike, system: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return one model of a service as the core takes it, which finds sizes in its traffic."""
    given = {name: options[name] for name in PLAN_OPTIONS if options.get(name) is not None}
    dtype, lnc = given.pop("dtype", None), given.pop("lnc", None)
    plan, _ = serving_request(model, system, dtype, None, 1, 1, lnc)
    if "speculation" in given:
        given["speculation"] = speculation_request(given["speculation"])
    server = {name: options[name] for name in SERVER_OPTIONS if options.get(name) is not None}
    counts = {
        "both": whole("replicas", options.get("replicas") or 0),
        "prefill": whole("prefill_replicas", options.get("prefill_replicas") or 0),
        "decode": whole("decode_replicas", options.get("decode_replicas") or 0),
    }
    deployment: dict[str, Any] = {"plan": {**plan, **given}, "server": server, "replicas": counts}
    for name in ("router", "autoscaling"):
        if options.get(name) is not None:
            deployment[name] = options[name]
    return deployment


def _traffic(
    rate: float | str | None,
    input_tokens: int | str | None,
    output_tokens: int | str | None,
    trace: str | os.PathLike[str] | Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Return what comes as the core takes it."""
    allowed = (*PLAN_OPTIONS, *SERVER_OPTIONS, *TRAFFIC_OPTIONS, *FLEET_OPTIONS)
    _check(options, allowed, "serving under load")
    traffic = {name: options[name] for name in TRAFFIC_OPTIONS if options.get(name) is not None}
    if rate is not None:
        traffic["rate"] = "inf" if rate == math.inf else rate
    if trace is not None:
        traffic["trace"] = dict(trace) if isinstance(trace, Mapping) else {"path": os.fspath(trace)}
    lengths = {"input": input_tokens, "output": output_tokens}
    return traffic | {name: value for name, value in lengths.items() if value is not None}
