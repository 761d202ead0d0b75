"""Options of kernels."""

from enum import Enum

import nki.language as nl


class ActFnType(Enum):
    """Activation between the projections."""

    SiLU = 0
    GELU = 1
    GELU_Tanh_Approx = 2
    Swish = 3


class ExpertAffinityScaleMode(Enum):
    """Where affinities multiply."""

    NO_SCALE = 0
    POST_SCALE = 1
    PRE_SCALE = 2


class BlockShardStrategy(Enum):
    """How two cores divide blocks."""

    HI_LO = 0
    PING_PONG = 1


_ACTIVATIONS = {
    ActFnType.SiLU: nl.silu,
    ActFnType.GELU: nl.gelu,
    ActFnType.GELU_Tanh_Approx: nl.gelu_apprx_tanh,
    ActFnType.Swish: nl.gelu_apprx_sigmoid,
}

_DTYPE_SIZES = {
    nl.bfloat16: 2,
    nl.float16: 2,
    nl.float32: 4,
    nl.float8_e4m3: 1,
    nl.float8_e5m2: 1,
    nl.uint8: 1,
    nl.int8: 1,
    nl.uint32: 4,
    nl.int32: 4,
    nl.float8_e4m3fn_x4: 4,
    nl.float8_e5m2_x4: 4,
    nl.float4_e2m1fn_x4: 2,
    nl.bool: 1,
}

_SIZES_BY_NAME = {str(dtype): size for dtype, size in _DTYPE_SIZES.items()}


def activation_of(kind):
    """Token of an activation."""
    return _ACTIVATIONS[kind]


def sizeinbytes(dtype):
    """Bytes of an element, found by the name of its type."""
    name = str(dtype)
    if name in ("float8e4", "float8e5"):
        return 1
    return _SIZES_BY_NAME[name]
