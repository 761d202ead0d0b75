"""The activation functions: exact ones in mpmath, and fast ones in NumPy's widest floating point.

mpmath is the judge; the fast ones serve where millions of values are compared, and only after they
have been compared with mpmath themselves, in the same run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt

# Long doubles, of whatever width the platform has; NumPy types their results by platform.
Wide = npt.NDArray[Any]

PRECISION_BITS = 320
SLOPE = 0.3125

# Zeros of the functions, other than 0. Within 2^-10 of the first three cancellation costs the fast
# formulas too many bits: there mpmath judges alone.
CANCELLING = {
    "gelu_dx": -0.7517915246935645,
    "silu_dx": -1.2784645427610738,
    "gelu_apprx_sigmoid_dx": -0.7511542554412889,
}
ZEROS = {**CANCELLING, "log": 1.0, "sin": 5.591082396365793}


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + e^-x)."""
    return 1 / (1 + mpmath.exp(-x))


def swish_dx(x: Any) -> Any:
    """Return the derivative of x * sigmoid(x)."""
    s = sigmoid(x)
    return s * (1 + x * (1 - s))


def normal(x: Any) -> Any:
    """Return the normal distribution's cumulative function."""
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def gelu_dx(x: Any) -> Any:
    """Return Phi(x) + x * Phi'(x)."""
    return normal(x) + x * mpmath.exp(-x * x / 2) / mpmath.sqrt(2 * mpmath.pi)


def gelu_apprx_tanh(x: Any) -> Any:
    """Return x / 2 * (1 + tanh(u)), which is x * sigmoid(2 u)."""
    u = mpmath.sqrt(2 / mpmath.pi) * (x + mpmath.mpf("0.044715") * x**3)
    return x * sigmoid(2 * u)


def sin(x: Any) -> Any:
    """Return sin x within [-pi, pi], beyond its third-order Taylor polynomial about the end."""
    if abs(x) <= mpmath.pi:
        return mpmath.sin(x)
    d = abs(x) - mpmath.pi
    return mpmath.sign(x) * (d**3 / 6 - d)


EXACT: dict[str, Callable[[Any], Any]] = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "sigmoid": sigmoid,
    "relu": lambda x: max(x, 0),
    "prelu": lambda x: x if x >= 0 else SLOPE * x,
    "gelu": lambda x: x * normal(x),
    "gelu_dx": gelu_dx,
    "gelu_apprx_tanh": gelu_apprx_tanh,
    "gelu_apprx_sigmoid": lambda x: x * sigmoid(mpmath.mpf("1.702") * x),
    "gelu_apprx_sigmoid_dx": lambda x: swish_dx(mpmath.mpf("1.702") * x),
    "silu": lambda x: x * sigmoid(x),
    "silu_dx": swish_dx,
    "tanh": mpmath.tanh,
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "mish": lambda x: x * mpmath.tanh(mpmath.log1p(mpmath.exp(x))),
    "erf": mpmath.erf,
    "erf_dx": lambda x: 2 / mpmath.sqrt(mpmath.pi) * mpmath.exp(-x * x),
    "exp": mpmath.exp,
    "log": mpmath.log,
    "sin": sin,
    "arctan": mpmath.atan,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sign": mpmath.sign,
    "abs": abs,
}

# Past this magnitude the rest is an exponential far below float32's smallest number, or below an
# ulp of the limit; mpmath would work on exponents of millions.
FAR = 200.0
LIMIT_WHERE_FAR: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    # name: (below -FAR, above FAR)
    **dict.fromkeys(
        ("sigmoid", "gelu_dx", "gelu_apprx_sigmoid_dx", "silu_dx"),
        (lambda x: 0 * x, lambda x: 1 + 0 * x),
    ),
    **dict.fromkeys(
        ("gelu", "gelu_apprx_tanh", "gelu_apprx_sigmoid", "silu", "softplus", "mish"),
        (lambda x: 0 * x, lambda x: x),
    ),
    **dict.fromkeys(("tanh", "erf"), (lambda x: -1 + 0 * x, lambda x: 1 + 0 * x)),
    "erf_dx": (lambda x: 0 * x, lambda x: 0 * x),
    "exp": (lambda x: 0 * x, lambda x: 2.0**200 + 0 * x),
}


def exact(name: str, x: float) -> Any:
    """Return a function of a finite float32 as an mpmath number of 320 bits; its domain only."""
    with mpmath.workprec(PRECISION_BITS):
        value = mpmath.mpf(x)
        if abs(x) > FAR and name in LIMIT_WHERE_FAR:
            return mpmath.mpf(LIMIT_WHERE_FAR[name][x > 0](value))
        return mpmath.mpf(EXACT[name](value))


def error_in_ulp(got: float, true: Any) -> float:
    """Return how far a float32 is from a true value, in the true value's ulp; inf is 2^128."""
    with mpmath.workprec(PRECISION_BITS):
        overflow = mpmath.mpf(2) ** 128
        capped = max(min(true, overflow), -overflow)
        result = math.copysign(2.0**128, got) if math.isinf(got) else got
        exponent = min(max(int(mpmath.frexp(capped)[1]) - 1, -126), 127)
        return float(abs(mpmath.mpf(result) - capped) / mpmath.mpf(2) ** (exponent - 23))


def errors_in_ulp(got: npt.NDArray[np.float32], true: Wide) -> npt.NDArray[np.float64]:
    """Return the same for arrays, of values that are good to the wide type's precision."""
    overflow = np.longdouble(2.0**128)
    capped = np.clip(true, -overflow, overflow)
    result = np.where(np.isinf(got), np.copysign(overflow, got), got.astype(np.longdouble))
    exponent = np.clip(np.frexp(capped)[1] - 1, -126, 127)
    scaled = np.ldexp(np.abs(result - capped), (23 - exponent).astype(np.intc))
    errors: npt.NDArray[np.float64] = scaled.astype(np.float64)
    return errors


def per_element(function: Callable[[float], float], x: Wide) -> Wide:
    """Apply a function of the standard library, which is good to a few units of float64."""
    return np.array(
        [function(value) for value in x.astype(np.float64).tolist()], dtype=np.longdouble
    )


def wide_sigmoid(x: Wide) -> Wide:
    """Return 1 / (1 + e^-x)."""
    result: Wide = 1 / (1 + np.exp(-x))
    return result


def wide_swish_dx(x: Wide) -> Wide:
    """Return the derivative of x * sigmoid(x), as (1 + t + x t) / (1 + t)^2 with t = e^-x."""
    t = np.exp(-x)
    result: Wide = (1 + (1 + x) * t) / (1 + t) ** 2
    return result


def wide_normal(x: Wide) -> Wide:
    """Return the normal distribution's cumulative function."""
    return per_element(math.erfc, -x / np.sqrt(np.longdouble(2))) / 2


def wide_gelu_dx(x: Wide) -> Wide:
    """Return Phi(x) + x * Phi'(x)."""
    pi = 4 * np.arctan(np.longdouble(1))
    result: Wide = wide_normal(x) + x * np.exp(-x * x / 2) / np.sqrt(2 * pi)
    return result


def wide_gelu_apprx_tanh(x: Wide) -> Wide:
    """Return x * sigmoid(2 u)."""
    pi = 4 * np.arctan(np.longdouble(1))
    cubic = np.longdouble(44715) / 1000000
    result: Wide = x * wide_sigmoid(2 * np.sqrt(2 / pi) * (x + cubic * x**3))
    return result


def wide_sin(x: Wide) -> Wide:
    """Return sin x within [-pi, pi], beyond the polynomial; pi in two parts."""
    high = np.longdouble(math.pi)
    d = (np.abs(x) - high) - np.longdouble(1.2246467991473532e-16)
    inside = np.where(np.abs(x) > 2, -np.sin(d), np.sin(np.abs(x)))
    return np.copysign(1, x) * np.where(d <= 0, inside, d**3 / 6 - d)


FACTOR = np.longdouble(1702) / 1000
FAST: dict[str, Callable[[Wide], Wide]] = {
    "sigmoid": wide_sigmoid,
    "gelu": lambda x: x * wide_normal(x),
    "gelu_dx": wide_gelu_dx,
    "gelu_apprx_tanh": wide_gelu_apprx_tanh,
    "gelu_apprx_sigmoid": lambda x: x * wide_sigmoid(FACTOR * x),
    "gelu_apprx_sigmoid_dx": lambda x: wide_swish_dx(FACTOR * x),
    "silu": lambda x: x * wide_sigmoid(x),
    "silu_dx": wide_swish_dx,
    "tanh": np.tanh,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "erf": lambda x: per_element(math.erf, x),
    "erf_dx": lambda x: np.exp(-x * x) * (1 / np.sqrt(np.arctan(np.longdouble(1)))),
    "exp": np.exp,
    "log": np.log,
    "sin": wide_sin,
    "arctan": np.arctan,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}


def fast(name: str, x: npt.NDArray[np.float32]) -> Wide:
    """Return a function of finite float32 in its domain, good to 2^-10 float32 ulp."""
    wide = x.astype(np.longdouble)
    if name not in LIMIT_WHERE_FAR:
        return FAST[name](wide)
    values = FAST[name](np.clip(wide, -FAR, FAR))
    below, above = LIMIT_WHERE_FAR[name]
    return np.where(wide < -FAR, below(wide), np.where(wide > FAR, above(wide), values))


def wide_error_in_ulp(got: Any, true: Any) -> float:
    """Return how far a fast formula's value is from the true one, in float32 ulp of that."""
    with mpmath.workprec(PRECISION_BITS):
        head = float(got)
        rest = 0.0 if math.isinf(head) else float(got - np.longdouble(head))
        if math.isinf(head):
            return error_in_ulp(head, true)
        overflow = mpmath.mpf(2) ** 128
        capped = max(min(true, overflow), -overflow)
        value = max(min(mpmath.mpf(head) + mpmath.mpf(rest), overflow), -overflow)
        exponent = min(max(int(mpmath.frexp(capped)[1]) - 1, -126), 127)
        return float(abs(value - capped) / mpmath.mpf(2) ** (exponent - 23))
