"""What `diff` found: a row for each kernel, machine and level, and the table of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from trn3.markup import mimebundle
from trn3.nki.launch.golden import ResultCheck
from trn3.profile import Profile
from trn3.profile.changes import RunChange
from trn3.profile.data import ENGINES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from trn3.profile.results import EngineName

__all__ = ["Diff", "DiffRow"]


@dataclass(frozen=True, slots=True)
class DiffRow:
    """A kernel on one machine.

    Attributes
    ----------
    arch : str
        The machine's name.
    error : str or None
        What it said if it refused the kernel; all else but the name is then None.
    profile : Profile or None
    result : object
        What the kernel returned; None without values.
    speedup : float or None
        Latency of the first machine that ran it over this one's: above 1 is faster.
    difference : float or None
        Largest difference of a result's element from the first machine's, over the largest
        magnitude there; infinite where shapes, or what is finite, differ; None without values.
    equal : bool or None
        Whether `difference` is within the tolerance.
    kernel : str
        Its name.
    level : str
        That of the compiler at which it ran.
    check : ResultCheck or None
        The result beside the golden; None without one.
    agreement : ResultCheck or None
        Of a further kernel: its result beside the first one's on the same machine.
    """

    arch: str
    error: str | None = None
    profile: Profile | None = field(default=None, repr=False)
    result: Any = field(default=None, repr=False)
    speedup: float | None = None
    difference: float | None = None
    equal: bool | None = None
    kernel: str = ""
    check: ResultCheck | None = None
    agreement: ResultCheck | None = None
    level: str = ""

    @property
    def latency_us(self) -> float | None:
        """Length of the busy window, in microseconds."""
        return None if self.profile is None else self.profile.latency_us

    @property
    def bottleneck(self) -> str | None:
        """The engine that is busy longest; `verdict` says whether it binds."""
        if self.profile is None:
            return None
        return max(self.profile.engines(), key=lambda total: total.busy_us).engine

    @property
    def verdict(self) -> str | None:
        """What binds the kernel, in a sentence."""
        return None if self.profile is None else self.profile.verdict()

    @property
    def busy_us(self) -> dict[str, float] | None:
        """How long each engine was busy, in microseconds."""
        if self.profile is None:
            return None
        return {total.engine: total.busy_us for total in self.profile.engines()}

    def figures(self) -> dict[str, Any]:
        """Return the figures as plain data, with units in the names."""
        ran = self.profile
        return {
            "arch": self.arch,
            "error": self.error,
            "latency_us": self.latency_us,
            "speedup": self.speedup,
            "bottleneck": self.bottleneck,
            "verdict": self.verdict,
            "busy_us": self.busy_us,
            "busy_share": None
            if ran is None
            else {total.engine: total.busy_share for total in ran.engines()},
            "mfu": None if ran is None else ran.mfu,
            "mbu": None if ran is None else ran.mbu,
            "hbm_read_bytes": None if ran is None else ran.hbm_read_bytes,
            "hbm_write_bytes": None if ran is None else ran.hbm_write_bytes,
            "dma_bytes": None if ran is None else ran.dma_bytes,
            # JSON has no infinity; `equal` says what is needed.
            "difference": None
            if self.difference is None or not math.isfinite(self.difference)
            else self.difference,
            "equal": self.equal,
            "kernel": self.kernel,
            "level": self.level,
            "check": None if self.check is None else self.check.figures(),
            "agreement": None if self.agreement is None else self.agreement.figures(),
        }


@dataclass(frozen=True, slots=True)
class Diff:
    """One kernel or more on several machines; what `diff` returns.

    It is a sequence of `DiffRow`, found by place or by the machine's name.

    Attributes
    ----------
    kernel : str
        Its name; of several, that of the first one, the base.
    rows : tuple of DiffRow
        In the order in which the machines were given; of a machine, one for each level and kernel.
    rtol : float
        Largest difference of results that counts as equal, over the largest magnitude.
    changes : tuple of RunChange
        Of several kernels: each run beside the first one's on the same machine, at the same level.
    """

    kernel: str
    rows: tuple[DiffRow, ...]
    rtol: float
    changes: tuple[RunChange, ...] = field(default=(), repr=False)

    def __iter__(self) -> Iterator[DiffRow]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: int | str) -> DiffRow:
        if isinstance(which, str):
            for row in self.rows:
                if row.arch == which:
                    return row
            message = f"there is no row {which!r}; rows: {', '.join(row.arch for row in self.rows)}"
            raise KeyError(message)
        return self.rows[which]

    @property
    def is_wrong(self) -> bool:
        """Whether a result misses the golden, or kernels' results are not the same.

        What only machines do differently is not wrong.
        """
        checks = (check for row in self.rows for check in (row.check, row.agreement))
        return any(check is not None and check.is_wrong for check in checks)

    def figures(self) -> dict[str, Any]:
        """Return every figure as plain data, ready for JSON."""
        document = {
            "kernel": self.kernel,
            "rtol": self.rtol,
            "archs": [row.figures() for row in self.rows],
        }
        changes = [change.figures() for change in self.changes]
        return {**document, "changes": changes} if changes else document

    def summary(self) -> RenderableType:
        """Return a table for people: ``rich.print(diff.summary())``."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        from trn3.profile.summary import microseconds, percent
        from trn3.text import printable, size

        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("")
        for row in self.rows:
            style = None if row.error is None else "red"
            title = printable(self.title(row, " "))
            table.add_column(title, justify="right", style=style, overflow="fold")

        def line(name: str, show: Callable[[DiffRow, Profile], str]) -> None:
            cells = ["" if row.profile is None else show(row, row.profile) for row in self.rows]
            table.add_row(name, *cells)

        def result(row: DiffRow) -> str:
            if row.equal is None or row.difference is None:
                return ""
            return "equal" if not row.difference else f"{row.difference:.2e}"

        ran = [row.profile for row in self.rows if row.profile is not None]
        longest = max((each.latency_us for each in ran), default=0.0)
        line("latency", lambda _, ran: microseconds(ran.latency_us, longest))
        line("speed", lambda row, _: f"{row.speedup or 0.0:.2f} x")
        line("busiest engine", lambda row, _: str(row.bottleneck))
        for engine in ENGINES:
            if any(each.busy(engine).us for each in ran):
                line(f"  {engine} busy", partial(_busy, engine))
        if any(each.macs for each in ran):
            line("MFU", lambda _, ran: percent(ran.mfu))
        line("MBU", lambda _, ran: percent(ran.mbu))
        line("HBM read", lambda _, ran: size(ran.hbm_read_bytes))
        line("HBM written", lambda _, ran: size(ran.hbm_write_bytes))
        if any(row.equal is not None for row in self.rows):
            line("result", lambda row, _: result(row))
        for name in ("check", "agreement"):
            if any(getattr(row, name) is not None for row in self.rows):
                title = "golden" if name == "check" else f"as {self.kernel}"
                table.add_row(title, *(_verdict(getattr(row, name)) for row in self.rows))
        parts: list[RenderableType] = []
        for row in self.rows:
            title = self.title(row)
            for check in (row.check, row.agreement):
                if check is not None and check.is_wrong:
                    headline = check.headline().replace("WRONG", f"WRONG, {title}", 1)
                    parts.append(Text(printable(headline), style="bold red"))
                    parts.append(Text(printable(check.details())))
        names = dict.fromkeys(row.kernel or self.kernel for row in self.rows)
        parts += [Text(printable(" and ".join(names)), style="bold"), table]
        for row in self.rows:
            style = "yellow" if row.error is None else "red"
            text = row.verdict if row.error is None else f"refused: {row.error}"
            title = self.title(row)
            parts.append(Text(f"{printable(title)}: {printable(text or '')}", style=style))
        parts += [change.summary() for change in self.changes]
        return Group(*parts)

    def title(self, row: DiffRow, on: str = " on ") -> str:
        """Return what tells a row from the others."""
        has_two = len({each.kernel for each in self.rows}) > 1
        title = f"{row.kernel}{on}{row.arch}" if has_two else row.arch
        has_levels = len({each.level for each in self.rows}) > 1
        return f"{title}, {row.level}" if has_levels else title

    _repr_mimebundle_ = mimebundle

    def __rich__(self) -> RenderableType:
        return self.summary()


def _verdict(check: ResultCheck | None) -> str:
    """Return a check as a cell of a table."""
    if check is None:
        return ""
    if check.is_wrong:
        return "WRONG"
    return f"{check.largest_error:.2e}" if check.largest_error else "equal"


def _busy(engine: EngineName, _: DiffRow, ran: Profile) -> str:
    from trn3.profile.summary import percent

    return percent(ran.busy(engine).share)
