"""What an MX tensor is in a file: element formats, names and shapes of scales, 4-bit packing.

The file is plain safetensors. A quantized tensor ``w`` keeps its name and shape; its dtype is
F8_E4M3, F8_E5M2 or F4 (two values to a byte, the first in the low half). Beside it stands
``w_scales``, dtype F8_E8M0, with the blocked axis divided by 32. The ``__metadata__`` entry
``trn3.mx`` holds JSON::

    {"version": 1,
     "tensors": {"w": {"axis": -1, "scales": "w_scales", "dtype": "float8_e4m3fn",
                       "source_dtype": "F32", "scale_rule": "trn3", "rounding": "nearest"}}}

(and ``"seed"``, the seed of the tensor's own generator, where the rounding was stochastic). Every
other tensor is stored byte for byte as it came.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from trn3.checkpoint.safetensors import DTYPES

BLOCK = 32
METADATA_KEY = "trn3.mx"
METADATA_VERSION = 1


@dataclass(frozen=True, slots=True)
class MXFormat:
    """An element format as the command line, safetensors and ml_dtypes know it.

    `largest` is the largest finite element.
    """

    name: str
    safetensors: str
    dtype: np.dtype[Any]
    largest: float
    default_scale_rule: Literal["trn3", "ocp"]

    @property
    def bits(self) -> int:
        """Bits of one element, its scale not counted."""
        return DTYPES[self.safetensors][0]


FORMATS = {
    mx_format.name: mx_format
    for mx_format in (
        MXFormat("mxfp8-e4m3", "F8_E4M3", np.dtype(ml_dtypes.float8_e4m3fn), 448.0, "trn3"),
        MXFormat("mxfp8-e5m2", "F8_E5M2", np.dtype(ml_dtypes.float8_e5m2), 57344.0, "trn3"),
        MXFormat("mxfp4-e2m1", "F4", np.dtype(ml_dtypes.float4_e2m1fn), 6.0, "ocp"),
    )
}


def scales_name(name: str) -> str:
    """Return the name under which the scales of tensor `name` are stored."""
    return f"{name}_scales"


def scales_shape(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    """Return `shape` with `axis` divided by the block length.

    >>> scales_shape((4, 64), -1)
    (4, 2)
    """
    sizes = list(shape)
    sizes[axis] //= BLOCK
    return tuple(sizes)


def pack_fp4(elements: NDArray[Any]) -> NDArray[np.uint8]:
    """Return 4-bit values, an even number of them, two to a byte in C order, first in the low half.

    >>> pack_fp4(np.array([0.5, 6.0, -0.0, 1.0], ml_dtypes.float4_e2m1fn)).tolist()
    [113, 40]
    """
    codes = np.ascontiguousarray(elements).view(np.uint8).reshape(-1, 2)
    packed: NDArray[np.uint8] = codes[:, 0] | (codes[:, 1] << np.uint8(4))
    return packed


def unpack_fp4(packed: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[Any]:
    """Undo `pack_fp4`.

    >>> unpack_fp4(np.array([113, 40], np.uint8), (4,)).astype(float).tolist()
    [0.5, 6.0, -0.0, 1.0]
    """
    codes = np.empty((packed.size, 2), np.uint8)
    np.bitwise_and(packed, 15, out=codes[:, 0])
    np.right_shift(packed, 4, out=codes[:, 1])
    return codes.reshape(shape).view(ml_dtypes.float4_e2m1fn)
