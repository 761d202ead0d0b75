# The instructions, documented by `trn3.nki.isa`; arguments go by position.

from collections.abc import Sequence

from trn3._trn3.machine import NeuronCore, NkiInstruction, NkiTensor, VirtualRegister

def tensor_copy(
    core: NeuronCore, dst: NkiTensor, src: NkiTensor, engine: str | None, name: str | None
) -> NkiInstruction: ...
def memset(
    core: NeuronCore, dst: NkiTensor, value: float, engine: str | None, name: str | None
) -> NkiInstruction: ...
def iota(
    core: NeuronCore,
    dst: NkiTensor,
    pattern: Sequence[tuple[int, int]],
    offset: int | VirtualRegister,
    channel_multiplier: int,
    name: str | None,
) -> NkiInstruction: ...
def affine_select(
    core: NeuronCore,
    dst: NkiTensor,
    pattern: Sequence[tuple[int, int]],
    channel_multiplier: int,
    on_true_tile: NkiTensor,
    on_false_value: float,
    cmp_op: str,
    offset: int | VirtualRegister,
    name: str | None,
) -> NkiInstruction: ...
