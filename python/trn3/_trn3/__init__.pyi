# The compiled core, which documents itself; `trn3` and `trn3.numerics` re-export parts of it.

from typing import Any, ClassVar, Literal, TypeAlias, final, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from trn3._trn3 import (
    checkpoint as checkpoint,
    compiler as compiler,
    facts as facts,
    graph as graph,
    k8s as k8s,
    load as load,
    machine as machine,
    planner as planner,
    profile as profile,
    system as system,
)

__all__ = [
    "ACTIVATIONS",
    "MXArray",
    "SparseArray",
    "TFloat32",
    "Xorwow",
    "__version__",
    "activation",
    "cast",
    "checkpoint",
    "compiler",
    "compress",
    "exp",
    "facts",
    "get_num_threads",
    "graph",
    "k8s",
    "kept_bytes",
    "load",
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
    "system",
    "tfloat32",
    "unpack_x4",
]

_Rounding: TypeAlias = Literal["nearest", "zero", "stochastic"]
_Overflow: TypeAlias = Literal["ieee", "saturate"]
_ScaleRule: TypeAlias = Literal["trn3", "ocp", "rceil"]
_Pattern: TypeAlias = Literal["4:16", "4:12", "4:8", "2:8", "2:4", "1:4", "1:2"]
_Activation: TypeAlias = Literal[
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
_FormatLike: TypeAlias = DTypeLike | TFloat32

__version__: str
ACTIVATIONS: tuple[_Activation, ...]

@final
class TFloat32:
    @property
    def dtype(self) -> np.dtype[np.float32]: ...
    def __reduce__(self) -> str: ...

tfloat32: TFloat32

def set_num_threads(n: int, /) -> None: ...
def get_num_threads() -> int: ...
def kept_bytes() -> int: ...
def simd_level() -> str: ...
def activation(
    x: NDArray[Any],
    function: _Activation,
    *,
    parameter: float = 0.0,
    out_dtype: _FormatLike | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]: ...
def cast(
    x: NDArray[Any],
    dtype: _FormatLike,
    *,
    rounding: _Rounding = "nearest",
    overflow: _Overflow = "ieee",
    rng: Xorwow | NDArray[np.uint32] | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]: ...
def quantize_mx(
    x: NDArray[Any],
    dtype: _FormatLike,
    *,
    axis: int = -1,
    scale_rule: _ScaleRule | None = None,
    rounding: _Rounding = "nearest",
    rng: Xorwow | NDArray[np.uint32] | None = None,
    out: MXArray | None = None,
) -> MXArray: ...
def matmul(
    a: NDArray[Any],
    b: NDArray[Any],
    *,
    c: NDArray[Any] | None = None,
    out_dtype: _FormatLike = ...,
    rounding: _Rounding = "nearest",
    rng: Xorwow | NDArray[np.uint32] | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]: ...
def matmul_mx(
    a: MXArray,
    b: MXArray,
    *,
    c: NDArray[Any] | None = None,
    out_dtype: _FormatLike = ...,
    rounding: _Rounding = "nearest",
    rng: Xorwow | NDArray[np.uint32] | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]: ...
def matmul_sparse(
    a: NDArray[Any],
    w: SparseArray,
    *,
    c: NDArray[Any] | None = None,
    out_dtype: _FormatLike = ...,
    rounding: _Rounding = "nearest",
    rng: Xorwow | NDArray[np.uint32] | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]: ...
@overload
def exp(
    x: NDArray[Any],
    *,
    bias: float | NDArray[Any] = 0.0,
    out_dtype: _FormatLike | None = None,
    accumulate: Literal[False] = False,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]: ...
@overload
def exp(
    x: NDArray[Any],
    *,
    bias: float | NDArray[Any] = 0.0,
    out_dtype: _FormatLike | None = None,
    accumulate: Literal[True],
    out: NDArray[Any] | None = None,
) -> tuple[NDArray[Any], NDArray[np.float32]]: ...
@overload
def exp(
    x: NDArray[Any],
    *,
    bias: float | NDArray[Any] = 0.0,
    out_dtype: _FormatLike | None = None,
    accumulate: bool,
    out: NDArray[Any] | None = None,
) -> NDArray[Any] | tuple[NDArray[Any], NDArray[np.float32]]: ...
def pack_x4(elements: NDArray[Any], /) -> NDArray[Any]: ...
def unpack_x4(packed: NDArray[Any], dtype: _FormatLike, /) -> NDArray[Any]: ...
def compress(w: NDArray[Any], pattern: _Pattern, *, axis: int = -2) -> SparseArray: ...
def prune(w: NDArray[Any], pattern: _Pattern, *, axis: int = -2) -> NDArray[Any]: ...

@final
class MXArray:
    __hash__: ClassVar[None]  # type: ignore[assignment]
    @property
    def elements(self) -> NDArray[Any]: ...
    @property
    def scales(self) -> NDArray[Any]: ...
    @property
    def axis(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def nbytes(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @classmethod
    def from_parts(
        cls, elements: NDArray[Any], scales: NDArray[Any], axis: int = -1
    ) -> MXArray: ...
    def dequantize(
        self, dtype: _FormatLike = ..., *, out: NDArray[Any] | None = None
    ) -> NDArray[Any]: ...
    def to_x4(self) -> NDArray[Any]: ...
    @classmethod
    def from_x4(
        cls, packed: NDArray[Any], scales: NDArray[Any], dtype: _FormatLike, axis: int = -1
    ) -> MXArray: ...
    def to_trn3_layout(self) -> tuple[NDArray[Any], NDArray[np.uint8]]: ...
    @classmethod
    def from_trn3_layout(
        cls, data: NDArray[Any], scales: NDArray[np.uint8], dtype: _FormatLike
    ) -> MXArray: ...

@final
class SparseArray:
    __hash__: ClassVar[None]  # type: ignore[assignment]
    @property
    def values(self) -> NDArray[Any]: ...
    @property
    def indices(self) -> NDArray[np.uint8]: ...
    @property
    def pattern(self) -> _Pattern: ...
    @property
    def axis(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    def to_dense(self) -> NDArray[Any]: ...
    def to_tags(self) -> NDArray[np.uint16]: ...
    @classmethod
    def from_tags(
        cls, values: NDArray[Any], tags: NDArray[np.uint16], pattern: _Pattern, axis: int = -2
    ) -> SparseArray: ...

@final
class Xorwow:
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __new__(cls, state: NDArray[np.uint32]) -> Xorwow: ...
    @classmethod
    def seed(cls, seed: int, lanes: int = 128, generators: int = 1) -> Xorwow: ...
    def uint32(self, n: int, *, out: NDArray[np.uint32] | None = None) -> NDArray[np.uint32]: ...
    def uniform(self, n: int, low: float = 0.0, high: float = 1.0) -> NDArray[np.float32]: ...
    def jump(self, n: int) -> None: ...
    @property
    def state(self) -> NDArray[np.uint32]: ...
    @state.setter
    def state(self, state: NDArray[np.uint32], /) -> None: ...
    @property
    def phase(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __copy__(self) -> Xorwow: ...
    def __deepcopy__(self, memo: dict[int, Any], /) -> Xorwow: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
