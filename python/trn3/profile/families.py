"""Families of instructions: what the timeline gives one colour each."""

from __future__ import annotations

# Colours that stay apart for most colour-blind readers.
FAMILIES = {
    "matmul": "#0072B2",
    "transpose": "#56B4E9",
    "element-wise": "#009E73",
    "reduction": "#B8A800",
    "function": "#D55E00",
    "copy, set": "#CC79A7",
    "quantise": "#7A3E9D",
    "gather, select": "#8C5A2B",
    "DMA": "#E69F00",
    "control": "#5F6B76",
    "other": "#111111",
}

_MEMBERS = {
    "matmul": "nc_matmul nc_matmul_mx",
    "transpose": "nc_transpose",
    "element-wise": (
        "tensor_tensor tensor_scalar scalar_tensor_tensor reciprocal dropout iota affine_select"
    ),
    "reduction": (
        "tensor_reduce tensor_scalar_cumulative tensor_scalar_reduce tensor_tensor_scan bn_stats "
        "bn_aggr select_reduce tensor_partition_reduce max8 topk"
    ),
    "function": "activation activation_reduce activate2 exponential",
    "copy, set": (
        "tensor_copy tensor_copy_predicated tensor_copy_dynamic_src tensor_copy_dynamic_dst memset "
        "rng rand2 rand_set_state rand_get_state set_rng_seed"
    ),
    "quantise": "quantize_mx",
    "gather, select": (
        "range_select nc_stream_shuffle nc_find_index8 nc_match_replace8 local_gather nc_n_gather "
        "sequence_bounds nonzero_with_count"
    ),
    "DMA": "dma_copy dma_transpose dma_compute sendrecv",
    "control": (
        "core_barrier register_alloc register_move register_load register_store "
        "activation_table_load dma_trigger semaphore"
    ),
}
_FAMILY_OF = {name: family for family, names in _MEMBERS.items() for name in names.split()}


def family_of(opcode: str) -> str:
    """Return the family of an opcode, whose first word before a dot, slash or bracket counts.

    >>> family_of("nc_matmul"), family_of("activation(exp)"), family_of("unheard_of")
    ('matmul', 'function', 'other')
    """
    name = opcode.lower()
    for separator in "./([ ":
        name = name.partition(separator)[0]
    return _FAMILY_OF.get(name, "other")
