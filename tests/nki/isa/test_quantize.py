"""quantize_mx against the rules of MX, written out."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from support.core import Machine
from support.engines import TYPES, cases
from trn3.machine import NkiValidationError
from trn3.nki.isa import quantize as nisa

ELEMENTS: dict[str, tuple[Any, int, float]] = {
    "float8_e4m3fn_x4": (ml_dtypes.float8_e4m3fn, 8, 448.0),
    "float8_e5m2_x4": (ml_dtypes.float8_e5m2, 15, 57344.0),
}


def quantised(x: np.ndarray[Any, Any], packed: str, slack: int) -> tuple[Any, Any]:
    """Elements [P, F] and scale bytes [P / 8, F / 4] of finite data."""
    dtype, emax, largest = ELEMENTS[packed]
    p, f = x.shape
    wide = x.astype(np.float64)
    blocks = np.abs(wide).reshape(p // 8, 8, f // 4, 4).max(axis=(1, 3))
    with np.errstate(divide="ignore"):
        exponent = np.where(blocks > 0, np.floor(np.log2(blocks)), -1000) - (emax - slack)
    exponent = np.clip(exponent, -127, 127)
    scaled = wide / np.exp2(np.repeat(np.repeat(exponent, 8, 0), 4, 1))
    return np.clip(scaled, -largest, largest).astype(dtype), (exponent + 127).astype(np.uint8)


@pytest.mark.parametrize("packed", ELEMENTS)
@pytest.mark.parametrize("source", ["bfloat16", "float16"])
@pytest.mark.parametrize("partitions", [32, 64, 96, 128])
@pytest.mark.parametrize("nki", ["0.4", "0.6"])
def test_quantize_mx(packed: str, source: str, partitions: int, nki: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("TRN3_NKI_VERSION", nki)
    rng = np.random.default_rng(1)
    x = (rng.normal(size=(partitions, 48)) * np.exp2(rng.integers(-8, 8, (partitions, 48)))).astype(
        TYPES[source]
    )
    x[:8, :4] = 0
    elements, scales = quantised(x, packed, 0 if nki == "0.4" else 1)
    with Machine() as m:
        dst = m.empty((partitions, 12), packed)
        scale = m.empty((partitions if partitions > 32 else 4, 12), "uint8")
        nisa.quantize_mx(dst, m.tile(x, source), scale)
        assert (m.get(dst).view(np.uint8).reshape(partitions, 48) == elements.view(np.uint8)).all()
        rows = [32 * (block // 4) + block % 4 for block in range(partitions // 8)]
        for row, expected in zip(rows, scales, strict=True):
            assert (m.get(scale[row : row + 1]) == expected).all()
        if partitions > 32:
            assert not m.core.is_initialised(scale[4:8])


def test_quantize_mx_scales_at_an_offset_in_the_quadrants() -> None:
    x = np.random.default_rng(2).normal(size=(128, 16)).astype(ml_dtypes.bfloat16)
    _, scales = quantised(x, "float8_e4m3fn_x4", 1)
    with Machine() as m:
        dst, scale = m.empty((128, 4), "float8_e4m3fn_x4"), m.empty((128, 4), "uint8")
        for offset in (0, 4, 8, 12):
            nisa.quantize_mx(dst, m.tile(x, "bfloat16"), scale[offset:])
            for block in range(16):
                # Partition 77 is of block 9, whose scale at offset 4 is on partition 69.
                row = 32 * (block // 4) + offset + block % 4
                assert (m.get(scale[row : row + 1]) == scales[block]).all()


def test_quantize_mx_refusals() -> None:
    with Machine() as m:
        x, d = m.tile(np.ones((128, 16)), "bfloat16"), m.empty((128, 4), "float8_e4m3fn_x4")
        s = m.empty((128, 4), "uint8")
        for arguments, message in cases(
            (
                (d, m.tile(np.ones((128, 16))), s),
                "src.* has dtype float32; allowed: float16, bfloat16",
            ),
            (
                (m.empty((128, 4), "float4_e2m1fn_x4"), x, s),
                "dst.* allowed: float8_e5m2_x4, float8_e4m3fn_x4",
            ),
            (
                (d, m.tile(np.ones((128, 16)), "bfloat16", "psum"), s),
                r"src.* must be in \['sbuf'\]",
            ),
            ((d[0:16], x[0:16], s), "src.* has 16 partitions; a multiple of 32"),
            (
                (d, m.tile(np.ones((128, 18)), "bfloat16"), s),
                "src.* has 18 elements per partition; a multiple of 4",
            ),
            ((d, x, s[2:]), "dst_scale.* starts at partition 2; offset 0, 4, 8, 12"),
            ((d, x, s[0:64]), "dst_scale.* has 64 partitions; 128 partitions"),
            ((d, x, s[:, 0:3]), "dst_scale.* has 3 elements"),
            ((d, x, m.empty((128, 4), "int8")), "dst_scale.* has dtype int8"),
            ((d[:, 0:3], x, s), "dst.* has 3 elements"),
        ):
            with pytest.raises(NkiValidationError, match=message):
                nisa.quantize_mx(*arguments)
    with Machine("trn2") as m:
        x, d = m.tile(np.ones((128, 16)), "bfloat16"), m.empty((128, 4), "float8_e4m3fn_x4")
        with pytest.raises(
            NkiValidationError, match=r"quantize_mx.* on trn2 \(gen3\); available from gen4"
        ):
            nisa.quantize_mx(d, x, m.empty((128, 4), "uint8"))
