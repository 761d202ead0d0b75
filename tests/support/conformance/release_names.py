"""The names that each release of NKI documents: what came with it and what went.

From the reference pages and release notes of the vendor's SDK 2.26 (NKI 0.1), 2.28 (0.2), 2.29
(0.3), 2.30 (0.4), 2.31 (0.5), 2.32 (0.6) and 2.33 (0.7).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from trn3.nki.values.version import VERSIONS

_MATHS: Final = """
    abs add all arctan bitwise_and bitwise_or bitwise_xor broadcast_to ceil copy cos divide dropout
    equal erf erf_dx exp expand_dims floor fmod full gather_flattened gelu gelu_apprx_sigmoid
    gelu_apprx_tanh gelu_dx greater greater_equal invert left_shift less less_equal load
    load_transpose2d log logical_and logical_not logical_or logical_xor matmul max maximum mean min
    minimum mish mod multiply negative not_equal ones power prod rand random_seed reciprocal relu
    right_shift rms_norm rsqrt sigmoid sign silu silu_dx sin softmax softplus sqrt square store
    subtract sum tan tanh transpose trunc var where zeros_like empty_like shared_identity_matrix
"""
_ALWAYS: Final = """
    affine_range bfloat16 bool_ device_print ds float16 float32 float8_e4m3 float8_e5m2 hbm int16
    int32 int8 ndarray num_programs private_hbm program_id program_ndim psum sbuf sequential_range
    shared_constant shared_hbm static_range tfloat32 tile_size uint16 uint32 uint8 zeros
"""

#: By module and release: the names that came, and after a ``-`` those that went.
_CHANGES: Final[Mapping[str, Mapping[str, str]]] = {
    "nki.isa": {
        "0.1": """
            activation activation_reduce affine_select bn_aggr bn_stats dge_mode dma_copy
            dma_transpose dropout engine get_nc_version iota local_gather max8 memset nc_find_index8
            nc_match_replace8 nc_matmul nc_stream_shuffle nc_transpose nc_version range_select
            reciprocal reduce_cmd scalar_tensor_tensor select_reduce sequence_bounds tensor_copy
            tensor_copy_dynamic_dst tensor_copy_dynamic_src tensor_copy_predicated
            tensor_partition_reduce tensor_reduce tensor_scalar tensor_scalar_reduce tensor_tensor
            tensor_tensor_scan
        """,
        "0.2": """
            core_barrier dma_compute exponential nc_matmul_mx nc_n_gather nonzero_with_count
            oob_mode quantize_mx rand2 rand_get_state rand_set_state register_alloc register_load
            register_move register_store rng sendrecv set_rng_seed tensor_scalar_cumulative
        """,
        "0.3": "NkiInstruction NkiValidationError VirtualRegister dma_engine matmul_perf_mode",
        "0.4": "activate2 -tensor_copy_dynamic_dst -tensor_copy_dynamic_src",
        "0.6": "topk",
        "0.7": "NkiScalar dependency scalar_load scalar_store",
    },
    "nki.language": {
        "0.1": f"""
            {_MATHS} {_ALWAYS} all_reduce arange atomic_rmw fp32 loop_reduce mgrid nc par_dim
            spmd_dim
        """,
        "0.2": f"""
            {" ".join(f"-{name}" for name in _MATHS.split())} -all_reduce -arange -atomic_rmw -fp32
            -loop_reduce -mgrid -nc -par_dim -spmd_dim NKIObject float4_e2m1fn_x4 float8_e4m3fn
            float8_e4m3fn_x4 float8_e5m2_x4 no_reorder
        """,
        "0.3": f"""
            {_MATHS} NkiTensor average dynamic_range gelu_apprx_sigmoid_dx is_hbm is_on_chip is_psum
            is_sbuf MemoryRegion
        """,
        "0.4": "abs_max abs_min bypass prelu",
        "0.5": "float8_e8m0fnu",
        "0.6": "fori_loop while_loop",
        "0.7": "-dynamic_range",
    },
    "nki.collectives": {
        "0.2": """
            ReplicaGroup all_gather all_reduce all_to_all collective_permute
            collective_permute_implicit collective_permute_implicit_current_processing_rank_id
            collective_permute_implicit_reduce rank_id reduce_scatter
        """,
        "0.3": "all_to_all_v",
        "0.6": "all_gather_v",
    },
}


def documented(module: str, release: str) -> list[str]:
    """Return the names that a module has in a release, sorted.

    >>> "topk" in documented("nki.isa", "0.6"), "topk" in documented("nki.isa", "0.5")
    (True, False)
    """
    names: set[str] = set()
    for version in VERSIONS[: VERSIONS.index(release) + 1]:
        for word in _CHANGES[module].get(version, "").split():
            if word.startswith("-"):
                names.remove(word[1:])
            else:
                assert word not in names, word
                names.add(word)
    return sorted(names)


MODULES: Final = tuple(_CHANGES)
