"""Runs of functions on a simulated core, with values set and read from the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trn3._trn3.machine import NkiTensor
from trn3.nki import simulate
from trn3.nki.arrays import element_bytes, to_array
from trn3.nki.context import core
from trn3.nki.dtypes import canonicalise_array
from trn3.nki.memory import MemoryRegion, ndarray

ONE = np.zeros((1,), np.float32)

#: Functions of `nki.language` that are operators of instructions, and tokens that are nothing else.
OPERATORS = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "maximum",
    "minimum",
    "abs_max",
    "abs_min",
    "power",
    "mod",
    "fmod",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "invert",
    "left_shift",
    "right_shift",
    "abs",
    "negative",
    "sign",
    "square",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "exp",
    "log",
    "sin",
    "cos",
    "tan",
    "arctan",
    "tanh",
    "ceil",
    "floor",
    "trunc",
    "sigmoid",
    "relu",
    "gelu",
    "gelu_dx",
    "gelu_apprx_sigmoid",
    "gelu_apprx_sigmoid_dx",
    "gelu_apprx_tanh",
    "silu",
    "silu_dx",
    "softplus",
    "mish",
    "erf",
    "erf_dx",
    "prelu",
    "bypass",
    "average",
    "copy",
]


def run(function: Callable[[], Any]) -> Any:
    """Run a function without arguments as a kernel; what it returns passes unchanged."""
    found: list[Any] = []
    simulate(lambda: found.append(function()))()
    return found[0]


def put(array: NDArray[Any], buffer: MemoryRegion = MemoryRegion.sbuf, name: str = "") -> NkiTensor:
    """Return a tensor that holds an array, without instructions."""
    tensor = ndarray(array.shape, canonicalise_array(array.dtype, "array"), buffer, name)
    core().write_bytes(tensor, element_bytes(array))
    return tensor


def get(tensor: NkiTensor) -> NDArray[Any]:
    """Return a tensor's values, without instructions."""
    return to_array(core(), tensor)[0]
