"""Few tokens, losses and gradients against NumPy and torch."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from expertlib.core.moe.blockwise_bwd import blockwise_mm_bwd
from expertlib.core.moe.moe_tkg import QuantizationParameters, moe_all_experts_tkg, moe_tkg
from expertlib.experimental.loss.cross_entropy import (
    cross_entropy_backward,
    cross_entropy_forward,
)

import trn3.nki.language as nl
from support.moe_reference import BF16, problem
from trn3 import nki

torch = pytest.importorskip("torch")


def _silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def _decode(dtype: Any, tokens: int, width: int, kind: Any) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    hidden, experts, k = 256, 5, 2
    x = rng.normal(size=(tokens, hidden)).astype(dtype)
    gate_up = (rng.normal(size=(experts, hidden, 2, width)) * (4 if kind else 1 / 16)).astype(
        kind or dtype
    )
    down = (rng.normal(size=(experts, width, hidden)) * (4 if kind else 1 / 16)).astype(
        kind or dtype
    )
    index = np.stack([rng.permutation(experts)[:k] for _ in range(tokens)]).astype(np.uint32)
    affinity = rng.random((tokens, experts)).astype(np.float32)
    return x, gate_up, down, affinity, index


def _selected(
    x: Any, gate_up: Any, down: Any, affinity: Any, index: Any, scale: Any = None, low: Any = 1.0
) -> np.ndarray:
    x, gate_up, down = (each.astype(np.float64) for each in (x, gate_up, down))
    if scale is not None:
        gate_up = gate_up * scale[:, None]
    out = np.zeros_like(x)
    for t, experts in enumerate(index):
        for e in experts:
            h = _silu(x[t] @ gate_up[e, :, 0]) * (x[t] @ gate_up[e, :, 1])
            out[t] += affinity[t, e] * (h @ down[e]) * low
    return out


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize(
    ("dtype", "tokens", "width"), [(BF16, 16, 256), (np.float32, 3, 200), (np.float16, 1, 384)]
)
def test_selected_experts_match_numpy(lnc: int, dtype: Any, tokens: int, width: int) -> None:
    arguments = _decode(dtype, tokens, width, None)
    got = moe_tkg[lnc](*arguments)
    wanted = _selected(*arguments)
    assert np.abs(got.astype(np.float64) - wanted).max() <= 2e-2 * np.abs(wanted).max()


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("kind", [ml_dtypes.float8_e4m3, ml_dtypes.float8_e5m2])
def test_scaled_weights_match_numpy(lnc: int, kind: Any) -> None:
    arguments = _decode(BF16, 4, 256, kind)
    rng = np.random.default_rng(1)
    scale = (rng.random((5, 2, 256)) / 64).astype(np.float32)
    low = (rng.random(256) / 64).astype(np.float32)
    params = QuantizationParameters(gate_up_scale=scale, down_scale=low, clip=nl.float8_e4m3)
    got = moe_tkg[lnc](*arguments, quant_params=params)
    wanted = _selected(*arguments, scale, low)
    assert np.abs(got.astype(np.float64) - wanted).max() <= 2e-2 * np.abs(wanted).max()


@pytest.mark.parametrize("own", [0, 1, 3])
def test_experts_of_a_rank_match_numpy(own: int) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(24, 256)).astype(BF16)
    gate_up = (rng.normal(size=(2, 256, 2, 96)) / 16).astype(BF16)
    down = (rng.normal(size=(2, 96, 256)) / 10).astype(BF16)
    affinity = rng.random((24, 8)).astype(np.float32)
    number = np.array([[own]], np.uint32)
    got = moe_all_experts_tkg(x, gate_up, down, affinity, number, experts_per_rank=2)
    wide = x.astype(np.float64)
    wanted = np.zeros_like(wide)
    for e in range(2):
        gate, up = (wide @ gate_up[e, :, g].astype(np.float64) for g in range(2))
        part = (_silu(gate) * up) @ down[e].astype(np.float64)
        wanted += part * affinity[:, own * 2 + e, None]
    assert np.abs(got.astype(np.float64) - wanted).max() <= 2e-2 * np.abs(wanted).max()


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize(("positions", "vocabulary"), [(40, 1500), (128, 512)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cross_entropy_matches_torch(lnc: int, positions: int, vocabulary: int, dtype: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = (torch.randn(positions, vocabulary, generator=generator) * 3).to(dtype)
    targets = torch.randint(0, vocabulary, (positions,), generator=generator, dtype=torch.int32)
    loss, lse = cross_entropy_forward[lnc](logits, targets, dtype=nl.float32)
    wide = logits.double().requires_grad_()
    wanted = torch.nn.functional.cross_entropy(wide, targets.long(), reduction="none")
    torch.testing.assert_close(loss.double(), wanted.detach(), rtol=1e-4, atol=1e-4)
    wanted.mean().backward()
    again = logits.clone()
    got = cross_entropy_backward[lnc](again, targets, lse)
    tolerance = 1e-6 if dtype is torch.float32 else 1e-3
    torch.testing.assert_close(got.double(), wide.grad, rtol=1e-2, atol=tolerance)
    assert torch.equal(got, again)
    other = cross_entropy_backward[lnc](
        logits_hbm=logits.clone(),
        targets_hbm=targets,
        lse_hbm=lse,
        reduction="sum",
        inplace=False,
    )
    torch.testing.assert_close(other.double() / positions, wide.grad, rtol=1e-2, atol=tolerance)


def test_gradient_updates_an_aliased_input() -> None:
    logits = torch.randn(8, 600)
    targets = torch.zeros(8, dtype=torch.int32)
    _, lse = cross_entropy_forward(logits, targets, dtype=nl.float32)
    before = logits.clone()
    nki.simulate(cross_entropy_backward[2])(
        **{"logits_hbm.must_alias_input": logits, "targets_hbm": targets, "lse_hbm": lse}
    )
    assert not torch.equal(before, logits)
    torch.testing.assert_close(logits.sum(dim=1), torch.zeros(8), rtol=0, atol=1e-4)


@pytest.mark.parametrize("lnc", [1, 2])
def test_gradients_of_blocks_match_torch(lnc: int) -> None:
    given = problem(tokens=150, hidden=128, width=128, experts=3, dtype=np.float32)
    dy = np.random.default_rng(5).normal(size=(150, 128)).astype(np.float32)
    got = blockwise_mm_bwd[lnc](
        given.hidden,
        given.affinities.reshape(-1, 1),
        given.gate_up,
        given.down,
        given.positions,
        given.experts,
        dy,
    )
    leaves = [
        torch.tensor(each, dtype=torch.float64, requires_grad=True)
        for each in (given.hidden, given.affinities, given.gate_up, given.down)
    ]
    x, affinities, gate_up, down = leaves
    y = torch.zeros(150, 128, dtype=torch.float64)
    chosen = torch.tensor(given.affinities > 0)
    for e in range(3):
        h = torch.nn.functional.silu(x @ gate_up[e, :, 0]) * (x @ gate_up[e, :, 1])
        y = y + (h @ down[e]) * torch.where(chosen, affinities, 0)[:, e : e + 1]
    y.backward(torch.tensor(dy, dtype=torch.float64))
    for one, leaf in zip(got, leaves, strict=True):
        assert leaf.grad is not None
        wanted = leaf.grad.numpy().reshape(one.shape)
        assert np.abs(one - wanted).max() <= 1e-4 * np.abs(wanted).max()
