"""A plan's step as traces: one for each rank of a replica."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from trn3.interchange.chakra.codec import made
from trn3.interchange.chakra.ranks import write_ranks
from trn3.interchange.chakra.trace import Trace
from trn3.system import execution_traces

if TYPE_CHECKING:
    from pathlib import Path

    from trn3.planner.results import Plan


def from_plan(plan: Plan, phase: Literal["decode", "prefill"] = "decode") -> list[Trace]:
    """Return the traces of one step of a plan, one for each rank of a replica.

    Computation has the plan's times (``duration_ps`` beside whole microseconds), operations
    (``num_ops``) and bytes (``tensor_size``); collectives have sizes and process groups; the
    stages of a pipeline send to each other. Where the plan knows only sums over layers, each layer
    has an equal part. All nodes of a rank follow each other: plans overlap nothing.

    Replicas share nothing, so that one of them is the job. Its ranks are numbered as on the system,
    tensor parallelism innermost.

    Parameters
    ----------
    plan
        What `trn3.plan` returns for inference.
    phase
        One step of decoding of one micro-batch through all stages, or reading prompts, one for
        each data-parallel part.

    Raises
    ------
    TypeError
        If the plan is one of training, whose steps overlap.
    ValueError
        If the phase is neither, or the plan guesses tokens with a draft model.

    Examples
    --------
    >>> import trn3
    >>> from trn3.interchange import chakra
    >>> plan = trn3.plan("openai/gpt-oss-120b", "gen2", tp=8, batch=8, context=10_000)
    >>> traces = chakra.from_plan(plan)
    >>> len(traces), len(traces[0].nodes)
    (8, 365)
    >>> result = chakra.replay(traces, "gen2")
    >>> 0.8 < result.finish / plan.tpot < 1.2
    True
    """
    from trn3.planner.results import Plan

    given: Any = plan
    if not isinstance(given, Plan):
        message = (
            f"plan is {type(given).__name__}; needed: what trn3.plan returns for inference; steps "
            "of training overlap in ways that no list of parts says"
        )
        raise TypeError(message)
    if phase not in {"decode", "prefill"}:
        message = f"phase is {phase!r}; allowed: 'decode', 'prefill'"
        raise ValueError(message)
    if plan.speculation:
        message = "the plan guesses tokens (speculation), which traces cannot say; plan without it"
        raise ValueError(message)
    traces = execution_traces.step(
        {
            "model": plan.model.name,
            "system": plan.system,
            "layout": str(plan.layout),
            "phase": phase,
            "ranks": plan.layout.ranks,
            "stages": plan.layout.pp,
            "layers": plan.model.layers,
            "operations": plan.operations(phase),
            "exchanges": plan.exchanges(phase),
            "seconds": dict(getattr(plan, phase).breakdown),
        }
    )
    return [made(*each) for each in traces]


def write_plan(
    plan: Plan, prefix: str | Path, phase: Literal["decode", "prefill"] = "decode"
) -> list[Path]:
    """Write the traces of one step of a plan as ``PREFIX.RANK.et`` and return their paths.

    Parameters and errors are those of `from_plan`.
    """
    return write_ranks(from_plan(plan, phase), prefix)
