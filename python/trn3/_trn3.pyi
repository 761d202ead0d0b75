# The compiled core, documented by `trn3` and `trn3.numerics`; arguments go by position.

from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

# elements, scales, axis
_MXParts: TypeAlias = tuple[NDArray[Any], NDArray[Any], int]
# c, out_dtype, rounding, rng, out
_ProductOptions: TypeAlias = tuple[
    NDArray[Any] | None, Any, str, NDArray[np.uint32] | None, NDArray[Any] | None
]

__version__: str

@final
class TFloat32:
    @property
    def dtype(self) -> np.dtype[np.float32]: ...
    def __reduce__(self) -> str: ...

tfloat32: TFloat32

def set_num_threads(n: int, /) -> None: ...
def get_num_threads() -> int: ...
def simd_level() -> str: ...
def cast(
    x: NDArray[Any],
    dtype: Any,
    rounding: str,
    overflow: str,
    rng: NDArray[np.uint32] | None,
    out: NDArray[Any] | None,
    /,
) -> NDArray[Any]: ...
def quantize_mx(
    x: NDArray[Any],
    dtype: Any,
    axis: int,
    scale_rule: str | None,
    rounding: str,
    rng: NDArray[np.uint32] | None,
    out: _MXParts | None,
    /,
) -> _MXParts: ...
def dequantize_mx(x: _MXParts, dtype: Any, out: NDArray[Any] | None, /) -> NDArray[Any]: ...
def pack_x4(elements: NDArray[Any], /) -> NDArray[Any]: ...
def unpack_x4(packed: NDArray[Any], dtype: Any, /) -> NDArray[Any]: ...
def to_trn3_layout(x: _MXParts, /) -> tuple[NDArray[Any], NDArray[np.uint8]]: ...
def from_trn3_layout(
    data: NDArray[Any], scales: NDArray[np.uint8], dtype: Any, /
) -> tuple[NDArray[Any], NDArray[Any]]: ...
def matmul(a: NDArray[Any], b: NDArray[Any], options: _ProductOptions, /) -> NDArray[Any]: ...
def matmul_mx(a: _MXParts, b: _MXParts, options: _ProductOptions, /) -> NDArray[Any]: ...
