"""Kernels on several machines: what each takes for them, and whether the results are the same."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from trn3.compiler.level_names import check_level
from trn3.nki.launch.checking import CheckedRun, golden_of
from trn3.nki.launch.golden import ResultCheck, ResultTolerance, leaves
from trn3.nki.launch.jit import as_kernel
from trn3.nki.launch.new_cores import arch_of
from trn3.profile import Profile, profile_of
from trn3.profile.data import ENGINES

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import RenderableType

    from trn3.machine.archs import ArchLike
    from trn3.profile.results import EngineName

__all__ = ["Diff", "DiffRow", "diff"]

#: Longer texts of errors are cut in tables.
_MOST_TEXT = 300


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
        Of a second kernel: its result beside the first one's on the same machine.
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
    """One kernel or two on several machines; what `diff` returns.

    It is a sequence of `DiffRow`, found by place or by the machine's name.

    Attributes
    ----------
    kernel : str
        Its name; of two kernels the first one's.
    rows : tuple of DiffRow
        In the order in which the machines were given; of a machine, one for each level and kernel.
    rtol : float
        Largest difference of results that counts as equal, over the largest magnitude.
    """

    kernel: str
    rows: tuple[DiffRow, ...]
    rtol: float

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
        """Whether a result misses the golden, or the two kernels' results are not the same.

        What only machines do differently is not wrong.
        """
        checks = (check for row in self.rows for check in (row.check, row.agreement))
        return any(check is not None and check.is_wrong for check in checks)

    def figures(self) -> dict[str, Any]:
        """Return every figure as plain data, ready for JSON."""
        return {
            "kernel": self.kernel,
            "rtol": self.rtol,
            "archs": [row.figures() for row in self.rows],
        }

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
            title = printable(self._title(row, " "))
            table.add_column(title, justify="right", style=style, overflow="fold")

        def line(name: str, show: Callable[[DiffRow, Profile], str]) -> None:
            cells = ["" if row.profile is None else show(row, row.profile) for row in self.rows]
            table.add_row(name, *cells)

        def result(row: DiffRow) -> str:
            if row.equal is None or row.difference is None:
                return ""
            return "equal" if not row.difference else f"{row.difference:.2e}"

        ran = [row.profile for row in self.rows if row.profile is not None]
        line("latency", lambda _, ran: microseconds(ran.latency_us))
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
            title = self._title(row)
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
            title = self._title(row)
            parts.append(Text(f"{printable(title)}: {printable(text or '')}", style=style))
        return Group(*parts)

    def _title(self, row: DiffRow, on: str = " on ") -> str:
        """Return what tells a row from the others."""
        has_two = len({each.kernel for each in self.rows}) > 1
        title = f"{row.kernel}{on}{row.arch}" if has_two else row.arch
        has_levels = len({each.level for each in self.rows}) > 1
        return f"{title}, {row.level}" if has_levels else title

    def __rich__(self) -> RenderableType:
        return self.summary()


def _verdict(check: ResultCheck | None) -> str:
    """Return a check as a cell of a table."""
    if check is None:
        return ""
    return "WRONG" if check.is_wrong else f"{check.largest_error:.2e}"


def _busy(engine: EngineName, _: DiffRow, ran: Profile) -> str:
    from trn3.profile.summary import percent

    return percent(ran.busy(engine).share)


def diff(
    kernel: Callable[..., Any],
    args: Sequence[Any] | Mapping[str, Any] = (),
    archs: Sequence[ArchLike] = ("trn2", "trn3"),
    kwargs: Mapping[str, Any] | None = None,
    *,
    rtol: float = 0.0,
    values: bool = True,
    strict: bool = False,
    max_instructions: int | None = None,
    max_host_bytes: int | None = None,
    against: Callable[..., Any] | None = None,
    golden: Any = None,
    tolerance: ResultTolerance | None = None,
    compile: str | Sequence[str] | None = None,
) -> Diff:
    """Run a kernel, or two, on several machines and compare what they take and what they give.

    Each run has copies of the arguments, so that one does not see what another wrote.

    Parameters
    ----------
    kernel : Kernel or function
        ``kernel[lnc]`` too.
    args : sequence, or dict
        The kernel's arguments by position, or by keyword.
    archs : sequence
        Machines: targets' names, what-ifs and `trn3.machine.ArchSpec`, as `trn3.machine.arch` takes
        them. Others are compared with the first that runs the kernel.
    kwargs : dict, optional
        Arguments by keyword.
    rtol : float, optional
        Largest difference of results that counts as equal, over the largest magnitude of each
        result; 0 wants the same values.
    values, strict, max_instructions, max_host_bytes
        As in `trn3.nki.profile`.
    against : Kernel or function, optional
        A second kernel of the same arguments, which runs on each machine too.
    golden : optional
        What results should be: arrays, or a function that returns them, called with the arguments
        that it has names for (where some are by position: as the kernel is).
    tolerance : ResultTolerance, optional
        How far results may be from the golden, and those of two kernels from each other; otherwise
        as far as the narrowest element type on the way to them allows.
    compile : str or sequence of str, optional
        Level of the compiler, as in `trn3.nki.simulate`. Of several, the kernel runs at each, and
        rows are compared with the first.

    Returns
    -------
    Diff
        One row a machine, level and kernel. Where a machine refuses one, its row has the text of
        the error.

    Raises
    ------
    ValueError, TypeError
        If there is no machine or level, or one of them is none; if golden, or second kernel, give
        results of other shapes.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3 import nki
    >>> import trn3.nki.language as nl
    >>> @nki.jit
    ... def double(x):
    ...     out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    ...     nl.store(out, nl.multiply(nl.load(x), 2.0))
    ...     return out
    >>> found = nki.diff(double, [np.ones((128, 512), np.float32)], archs=["trn2", "trn3"])
    >>> [(row.arch, row.equal, row.latency_us > 0) for row in found]
    [('trn2', True, True), ('trn3', True, True)]
    """
    kernels = [as_kernel(each) for each in (kernel, against) if each is not None]
    names = [each.name for each in kernels]
    if len(names) > 1 and names[0] == names[1]:
        names[1] += " (2)"
    machines = list(itertools.product(_machines(archs), _levels(compile)))
    if not rtol >= 0:
        message = f"rtol is {rtol!r}; allowed: a number of at least 0"
        raise ValueError(message)
    by_name = dict(kwargs or {})
    if isinstance(args, Mapping):
        by_name, args = {**args, **by_name}, ()
    if golden is not None and values:
        golden = golden_of(golden, *copy.deepcopy((tuple(args), by_name)))
    rows: list[DiffRow] = []
    first: DiffRow | None = None
    for (name, machine), level in machines:
        # The first kernel on this machine, where it runs.
        before_it: CheckedRun | None = None
        for title, runnable in zip(names, kernels, strict=True):
            given, named = copy.deepcopy((tuple(args), by_name))
            ran_at = runnable.compile_level(level)
            try:
                attempt = CheckedRun(
                    runnable,
                    given,
                    named,
                    keeps=False,
                    arch=machine,
                    values=values,
                    strict=strict,
                    max_instructions=max_instructions,
                    max_host_bytes=max_host_bytes,
                    compile=ran_at,
                )
                result = attempt.run()
                ran = profile_of(attempt.cores, runnable.name)
            except Exception as error:
                if type(error) is MemoryError:
                    raise
                rows.append(DiffRow(name, error=_text(error), kernel=title, level=ran_at))
                continue
            difference = check = agreement = None
            if values:
                difference = 0.0 if first is None else _difference(first.result, result)
                if golden is not None:
                    check = attempt.hold(golden, tolerance)
                if before_it is not None:
                    agreement = attempt.agree(before_it, tolerance, names[0])
            before_it = attempt
            before = ran.latency_us if first is None else first.latency_us
            row = DiffRow(
                arch=name,
                profile=ran,
                result=result,
                speedup=before / ran.latency_us if before and ran.latency_us else 1.0,
                difference=difference,
                equal=None if difference is None else difference <= rtol,
                kernel=title,
                level=ran_at,
                check=check,
                agreement=agreement,
            )
            first = first or row
            rows.append(row)
    return Diff(names[0], tuple(rows), float(rtol))


def _machines(archs: Sequence[ArchLike]) -> list[tuple[str, Any]]:
    """Return the machines by their names, each looked at before the first runs."""
    from trn3.machine.archs import arch as described

    if isinstance(archs, (str, Mapping)) or not len(archs):
        message = f"archs is {archs!r}; allowed: a list of machines, such as ['trn2', 'trn3']"
        raise ValueError(message)
    machines = [described(arch_of(arch)) for arch in archs]
    names = [machine.name for machine in machines]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        message = f"archs has {twice[0]} twice; name one with .replace(name=...)"
        raise ValueError(message)
    return list(zip(names, machines, strict=True))


def _levels(compile: str | Sequence[str] | None) -> list[str | None]:
    if compile is None:
        return [None]
    levels = [compile] if isinstance(compile, str) else list(compile)
    if not levels or len(set(levels)) < len(levels):
        message = f"compile is {compile!r}; allowed: levels of the compiler, each once"
        raise ValueError(message)
    return [check_level(level) for level in levels]


def _text(error: Exception) -> str:
    """Return what an error says, in one line."""
    words = " ".join(str(error).split())
    short = words if len(words) <= _MOST_TEXT else f"{words[:_MOST_TEXT]}..."
    return f"{type(error).__name__}: {short}" if short else type(error).__name__


def _difference(wanted: Any, got: Any) -> float:
    """Return the largest difference of two results, over the largest magnitude of each array."""
    left, right = list(leaves(wanted)), list(leaves(got))
    if [each.shape for each in left] != [each.shape for each in right]:
        return float("inf")
    return max(map(_difference_of_arrays, left, right), default=0.0)


def _difference_of_arrays(wanted: NDArray[Any], got: NDArray[Any]) -> float:
    if wanted.tobytes() == got.tobytes():
        return 0.0
    if wanted.dtype.names or got.dtype.names:
        # Packed types have no arithmetic: their bits are the same, or they are not.
        return float("inf")
    exact, other = wanted.astype(np.float64), got.astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.abs(other - exact)
    # Infinities and what is no number differ from all but themselves.
    same = (exact == other) | (np.isnan(exact) & np.isnan(other))
    off = np.where(same, 0.0, np.where(np.isnan(off), np.inf, off))
    finite = np.abs(exact[np.isfinite(exact)])
    return float(off.max(initial=0.0)) / (float(finite.max(initial=0.0)) or 1.0)
