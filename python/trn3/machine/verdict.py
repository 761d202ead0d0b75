"""What binds a kernel, in one plain sentence, and what to look at first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trn3.machine.data import ENGINES

if TYPE_CHECKING:
    from trn3.machine.profile import Profile
    from trn3.machine.results import EngineName, EngineTotal

# (choice) An engine that works this part of the time binds the kernel.
BUSY_ENOUGH = 0.75
# (choice) Below this part of its own peak a busy tensor engine does the wrong work.
ARRAY_WELL_USED = 0.5
# (choice) Below this part of their number at work, or of their rate, DMA engines are badly used.
DMA_WELL_USED = 0.5

# (choice) Below this part of the bytes that a queue's issue interval pays for, transfers are short.
ROWS_WELL_USED = 0.5
SHORT_ROWS = (
    "transfers are short, and a queue issues one only every so often; make each larger, 2 KiB a "
    "partition or more"
)

OTHER_ENGINES = {
    "vector": "move element-wise work to the scalar or gpsimd engine, or use 16-bit types in SBUF",
    "scalar": "move plain copies and arithmetic to the vector engine, keep functions here",
    "gpsimd": "move what the vector or scalar engine can do there",
    "sync": "trigger fewer and larger DMA transfers, or trigger some from other engines",
}
CAUSE_WORDS = {
    "tensor": "tensor results",
    "vector": "vector results",
    "scalar": "scalar results",
    "gpsimd": "gpsimd results",
    "sync": "sync engine",
    "dma": "DMA transfers",
    "issue order": "own earlier results",
    "table load": "function tables",
    "PSUM bank": "PSUM bank in use",
    "depends_on": "depends_on",
    "DMA queue": "DMA queue in use",
    "other core": "the other core",
    "other rank": "other ranks",
}
REMEDIES = {
    "dma": "load earlier, into more buffers",
    "DMA queue": "spread transfers over more queues",
    "table load": "group activations by function",
    "PSUM bank": "put what runs side by side into different PSUM banks",
    "issue order": "interleave independent tiles",
    "depends_on": "drop edges that are not needed",
    "other core": "share the work evenly, and meet less often",
    "other rank": "share the work evenly among the ranks",
}
OVERLAP = "work on several tiles at once, so that engines overlap"


def cause_words(cause: str) -> str:
    """Return what a cause of waiting means, in words.

    >>> cause_words("dma")
    'DMA transfers'
    """
    return CAUSE_WORDS.get(cause, cause)


def verdict(profile: Profile) -> str:
    """Return in plain words what binds the kernel and what to look at first."""
    if not len(profile.data.instructions):
        return "The kernel has no instructions."
    engines = profile.engines()
    busiest = max(engines, key=lambda total: total.busy_us)
    if busiest.busy_share < BUSY_ENOUGH:
        return _waiting(profile, busiest)
    busy = "DMA engines are" if busiest.engine == "dma" else f"{busiest.engine} engine is"
    text = f"Bound by work: the {busy} busy {100 * busiest.busy_share:.0f} % of the time"
    first = _look_at(*_line_of(profile, busiest.engine))
    if busiest.engine == "tensor":
        used = profile.ideal_matmul_us / busiest.busy_us
        if used >= ARRAY_WELL_USED:
            return (
                f"{text}, at {100 * used:.0f} % of peak. A narrower type or fewer FLOP help{first}."
            )
        return (
            f"{text}, but at only {100 * used:.0f} % of peak: fill all rows of the array, merge "
            f"small matmuls{first}."
        )
    if busiest.engine == "dma":
        efficiency = profile.dma_efficiency or 0.0
        together = float(profile.dma_engine_us.mean()) / busiest.busy_us
        if _short_rows(profile):
            advice = SHORT_ROWS
        elif together < DMA_WELL_USED:
            advice = f"{100 * together:.0f} % of them at a time; spread transfers over partitions"
        elif efficiency < DMA_WELL_USED:
            advice = f"at {100 * efficiency:.0f} % of their rate; make each transfer larger"
        else:
            advice = "keep data in SBUF, load it once, or use a narrower type"
        return f"{text}: {advice}{first}."
    return f"{text}: {OTHER_ENGINES[busiest.engine]}{first}."


def _waiting(profile: Profile, busiest: EngineTotal) -> str:
    text = (
        f"Bound by waiting: even the busiest engine, {busiest.engine}, works only "
        f"{100 * busiest.busy_share:.0f} % of the time"
    )
    costliest = profile.lines()[0]
    first = _look_at(costliest.file, costliest.line)
    shares = profile.critical_engine_us
    longest = max(shares, key=lambda engine: shares[engine])
    if shares[longest] and profile.latency_us:
        share = 100 * shares[longest] / profile.latency_us
        holder = "DMA" if longest == "dma" else f"the {longest} engine"
        text += f", and {holder} holds {share:.0f} % of the critical path"
    cause = longest if longest == "dma" else next(iter(busiest.waits), "")
    remedy = SHORT_ROWS if cause == "dma" and _short_rows(profile) else REMEDIES.get(cause, OVERLAP)
    return f"{text}. {_capital(remedy)}{first}."


def _short_rows(profile: Profile) -> bool:
    """Whether queues cannot issue transfers as fast as the engines would move them."""
    arch, transfers = profile.data.arch, profile.data.transfers
    floor = arch.get("dma_row_floor_bytes")
    if not floor or not len(transfers):
        return False
    rows = -(-arch["partitions"] // arch["dma_engines"])
    return bool(transfers.bytes.mean() < ROWS_WELL_USED * rows * floor)


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _line_of(profile: Profile, engine: EngineName) -> tuple[str, int]:
    """Return file and number of the line that keeps an engine busy longest."""
    instructions = profile.data.instructions
    rows = np.flatnonzero(instructions.engine == ENGINES.index(engine))
    end = instructions.end_ps if engine == "dma" else instructions.slot_end_ps
    held = np.bincount(instructions.site[rows], end[rows] - instructions.start_ps[rows])
    file, line, _ = profile.data.sites[int(np.argmax(held))]
    return file, line


def _look_at(file: str, line: int) -> str:
    """Return where to look first, if that is known."""
    if not line:
        return ""
    from trn3.text import printable

    return f"; look first at {printable(file.rsplit('/', 1)[-1])}:{line}"
