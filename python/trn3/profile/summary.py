"""The profile as a table for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from trn3._trn3.profile import cause_words
from trn3.profile.figures import RunFigures
from trn3.profile.findings import Finding, PrecisionLoss
from trn3.profile.results import LineTotal
from trn3.text import kibibytes, printable, size, time, verification

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.table import Table

#: No line is longer.
WIDTH = 100
COSTLIEST_LINES = 3
SHOWN_FINDINGS = 3
#: Kinds of findings after which values are anybody's guess: they stand before all else.
GRAVE = ("race", "uninitialized_read", "unwritten_accumulation", "use_after_reuse")
SHOWN_LOSSES = 8
MAX_LOCATION = 34
#: Where the console is narrower than `WIDTH`.
NARROW_LOCATION = 22


def microseconds(value: float, like: float | None = None) -> str:
    """Return microseconds with about four digits, or with unit and decimals of others like them.

    Longer times are milliseconds and seconds, shorter ones stay microseconds.

    >>> microseconds(0.0125), microseconds(7.5), microseconds(7.5, like=123.4)
    ('0.013 us', '7.500 us', '7.5 us')
    >>> microseconds(36_337.309), microseconds(7.5, like=36_337.309)
    ('36.34 ms', '0.01 ms')
    """
    return time(value * 1e-6, like=max(value if like is None else like, 1.0) * 1e-6)


def percent(share: float) -> str:
    """Return a part of 1 as per cent.

    >>> percent(0.1234)
    '12.3 %'
    """
    return f"{100 * share:.1f} %"


def shortened(text: str, width: int) -> str:
    """Return a text that keeps its end, which tells most of a path.

    >>> shortened("kernels/attention.py:31", 15)
    '…tention.py:31'
    """
    text = printable(text)
    return text if len(text) <= width else "…" + text[len(text) - width + 2 :]


def summary(profile: RunFigures) -> RenderableType:
    """Return the summary: races and reads of what nothing wrote, then what the run cost."""
    from rich.console import Group
    from rich.text import Text

    data, findings = profile.data, profile.findings
    count = sum(len(core.data.instructions) for core in profile.cores)
    title = Text.assemble(
        (shortened(data.kernel, 50), "bold"),
        f" on {printable(data.arch['name'])}: ",
        (microseconds(profile.latency_us), "bold"),
        f", {count:,} instructions",
    )
    grave = [each for each in findings if each.kind in GRAVE]
    others = [each for each in findings if each.kind not in GRAVE]
    parts: list[RenderableType] = [*_findings(grave), Text()] if grave else []
    parts += [title, *_compiled(profile), _wrapped(profile.verdict(), "yellow"), Text()]
    parts += [*_advice(profile), _figures(profile), Text(), _engines(profile)]
    if count:
        parts += [Text(), _lines(profile)]
    if others:
        parts += [Text(), *_findings(others)]
    if profile.precision:
        parts += [Text(), *_precision(profile.precision)]
    return Group(*parts)


def _compiled(profile: RunFigures) -> Iterator[RenderableType]:
    """Yield a line on what the compiler did, of a run that is not as written."""
    data, made = profile.data, profile.compile
    if data.compile is None:
        return
    bound, written = made["bound_us"], made["as_written_us"]
    parts = [
        f"compiled at {made['level']}: {microseconds(made['compiled_us'])}",
        "does not fit as written" if written is None else f"as written {microseconds(written)}",
        *([] if bound is None else [f"bound {microseconds(bound)}"]),
        f"{size(made['spilled_bytes'])} spilled",
    ]
    yield _wrapped(", ".join(parts))
    if verified := made["verified"]:
        yield _wrapped(verification(**verified))


def _advice(profile: RunFigures) -> Iterator[RenderableType]:
    """Yield how fast the run could be, and what would make it faster."""
    from rich.text import Text

    if profile.speed_of_light is None:
        return
    yield _wrapped(f"Speed of light: {profile.speed_of_light['text']}.")
    for each in profile.advice:
        yield _wrapped(printable(f"- {each['text']}"))
    if profile.advice_note:
        yield _wrapped(f"Advice: {profile.advice_note}.")
    yield Text()


def _wrapped(text: str, style: str = "") -> RenderableType:
    from rich.constrain import Constrain
    from rich.text import Text

    return Constrain(Text(text, style), WIDTH)


def _grid() -> Table:
    from rich.table import Table

    return Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))


def _figures(profile: RunFigures) -> RenderableType:
    from rich.text import Text

    arch, roofline = profile.data.arch, profile.roofline()
    grid = _grid()
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True, justify="right")
    grid.add_column(max_width=WIDTH - 34)

    def row(name: str, value: str, meaning: str) -> None:
        grid.add_row(Text(name), Text(value, "bold"), Text(meaning))

    row(
        "latency",
        microseconds(profile.latency_us),
        f"and {microseconds(profile.overhead_us)} to start and end the kernel, not counted below",
    )
    low, high, basis = profile.latency_low_us, profile.latency_high_us, profile.latency_basis
    if low is not None and high is not None and basis is not None:
        guessed = basis.estimated_us / profile.latency_us if profile.latency_us else 0.0
        row(
            "expected",
            f"{microseconds(low, high).rpartition(' ')[0]} to {microseconds(high)}",
            f"on the hardware; {percent(guessed)} of the latency rests on estimated figures",
        )
    row(
        "MFU",
        percent(profile.mfu),
        f"of the tensor engine's peak: {microseconds(profile.ideal_matmul_us)} of matmuls at best "
        f"speed"
        if profile.macs
        else "no matmuls",
    )
    row("MBU", percent(profile.mbu), f"of the HBM bandwidth, {arch['hbm_gbps']:,g} GB/s")
    row(
        "HBM traffic",
        size(profile.hbm_read_bytes + profile.hbm_write_bytes),
        f"{size(profile.hbm_read_bytes)} read, {size(profile.hbm_write_bytes)} written",
    )
    efficiency = profile.dma_efficiency
    row(
        "DMA efficiency",
        "-" if efficiency is None else percent(efficiency),
        "no transfers" if efficiency is None else _transfers(profile),
    )
    intensity = roofline.intensity
    row(
        "roofline",
        f"{intensity:,.1f} FLOP/byte" if math.isfinite(intensity) else "no traffic",
        {
            "compute": f"compute bound: above {roofline.ridge:,.1f} FLOP/byte",
            "memory": f"memory bound ({roofline.ceiling}): below {roofline.ridge:,.1f} FLOP/byte",
            "none": "neither matmuls nor HBM traffic",
        }[roofline.bound],
    )
    for name, peak in (("sbuf", profile.sbuf_peak_bytes), ("psum", profile.psum_peak_bytes)):
        capacity = arch[f"{name}_partition_bytes"]
        row(
            f"{name.upper()} peak",
            kibibytes(peak),
            f"{percent(peak / capacity)} of the {kibibytes(capacity)} of each partition",
        )
    return grid


def _transfers(profile: RunFigures) -> str:
    arch = profile.data.arch
    moved = [core.data.transfers.bytes for core in profile.cores]
    average = int(sum(int(each.sum()) for each in moved)) // max(sum(map(len, moved)), 1)
    return (
        f"of {arch['dma_engine_bytes_per_ns']:g} GB/s for each busy DMA engine; "
        f"{size(average)} at a time"
    )


def _table(title: str) -> Table:
    from rich import box
    from rich.table import Table

    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        collapse_padding=True,
        show_edge=False,
    )


class _Fitting:
    """The first table of several that is no wider than the console, else the last.

    Consoles of `WIDTH` have room for the first, whose cells may break into lines.
    """

    def __init__(self, make: Callable[[int], Table], narrower: int) -> None:
        self._make = make
        self._narrower = narrower

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        room, unlimited = options.max_width, options.update(max_width=10 * WIDTH)
        table, step = self._make(0), 0
        while room < WIDTH and step < self._narrower:
            if console.measure(table, options=unlimited).maximum <= room:
                break
            step += 1
            table = self._make(step)
        yield table


def _engines(profile: RunFigures) -> RenderableType:
    return _Fitting(lambda step: _engine_table(profile, step), 3)


def _engine_table(profile: RunFigures, step: int) -> Table:
    from rich.text import Text

    table = _table("Engines: at work, waiting, or with nothing to do")
    table.add_column("engine", no_wrap=True)
    headings = ("instructions", "busy", "share", "waiting", "nothing to do")
    for heading in headings if step < 2 else headings[1:] if step < 3 else headings[1:4]:
        table.add_column(heading, justify="right", no_wrap=True)
    if step == 0:
        table.add_column("waits most for")
    like = profile.latency_us
    for total in profile.engines():
        if not total.instructions and not total.busy_us:
            continue
        cause = next(iter(total.waits), None)
        reason = f"{cause_words(cause)}, {microseconds(total.waits[cause], like)}" if cause else "-"
        of_queues = total.engine == "dma" and total.wait_us > 0
        cells: list[RenderableType] = [
            microseconds(total.busy_us, like),
            Text(percent(total.busy_share), "bold"),
            microseconds(total.wait_us, like) + (" *" if of_queues else ""),
            microseconds(total.idle_us, like),
            Text(reason),
        ]
        if step < 2:
            cells.insert(0, f"{total.instructions:,}")
        table.add_row(total.engine, *cells[: len(table.columns) - 1])
    if any(total.engine == "dma" and total.wait_us for total in profile.engines()):
        table.caption = "* summed over all DMA queues"
        table.caption_justify = "left"
    return table


def core_table(profiles: Sequence[RunFigures]) -> RenderableType:
    """Return what tells the cores of a logical core apart, a row for each."""
    return _apart("core", "Cores: each has a profile of its own in profile.cores", profiles)


def rank_table(profiles: Sequence[RunFigures]) -> RenderableType:
    """Return what tells the ranks of a kernel apart, a row for each."""
    return _apart("rank", "Ranks: all times count from one start", profiles)


def _apart(what: str, title: str, profiles: Sequence[RunFigures]) -> RenderableType:
    from rich.text import Text

    table = _table(title)
    table.add_column(what, no_wrap=True)
    for heading in ("latency", "instructions", "busiest engine", "at work", "waiting"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("waits most for", overflow="fold")
    like = max(profile.latency_us for profile in profiles)
    for number, profile in enumerate(profiles):
        busiest = max(profile.engines(), key=lambda total: total.busy_us)
        cause = next(iter(busiest.waits), None)
        table.add_row(
            f"{what.title()} {number}",
            Text(microseconds(profile.latency_us, like), "bold"),
            f"{sum(len(core.data.instructions) for core in profile.cores):,}",
            busiest.engine,
            percent(busiest.busy_share),
            microseconds(busiest.wait_us, like),
            Text(cause_words(cause) if cause else "-"),
        )
    return table


def _lines(profile: RunFigures) -> RenderableType:
    return _Fitting(lambda step: _line_table(profile, step), 4)


def _line_table(profile: RunFigures, step: int) -> Table:
    from rich.text import Text

    table = _table("Costliest kernel lines: where to look first")
    # What is narrower folds: the number at a place's end is never cut off.
    table.add_column("line", overflow="fold")
    headings = ("critical path", "at work", "waiting", "instructions")
    for heading in headings[: 4 if step < 3 else 3 if step < 4 else 1]:
        table.add_column(heading, justify="right", no_wrap=True)
    if step < 2:
        table.add_column("waits most for")
    like = profile.latency_us
    for total in profile.lines()[:COSTLIEST_LINES]:
        share = total.critical_us / profile.latency_us if profile.latency_us else 0.0
        cells: list[RenderableType] = [
            Text(shortened(total.location, MAX_LOCATION if step == 0 else NARROW_LOCATION)),
            Text(percent(share), "bold"),
            microseconds(total.slot_us, like),
            microseconds(total.wait_us, like),
            f"{total.instructions:,}",
            Text(_reason(total)),
        ]
        table.add_row(*cells[: len(table.columns)])
    return table


def _reason(total: LineTotal) -> str:
    return cause_words(next(iter(total.waits))) if total.waits else "-"


def _findings(findings: Sequence[Finding]) -> list[RenderableType]:
    count = len(findings)
    lines = [_wrapped(f"{count} finding{'s' if count > 1 else ''}:", "bold red")]
    lines += [_wrapped(printable(f"- {finding}")) for finding in findings[:SHOWN_FINDINGS]]
    if count > SHOWN_FINDINGS:
        lines.append(_wrapped(f"- and {count - SHOWN_FINDINGS} more: profile.findings"))
    return lines


def _precision(losses: Sequence[PrecisionLoss]) -> list[RenderableType]:
    shown = [loss for loss in losses if loss.error or loss.input_error][:SHOWN_LOSSES]
    if not shown:
        return [_wrapped("No instruction lost precision against float64.")]
    lines: list[RenderableType] = [_Fitting(lambda step: _loss_table(shown, step), 3)]
    if len(losses) > len(shown):
        lines.append(_wrapped(f"{len(losses) - len(shown)} more: profile.precision"))
    return lines


def _loss_table(losses: Sequence[PrecisionLoss], step: int) -> Table:
    from rich.text import Text

    table = _table(
        "Precision lost against float64, largest growth first: relative to the largest magnitude"
    )
    table.add_column("line", overflow="fold")
    for heading in ("instruction", "writes")[: max(0, 2 - max(0, step - 1))]:
        table.add_column(heading)
    for heading in ("added here", "in inputs", "in result"):
        table.add_column(heading, justify="right", no_wrap=True)
    for loss in losses:
        words = [
            Text(printable(loss.instruction)),
            Text(shortened(f"{loss.tensor} {loss.dtype}".strip(), 20)),
        ]
        table.add_row(
            Text(shortened(loss.location, MAX_LOCATION - 8 if step == 0 else NARROW_LOCATION)),
            *words[: len(table.columns) - 4],
            Text(f"{loss.relative_added_error:.1e}", "bold"),
            f"{loss.relative_input_error:.1e}",
            f"{loss.relative_error:.1e}",
        )
    return table
