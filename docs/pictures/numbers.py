"""Pictures of numbers: which ones a format has, and what rounding to it loses."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from matplotlib.figure import Figure

from pictures.themes import COLORS, figure
from trn3 import numerics

FORMATS = ("float4_e2m1fn", "float8_e3m4", "float8_e4m3fn", "float8_e5m2")


def ladders() -> Figure:
    """Draw every positive number of the narrow formats."""
    picture = figure(2.7)
    axes = picture.subplots()
    for lane, name in enumerate(FORMATS):
        dtype = np.dtype(getattr(ml_dtypes, name))
        codes = np.arange(16 if name.startswith("float4") else 256, dtype=np.uint8)
        numbers = codes.view(dtype).astype(np.float32)
        numbers = numbers[np.isfinite(numbers) & (numbers > 0)]
        axes.vlines(numbers, lane - 0.36, lane + 0.36, color=COLORS[lane], linewidth=0.9)
    axes.set_yticks(range(len(FORMATS)), FORMATS)
    axes.set_xscale("log", base=2)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("positive numbers that a format holds")
    return picture


def block_errors() -> Figure:
    """Draw the errors of values in blocks of MXFP8 and MXFP4, by a histogram."""
    x = np.random.default_rng(0).standard_normal((512, 1024), np.float32)
    scale = np.abs(x.reshape(512, -1, 32)).max(axis=2, keepdims=True)
    picture = figure(2.9)
    axes = picture.subplots()
    edges = np.linspace(-0.2, 0.2, 161)
    for number, name in enumerate(("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")):
        rounded = numerics.quantize_mx(x, name).dequantize()
        error = (rounded - x).reshape(512, -1, 32) / scale
        sqnr = 10 * np.log10(np.square(x).sum() / np.square(rounded - x).sum())
        counts, _ = np.histogram(error, edges)
        axes.stairs(
            counts / error.size, edges, color=COLORS[number], label=f"{name}: SQNR {sqnr:.1f} dB"
        )
    axes.set_yscale("log")
    axes.set_xlabel("error as part of the largest magnitude in the block of 32")
    axes.set_ylabel("part of all values")
    axes.legend(loc="upper right")
    return picture
