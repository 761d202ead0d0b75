"""Activation functions, beside NumPy's where it has them and the usual composition where not.

Shows that results within 0.51 ulp, tails and subnormals included, in the same bits at every SIMD
level, cost no more than NumPy's, which are float32 throughout, up to 4 ulp off and of other bits on
other CPUs. Both sides write into memory that is already mapped; compositions that need a second
array make one. NumPy has no erf, so the exact gelu and its derivative stand beside the approximate
ones, and erf itself has no rival. Speed of light:
memory bandwidth, for functions of a few instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from comparison import Comparison, Normal, Rival, Work
from trn3 import numerics

COMPOSED = "composed in NumPy"
COUNT = 1 << 20
QUICK = 1 << 10
SLOPE = 0.25
# NumPy uses one thread.
GOALS = {1: 1.0, 2: 1.6}

Array = NDArray[Any]


def sigmoid(x: Array, out: Array) -> Array:
    """1 / (1 + e^-x), each step into `out`."""
    np.negative(x, out=out)
    np.exp(out, out=out)
    out += 1
    return np.reciprocal(out, out=out)


def silu(x: Array, out: Array) -> Array:
    sigmoid(x, out)
    out *= x
    return out


def gelu_apprx_tanh(x: Array, out: Array) -> Array:
    np.multiply(x, x, out=out)
    out *= np.float32(0.044715)
    out += 1
    out *= x
    out *= np.float32(0.7978845608)
    np.tanh(out, out=out)
    out += 1
    out *= x
    out *= np.float32(0.5)
    return out


def gelu_apprx_sigmoid(x: Array, out: Array) -> Array:
    np.multiply(x, np.float32(-1.702), out=out)
    np.exp(out, out=out)
    out += 1
    return np.divide(x, out, out=out)


def silu_dx(x: Array, out: Array) -> Array:
    """s (1 + x (1 - s)) with s in `out` as long as it is needed."""
    sigmoid(x, out)
    rest = np.subtract(np.float32(1), out)
    rest *= x
    rest += 1
    out *= rest
    return out


def gelu_apprx_sigmoid_dx(x: Array, out: Array) -> Array:
    return silu_dx(np.multiply(x, np.float32(1.702)), out)


def gelu_apprx_tanh_dx(x: Array, out: Array) -> Array:
    """(1 + t) / 2 + x (1 - t^2) u' / 2 with t = tanh(u)."""
    square = np.multiply(x, x)
    np.multiply(square, np.float32(0.0356774081), out=out)
    out += np.float32(0.7978845608)
    out *= x
    np.tanh(out, out=out)
    square *= np.float32(0.1070322243)
    square += np.float32(0.7978845608)
    square *= x
    square *= np.float32(1) - out * out
    out += 1
    out += square
    out *= np.float32(0.5)
    return out


def erf_dx(x: Array, out: Array) -> Array:
    np.multiply(x, x, out=out)
    np.negative(out, out=out)
    np.exp(out, out=out)
    out *= np.float32(1.1283791671)
    return out


def prelu(x: Array, out: Array) -> Array:
    """Take the larger of x and x times a slope between 0 and 1."""
    np.multiply(x, np.float32(SLOPE), out=out)
    return np.maximum(x, out, out=out)


def mish(x: Array, out: Array) -> Array:
    np.logaddexp(x, np.float32(0), out=out)
    np.tanh(out, out=out)
    out *= x
    return out


def rsqrt(x: Array, out: Array) -> Array:
    np.sqrt(x, out=out)
    return np.reciprocal(out, out=out)


RIVALS: dict[Any, tuple[str, Callable[[Array, Array], Array]]] = {
    "copy": ("numpy.positive", lambda x, out: np.positive(x, out=out)),
    "square": ("numpy.square", lambda x, out: np.square(x, out=out)),
    "abs": ("numpy.abs", lambda x, out: np.abs(x, out=out)),
    "sign": ("numpy.sign", lambda x, out: np.sign(x, out=out)),
    "relu": ("numpy.maximum", lambda x, out: np.maximum(x, np.float32(0), out=out)),
    "prelu": (COMPOSED, prelu),
    "exp": ("numpy.exp", lambda x, out: np.exp(x, out=out)),
    "log": ("numpy.log", lambda x, out: np.log(x, out=out)),
    "tanh": ("numpy.tanh", lambda x, out: np.tanh(x, out=out)),
    "sin": ("numpy.sin", lambda x, out: np.sin(x, out=out)),
    "arctan": ("numpy.arctan", lambda x, out: np.arctan(x, out=out)),
    "sqrt": ("numpy.sqrt", lambda x, out: np.sqrt(x, out=out)),
    "reciprocal": ("numpy.reciprocal", lambda x, out: np.reciprocal(x, out=out)),
    "sigmoid": (COMPOSED, sigmoid),
    "silu": (COMPOSED, silu),
    "silu_dx": (COMPOSED, silu_dx),
    "softplus": ("numpy.logaddexp", lambda x, out: np.logaddexp(x, np.float32(0), out=out)),
    "gelu_apprx_tanh": (COMPOSED, gelu_apprx_tanh),
    "gelu_apprx_sigmoid": (COMPOSED, gelu_apprx_sigmoid),
    "gelu_apprx_sigmoid_dx": (COMPOSED, gelu_apprx_sigmoid_dx),
    "gelu": ("gelu_apprx_tanh in NumPy", gelu_apprx_tanh),
    "gelu_dx": ("its approximation in NumPy", gelu_apprx_tanh_dx),
    "erf_dx": (COMPOSED, erf_dx),
    "mish": (COMPOSED, mish),
    "rsqrt": ("numpy.sqrt, numpy.reciprocal", rsqrt),
}


@pytest.mark.parametrize("name", RIVALS)
def bench_activation(
    compare: Comparison, normal: Normal, threads: int, name: Any, quick: bool
) -> None:
    count = QUICK if quick else COUNT
    x = normal(count)
    if name in {"log", "sqrt", "rsqrt"}:
        x = np.abs(x) + np.float32(1e-6)
    x = np.clip(x, -3, 3)
    out, numpy_out = np.zeros_like(x), np.zeros_like(x)
    label, rival = RIVALS[name]
    parameter = SLOPE if name == "prelu" else 0.0
    compare(
        f"activation {name} float32, 4 MiB",
        lambda: numerics.activation(x, name, parameter=parameter, out=out),
        [Rival(f"{label}, 1 thread", lambda: rival(x, numpy_out), goal=GOALS[threads])],
        Work(1e-9 * count, "Gelement/s"),
    )
