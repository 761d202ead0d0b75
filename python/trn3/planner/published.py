"""Published results of serving beside what plans say."""

from __future__ import annotations

from typing import Any

from trn3 import facts
from trn3.planner.results import Plan
from trn3.planner.serving import plan
from trn3.planner.training import Published

__all__ = ["published"]

_TUTORIALS = {"llama33_70b": "llama-3.3-70b", "llama31_405b": "llama-3.1-405b"}
_RECIPE: dict[str, Any] = {"tp": 8, "context": 10_000, "replicas": 1, "on_overflow": "report"}


def published() -> tuple[Published, ...]:
    """Return published figures of serving beside the model's.

    Latencies of Llama on Trainium2, to which three constants of the model are fitted; what their
    speeds with speculation imply; and the ratios that are claimed of GPT-OSS on Trainium3 against
    Trainium2, by the bytes that a step reads at the peak of the memory alone.

    Examples
    --------
    >>> rows = {row.name: row for row in published()}
    >>> round(rows["llama31_405b_trn2_tpot"].ratio, 2)
    1.08
    """
    rows: list[Published] = []
    for short, model in _TUTORIALS.items():
        one = _tutorial(model)
        for name, computed in (("tpot", one.tpot), ("ttft", one.ttft)):
            rows.append(_measured(f"{short}_trn2_{name}", computed * 1e3, fitted=True))
    rows.append(_speculation("llama33_70b_trn2_tpot_spec", "llama-3.3-70b", "bf16"))
    rows.append(_speculation("llama31_405b_trn2_tpot_spec_fp8", "llama-3.1-405b", "fp8"))
    rows.append(_measured("gpt_oss_throughput_per_chip", _ratio(256), fitted=False))
    rows.append(_measured("gpt_oss_latency", _ratio(1), fitted=False))
    return tuple(rows)


def _tutorial(model: str, **options: Any) -> Plan:
    return plan(model, "trn2", tp=64, batch=1, input_tokens=10_000, output_tokens=1_500, **options)


def _ratio(batch: int) -> float:
    """Return the time of a step's bytes at the memory's peak, Trainium2 over Trainium3."""
    return _floor("trn2", batch) / _floor("gen2", batch)


def _floor(system: str, batch: int) -> float:
    return plan("gpt-oss-120b", system, batch=batch, **_RECIPE).decode_floor_seconds


def _measured(name: str, computed: float, *, fitted: bool) -> Published:
    figure = facts.load("measured")[name]
    assumed = {
        "gpt_oss_throughput_per_chip": "batch 256, 10,000 tokens, two chips a replica (which on "
        "Trainium2 do not hold it), experts in MXFP4 against BF16, no overheads: the set-up of the "
        "claim is not public; 3.4 at batch 1, 4.9 at 8, 4.8 at 64",
        "gpt_oss_latency": "batch 1, else likewise; 1.7 if keys and values bind, 6.4 if experts do",
    }
    return Published(
        name=name,
        what=figure.note or name,
        unit=figure.unit,
        published=figure.number,
        computed=computed,
        fitted=fitted,
        assumed=assumed.get(name, "the fitted constants of the serving model" if fitted else ""),
        source=figure.sources[0].source,
    )


def _speculation(name: str, model: str, dtype: str) -> Published:
    """Return the time if as many tokens are accepted as the published one implies: an inversion."""
    figure = facts.load("measured")[name]
    most, guess = 8.0, {"length": 7, "draft": "llama-3.2-1b"}
    slowest = _tutorial(model, dtype=dtype, speculation={**guess, "accepted": 1.0}).tpot
    needed = min(max(slowest * 1e3 / figure.number, 1.0), most)
    computed = _tutorial(model, dtype=dtype, speculation={**guess, "accepted": needed}).tpot
    assumed = (
        f"{needed:.1f} of at most {most:.0f} tokens a step, solved for (acceptance is not "
        f"published); guesses of a Llama of 1 B, {dtype}"
    )
    return Published(
        name=name,
        what=figure.note or "with speculation",
        unit=figure.unit,
        published=figure.number,
        computed=computed * 1e3,
        fitted=True,
        assumed=assumed,
        source=figure.sources[0].source,
    )
