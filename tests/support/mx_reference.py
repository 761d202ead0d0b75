"""Packed types and scales in NumPy, written from their formats."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

FORMATS: dict[str, tuple[Any, int]] = {
    "float8_e4m3fn_x4": (ml_dtypes.float8_e4m3fn, 8),
    "float8_e5m2_x4": (ml_dtypes.float8_e5m2, 15),
    "float4_e2m1fn_x4": (ml_dtypes.float4_e2m1fn, 2),
}


def pack(values: np.ndarray, name: str) -> np.ndarray:
    """Return groups of four along the last axis as integers, the first in the low bits."""
    codes = values.astype(FORMATS[name][0]).view(np.uint8).astype(np.uint32)
    bits = 4 if "float4" in name else 8
    codes = codes.reshape(*values.shape[:-1], -1, 4) & ((1 << bits) - 1)
    words = sum(codes[..., q] << (bits * q) for q in range(4))
    return np.asarray(words).astype(np.uint16 if bits == 4 else np.uint32)


def unpack(words: np.ndarray, name: str) -> np.ndarray:
    bits = 4 if "float4" in name else 8
    wide = words.astype(np.uint32)[..., None] >> (bits * np.arange(4, dtype=np.uint32))
    codes = (wide & ((1 << bits) - 1)).astype(np.uint8)
    return codes.view(FORMATS[name][0]).astype(np.float64).reshape(*words.shape[:-1], -1)


def scale_of(scales: np.ndarray, partitions: int = 128) -> np.ndarray:
    """Return factors of scale bytes [partitions / 8, ..., F], a row for each partition."""
    return np.repeat(2.0 ** (scales.astype(np.float64) - 127), 8, axis=0)[:partitions]


def quantise(x: np.ndarray, name: str, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Dequantised values of x [P, 4 * F], and scale bytes [P / 8, F].

    steps: how far below the largest exponent of the format scales put the group's, 0 for OCP.
    """
    kind, top = FORMATS[name]
    rows, columns = x.shape
    groups = x.astype(np.float64).reshape(rows // 8, 8, columns // 4, 4)
    largest = np.abs(groups).max(axis=(1, 3))
    _, exponent = np.frexp(largest)
    power = np.where(largest > 0, exponent - 1 - (top - steps), -127)
    factor = 2.0 ** power[:, None, :, None]
    limit = float(ml_dtypes.finfo(kind).max)
    scaled = np.clip(groups / factor, -limit, limit)
    rounded = scaled.astype(np.float32).astype(kind).astype(np.float64) * factor
    return rounded.reshape(rows, columns), (power + 127).astype(np.uint8)
