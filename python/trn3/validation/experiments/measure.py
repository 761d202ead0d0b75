"""A kernel's run as the instructions and transfers that its labels name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trn3 import nki
from trn3.profile import Profile
from trn3.profile.data import ENGINES


class KernelRun:
    """A run without values; as written, whatever the kernel's dialect, unless a level is given."""

    def __init__(
        self,
        kernel: Callable[..., Any],
        hardware: str,
        *args: Any,
        level: str = "as-written",
        **kwargs: Any,
    ):
        runnable = nki.simulate(kernel, compile=level)
        _, self.profile = nki.profile(runnable, *args, arch=hardware, values=False, **kwargs)

    def __getitem__(self, label: str) -> InstructionSpan:
        """Return when the instruction of a label ran; of several the last."""
        data = self.profile.data
        found = np.flatnonzero(data.instructions.label == data.labels.index(label))
        return InstructionSpan(self.profile, int(found[-1]))


class InstructionSpan:
    """When one instruction ran, in nanoseconds."""

    def __init__(self, profile: Profile, index: int):
        instructions = profile.data.instructions
        self._profile, self._index = profile, index
        self.start = int(instructions.start_ps[index]) / 1e3
        self.slot_end = int(instructions.slot_end_ps[index]) / 1e3
        self.end = int(instructions.end_ps[index]) / 1e3

    @property
    def duration(self) -> float:
        """From start to visible result."""
        return self.end - self.start

    def shares(self) -> list[tuple[int, float, float, int]]:
        """Of a transfer: engine, start, end and bytes of each part."""
        transfers = self._profile.data.transfers
        mine = np.flatnonzero(transfers.instruction == self._index)
        return [
            (
                int(transfers.dma_engine[i]),
                int(transfers.start_ps[i]) / 1e3,
                int(transfers.end_ps[i]) / 1e3,
                int(transfers.bytes[i]),
            )
            for i in mine
        ]


def engine_figures(profile: Profile) -> dict[str, float]:
    """Return how long engines were active and how many instructions they ran.

    An engine is active while any of its instructions is between its start and its visible result,
    as profilers of the hardware count it.
    """
    instructions = profile.data.instructions
    found: dict[str, float] = {}
    for number, engine in enumerate(ENGINES):
        mine = instructions.engine == number
        if engine == "dma":
            continue
        found[f"{engine}_ns"] = union(instructions.start_ps[mine], instructions.end_ps[mine]) / 1e3
        found[f"{engine}_instructions"] = float(np.count_nonzero(mine))
    transfers = profile.data.transfers
    found["dma_ns"] = union(transfers.start_ps, transfers.end_ps) / 1e3
    found["dma_packets_ns"] = float(np.sum(transfers.end_ps - transfers.start_ps)) / 1e3
    return found


def union(starts: Any, ends: Any) -> int:
    """Return the length of the union of spans.

    >>> union(np.array([0, 5, 20]), np.array([10, 12, 25]))
    17
    """
    if not len(starts):
        return 0
    order = np.argsort(starts, kind="stable")
    begin = starts[order].astype(np.int64)
    reached = np.maximum.accumulate(ends[order].astype(np.int64))
    covered_from = np.maximum(begin[1:], reached[:-1])
    return int(reached[0] - begin[0] + np.maximum(reached[1:] - covered_from, 0).sum())
