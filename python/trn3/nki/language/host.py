"""Operations that no engine has: computed like a program of GpSimdE's processors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trn3._trn3.machine import NkiTensor, isa as machine_isa
from trn3.nki.language.creation import ndarray
from trn3.nki.language.tiles import converted, in_sbuf, number, stretch
from trn3.nki.ranks.context import core
from trn3.nki.values.element_types import float32

_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "divide": np.divide,
    "mod": np.mod,
    "fmod": np.fmod,
}


def run(name: str, x: Any, y: Any, shape: tuple[int, ...]) -> NkiTensor:
    """Return a float32 tile of an operation on two tiles, or a tile and a number.

    It takes the time of a GpSimdE instruction that handles an element a cycle (**choice**).
    """
    tiles = [
        stretch(in_sbuf(converted(operand, float32)), shape)
        for operand in (x, y)
        if isinstance(operand, NkiTensor)
    ]
    constants = [number(operand) for operand in (x, y)]
    function = _FUNCTIONS[name]

    def compute(inputs: list[bytes]) -> list[bytes]:
        arrays = iter([np.frombuffer(tile, np.float32) for tile in inputs])
        operands = [
            next(arrays) if constant is None else np.float32(constant) for constant in constants
        ]
        with np.errstate(all="ignore"):
            result: NDArray[np.float32] = function(*operands)
        return [result.astype(np.float32, copy=False).tobytes()]

    result = ndarray(shape, float32)
    cycles = result.size // shape[0]
    machine_isa.gpsimd_call(core(), compute, name, [result], tiles, cycles, None)
    return result
