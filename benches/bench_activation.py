"""Activation functions, beside NumPy's where it has them and the usual composition where not.

Shows what results within 0.51 ulp cost, tails and subnormals included, in the same bits at every
SIMD level. NumPy's own exp, log, tanh, sin and arctan are float32 throughout, up to 4 ulp off and
of other bits on other CPUs, so no goal is set beside them; what NumPy composes of several passes is
to be beaten. Both sides write into memory that is already mapped. NumPy has no erf, so the exact
gelu stands beside the approximate one.
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
# For compositions; NumPy uses one thread.
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


def mish(x: Array, out: Array) -> Array:
    np.logaddexp(x, np.float32(0), out=out)
    np.tanh(out, out=out)
    out *= x
    return out


def rsqrt(x: Array, out: Array) -> Array:
    np.sqrt(x, out=out)
    return np.reciprocal(out, out=out)


RIVALS: dict[Any, tuple[str, Callable[[Array, Array], Array]]] = {
    "exp": ("numpy.exp", lambda x, out: np.exp(x, out=out)),
    "log": ("numpy.log", lambda x, out: np.log(x, out=out)),
    "tanh": ("numpy.tanh", lambda x, out: np.tanh(x, out=out)),
    "sin": ("numpy.sin", lambda x, out: np.sin(x, out=out)),
    "arctan": ("numpy.arctan", lambda x, out: np.arctan(x, out=out)),
    "sqrt": ("numpy.sqrt", lambda x, out: np.sqrt(x, out=out)),
    "reciprocal": ("numpy.reciprocal", lambda x, out: np.reciprocal(x, out=out)),
    "sigmoid": (COMPOSED, sigmoid),
    "silu": (COMPOSED, silu),
    "softplus": ("numpy.logaddexp", lambda x, out: np.logaddexp(x, np.float32(0), out=out)),
    "gelu_apprx_tanh": (COMPOSED, gelu_apprx_tanh),
    "gelu": ("gelu_apprx_tanh in NumPy", gelu_apprx_tanh),
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
    goal = GOALS[threads] if label == COMPOSED else None
    compare(
        f"activation {name} float32, 4 MiB",
        lambda: numerics.activation(x, name, out=out),
        [Rival(f"{label}, 1 thread", lambda: rival(x, numpy_out), goal=goal)],
        Work(1e-9 * count, "Gelement/s"),
    )
