# The instructions, documented by `trn3.nki.isa`. Written by scripts/isa_stub.py, but for what
# stands between the two marks.

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, final

from trn3._trn3.machine import NeuronCore, NkiInstruction, NkiTensor, VirtualRegister

__all__ = [
    "Arrival",
    "activate2",
    "activation",
    "activation_reduce",
    "affine_select",
    "bn_aggr",
    "bn_stats",
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
    "spell",
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

# own: begin
@final
class Arrival:
    @property
    def line(self) -> str: ...
    def forget(self) -> None: ...

def spell(
    sort: str, known: dict[object, str] | type[Enum], other: Callable[[Any, str], str]
) -> None: ...
def meet(arrivals: Sequence[Arrival]) -> list[NkiInstruction]: ...
def synchronise(cores: Sequence[NeuronCore]) -> None: ...
def gpsimd_call(
    core: NeuronCore,
    function: Callable[..., Any],
    opcode: str,
    outputs: Sequence[Any],
    inputs: Sequence[Any],
    cycles: int | None,
    name: str | None,
    nameable: bool = False,
) -> NkiInstruction: ...

# own: end
def activate2(
    core: NeuronCore,
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    imm0: float | NkiTensor | None,
    imm1: float | NkiTensor | None,
    op0: Any,
    op1: Any,
    relu_param: float | NkiTensor | None = 0.0,
    reverse0: bool = False,
    reverse1: bool = False,
    reduce_op: Any = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: str | Enum = "idle",
    name: str | None = None,
) -> NkiInstruction: ...
def activation(
    core: NeuronCore,
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    bias: float | NkiTensor | None = None,
    scale: float | NkiTensor | None = 1.0,
    reduce_op: Any = None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: str | Enum = "idle",
    name: str | None = None,
) -> NkiInstruction: ...
def activation_reduce(
    core: NeuronCore,
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    reduce_op: Any,
    reduce_res: NkiTensor | None,
    bias: float | NkiTensor | None = None,
    scale: float | NkiTensor | None = 1.0,
    name: str | None = None,
) -> NkiInstruction: ...
def affine_select(
    core: NeuronCore,
    dst: NkiTensor,
    pattern: Sequence[tuple[int, int]],
    channel_multiplier: int,
    on_true_tile: NkiTensor,
    on_false_value: float | NkiTensor | None,
    cmp_op: Any = "equal",
    offset: int | VirtualRegister = 0,
    name: str | None = None,
) -> NkiInstruction: ...
def bn_aggr(
    core: NeuronCore, dst: NkiTensor, data: NkiTensor, name: str | None = None
) -> NkiInstruction: ...
def bn_stats(
    core: NeuronCore, dst: NkiTensor, data: NkiTensor, name: str | None = None
) -> NkiInstruction: ...
def dma_compute(
    core: NeuronCore,
    dst: NkiTensor,
    srcs: Sequence[NkiTensor],
    reduce_op: Any,
    scales: Sequence[float] | None = None,
    unique_indices: bool = True,
    oob_mode: str | Enum = "error",
    name: str | None = None,
) -> NkiInstruction: ...
def dma_copy(
    core: NeuronCore,
    dst: NkiTensor,
    src: NkiTensor,
    priority: int | None = None,
    oob_mode: str | Enum = "error",
    dge_mode: str | Enum | None = None,
    engine: str | Enum | None = None,
    name: str | None = None,
) -> NkiInstruction: ...
def dma_transpose(
    core: NeuronCore,
    dst: NkiTensor,
    src: NkiTensor,
    axes: Sequence[int] | None = None,
    priority: int | None = None,
    dge_mode: str | Enum | None = None,
    oob_mode: str | Enum = "error",
    name: str | None = None,
) -> NkiInstruction: ...
def dropout(
    core: NeuronCore,
    dst: NkiTensor,
    data: NkiTensor,
    prob: float | NkiTensor | None,
    name: str | None = None,
) -> NkiInstruction: ...
def exponential(
    core: NeuronCore,
    dst: NkiTensor,
    src: NkiTensor,
    max_value: float | NkiTensor | None = 0.0,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: str | Enum = "idle",
    reduce_init: float | NkiTensor | None = 0.0,
    name: str | None = None,
) -> NkiInstruction: ...
def iota(
    core: NeuronCore,
    dst: NkiTensor,
    pattern: Sequence[tuple[int, int]],
    offset: int | VirtualRegister = 0,
    channel_multiplier: int = 0,
    name: str | None = None,
) -> NkiInstruction: ...
def local_gather(
    core: NeuronCore,
    dst: NkiTensor,
    src_buffer: NkiTensor,
    index: NkiTensor,
    num_elem_per_idx: int = 1,
    num_valid_indices: int | None = None,
    name: str | None = None,
) -> NkiInstruction: ...
def max8(
    core: NeuronCore, dst: NkiTensor, src: NkiTensor, name: str | None = None
) -> NkiInstruction: ...
def memset(
    core: NeuronCore,
    dst: NkiTensor,
    value: float,
    engine: str | Enum | None = None,
    name: str | None = None,
) -> NkiInstruction: ...
def nc_find_index8(
    core: NeuronCore, dst: NkiTensor, data: NkiTensor, vals: NkiTensor, name: str | None = None
) -> NkiInstruction: ...
def nc_match_replace8(
    core: NeuronCore,
    dst: NkiTensor,
    data: NkiTensor,
    vals: NkiTensor,
    imm: float,
    dst_idx: NkiTensor | None = None,
    name: str | None = None,
) -> NkiInstruction: ...
def nc_matmul(
    core: NeuronCore,
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    is_stationary_onezero: bool = False,
    is_moving_onezero: bool = False,
    is_transpose: bool = False,
    accumulate: bool | None = None,
    tile: tuple[tuple[int, int], tuple[int, int]] | None = None,
    double_row: bool = False,
    name: str | None = None,
) -> NkiInstruction: ...
def nc_matmul_mx(
    core: NeuronCore,
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    stationary_scale: NkiTensor,
    moving_scale: NkiTensor,
    tile: tuple[tuple[int, int], tuple[int, int]] | None = None,
    accumulate: bool | None = None,
    name: str | None = None,
) -> NkiInstruction: ...
def nc_matmul_sparse(
    core: NeuronCore,
    dst: NkiTensor,
    stationary: NkiTensor,
    moving: NkiTensor,
    tags: NkiTensor,
    pattern: str,
    accumulate: bool | None = None,
    name: str | None = None,
) -> NkiInstruction: ...
def nc_n_gather(
    core: NeuronCore, dst: NkiTensor, data: NkiTensor, indices: NkiTensor, name: str | None = None
) -> NkiInstruction: ...
def nc_stream_shuffle(
    core: NeuronCore,
    dst: NkiTensor,
    src: NkiTensor,
    shuffle_mask: Sequence[int],
    name: str | None = None,
) -> NkiInstruction: ...
def nc_transpose(
    core: NeuronCore,
    dst: NkiTensor,
    data: NkiTensor,
    engine: str | Enum | None = None,
    name: str | None = None,
) -> NkiInstruction: ...
def nonzero_with_count(
    core: NeuronCore,
    dst: NkiTensor,
    src: NkiTensor,
    index_offset: int = 0,
    padding_val: int = -1,
    name: str | None = None,
) -> NkiInstruction: ...
def quantize_mx(
    core: NeuronCore,
    dst: NkiTensor,
    src: NkiTensor,
    dst_scale: NkiTensor,
    ocp_rule: bool = False,
    name: str | None = None,
) -> NkiInstruction: ...
def rand2(
    core: NeuronCore,
    dst: NkiTensor,
    min: float | NkiTensor | None,
    max: float | NkiTensor | None,
    name: str | None = None,
) -> NkiInstruction: ...
def rand_get_state(
    core: NeuronCore, dst: NkiTensor, engine: str | Enum = "gpsimd", name: str | None = None
) -> NkiInstruction: ...
def rand_set_state(
    core: NeuronCore, src_seeds: NkiTensor, engine: str | Enum = "gpsimd", name: str | None = None
) -> NkiInstruction: ...
def range_select(
    core: NeuronCore,
    dst: NkiTensor,
    on_true_tile: NkiTensor,
    comp_op0: Any,
    comp_op1: Any,
    bound0: NkiTensor,
    bound1: NkiTensor,
    reduce_cmd: str | Enum = "reset_reduce",
    reduce_res: NkiTensor | None = None,
    reduce_op: Any = "maximum",
    range_start: int = 0,
    on_false_value: float = -3.4028234663852886e38,
    name: str | None = None,
) -> NkiInstruction: ...
def reciprocal(
    core: NeuronCore, dst: NkiTensor, data: NkiTensor, name: str | None = None
) -> NkiInstruction: ...
def register_load(
    core: NeuronCore, dst: VirtualRegister, src: NkiTensor, name: str | None = None
) -> NkiInstruction: ...
def register_move(
    core: NeuronCore, dst: VirtualRegister, src: int | VirtualRegister, name: str | None = None
) -> NkiInstruction: ...
def register_store(
    core: NeuronCore, dst: NkiTensor, src: VirtualRegister, name: str | None = None
) -> NkiInstruction: ...
def rng(
    core: NeuronCore, dst: NkiTensor, engine: str | Enum = "vector", name: str | None = None
) -> NkiInstruction: ...
def scalar_tensor_tensor(
    core: NeuronCore,
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: float | NkiTensor | None,
    op1: Any,
    operand1: NkiTensor,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> NkiInstruction: ...
def select_reduce(
    core: NeuronCore,
    dst: NkiTensor,
    predicate: NkiTensor,
    on_true: NkiTensor,
    on_false: float | NkiTensor | None,
    reduce_res: NkiTensor | None = None,
    reduce_cmd: str | Enum = "idle",
    reduce_op: Any = "maximum",
    reverse_pred: bool = False,
    name: str | None = None,
) -> NkiInstruction: ...
def sequence_bounds(
    core: NeuronCore, dst: NkiTensor, segment_ids: NkiTensor, name: str | None = None
) -> NkiInstruction: ...
def set_rng_seed(
    core: NeuronCore, src_seeds: NkiTensor, name: str | None = None
) -> NkiInstruction: ...
def tensor_copy(
    core: NeuronCore,
    dst: NkiTensor,
    src: NkiTensor,
    engine: str | Enum | None = None,
    name: str | None = None,
) -> NkiInstruction: ...
def tensor_copy_predicated(
    core: NeuronCore,
    dst: NkiTensor,
    src: float | NkiTensor,
    predicate: NkiTensor,
    reverse_pred: bool = False,
    name: str | None = None,
) -> NkiInstruction: ...
def tensor_partition_reduce(
    core: NeuronCore, dst: NkiTensor, op: Any, data: NkiTensor, name: str | None = None
) -> NkiInstruction: ...
def tensor_reduce(
    core: NeuronCore,
    dst: NkiTensor,
    op: Any,
    data: NkiTensor,
    axis: Sequence[int],
    negate: bool = False,
    keepdims: bool = False,
    name: str | None = None,
) -> NkiInstruction: ...
def tensor_scalar(
    core: NeuronCore,
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: float | NkiTensor | None,
    reverse0: bool = False,
    op1: Any = None,
    operand1: float | NkiTensor | None = None,
    reverse1: bool = False,
    engine: str | Enum | None = None,
    name: str | None = None,
) -> NkiInstruction: ...
def tensor_scalar_cumulative(
    core: NeuronCore,
    dst: NkiTensor,
    src: NkiTensor,
    op0: Any,
    op1: Any,
    imm0: float | NkiTensor | None,
    imm1: float | NkiTensor | None = None,
    reduce_cmd: str | Enum = "reset_reduce",
    name: str | None = None,
) -> NkiInstruction: ...
def tensor_scalar_reduce(
    core: NeuronCore,
    dst: NkiTensor,
    data: NkiTensor,
    op0: Any,
    operand0: float | NkiTensor | None,
    reduce_op: Any,
    reduce_res: NkiTensor | None = None,
    reverse0: bool = False,
    reduce_cmd: str | Enum = "reset_reduce",
    reduce_init: float | NkiTensor | None = None,
    reduce_res_negate: bool = False,
    name: str | None = None,
) -> NkiInstruction: ...
def tensor_tensor(
    core: NeuronCore,
    dst: NkiTensor,
    data1: NkiTensor,
    data2: NkiTensor,
    op: Any,
    engine: str | Enum | None = None,
    name: str | None = None,
) -> NkiInstruction: ...
def tensor_tensor_scan(
    core: NeuronCore,
    dst: NkiTensor,
    data0: NkiTensor,
    data1: NkiTensor,
    initial: float | NkiTensor | None,
    op0: Any,
    op1: Any,
    reverse0: bool = False,
    reverse1: bool = False,
    name: str | None = None,
) -> NkiInstruction: ...
def topk(
    core: NeuronCore,
    val_dst: NkiTensor,
    idx_dst: NkiTensor,
    src: NkiTensor,
    n: int,
    name: str | None = None,
) -> NkiInstruction: ...
def core_barrier(
    core: NeuronCore, data: NkiTensor, engine: str | Enum | None = "gpsimd", name: str | None = None
) -> Arrival: ...
def sendrecv(
    core: NeuronCore,
    src: NkiTensor,
    dst: NkiTensor,
    dma_engine: str = "dma",
    name: str | None = None,
) -> Arrival: ...
