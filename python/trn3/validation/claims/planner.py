"""Claims about serving and training models: plans of what was measured."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import ml_dtypes

from trn3 import facts, planner
from trn3.checkpoint import BLOCK
from trn3.facts.spec import spec_of
from trn3.planner import training
from trn3.validation.claims._bits import bits
from trn3.validation.claims._registry import Figures, claim

#: What the tutorials and the recipe of GPT-OSS serve: tokens in, and ranks of a replica.
CONTEXT: Final = 10_000
TUTORIAL: Final = {
    "input_tokens": CONTEXT, "output_tokens": 1_500, "batch": 1, "tp": 64, "lnc": 2, "replicas": 1,
}  # fmt: skip
#: Two chips of four logical cores.
RECIPE: Final = {"input_tokens": CONTEXT, "tp": 8, "lnc": 2, "replicas": 1}
BATCHES: Final = (1, 8, 64, 256)
#: What the published runs of training had: instances, and tokens of a sequence.
NODES: Final = 32
SEQUENCE: Final = 8_192


def _plan(model: str, system: str, dtype: str, **request: Any) -> planner.Plan:
    # What does not fit is planned too: bytes moved are compared, and the claim says so.
    return planner.plan(model, system, dtype=dtype, on_overflow="report", **request)


@cache
def _gpt_oss_ratio(batch: int) -> float:
    """Return time of a decoding step on Trainium2 in BF16 over Trainium3 in MXFP4: bandwidth."""
    slow = _plan("gpt-oss-120b", "trn2_instance", "bf16", **RECIPE, batch=batch)
    fast = _plan("gpt-oss-120b", "trn3_gen2", "mxfp4", **RECIPE, batch=batch)
    return slow.decode_floor_seconds / fast.decode_floor_seconds


@claim("gpt-oss-throughput")
def _gpt_oss_throughput() -> Figures:
    return {f"batch {batch}": _gpt_oss_ratio(batch) for batch in BATCHES}


@claim("gpt-oss-latency")
def _gpt_oss_latency() -> Figures:
    memory = spec_of("trainium3")["hbm_bandwidth"].si / spec_of("trainium2")["hbm_bandwidth"].si
    block = bits(ml_dtypes.float4_e2m1fn) + bits(ml_dtypes.float8_e8m0fnu) / BLOCK
    return {
        "batch 1": _gpt_oss_ratio(1),
        "batch 64": _gpt_oss_ratio(64),
        "most: expert weights alone": memory * bits(ml_dtypes.bfloat16) / block,
    }


def _latency(model: str) -> Figures:
    plan = _plan(model, "trn2_instance", "bf16", **TUTORIAL)
    return {
        "time per token": plan.tpot,
        "time to the first token": plan.ttft,
        "weights at the HBM peak alone": plan.decode_floor_seconds,
    }


@claim("llama-70b-latency")
def _llama_70b_latency() -> Figures:
    return _latency("llama-3.3-70b")


@claim("llama-405b-latency")
def _llama_405b_latency() -> Figures:
    return _latency("llama-3.1-405b")


@claim("speculation")
def _speculation() -> Figures:
    measured = facts.load("measured")

    def yielded(model: str, dtype: str, key: str) -> float:
        guesses = {"length": 7, "accepted": 1.0, "draft": "llama-3.2-1b"}
        plan = _plan(model, "trn2_instance", dtype, **TUTORIAL, speculation=guesses)
        # With one token a step its time is that of the step.
        return plan.tpot / measured[key].si

    return {
        "tokens a step, 70B": yielded("llama-3.3-70b", "bf16", "llama33_70b_trn2_tpot_spec"),
        "tokens a step, 405B": yielded("llama-3.1-405b", "fp8", "llama31_405b_trn2_tpot_spec_fp8"),
    }


@cache
def _trained() -> dict[str, float]:
    """Return what the model of training gives for each published row, sequences a second."""
    return {row.name: row.computed for row in training.published()}


def _training(row: str, model: str) -> Figures:
    rate = _trained()[row]
    chip = facts.load("trainium1")["tflops_bf16"].si
    chips = NODES * spec_of("trn1_32xlarge")["chips"].si
    flops = 6 * planner.model(model).parameters * SEQUENCE * rate
    return {
        "sequences a second": rate,
        "share of the peak, 6 x parameters x tokens": flops / (chips * chip),
    }


@claim("llama-8b-training")
def _llama_8b_training() -> Figures:
    return _training("llama-8b-train-trn1", "llama-3-8b")


@claim("llama-70b-training")
def _llama_70b_training() -> Figures:
    return _training("llama-70b-train-trn1", "llama-3.3-70b")


@claim("bert-training")
def _bert_training() -> Figures:
    trained = _trained()
    return {
        "1 node": trained["bert-large-trn1-1-node"],
        "16 nodes": trained["bert-large-trn1-16-nodes"],
        "16 nodes over 16 times one": trained["bert-large-trn1-scaling"],
    }
