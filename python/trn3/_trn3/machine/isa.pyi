# The instructions, documented by `trn3.nki.isa`; arguments go by position.

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from trn3._trn3.machine import NeuronCore, NkiInstruction, NkiTensor

__all__ = [
    "Arrival",
    "activate2",
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
    "collective",
    "core_barrier",
    "dma_compute",
    "dma_copy",
    "dma_transpose",
    "dropout",
    "exponential",
    "gpsimd_call",
    "iota",
    "local_gather",
    "max8",
    "meet",
    "meet_ranks",
    "memset",
    "nc_find_index8",
    "nc_match_replace8",
    "nc_matmul",
    "nc_matmul_mx",
    "nc_matmul_sparse",
    "nc_n_gather",
    "nc_stream_shuffle",
    "nc_transpose",
    "nonzero_with_count",
    "quantize_mx",
    "rand2",
    "rand_get_state",
    "rand_set_state",
    "range_select",
    "reciprocal",
    "register_load",
    "register_move",
    "register_store",
    "rng",
    "scalar_tensor_tensor",
    "select_reduce",
    "sendrecv",
    "sequence_bounds",
    "set_rng_seed",
    "synchronise",
    "tensor_copy",
    "tensor_copy_predicated",
    "tensor_partition_reduce",
    "tensor_reduce",
    "tensor_scalar",
    "tensor_scalar_cumulative",
    "tensor_scalar_reduce",
    "tensor_tensor",
    "tensor_tensor_scan",
    "topk",
]

def activate2(
    core: NeuronCore,
    dst: NkiTensor,
    op: str,
    data: NkiTensor,
    imm0: Any,
    imm1: Any,
    op0: str | None,
    op1: str | None,
    relu_param: Any,
    reverse0: bool,
    reverse1: bool,
    reduce_op: str | None,
    reduce_res: Any,
    reduce_cmd: str,
    name: str | None,
) -> NkiInstruction: ...
def activation(
    core: NeuronCore,
    dst: NkiTensor,
    op: str,
    data: NkiTensor,
    bias: Any,
    scale: Any,
    reduce_op: str | None,
    reduce_res: Any,
    reduce_cmd: str,
    name: str | None,
) -> NkiInstruction: ...
def activation_reduce(
    core: NeuronCore,
    dst: NkiTensor,
    op: str,
    data: NkiTensor,
    reduce_op: str | None,
    reduce_res: Any,
    bias: Any,
    scale: Any,
    name: str | None,
) -> NkiInstruction: ...
def affine_select(
    core: NeuronCore,
    dst: NkiTensor,
    pattern: Sequence[tuple[int, int]],
    channel_multiplier: int,
    on_true_tile: NkiTensor,
    on_false_value: Any,
    cmp_op: str,
    offset: Any,
    name: str | None,
) -> NkiInstruction: ...
def bn_aggr(
    core: NeuronCore, dst: NkiTensor, data: NkiTensor, name: str | None
) -> NkiInstruction: ...
def bn_stats(
    core: NeuronCore, dst: NkiTensor, data: NkiTensor, name: str | None
) -> NkiInstruction: ...
def dma_compute(
    core: NeuronCore,
    dst: NkiTensor,
    srcs: Sequence[Any],
    reduce_op: str,
    scales: Any,
    unique_indices: bool,
    oob_mode: str,
    name: str | None,
) -> NkiInstruction: ...
def dma_copy(
    core: NeuronCore,
    dst: NkiTensor,
    src: NkiTensor,
    priority: int | None,
    oob_mode: str,
    dge_mode: str,
    engine: str | None,
    name: str | None,
) -> NkiInstruction: ...
def dma_transpose(
    core: NeuronCore,
    dst: NkiTensor,
    src: NkiTensor,
    axes: Sequence[int] | None,
    priority: int | None,
    oob_mode: str,
    dge_mode: str,
    name: str | None,
) -> NkiInstruction: ...
def dropout(
    core: NeuronCore, dst: NkiTensor, data: NkiTensor, prob: Any, name: str | None
) -> NkiInstruction: ...
def exponential(
    core: NeuronCore,
    dst: NkiTensor,
    src: NkiTensor,
    max_value: Any,
    reduce_res: Any,
    reduce_cmd: str,
    reduce_init: Any,
    name: str | None,
) -> NkiInstruction: ...
def gpsimd_call(
    core: NeuronCore,
    function: Callable[..., Any],
    opcode: str,
    outputs: Sequence[Any],
    inputs: Sequence[Any],
    cycles: int,
    name: str | None,
) -> NkiInstruction: ...
def iota(
    core: NeuronCore,
    dst: NkiTensor,
    pattern: Sequence[tuple[int, int]],
    offset: Any,
    channel_multiplier: int,
    name: str | None,
) -> NkiInstruction: ...
def local_gather(
    core: NeuronCore,
    dst: NkiTensor,
    src_buffer: NkiTensor,
    index: NkiTensor,
    num_elem_per_idx: int,
    num_valid_indices: int | None,
    name: str | None,
) -> NkiInstruction: ...
def max8(core: NeuronCore, dst: NkiTensor, src: NkiTensor, name: str | None) -> NkiInstruction: ...
def memset(
    core: NeuronCore, dst: NkiTensor, value: float, engine: str | None, name: str | None
) -> NkiInstruction: ...
def nc_find_index8(
    core: NeuronCore, dst: NkiTensor, data: NkiTensor, vals: NkiTensor, name: str | None
) -> NkiInstruction: ...
def nc_match_replace8(
    core: NeuronCore,
    dst: NkiTensor,
    data: NkiTensor,
    vals: NkiTensor,
    imm: float,
    dst_idx: Any,
    name: str | None,
) -> NkiInstruction: ...
def nc_matmul(
    core: NeuronCore,
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    is_stationary_onezero: bool,
    is_moving_onezero: bool,
    is_transpose: bool,
    accumulate: bool | None,
    tile: Any,
    double_row: bool,
    name: str | None,
) -> NkiInstruction: ...
def nc_matmul_mx(
    core: NeuronCore,
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    stationary_scale: NkiTensor,
    moving_scale: NkiTensor,
    tile: Any,
    accumulate: bool | None,
    name: str | None,
) -> NkiInstruction: ...
def nc_matmul_sparse(
    core: NeuronCore,
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    tags: NkiTensor,
    pattern: str,
    accumulate: bool | None,
    name: str | None,
) -> NkiInstruction: ...
def nc_n_gather(
    core: NeuronCore, dst: NkiTensor, data: NkiTensor, indices: NkiTensor, name: str | None
) -> NkiInstruction: ...
def nc_stream_shuffle(
    core: NeuronCore, dst: NkiTensor, src: NkiTensor, shuffle_mask: Sequence[int], name: str | None
) -> NkiInstruction: ...
def nc_transpose(
    core: NeuronCore, dst: NkiTensor, data: NkiTensor, engine: str | None, name: str | None
) -> NkiInstruction: ...
def nonzero_with_count(
    core: NeuronCore,
    dst: NkiTensor,
    src: NkiTensor,
    index_offset: int,
    padding_val: int,
    name: str | None,
) -> NkiInstruction: ...
def quantize_mx(
    core: NeuronCore,
    dst: NkiTensor,
    src: NkiTensor,
    dst_scale: NkiTensor,
    ocp_rule: bool,
    name: str | None,
) -> NkiInstruction: ...
def rand2(
    core: NeuronCore, dst: NkiTensor, min: Any, max: Any, name: str | None
) -> NkiInstruction: ...
def rand_get_state(
    core: NeuronCore, dst: NkiTensor, engine: str, name: str | None
) -> NkiInstruction: ...
def rand_set_state(
    core: NeuronCore, src_seeds: NkiTensor, engine: str, name: str | None
) -> NkiInstruction: ...
def range_select(
    core: NeuronCore,
    dst: NkiTensor,
    on_true_tile: NkiTensor,
    comp_op0: str,
    comp_op1: str,
    bound0: Any,
    bound1: Any,
    reduce_cmd: str,
    reduce_res: Any,
    reduce_op: str,
    range_start: int,
    on_false_value: float,
    name: str | None,
) -> NkiInstruction: ...
def reciprocal(
    core: NeuronCore, dst: NkiTensor, data: NkiTensor, name: str | None
) -> NkiInstruction: ...
def register_load(core: NeuronCore, dst: Any, src: Any, name: str | None) -> NkiInstruction: ...
def register_move(core: NeuronCore, dst: Any, src: Any, name: str | None) -> NkiInstruction: ...

@final
class Arrival:
    @property
    def line(self) -> str: ...
    def forget(self) -> None: ...
    def read(self, source: int) -> NDArray[np.uint8] | None: ...
    def write(self, result: int, bytes: NDArray[np.uint8]) -> None: ...

def collective(
    core: NeuronCore,
    operation: str,
    srcs: Sequence[NkiTensor],
    dsts: Sequence[NkiTensor],
    priority: int | None = None,
    name: str | None = None,
) -> Arrival: ...
def meet_ranks(
    arrivals: Sequence[Arrival],
    seconds: float,
    sharing: Sequence[tuple[int, int]],
    moved: Sequence[tuple[int, int]],
) -> list[NkiInstruction]: ...
def core_barrier(
    core: NeuronCore, data: NkiTensor, engine: str, name: str | None = None
) -> Arrival: ...
def sendrecv(
    core: NeuronCore, src: NkiTensor, dst: NkiTensor, dma_engine: str, name: str | None = None
) -> Arrival: ...
def meet(arrivals: Sequence[Arrival]) -> list[NkiInstruction]: ...
def synchronise(cores: Sequence[NeuronCore]) -> None: ...
def register_store(core: NeuronCore, dst: Any, src: Any, name: str | None) -> NkiInstruction: ...
def rng(core: NeuronCore, dst: NkiTensor, engine: str, name: str | None) -> NkiInstruction: ...
def scalar_tensor_tensor(
    core: NeuronCore,
    dst: NkiTensor,
    data: NkiTensor,
    op0: str,
    operand0: Any,
    op1: str,
    operand1: Any,
    reverse0: bool,
    reverse1: bool,
    name: str | None,
) -> NkiInstruction: ...
def select_reduce(
    core: NeuronCore,
    dst: NkiTensor,
    predicate: NkiTensor,
    on_true: NkiTensor,
    on_false: Any,
    reduce_res: Any,
    reduce_cmd: str,
    reduce_op: str,
    reverse_pred: bool,
    name: str | None,
) -> NkiInstruction: ...
def sequence_bounds(
    core: NeuronCore, dst: NkiTensor, segment_ids: NkiTensor, name: str | None
) -> NkiInstruction: ...
def set_rng_seed(core: NeuronCore, src_seeds: NkiTensor, name: str | None) -> NkiInstruction: ...
def tensor_copy(
    core: NeuronCore, dst: NkiTensor, src: NkiTensor, engine: str | None, name: str | None
) -> NkiInstruction: ...
def tensor_copy_predicated(
    core: NeuronCore,
    dst: NkiTensor,
    src: NkiTensor,
    predicate: NkiTensor,
    reverse_pred: bool,
    name: str | None,
) -> NkiInstruction: ...
def tensor_partition_reduce(
    core: NeuronCore, dst: NkiTensor, op: str, data: NkiTensor, name: str | None
) -> NkiInstruction: ...
def tensor_reduce(
    core: NeuronCore,
    dst: NkiTensor,
    op: str,
    data: NkiTensor,
    axis: Sequence[int],
    negate: bool,
    keepdims: bool,
    name: str | None,
) -> NkiInstruction: ...
def tensor_scalar(
    core: NeuronCore,
    dst: NkiTensor,
    data: NkiTensor,
    op0: str,
    operand0: Any,
    reverse0: bool,
    op1: str | None,
    operand1: Any,
    reverse1: bool,
    engine: str | None,
    name: str | None,
) -> NkiInstruction: ...
def tensor_scalar_cumulative(
    core: NeuronCore,
    dst: NkiTensor,
    src: NkiTensor,
    op0: str,
    op1: str,
    imm0: Any,
    imm1: Any,
    reduce_cmd: str,
    name: str | None,
) -> NkiInstruction: ...
def tensor_scalar_reduce(
    core: NeuronCore,
    dst: NkiTensor,
    data: NkiTensor,
    op0: str,
    operand0: Any,
    reduce_op: str,
    reduce_res: Any,
    reverse0: bool,
    reduce_cmd: str,
    reduce_init: Any,
    reduce_res_negate: bool,
    name: str | None,
) -> NkiInstruction: ...
def tensor_tensor(
    core: NeuronCore,
    dst: NkiTensor,
    data1: NkiTensor,
    data2: NkiTensor,
    op: str,
    engine: str | None,
    name: str | None,
) -> NkiInstruction: ...
def tensor_tensor_scan(
    core: NeuronCore,
    dst: NkiTensor,
    data0: NkiTensor,
    data1: NkiTensor,
    initial: Any,
    op0: str,
    op1: str,
    reverse0: bool,
    reverse1: bool,
    name: str | None,
) -> NkiInstruction: ...
def topk(
    core: NeuronCore,
    val_dst: NkiTensor,
    idx_dst: NkiTensor,
    src: NkiTensor,
    n: int,
    name: str | None,
) -> NkiInstruction: ...
