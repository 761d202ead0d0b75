"""What a step of a model cost: that of its graphs, one after another."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from trn3.graph import GraphError, StepProfile
from trn3.text import printable

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.table import Table

    from trn3.torch.execution import GraphBreak

__all__ = ["ModelProfile"]


class ModelProfile(StepProfile):
    """What a step of a model cost on one simulated core; `trn3.torch.profile` makes it.

    torch gives a step as one graph or several: forward, backward and the optimiser are graphs of
    their own, and where it cannot go on capturing it breaks a graph in two. They run one after
    another, and their times add up; memory is that of the one that takes most. Collectives that
    torch calls between graphs, as FSDP2 does, are parts too, one after another **(choice)**; that
    they may hide behind graphs, the lower bound of the band allows for.

    Attributes
    ----------
    parts : tuple of StepProfile
        One a graph or collective between graphs, in the order of their runs.
    breaks : tuple of GraphBreak
        Where torch broke a graph: what stands there is computed by torch itself.
    profile : Profile
        Timeline and report of the graph that took longest **(choice)**.
    """

    def __init__(
        self,
        parts: Sequence[StepProfile],
        breaks: tuple[GraphBreak, ...],
        between: Collection[int] = (),
    ) -> None:
        if not parts:
            raise GraphError("torch captured no graph of the step; it has no operation on tensors")
        longest = max(parts, key=lambda part: part.latency_us)
        lows, highs = zip(*(part.band for part in parts), strict=True)
        beside = sum(lows[place] for place in between)
        # Graphs run one after another: what one holds is free for the next.
        memories = [asdict(part.memory) for part in parts]
        made = {
            "timing": "composed" if any(part.composed for part in parts) else "whole",
            "latency_us": sum(part.latency_us for part in parts),
            # At best what is between graphs hides behind them, or they behind it.
            "band": (max(sum(lows) - beside, beside), sum(highs)),
            "instructions": sum(part.instructions for part in parts),
            "memory": {name: max(each[name] for each in memories) for name in memories[0]},
            "regions": [asdict(region) for part in parts for region in part.regions],
            "account": [asdict(cost) for part in parts for cost in part.account()],
        }
        super().__init__(longest.profile, made)
        self.parts = tuple(parts)
        self.breaks = breaks

    def table(self, most: int | None = None) -> Table:
        """Return the account as a table of rich, with the breaks of graphs below."""
        table = super().table(most)
        notes = [str(table.caption)] if table.caption else []
        for found in self.breaks:
            line = f"{found.line}: " if found.line else ""
            notes.append(printable(f"graph break at {line}{found.reason}"))
        table.caption = "\n".join(notes) or None
        return table
