"""Families of instructions: what the timeline gives one colour each."""

from __future__ import annotations

from trn3.machine.instructions import instructions

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

# Names of timelines that are no instructions of the table: what engines do beside them, and older
# kernels' spellings.
_OTHERS = {
    "tensor_copy_dynamic_src": "copy, set",
    "tensor_copy_dynamic_dst": "copy, set",
    "register_alloc": "control",
    "activation_table_load": "control",
    "dma_trigger": "control",
    "semaphore": "control",
}
_FAMILY_OF = _OTHERS | {name: row.family for name, row in instructions().items()}


def family_of(opcode: str) -> str:
    """Return the family of an opcode, whose first word before a dot, slash or bracket counts.

    >>> family_of("nc_matmul"), family_of("activation(exp)"), family_of("unheard_of")
    ('matmul', 'function', 'other')
    """
    name = opcode.lower()
    for separator in "./([ ":
        name = name.partition(separator)[0]
    return _FAMILY_OF.get(name, "other")
