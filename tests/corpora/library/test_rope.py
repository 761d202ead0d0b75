"""Rotary embeddings against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernellib.embeddings.rope import RoPE, rope_hf
from support.library_cases import assert_close, data, launched


def angles(half: int, batch: int, seqlen: int) -> tuple[NDArray[Any], NDArray[Any]]:
    inverse = 10000.0 ** (-np.arange(half) / half)
    places = np.arange(batch)[:, None] * 7 + np.arange(seqlen)[None]
    theta = inverse[:, None, None] * places[None]
    return np.cos(theta).astype(np.float32), np.sin(theta).astype(np.float32)


@pytest.mark.parametrize("lnc", [None, 1, 2])
@pytest.mark.parametrize("contiguous", [False, True])
@pytest.mark.parametrize(
    ("d", "batch", "heads", "seqlen", "dtype"),
    [(64, 1, 1, 1, "bfloat16"), (128, 2, 4, 100, "bfloat16"), (96, 1, 3, 333, "float32")],
)
def test_rope(
    lnc: int | None, contiguous: bool, d: int, batch: int, heads: int, seqlen: int, dtype: str
) -> None:
    x = data(0, (d, batch, heads, seqlen), dtype)
    cos, sin = angles(d // 2, batch, seqlen)
    result = launched(RoPE, lnc)(x, cos, sin, contiguous_layout=contiguous)
    wide = x.astype(np.float64)
    pair = (slice(None, d // 2), slice(d // 2, None)) if contiguous else (
        slice(0, None, 2), slice(1, None, 2)
    )  # fmt: skip
    expected = np.empty(x.shape)
    c, s = cos[:, :, None], sin[:, :, None]
    expected[pair[0]] = wide[pair[0]] * c - wide[pair[1]] * s
    expected[pair[1]] = wide[pair[1]] * c + wide[pair[0]] * s
    assert_close(result, expected, dtype)


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("backward", [False, True])
def test_rope_hf_writes_the_outputs_it_is_given(lnc: int, backward: bool) -> None:
    torch = pytest.importorskip("torch")
    batch, seqlen, d = 2, 200, 32
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(batch, 3, seqlen, d, generator=generator).to(torch.bfloat16)
    k = torch.randn(batch, 1, seqlen, d, generator=generator).to(torch.bfloat16)
    c, s = (torch.from_numpy(np.moveaxis(a, 0, -1).copy()) for a in angles(d // 2, batch, seqlen))
    cos, sin = torch.cat([c, c], -1), torch.cat([s, s], -1)
    q_out, k_out = torch.empty_like(q), torch.empty_like(k)
    given: dict[str, Any] = {"q_out.must_alias_input": q_out, "k_out.must_alias_input": k_out}
    results = rope_hf[lnc](q=q, k=k, cos=cos, sin=sin, backward=backward, **given)
    assert results[0] is q_out
    assert results[1] is k_out
    for x, out in ((q, q_out), (k, k_out)):
        wide = x.double()
        turned = torch.cat([-wide[..., d // 2 :], wide[..., : d // 2]], -1)
        sign = -1 if backward else 1
        expected = wide * cos[:, None] + sign * turned * sin[:, None]
        np.testing.assert_allclose(out.double().numpy(), expected.numpy(), rtol=2e-2, atol=2e-2)


def test_rope_hf_takes_a_cache_of_angles() -> None:
    q = data(0, (1, 2, 16, 8))
    c, s = (np.moveaxis(a, 0, -1) for a in angles(4, 1, 16))
    cache = np.stack([np.concatenate([c, c], -1), np.concatenate([s, s], -1)])
    outs: list[Any] = [np.empty_like(q), np.empty_like(q)]
    rope_hf(q, q, *outs, None, None, rope_cache=cache)
    np.testing.assert_array_equal(outs[0], outs[1])
    with pytest.raises(AssertionError, match="either a cache"):
        rope_hf(q, q, *outs, c, s, rope_cache=cache)
