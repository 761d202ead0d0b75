"""Packed weights and quantised tokens against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from expertlib.core.moe.blockwise_mx import blockwise_mm_shard_intermediate_mx
from expertlib.core.moe.mx_utils import mxfp_load_kernel

import trn3.nki
import trn3.nki.language as nl
from support.moe_reference import BF16, problem
from support.mx_reference import FORMATS, pack, quantise, scale_of, unpack
from trn3.nki.values import neuron_dtypes as dt, version


@pytest.fixture
def ocp() -> Iterator[None]:
    """Choose scales by the rule before 0.5."""
    version.set_version("0.4")
    yield
    version.set_version(None)


def _case(name: str, width: int = 256, n: int = 32) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    values = rng.normal(size=(128, 4 * width)) * 2
    words = pack(values, name)
    scales = rng.integers(120, 130, (16, width)).astype(np.uint8)
    x = (rng.normal(size=(128, 4 * n)) * 2.0 ** rng.integers(-6, 6, (128, 1))).astype(BF16)
    return words, scales, x


def _product(words: np.ndarray, scales: np.ndarray, x: np.ndarray, name: str) -> np.ndarray:
    """Sum over partitions and places of four."""
    w = unpack(words, name).reshape(128, -1, 4) * scale_of(scales)[:, :, None]
    return np.einsum("pnq,pfq->nf", x.reshape(128, -1, 4), w)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("carrier", ["words", "bytes", "x4"])
def test_loaded_weights_multiply(name: str, carrier: str, ocp: None) -> None:
    words, scales, x = _case(name)
    dequantised, bytes_ = quantise(x, "float8_e4m3fn_x4", 0)
    given: Any = words
    if carrier == "bytes":
        given = words.view(np.uint8)
    elif carrier == "x4":
        given = words.view(getattr(dt, name))
    out, data, scale = mxfp_load_kernel(given, scales, x, x4_dtype=getattr(nl, name))
    np.testing.assert_array_equal(scale, bytes_)
    got = dt.static_cast(data, np.float32).astype(np.float64)
    got *= np.repeat(scale_of(scale), 4, axis=1)
    np.testing.assert_array_equal(got, dequantised)
    wanted = _product(words, scales, dequantised, name)
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_scales_of_today_are_a_step_larger() -> None:
    words, scales, x = _case("float8_e4m3fn_x4")
    dequantised, bytes_ = quantise(x, "float8_e4m3fn_x4", 1)
    out, _, scale = mxfp_load_kernel(words, scales, x, x4_dtype=nl.float8_e4m3fn_x4)
    np.testing.assert_array_equal(scale, bytes_)
    wanted = _product(words, scales, dequantised, "float8_e4m3fn_x4")
    np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.parametrize("name", ["float8_e4m3fn_x4", "float4_e2m1fn_x4"])
@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("dynamic", [False, True])
def test_mx_experts_match_numpy(name: str, lnc: int, dynamic: bool, ocp: None) -> None:
    experts, hidden, width = 2, 512, 1024
    given = problem(tokens=140, hidden=hidden, width=8, experts=experts, k=1, block=128, spare=1)
    rng = np.random.default_rng(1)

    def weights(*shape: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        words = pack(rng.normal(size=(experts, *shape[:-1], shape[-1] * 4)), name)
        scales = rng.integers(121, 124, (experts, 16, *shape[1:])).astype(np.uint8)
        plain = unpack(words, name).reshape(experts, *shape, 4)
        factor = np.stack([scale_of(each) for each in scales])
        return words, scales, plain * factor[..., None]

    gate_up, gate_up_scale, gu = weights(128, 2, hidden // 512, width)
    down, down_scale, dn = weights(128, width // 512, hidden)
    options: dict[str, Any] = {}
    if dynamic:
        options = {"conditions": given.conditions, "n_static_blocks": 1}
    got = blockwise_mm_shard_intermediate_mx[lnc](
        given.hidden,
        given.affinities.reshape(-1, 1),
        gate_up.view(getattr(dt, name)),
        down.view(np.uint8),
        gate_up_scale,
        down_scale,
        given.block,
        given.positions,
        given.experts,
        getattr(nl, name),
        **options,
    )
    # Unit d * 512 + q * 128 + p of H, or of I, at partition p, place q.
    full = gu.transpose(0, 3, 5, 1, 2, 4).reshape(experts, hidden, 2, width)
    low = dn.transpose(0, 2, 4, 1, 3).reshape(experts, width, hidden)
    x = given.hidden.astype(np.float64)
    wanted = np.zeros_like(x)
    for e in range(experts):
        gate, up = x @ full[e, :, 0], x @ full[e, :, 1]
        part = (gate / (1 + np.exp(-gate)) * up) @ low[e]
        wanted += part * given.affinities[:, e : e + 1]
    error = np.abs(got.astype(np.float64) - wanted)
    # Three mantissa bits, twice.
    assert np.sqrt((error**2).mean()) < 0.06 * np.sqrt((wanted**2).mean())


def test_the_package_is_as_it_was() -> None:
    assert trn3.nki.values.version.version() == "0.6"
