"""Functions that ScalarE evaluates. Each is an ``op=`` token too."""

from __future__ import annotations

import math
from typing import Any, NoReturn

from trn3._trn3.machine import NkiTensor
from trn3.nki import isa
from trn3.nki.language.creation import ndarray
from trn3.nki.language.tiles import require_tile, result_like
from trn3.nki.typing import DTypeLike
from trn3.nki.values.element_types import float32, int32
from trn3.nki.values.operators import tokens


def _activate(name: str, x: NkiTensor, dtype: DTypeLike | None) -> NkiTensor:
    tile = require_tile(name, "x", x)
    result = result_like(tile, dtype, tile.dtype)
    isa.activation(result, name, tile)
    return result


def exp(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return e to the power x.

    Parameters
    ----------
    x : tile
        In SBUF or PSUM; computed in float32.
    dtype, optional
        Element type of the result; x's by default.

    Returns
    -------
    tile
        New, in SBUF; by ``nki.isa.activation`` on ScalarE.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def kernel(x):
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, nl.exp(nl.load(x)))
    ...     return out
    >>> kernel(np.zeros((1, 2), np.float32)).tolist()
    [[1.0, 1.0]]
    """
    return _activate("exp", x, dtype)


def log(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the natural logarithm; valid from 2^-64 to 2^64, else as `exp`."""
    return _activate("log", x, dtype)


def sqrt(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the square root; valid from 2^-116 to 2^118, else as `exp`."""
    return _activate("sqrt", x, dtype)


def abs(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the magnitude; as `exp`."""
    return _activate("abs", x, dtype)


def sign(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return -1, 0 or 1; as `exp`."""
    return _activate("sign", x, dtype)


def square(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x * x; as `exp`."""
    return _activate("square", x, dtype)


def tanh(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the hyperbolic tangent; as `exp`."""
    return _activate("tanh", x, dtype)


def arctan(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the inverse tangent; valid from -pi/2 to pi/2, else as `exp`."""
    return _activate("arctan", x, dtype)


def sigmoid(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return 1 / (1 + e^-x); as `exp`."""
    return _activate("sigmoid", x, dtype)


def relu(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x where positive, else 0; as `exp`."""
    return _activate("relu", x, dtype)


def gelu(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x Φ(x), Φ the normal distribution; as `exp`."""
    return _activate("gelu", x, dtype)


def gelu_dx(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the derivative of `gelu`; as `exp`."""
    return _activate("gelu_dx", x, dtype)


def gelu_apprx_tanh(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2; as `exp`."""
    return _activate("gelu_apprx_tanh", x, dtype)


def gelu_apprx_sigmoid(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x sigmoid(1.702 x); as `exp`."""
    return _activate("gelu_apprx_sigmoid", x, dtype)


def gelu_apprx_sigmoid_dx(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the derivative of `gelu_apprx_sigmoid`; as `exp`."""
    return _activate("gelu_apprx_sigmoid_dx", x, dtype)


def silu(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x sigmoid(x); as `exp`."""
    return _activate("silu", x, dtype)


def silu_dx(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the derivative of `silu`; as `exp`."""
    return _activate("silu_dx", x, dtype)


def softplus(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return log(1 + e^x); as `exp`."""
    return _activate("softplus", x, dtype)


def mish(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return x tanh(softplus(x)); as `exp`."""
    return _activate("mish", x, dtype)


def erf(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the error function; as `exp`."""
    return _activate("erf", x, dtype)


def erf_dx(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the derivative of `erf`; as `exp`."""
    return _activate("erf_dx", x, dtype)


# 2 pi in three parts: products of the first two with whole numbers below 2^12 are exact in float32.
_TURN = (6.28125, 1.9350051879882812e-3, 3.0199159819567e-7)
_WITHIN = 3.141592502593994  # the largest float32 below pi


def _reduced(function: str, x: NkiTensor) -> NkiTensor:
    """Return x less whole turns, between -pi and pi, in float32."""
    tile = require_tile(function, "x", x)
    turns = ndarray(tile.shape, int32)
    isa.tensor_scalar(turns, tile, "multiply", 1 / (2 * math.pi))
    whole = ndarray(tile.shape, float32)
    isa.tensor_copy(whole, turns)
    rest = tile
    for part in _TURN:
        smaller = ndarray(tile.shape, float32)
        isa.scalar_tensor_tensor(smaller, whole, "multiply", -part, "add", rest)
        rest = smaller
    bounded = ndarray(tile.shape, float32)
    isa.tensor_scalar(bounded, rest, "minimum", _WITHIN, op1="maximum", operand1=-_WITHIN)
    return bounded


def sin(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the sine of any angle.

    Whole turns are taken off on VectorE before ScalarE evaluates it; ``nki.isa.activation`` with
    this function as ``op`` does not do so. Accurate while x is below some 2^14 turns.
    """
    angle = _reduced("sin", x)
    result = result_like(angle, dtype, x.dtype)
    isa.activation(result, "sin", angle)
    return result


def cos(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the cosine of any angle: sin(pi/2 - a), a the size of x less whole turns; as `sin`."""
    angle = _reduced("cos", x)
    magnitude = ndarray(angle.shape, float32)
    isa.tensor_scalar(magnitude, angle, "abs", None)
    shifted = ndarray(angle.shape, float32)
    isa.tensor_scalar(shifted, magnitude, "multiply", -1.0, op1="add", operand1=math.pi / 2)
    result = result_like(angle, dtype, x.dtype)
    isa.activation(result, "sin", shifted)
    return result


def tan(x: NkiTensor, dtype: DTypeLike | None = None) -> NkiTensor:
    """Return the tangent, as `sin` times the reciprocal of `cos`."""
    top, bottom = sin(x, float32), cos(x, float32)
    inverse = ndarray(bottom.shape, float32)
    isa.reciprocal(inverse, bottom)
    result = result_like(top, dtype, x.dtype)
    isa.tensor_tensor(result, top, inverse, "multiply")
    return result


def _token_only(name: str) -> NoReturn:
    message = f"nl.{name} is an op= token of nki.isa; it is no function of tiles"
    raise TypeError(message)


def prelu(*_: Any, **__: Any) -> NoReturn:
    """Stand for x where positive, else a multiple of x: an ``op=`` token of ``activate2``."""
    _token_only("prelu")


def bypass(*_: Any, **__: Any) -> NoReturn:
    """Stand for the operand itself: an ``op=`` token."""
    _token_only("bypass")


def average(*_: Any, **__: Any) -> NoReturn:
    """Stand for the mean: an ``op=`` token of ``tensor_partition_reduce``."""
    _token_only("average")


tokens(
    exp, log, sqrt, abs, sign, square, tanh, arctan, sigmoid, relu, gelu, gelu_dx,
    gelu_apprx_tanh, gelu_apprx_sigmoid, gelu_apprx_sigmoid_dx, silu, silu_dx, softplus, mish,
    erf, erf_dx, sin, cos, tan, prelu, bypass, average,
)  # fmt: skip
