"""The language of legacy kernels, imported as ``neuronxcc.nki.language``.

Names that are not here are those of `trn3.nki.language`: element types, memories, sizes.
"""

from __future__ import annotations

import builtins as _builtins
from collections.abc import Callable
from typing import Any

from trn3.nki import language as _modern
from trn3.nki.dialects.legacy.indices import (
    AffineRange,
    LoopRange,
    StaticRange,
    arange,
    mgrid,
    par_dim,
)
from trn3.nki.dialects.legacy.issuing import flush as _flush
from trn3.nki.dialects.legacy.language import elementwise as _elementwise
from trn3.nki.dialects.legacy.language.creation import (
    empty_like,
    full,
    ndarray,
    ones,
    rand,
    shared_constant,
    shared_identity_matrix,
    zeros,
    zeros_like,
)
from trn3.nki.dialects.legacy.language.elementwise import (
    copy,
    divide,
    invert,
    negative,
    reciprocal,
    where,
)
from trn3.nki.dialects.legacy.language.movement import (
    broadcast_to,
    expand_dims,
    gather_flattened,
    load,
    load_transpose2d,
    matmul,
    store,
    transpose,
)
from trn3.nki.dialects.legacy.language.reductions import (
    FUNCTIONS as _REDUCTIONS,
    dropout,
    loop_reduce,
    mean,
    rms_norm,
    softmax,
    var,
)
from trn3.nki.dialects.legacy.language.updating import all_reduce, atomic_rmw
from trn3.nki.dialects.legacy.views import Tensor
from trn3.nki.language.control import (
    no_reorder,
    num_programs as _num_programs,
    program_id,
    program_ndim,
)
from trn3.nki.language.tile_sizes import tile_size
from trn3.nki.values.axes import nc, spmd_dim
from trn3.nki.values.element_types import (
    bfloat16,
    bool_,
    float8_e4m3,
    float8_e5m2,
    float16,
    float32,
    fp32,
    int8,
    int16,
    int32,
    tfloat32,
    uint8,
    uint16,
    uint32,
)
from trn3.nki.values.memory_regions import MemoryRegion, hbm, private_hbm, psum, sbuf, shared_hbm
from trn3.nki.values.neuron_dtypes import static_cast
from trn3.nki.values.suggestions import missing_attribute as _missing_attribute

ds = _modern.ds
tensor = Tensor
bool = bool_
range = _builtins.range
affine_range, sequential_range, static_range = AffineRange, LoopRange, StaticRange

_FUNCTIONS: dict[str, Callable[..., Any]] = {**_elementwise.FUNCTIONS, **_REDUCTIONS}
globals().update({name: made for name, made in _FUNCTIONS.items() if name not in globals()})


__all__ = [
    "MemoryRegion",
    "affine_range",
    "all_reduce",
    "arange",
    "atomic_rmw",
    "bfloat16",
    "bool",
    "bool_",
    "broadcast_to",
    "copy",
    "device_print",
    "divide",
    "dropout",
    "ds",
    "empty_like",
    "expand_dims",
    "float8_e4m3",
    "float8_e5m2",
    "float16",
    "float32",
    "fp32",
    "full",
    "gather_flattened",
    "hbm",
    "int8",
    "int16",
    "int32",
    "invert",
    "load",
    "load_transpose2d",
    "loop_reduce",
    "matmul",
    "mean",
    "mgrid",
    "nc",
    "ndarray",
    "negative",
    "no_reorder",
    "num_programs",
    "ones",
    "par_dim",
    "private_hbm",
    "program_id",
    "program_ndim",
    "psum",
    "rand",
    "random_seed",
    "range",
    "reciprocal",
    "rms_norm",
    "sbuf",
    "sequential_range",
    "shared_constant",
    "shared_hbm",
    "shared_identity_matrix",
    "softmax",
    "spmd_dim",
    "static_cast",
    "static_range",
    "store",
    "tensor",
    "tfloat32",
    "tile_size",
    "transpose",
    "uint8",
    "uint16",
    "uint32",
    "var",
    "where",
    "zeros",
    "zeros_like",
]
# Most functions are made from tables.
__all__ += [name for name in _FUNCTIONS if name not in __all__]


def num_programs(axes: Any = None) -> Any:
    """Return the launch grid's length along an axis, of all instances by default."""
    return _num_programs(axes)


def random_seed(seed: Any, **_: Any) -> None:
    """Seed VectorE's generator; `seed` is a number or a tile of one."""
    _flush()
    _modern.random_seed(seed.view if isinstance(seed, Tensor) else seed)


def device_print(prefix: str, x: Any = "", **_: Any) -> None:
    """Write a prefix and a tensor's values to standard output."""
    _modern.device_print(prefix, x.view if isinstance(x, Tensor) else x)


def __getattr__(name: str) -> Any:
    # Op tokens and figures that the dialects share; functions would take tiles of the other kind.
    value = getattr(_modern, name, None)
    if value is None or (
        callable(value) and name not in ("bypass", "average", "prelu", "NKIObject")
    ):
        raise _missing_attribute("neuronxcc.nki.language", name, globals())
    return value
