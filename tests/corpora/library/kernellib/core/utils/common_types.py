"""Enums that kernels take as arguments."""

from enum import Enum

import nki.language as nl


class NormType(Enum):
    """Normalisation in front of a projection."""

    NO_NORM = 0
    RMS_NORM = 1
    LAYER_NORM = 2
    RMS_NORM_SKIP_GAMMA = 3


class QuantizationType(Enum):
    """How weights are quantised."""

    NONE = 0
    STATIC = 1
    ROW = 2
    MX = 3


class ActFnType(Enum):
    """Activation between projections."""

    SiLU = 0
    GELU = 1
    GELU_Tanh_Approx = 2
    Swish = 3


class OutputLayout(Enum):
    """Axes of the result: batch, sequence, heads, head dimension."""

    BSD = 0
    NBSd = 1
    NBdS = 2


# By value, as functions are first-class.
ACT_FN = {
    ActFnType.SiLU: nl.silu,
    ActFnType.GELU: nl.gelu,
    ActFnType.GELU_Tanh_Approx: nl.gelu_apprx_tanh,
    ActFnType.Swish: nl.gelu_apprx_sigmoid,
}

DTYPE_SIZE = {
    str(nl.float32): 4,
    str(nl.tfloat32): 4,
    str(nl.int32): 4,
    str(nl.uint32): 4,
    str(nl.bfloat16): 2,
    str(nl.float16): 2,
    str(nl.int16): 2,
    str(nl.uint16): 2,
    str(nl.int8): 1,
    str(nl.uint8): 1,
    str(nl.float8_e4m3): 1,
    str(nl.float8_e5m2): 1,
    str(nl.float8_e4m3fn): 1,
    str(nl.float8_e4m3fn_x4): 4,
    str(nl.float8_e5m2_x4): 4,
    str(nl.float4_e2m1fn_x4): 2,
    "float8e4": 1,
    "float8e5": 1,
}

FP8_TYPES = ("float8e4", "float8e5", str(nl.float8_e4m3), str(nl.float8_e5m2))


def is_fp8(dtype) -> bool:
    return str(dtype) in FP8_TYPES or dtype == nl.float8_e4m3fn
