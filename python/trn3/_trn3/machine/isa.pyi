# The instructions, documented by `trn3.nki.isa`; arguments go by position.

from typing import TypeAlias

from trn3._trn3.machine import NeuronCore, NkiInstruction, NkiTensor, VirtualRegister

# position, size
_Tile: TypeAlias = tuple[tuple[int, int], tuple[int, int]]

def tensor_copy(
    core: NeuronCore, dst: NkiTensor, src: NkiTensor, engine: str | None, name: str | None
) -> NkiInstruction: ...
def memset(
    core: NeuronCore, dst: NkiTensor, value: float, engine: str | None, name: str | None
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
    tile: _Tile | None,
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
    tile: _Tile | None,
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
def nc_transpose(
    core: NeuronCore,
    dst: NkiTensor,
    data: NkiTensor,
    engine: str | None,
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
    axes: list[int] | None,
    priority: int | None,
    oob_mode: str,
    dge_mode: str,
    name: str | None,
) -> NkiInstruction: ...
def dma_compute(
    core: NeuronCore,
    dst: NkiTensor,
    srcs: list[NkiTensor],
    reduce_op: str,
    scales: list[float] | None,
    unique_indices: bool,
    oob_mode: str,
    name: str | None,
) -> NkiInstruction: ...
def register_move(
    core: NeuronCore,
    dst: VirtualRegister,
    src: int | VirtualRegister,
    name: str | None,
) -> NkiInstruction: ...
def register_load(
    core: NeuronCore,
    dst: VirtualRegister,
    src: NkiTensor,
    name: str | None,
) -> NkiInstruction: ...
def register_store(
    core: NeuronCore,
    dst: NkiTensor,
    src: VirtualRegister,
    name: str | None,
) -> NkiInstruction: ...
def iota(
    core: NeuronCore,
    dst: NkiTensor,
    pattern: list[tuple[int, int]],
    offset: int | VirtualRegister,
    channel_multiplier: int,
    name: str | None,
) -> NkiInstruction: ...
def affine_select(
    core: NeuronCore,
    dst: NkiTensor,
    pattern: list[tuple[int, int]],
    channel_multiplier: int,
    on_true_tile: NkiTensor,
    on_false_value: float,
    cmp_op: str,
    offset: int | VirtualRegister,
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
def nc_n_gather(
    core: NeuronCore,
    dst: NkiTensor,
    data: NkiTensor,
    indices: NkiTensor,
    name: str | None,
) -> NkiInstruction: ...
def tensor_partition_reduce(
    core: NeuronCore,
    dst: NkiTensor,
    op: str,
    data: NkiTensor,
    name: str | None,
) -> NkiInstruction: ...
def sequence_bounds(
    core: NeuronCore,
    dst: NkiTensor,
    segment_ids: NkiTensor,
    name: str | None,
) -> NkiInstruction: ...
def nonzero_with_count(
    core: NeuronCore,
    dst: NkiTensor,
    src: NkiTensor,
    index_offset: int,
    padding_val: int,
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
def rng(
    core: NeuronCore,
    dst: NkiTensor,
    engine: str,
    name: str | None,
) -> NkiInstruction: ...
def rand2(
    core: NeuronCore,
    dst: NkiTensor,
    low: float | NkiTensor,
    high: float | NkiTensor,
    name: str | None,
) -> NkiInstruction: ...
def set_rng_seed(
    core: NeuronCore,
    src_seeds: NkiTensor,
    name: str | None,
) -> NkiInstruction: ...
def rand_set_state(
    core: NeuronCore,
    src_seeds: NkiTensor,
    engine: str,
    name: str | None,
) -> NkiInstruction: ...
def rand_get_state(
    core: NeuronCore,
    dst: NkiTensor,
    engine: str,
    name: str | None,
) -> NkiInstruction: ...
