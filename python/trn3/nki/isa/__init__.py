"""The instructions of a NeuronCore, as kernels call them.

Each takes its destination first, runs at once in program order, and returns an `NkiInstruction`
whose `depends_on` adds an order beyond what data demands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trn3._trn3.machine import NkiInstruction, NkiValidationError, VirtualRegister
from trn3.nki.isa import (
    constants,
    ordering,  # noqa: F401  the machine learns which kinds of dependency wait
    spellings,  # noqa: F401  and how words are spelt
)
from trn3.nki.isa.activations import activate2, activation, activation_reduce, exponential
from trn3.nki.isa.constants import (
    dependency,
    dge_mode,
    dma_engine,
    engine,
    matmul_perf_mode,
    nc_version,
    oob_mode,
    reduce_cmd,
)
from trn3.nki.isa.copy import (
    memset,
    tensor_copy,
    tensor_copy_dynamic_dst,
    tensor_copy_dynamic_src,
)
from trn3.nki.isa.dma import (
    dma_compute,
    dma_copy,
    dma_transpose,
)
from trn3.nki.isa.elementwise import (
    reciprocal,
    scalar_tensor_tensor,
    tensor_scalar,
    tensor_scalar_reduce,
    tensor_tensor,
)
from trn3.nki.isa.generators import (
    rand2,
    rand_get_state,
    rand_set_state,
    rng,
    set_rng_seed,
)
from trn3.nki.isa.gpsimd import (
    affine_select,
    iota,
    local_gather,
    nc_n_gather,
    nonzero_with_count,
    sequence_bounds,
    tensor_partition_reduce,
    topk,
)
from trn3.nki.isa.logical_core import core_barrier, sendrecv
from trn3.nki.isa.matmul import (
    nc_matmul,
    nc_matmul_mx,
    nc_matmul_sparse,
    nc_transpose,
)
from trn3.nki.isa.quantize import quantize_mx
from trn3.nki.isa.registers import (
    register_alloc,
    register_load,
    register_move,
    register_store,
)
from trn3.nki.isa.scalars import NkiScalar, scalar_load, scalar_store
from trn3.nki.isa.search import max8, nc_find_index8, nc_match_replace8
from trn3.nki.isa.select import dropout, range_select, select_reduce, tensor_copy_predicated
from trn3.nki.isa.shuffle import nc_stream_shuffle
from trn3.nki.isa.statistics import bn_aggr, bn_stats
from trn3.nki.isa.tensor_reduction import (
    tensor_reduce,
    tensor_scalar_cumulative,
    tensor_tensor_scan,
)
from trn3.nki.ranks.context import current_figures
from trn3.nki.values.suggestions import missing_attribute as _missing_attribute

__all__ = [
    "NkiInstruction",
    "NkiScalar",
    "NkiValidationError",
    "VirtualRegister",
    "activate2",
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "constants",
    "core_barrier",
    "dependency",
    "dge_mode",
    "dma_compute",
    "dma_copy",
    "dma_engine",
    "dma_transpose",
    "dropout",
    "engine",
    "exponential",
    "get_nc_sub_version",
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
    "nc_matmul_mx",
    "nc_matmul_sparse",
    "nc_n_gather",
    "nc_stream_shuffle",
    "nc_transpose",
    "nc_version",
    "nonzero_with_count",
    "oob_mode",
    "quantize_mx",
    "rand2",
    "rand_get_state",
    "rand_set_state",
    "range_select",
    "reciprocal",
    "reduce_cmd",
    "register_alloc",
    "register_load",
    "register_move",
    "register_store",
    "rng",
    "scalar_engine",
    "scalar_load",
    "scalar_store",
    "scalar_tensor_tensor",
    "select_reduce",
    "sendrecv",
    "sequence_bounds",
    "set_rng_seed",
    "sync_engine",
    "tensor_copy",
    "tensor_copy_dynamic_dst",
    "tensor_copy_dynamic_src",
    "tensor_copy_predicated",
    "tensor_engine",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "topk",
    "unknown_engine",
    "vector_engine",
]

tensor_engine: Final = engine.tensor
vector_engine: Final = engine.vector
scalar_engine: Final = engine.scalar
gpsimd_engine: Final = engine.gpsimd
sync_engine: Final = engine.sync
unknown_engine: Final = engine.unknown


def get_nc_version() -> nc_version:
    """Return the generation of the kernel's core, or outside kernels of the current target.

    Examples
    --------
    >>> import trn3.nki.isa as nisa
    >>> nisa.get_nc_version() >= nisa.nc_version.gen3
    True
    """
    return nc_version(current_figures().generation)


def get_nc_sub_version() -> int:
    """Return the silicon revision: 0 (**choice**; revisions do not differ in the model)."""
    return 0


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


if not TYPE_CHECKING:  # to checkers a name that is misspelt shall be an error

    def __getattr__(name: str) -> object:
        raise _missing_attribute(__name__, name, __all__)
