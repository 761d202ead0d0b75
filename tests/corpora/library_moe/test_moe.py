"""Routers and blockwise products against NumPy and torch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from expertlib.core.moe.blockwise_mm import (
    blockwise_mm_baseline_shard_hidden,
    blockwise_mm_dynamic,
    bwmm_shard_on_block,
)
from expertlib.core.moe.moe_parameters import SkipMode
from expertlib.core.router.router_topk import RouterActFnType, XHbmLayout, router_topk
from expertlib.core.utils.common_types import ExpertAffinityScaleMode

from support.moe_reference import BF16, Problem, problem


def _close(got: Any, wanted: np.ndarray, tolerance: float = 2e-2) -> None:
    got = np.asarray(got, np.float64)
    assert np.abs(got - wanted).max() <= tolerance * np.abs(wanted).max()


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("layout", list(XHbmLayout))
@pytest.mark.parametrize("act", list(RouterActFnType))
@pytest.mark.parametrize(("tokens", "tiled", "norm"), [(160, False, True), (40, True, False)])
def test_router_matches_numpy(
    lnc: int, layout: XHbmLayout, act: RouterActFnType, tokens: int, tiled: bool, norm: bool
) -> None:
    rng = np.random.default_rng(0)
    hidden, experts, k = 512, 64, 4
    x = rng.normal(size=(tokens, hidden)).astype(np.float32)
    w = (rng.normal(size=(hidden, experts)) / 8).astype(np.float32)
    bias = rng.normal(size=experts).astype(np.float32)
    given = np.ascontiguousarray(x.T) if layout is XHbmLayout.H_T else x
    logits_out = np.zeros((tokens, experts), np.float32)
    affinities_out = np.zeros((tokens, experts), BF16)
    index_out = np.zeros((tokens, k), np.uint32)
    results = router_topk[lnc](
        given,
        w,
        bias,
        logits_out,
        affinities_out,
        index_out,
        act,
        k,
        layout,
        norm,
        use_pe_column_tiling=tiled,
    )
    logits = x.astype(np.float64) @ w + bias
    order = np.argsort(-logits, axis=1)[:, :k]
    if act is RouterActFnType.SIGMOID:
        scores = 1 / (1 + np.exp(-logits))
    else:
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores = powers / powers.sum(axis=1, keepdims=True)
    wanted = np.zeros_like(scores)
    np.put_along_axis(wanted, order, np.take_along_axis(scores, order, 1), 1)
    if norm:
        wanted /= wanted.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(logits_out, logits, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(index_out, order)
    np.testing.assert_allclose(affinities_out.astype(np.float64), wanted, rtol=1e-2, atol=1e-3)
    assert isinstance(results, list)
    np.testing.assert_array_equal(results[1], index_out)


def _arguments(given: Problem, **options: Any) -> dict[str, Any]:
    return {
        "hidden_states": given.hidden,
        "expert_affinities_masked": given.affinities.reshape(-1, 1),
        "gate_up_proj_weight": given.gate_up,
        "down_proj_weight": given.down,
        "block_size": given.block,
        "token_position_to_id": given.positions,
        "block_to_expert": given.experts,
        **options,
    }


@pytest.mark.parametrize("lnc", [None, 1, 2])
@pytest.mark.parametrize(
    "shape",
    [
        {"tokens": 256, "block": 256},
        {"tokens": 200, "width": 128, "hidden": 512, "experts": 3},
        {"tokens": 130, "dtype": np.float32, "index": np.uint32, "pad": 10_000},
        {"tokens": 128, "dtype": np.float16, "width": 100, "pad": -1},
    ],
)
def test_shard_hidden_matches_numpy(lnc: int | None, shape: dict[str, Any]) -> None:
    given = problem(**shape)
    kernel = blockwise_mm_baseline_shard_hidden
    kernel = kernel if lnc is None else kernel[lnc]
    got = kernel(**_arguments(given, skip_dma=SkipMode(True), compute_dtype=given.hidden.dtype))
    _close(got, given.output())


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("use_range", [False, True])
@pytest.mark.parametrize("static", [0, 2])
def test_dynamic_blocks_match_numpy(lnc: int, use_range: bool, static: int) -> None:
    given = problem(tokens=200, experts=3)
    got = blockwise_mm_dynamic[lnc](
        **_arguments(given, conditions=given.conditions, num_static_block=static),
        use_range=use_range,
    )
    _close(got, given.output())


@pytest.mark.parametrize("lnc", [1, 2])
def test_shard_on_block_matches_numpy(lnc: int) -> None:
    given = problem(tokens=200, experts=3, hidden=512)
    _close(bwmm_shard_on_block[lnc](**_arguments(given)), given.output(), 4e-2)


def test_shard_hidden_takes_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    given = problem(tokens=128, k=1)
    arguments = _arguments(given, skip_dma=SkipMode(skip_token=True))
    for name, value in arguments.items():
        if isinstance(value, np.ndarray):
            plain = torch.from_numpy(
                value.astype(np.float32) if value.dtype == ml_dtypes.bfloat16 else value
            )
            arguments[name] = plain.to(torch.bfloat16) if value.dtype == BF16 else plain
    got = blockwise_mm_baseline_shard_hidden[2](**arguments)
    assert got.dtype == torch.bfloat16
    _close(got.float().numpy(), given.output())


def test_no_scale_is_plain_sum() -> None:
    given = problem(tokens=128, k=1)
    got = blockwise_mm_baseline_shard_hidden[2](
        **_arguments(
            given,
            skip_dma=SkipMode(True, True),
            expert_affinities_scaling_mode=ExpertAffinityScaleMode.NO_SCALE,
        )
    )
    ones = problem(tokens=128, k=1)
    ones.affinities[ones.affinities > 0] = 1
    _close(got, ones.output())
