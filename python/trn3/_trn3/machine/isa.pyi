# The instructions, documented by `trn3.nki.isa`; arguments go by position.

from trn3._trn3.machine import NeuronCore, NkiInstruction, NkiTensor

def tensor_copy(
    core: NeuronCore, dst: NkiTensor, src: NkiTensor, engine: str | None, name: str | None
) -> NkiInstruction: ...
def memset(
    core: NeuronCore, dst: NkiTensor, value: float, engine: str | None, name: str | None
) -> NkiInstruction: ...
