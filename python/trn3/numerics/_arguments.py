"""Types of arguments that several functions take."""

from typing import Literal, TypeAlias

from numpy.typing import DTypeLike

from trn3._trn3 import TFloat32

Rounding: TypeAlias = Literal["nearest", "zero", "stochastic"]
Overflow: TypeAlias = Literal["ieee", "saturate"]
Activation: TypeAlias = Literal[
    "copy",
    "square",
    "sigmoid",
    "relu",
    "prelu",
    "gelu",
    "gelu_dx",
    "gelu_apprx_tanh",
    "gelu_apprx_sigmoid",
    "gelu_apprx_sigmoid_dx",
    "silu",
    "silu_dx",
    "tanh",
    "softplus",
    "mish",
    "erf",
    "erf_dx",
    "exp",
    "log",
    "sin",
    "arctan",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sign",
    "abs",
]
FormatLike: TypeAlias = DTypeLike | TFloat32
