# The compiled core, documented by `trn3` and `trn3.numerics`; arguments go by position.

from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from trn3._trn3 import (
    checkpoint as checkpoint,
    facts as facts,
    k8s as k8s,
    machine as machine,
    planner as planner,
    profile as profile,
    system as system,
)

__all__ = [
    "TFloat32",
    "XorwowCore",
    "__version__",
    "activation",
    "cast",
    "checkpoint",
    "compress",
    "dequantize_mx",
    "exp",
    "facts",
    "from_tags",
    "from_trn3_layout",
    "get_num_threads",
    "k8s",
    "machine",
    "matmul",
    "matmul_mx",
    "matmul_sparse",
    "pack_x4",
    "planner",
    "profile",
    "prune",
    "quantize_mx",
    "set_num_threads",
    "simd_level",
    "sparse_to_dense",
    "system",
    "tfloat32",
    "to_tags",
    "to_trn3_layout",
    "unpack_x4",
]

# elements, scales, axis
_MXParts: TypeAlias = tuple[NDArray[Any], NDArray[Any], int]
# values, indices, pattern, axis
_SparseParts: TypeAlias = tuple[NDArray[Any], NDArray[np.uint8], str, int]
# c, out_dtype, rounding, rng, out
_ProductOptions: TypeAlias = tuple[
    NDArray[Any] | None, Any, str, XorwowCore | NDArray[np.uint32] | None, NDArray[Any] | None
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
def activation(
    x: NDArray[Any],
    function: str,
    parameter: float,
    out_dtype: Any,
    out: NDArray[Any] | None,
    /,
) -> NDArray[Any]: ...
def cast(
    x: NDArray[Any],
    dtype: Any,
    rounding: str,
    overflow: str,
    rng: XorwowCore | NDArray[np.uint32] | None,
    out: NDArray[Any] | None,
    /,
) -> NDArray[Any]: ...
def quantize_mx(
    x: NDArray[Any],
    dtype: Any,
    axis: int,
    scale_rule: str | None,
    rounding: str,
    rng: XorwowCore | NDArray[np.uint32] | None,
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
def exp(
    x: NDArray[Any],
    bias: float | NDArray[Any],
    out_dtype: Any,
    accumulate: bool,
    out: NDArray[Any] | None,
    /,
) -> NDArray[Any] | tuple[NDArray[Any], NDArray[np.float32]]: ...
def compress(
    w: NDArray[Any], pattern: str, axis: int, /
) -> tuple[NDArray[Any], NDArray[np.uint8], int]: ...
def prune(w: NDArray[Any], pattern: str, axis: int, /) -> NDArray[Any]: ...
def sparse_to_dense(sparse: _SparseParts, /) -> NDArray[Any]: ...
def to_tags(sparse: _SparseParts, /) -> NDArray[np.uint16]: ...
def from_tags(
    values: NDArray[Any], tags: NDArray[np.uint16], pattern: str, axis: int, /
) -> tuple[NDArray[Any], NDArray[np.uint8], int]: ...
def matmul_sparse(
    a: NDArray[Any], w: _SparseParts, options: _ProductOptions, /
) -> NDArray[Any]: ...

@final
class XorwowCore:
    @staticmethod
    def from_state(state: NDArray[np.uint32], /) -> XorwowCore: ...
    @staticmethod
    def seed(seed: int, lanes: int, generators: int, /) -> XorwowCore: ...
    def uint32(self, n: int, out: NDArray[np.uint32] | None, /) -> NDArray[np.uint32]: ...
    def uniform(self, n: int, low: float, high: float, /) -> NDArray[np.float32]: ...
    def jump(self, n: int, /) -> None: ...
    def copy(self) -> XorwowCore: ...
    def equals(self, other: XorwowCore, /) -> bool: ...
    @property
    def state(self) -> NDArray[np.uint32]: ...
    @state.setter
    def state(self, state: NDArray[np.uint32], /) -> None: ...
    @property
    def phase(self) -> int: ...
    @phase.setter
    def phase(self, phase: int, /) -> None: ...
