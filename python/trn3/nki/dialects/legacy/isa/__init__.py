"""Instructions of the legacy dialect, imported as ``neuronxcc.nki.isa``: they return tiles.

Each makes its result and runs the instruction of `trn3.nki.isa` of the same name.
"""

from __future__ import annotations

from trn3.nki.dialects.legacy.isa.arithmetic import (
    activation,
    activation_reduce,
    bn_aggr,
    bn_stats,
    max8,
    reciprocal,
    scalar_tensor_tensor,
    tensor_reduce,
    tensor_scalar,
    tensor_scalar_reduce,
    tensor_tensor,
    tensor_tensor_scan,
)
from trn3.nki.dialects.legacy.isa.movement import (
    dma_copy,
    dma_transpose,
    memset,
    nc_matmul,
    nc_stream_shuffle,
    nc_transpose,
    tensor_copy,
    tensor_copy_dynamic_dst,
    tensor_copy_dynamic_src,
)
from trn3.nki.dialects.legacy.isa.selection import (
    dropout,
    local_gather,
    nc_find_index8,
    nc_match_replace8,
    range_select,
    select_reduce,
    sequence_bounds,
    tensor_copy_predicated,
    tensor_partition_reduce,
)
from trn3.nki.dialects.legacy.selecting import affine_select, iota
from trn3.nki.isa import (
    constants,
    dge_mode,
    dma_engine,
    engine,
    get_nc_version,
    gpsimd_engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
    scalar_engine,
    sync_engine,
    tensor_engine,
    unknown_engine,
    vector_engine,
)
from trn3.nki.values.suggestions import missing_attribute as _missing_attribute

__all__ = [
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "constants",
    "dge_mode",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "dropout",
    "engine",
    "get_nc_version",
    "gpsimd_engine",
    "iota",
    "local_gather",
    "matmul_perf_mode",
    "max8",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_stream_shuffle",
    "nc_transpose",
    "nc_version",
    "oob_mode",
    "range_select",
    "reciprocal",
    "reduce_cmd",
    "scalar_engine",
    "scalar_tensor_tensor",
    "select_reduce",
    "sequence_bounds",
    "sync_engine",
    "tensor_copy",
    "tensor_copy_dynamic_dst",
    "tensor_copy_dynamic_src",
    "tensor_copy_predicated",
    "tensor_engine",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "unknown_engine",
    "vector_engine",
]


def __getattr__(name: str) -> object:
    raise _missing_attribute("neuronxcc.nki.isa", name, __all__)
