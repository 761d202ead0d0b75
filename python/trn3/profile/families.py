"""Colours of families of instructions."""

from __future__ import annotations

from typing import NamedTuple

from trn3.machine.instructions import family_of

__all__ = ["FAMILIES", "WAITS", "WaitGroup", "family_of"]

# Colours that stay apart for most colour-blind readers; the report has the same.
FAMILIES = {
    "matmul": "#0072b2",
    "transpose": "#56b4e9",
    "element-wise": "#009e73",
    "reduction": "#b8a800",
    "function": "#d55e00",
    "copy, set": "#cc79a7",
    "quantise": "#7a3e9d",
    "gather, select": "#8c5a2b",
    "DMA": "#e69f00",
    "control": "#5f6b76",
    "other": "#33373d",
}


class WaitGroup(NamedTuple):
    """What engines waited for, of one kind.

    Attributes
    ----------
    causes : tuple of str
        Those of `trn3.profile.data.CAUSES`.
    color : str
        Of the hatching, as in the report.
    hatch : str
        As matplotlib has it; empty is none.
    """

    causes: tuple[str, ...]
    color: str
    hatch: str

    @property
    def look(self) -> tuple[str, str, str]:
        """Colour of the face, a quarter as strong, colour of the hatching, and the hatching."""
        parts = (int(self.color[place : place + 2], 16) for place in (1, 3, 5))
        face = "".join(f"{round(255 - (255 - part) / 4):02x}" for part in parts)
        return f"#{face}", self.color, self.hatch


#: By their names, which the report has too; groups differ in hatching as well as in colour.
WAITS = {
    "idle, no cause recorded": WaitGroup(("nothing",), "#c9cfd6", ""),
    "waits for an engine's result": WaitGroup(
        ("tensor", "vector", "scalar", "gpsimd", "sync"), "#7d8a98", "\\\\\\\\"
    ),
    "waits for what DMA brings": WaitGroup(("dma",), "#c98f10", "////"),
    "waits for those ahead of it in its queue": WaitGroup(("issue order",), "#c0562a", "----"),
    "waits for a bank or a port": WaitGroup(("PSUM bank",), "#a8578f", "xxxx"),
    "waits for a function table": WaitGroup(("table load",), "#6f55b5", "++++"),
    "waits as depends_on asks": WaitGroup(("depends_on",), "#5f6b76", "\\\\||"),
    "waits for its DMA queue": WaitGroup(("DMA queue",), "#b8591a", "//--"),
    "waits for another core or rank": WaitGroup(("other core", "other rank"), "#2f6fb0", "...."),
}
