"""Kernels on several machines: what each takes for them, and whether the results are the same."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trn3.compiler.level_names import check_level
from trn3.nki.launch.checking import CheckedRun, golden_of
from trn3.nki.launch.diff_rows import Diff, DiffRow
from trn3.nki.launch.golden import ResultTolerance, leaves
from trn3.nki.launch.jit import as_kernel
from trn3.nki.launch.new_cores import arch_of
from trn3.profile import Profile, profile_of
from trn3.profile.changes import RunChange

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trn3.machine.archs import ArchLike

__all__ = ["Diff", "DiffRow", "diff"]

#: Longer texts of errors are cut in tables.
_MOST_TEXT = 300


def diff(
    kernel: Callable[..., Any] | Profile,
    args: Sequence[Any] | Mapping[str, Any] = (),
    archs: Sequence[ArchLike] = ("trn2", "trn3"),
    kwargs: Mapping[str, Any] | None = None,
    *,
    rtol: float = 0.0,
    values: bool = True,
    strict: bool = False,
    max_instructions: int | None = None,
    max_host_bytes: int | None = None,
    against: Callable[..., Any] | Profile | Sequence[Callable[..., Any] | Profile] | None = None,
    golden: Any = None,
    tolerance: ResultTolerance | None = None,
    compile: str | Sequence[str] | None = None,
    names: Sequence[str] | None = None,
) -> Diff:
    """Run a kernel, or several, on several machines and compare what they take and what they give.

    Each run has copies of the arguments, so that one does not see what another wrote.

    Parameters
    ----------
    kernel : Kernel, function or Profile
        ``kernel[lnc]`` too; a profile is a run that was, of which times are compared.
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
    against : Kernel, function or Profile, or a sequence of them, optional
        Further kernels of the same arguments, which run on each machine too and are held against
        the first; runs that were.
    golden : optional
        What results should be: arrays, or a function that returns them, called with the arguments
        that it has names for (where some are by position: as the kernel is).
    tolerance : ResultTolerance, optional
        How far results may be from the golden, and those of kernels from the first's; otherwise
        as far as the narrowest element type on the way to them allows.
    compile : str or sequence of str, optional
        Level of the compiler, as in `trn3.nki.simulate`. Of several, the kernel runs at each, and
        rows are compared with the first.
    names : sequence of str, optional
        What to call the kernels, in their order, instead of their names.

    Returns
    -------
    Diff
        One row a machine, level and kernel. Where a machine refuses one, its row has the text of
        the error.

    Raises
    ------
    ValueError, TypeError
        If there is no machine or level, or one of them is none; if golden, or another kernel, give
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
    others = [] if against is None else against if isinstance(against, Sequence) else [against]
    kernels = [each if isinstance(each, Profile) else as_kernel(each) for each in (kernel, *others)]
    names = _told_apart(names or [_name(each) for each in kernels])
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
    first: float | None = None  # the latency that others are compared with
    origin: Any = None
    for number, ((name, machine), level) in enumerate(machines):
        # The first kernel on this machine that runs, and what it is called.
        base: tuple[CheckedRun, str] | None = None
        for title, runnable in zip(names, kernels, strict=True):
            if isinstance(runnable, Profile):
                if not number:
                    row = _saved(runnable, title, first)
                    first = first or row.latency_us
                    rows.append(row)
                continue
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
                origin = result if origin is None else origin
                difference = _difference(origin, result)
                if golden is not None:
                    check = attempt.hold(golden, tolerance)
                if base is not None:
                    agreement = attempt.agree(base[0], tolerance, base[1])
            base = base or (attempt, title)
            row = DiffRow(
                arch=name,
                profile=ran,
                result=result,
                speedup=_speedup(first, ran),
                difference=difference,
                equal=None if difference is None else difference <= rtol,
                kernel=title,
                level=ran_at,
                check=check,
                agreement=agreement,
            )
            first = first or ran.latency_us
            rows.append(row)
    return Diff(names[0], tuple(rows), float(rtol), _changes(names[0], rows))


def _name(kernel: Any) -> str:
    return str(kernel.data.kernel if isinstance(kernel, Profile) else kernel.name)


def _told_apart(names: Sequence[str]) -> list[str]:
    """Return the names, of which those that came before get a number.

    >>> _told_apart(["softmax", "norm", "softmax"])
    ['softmax', 'norm', 'softmax (2)']
    """
    times = [list(names[: place + 1]).count(name) for place, name in enumerate(names)]
    return [
        f"{name} ({time})" if time > 1 else name for name, time in zip(names, times, strict=True)
    ]


def _speedup(first: float | None, ran: Profile) -> float:
    return first / ran.latency_us if first and ran.latency_us else 1.0


def _saved(ran: Profile, title: str, first: float | None) -> DiffRow:
    arch, level = str(ran.data.arch["name"]), ran.compile["level"]
    return DiffRow(arch, profile=ran, speedup=_speedup(first, ran), kernel=title, level=level)


def _changes(base: str, rows: Sequence[DiffRow]) -> tuple[RunChange, ...]:
    """Return each run beside the base's on its machine and at its level, or else the first."""
    ran = [(row, row.profile) for row in rows if row.profile is not None]
    of_base = [(row, profile) for row, profile in ran if row.kernel == base]
    has_archs, has_levels = (
        len({getattr(row, name) for row, _ in ran}) > 1 for name in ("arch", "level")
    )

    def title(row: DiffRow) -> str:
        where = f" on {row.arch}" if has_archs else ""
        return f"{row.kernel}{where}" + (f", {row.level}" if has_levels else "")

    found = []
    for row, profile in ran if of_base else ():
        if row.kernel != base:
            likeness = [(each.arch == row.arch, each.level == row.level) for each, _ in of_base]
            was, before = of_base[likeness.index(max(likeness))]
            found.append(RunChange(before, profile, title(was), title(row)))
    return tuple(found)


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
