"""Claims about serving and training models: plans of what was measured."""

from __future__ import annotations

from functools import cache
from typing import Final

import ml_dtypes

from trn3 import facts, planner
from trn3.checkpoint import BLOCK
from trn3.facts.spec import spec_of
from trn3.planner import training
from trn3.validation.claims._bits import bits
from trn3.validation.claims._registry import Figures, claim
from trn3.validation.claims.table import document

#: What the published runs of training had: instances, and tokens of a sequence.
NODES: Final = 32
SEQUENCE: Final = 8_192


@cache
def planned(name: str) -> planner.Plan:
    """Return one of the plans of ``claims.toml``.

    What does not fit is planned too: bytes moved are compared, and the claim says so.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    known = document()["plans"]
    if name not in known:
        message = f"plan is {name}; allowed: {', '.join(known)}"
        raise ValueError(message)
    request = dict(known[name])
    return planner.plan(request.pop("model"), on_overflow="report", **request)


@claim("gpt-oss-latency")
def _gpt_oss_latency() -> Figures:
    memory = spec_of("trainium3")["hbm_bandwidth"].si / spec_of("trainium2")["hbm_bandwidth"].si
    block = bits(ml_dtypes.float4_e2m1fn) + bits(ml_dtypes.float8_e8m0fnu) / BLOCK
    return {"most: expert weights alone": memory * bits(ml_dtypes.bfloat16) / block}


@claim("fp4-halves")
def _fp4_halves() -> Figures:
    four, eight = bits(ml_dtypes.float4_e2m1fn), bits(ml_dtypes.float8_e4m3fn)
    scale = bits(ml_dtypes.float8_e8m0fnu) / BLOCK
    return {"chips, by weights": (four + scale) / (eight + scale)}


@cache
def _trained() -> dict[str, float]:
    """Return what the model of training gives for each published row, sequences a second."""
    return {row.name: row.computed for row in training.published()}


def _share(model: str, rate: float) -> float:
    """Return the share of the peak that sequences a second are, 6 x parameters x tokens."""
    chips = NODES * spec_of("trn1_32xlarge")["chips"].si
    flops = 6 * planner.model(model).parameters * SEQUENCE * rate
    return flops / (chips * facts.load("trainium1")["tflops_bf16"].si)


def _training(row: str, model: str) -> Figures:
    rate = _trained()[row]
    return {
        "sequences a second": rate,
        "share of the peak, 6 x parameters x tokens": _share(model, rate),
    }


@claim("asic-utilisation")
def _asic_utilisation() -> Figures:
    measured = facts.load("measured")
    return {
        "Llama 3.1 8B on Trainium1": _share("llama-3-8b", measured["llama31_8b_train_trn1"].si),
        "Llama 3 70B on Trainium1": _share("llama-3.3-70b", measured["llama31_70b_train_trn1"].si),
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
