"""What makes a kernel faster: advice of the compiler, written into its text and profiled there."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import signature, unwrap
from typing import Any, Final, Literal

import numpy as np

from trn3.compiler.advice import advise, said
from trn3.compiler.rewrite import ByHandError, KernelText, lines_that_name, rewritten
from trn3.machine import ArchSpec, PsumCapacityError, SbufCapacityError, SkippedValueError
from trn3.nki import Kernel
from trn3.profile import Profile, profile_of

__all__ = ["OptimizedKernel", "TimedRun", "TriedChange", "optimize", "run_as_written"]

#: A change is kept that makes a kernel faster by this share.
LEAST_GAIN: Final = 0.005
#: Changes that are profiled at most.
MOST_CHANGES: Final = 48
_LINE: Final = re.compile(r"\bline (\d+)")
_ISA: Final = ("trn3.nki.isa", "trn3.nki.dialects.legacy.isa")
_LESS_WORK: Final = ("hoist", "dead", "join", "direct")


@dataclass(frozen=True)
class TriedChange:
    """A change of a kernel, with what it saves.

    Attributes
    ----------
    kind : str
        ``"hoist"``, ``"double-buffer"``, ``"engine"``, ``"queue"``, ``"join"``, ``"direct"``,
        ``"ahead"`` or ``"dead"``.
    lines : list of int
        Lines of the kernel as it was first; of ``"ahead"`` the first and the last that go before.
    engines : list of list of str
        Of each line; several take turns. Of ``"queue"`` those whose sequencers trigger transfers.
    tensors : list of str
        Names in the kernel.
    before : int or None
        The line that they go before.
    pass_name : str or None
        The pass of the compiler that changes one of the lines so; None if it is the author's alone.
    status : str
        ``"written"``: in the text; ``"by hand"``: the text does not let it be made mechanically;
        ``"taken back"``: profiled it is no faster, or has other values.
    note : str
        Why it is not written; empty if it is.
    from_us, estimate_us, confirmed_us : float
        The latency before it, with it by its estimate alone, and made together with all before it:
        profiled, or by hand timed on the run's trace; None of a text that did not run.
    """

    kind: str
    lines: list[int]
    engines: list[list[str]]
    tensors: list[str]
    before: int | None
    pass_name: str | None
    status: Literal["written", "by hand", "taken back"]
    note: str
    from_us: float
    estimate_us: float
    confirmed_us: float | None

    @property
    def gain(self) -> float | None:
        """Share of the latency before it that it saves, as confirmed."""
        return None if self.confirmed_us is None else 1 - self.confirmed_us / self.from_us

    def words(self) -> tuple[str, str]:
        """Return what it does, and what to write."""
        return said(self.kind, self.lines, self.engines, self.tensors, self.before)


@dataclass(frozen=True)
class OptimizedKernel:
    """What `optimize` found.

    Attributes
    ----------
    as_written, written : TimedRun
        Of the kernel as it was, and as `text` has it.
    compiled : Profile
        Of the kernel as it was at the highest level of the compiler.
    changes : list of TriedChange
        In the order in which they were made, those by hand last.
    text : str
        The file with all changes that are written.
    """

    as_written: TimedRun
    written: TimedRun
    compiled: Profile
    changes: list[TriedChange]
    text: str

    @property
    def speedup(self) -> float:
        """How many times as fast the text is."""
        return self.as_written.latency_us / self.written.latency_us


@dataclass(frozen=True)
class TimedRun:
    """A run of a kernel as it is written.

    Attributes
    ----------
    latency_us : float
    values : list of (str, tuple of int, bytes)
        The bits of its results and of arguments that it wrote, with their types and shapes; empty
        where time alone was looked at.
    """

    latency_us: float
    values: list[tuple[str, tuple[int, ...], bytes]]


@dataclass
class _Optimizer:
    path: str
    load: Callable[[str], Kernel]
    arguments: Mapping[str, Any]
    arch: str | ArchSpec | None
    values: bool
    options: Mapping[str, Any]
    changes: list[TriedChange] = field(default_factory=list)

    def run(self, text: KernelText) -> TimedRun:
        kernel = self.load(text.source)
        return run_as_written(kernel, self.arguments, self.arch, values=self.values, **self.options)

    def advice(self, text: KernelText) -> Any:
        """Return what would make a text faster, from the trace of its run."""
        kernel = self.load(text.source)
        named = lines_that_name(text, self.takes_engine(text))
        found: list[Any] = []

        def take(ran: Any) -> Any:
            found.append(advise(cores, self.path, text.loops(), named))
            return ran

        for values in (False, True) if self.values else (False,):
            cores = kernel.cores(self.arch, **self.options, compile="nki", values=values)
            try:
                kernel.launch_ranks(
                    [cores], [((), copy.deepcopy(dict(self.arguments)))], finish=take
                )
                break
            except SkippedValueError:
                if values or not self.values:
                    raise
        return found[0]

    def improve(self, text: KernelText) -> tuple[TimedRun, TimedRun, KernelText]:
        """Make one change after the other as long as one helps; the runs before and after."""
        try:
            first = now = self.run(text)
        except (PsumCapacityError, SbufCapacityError) as error:
            hint = "hint: trn3 optimize starts from the text as written; --compile neuronx-cc of "
            error.args = (f"{error}\n{hint}trn3 profile finds places for what does not fit",)
            raise
        seen: set[str] = set()
        while True:
            advice = self.advice(text)
            report = advice.report()["advice"]
            by_hand: list[tuple[int, str]] = []
            better = None
            # Less work first: what is left is easier to see, and to write.
            order = sorted(range(len(report)), key=lambda at: report[at]["kind"] not in _LESS_WORK)
            for number in order:
                each = report[number]
                key = str([text.origin(line) for line in each["lines"]])
                key += str([each["kind"], each["engines"], _names(text, each)])
                try:
                    made = rewritten(text, each, self.takes_engine(text))
                except (ByHandError, SyntaxError) as error:
                    # Of lines that came with a change before there is nothing to say.
                    if all(text.lines[line - 1][1] for line in _lines(each)):
                        by_hand.append((number, _LINE.sub(partial(_first_line, text), str(error))))
                    continue
                if key in seen or len(seen) >= MOST_CHANGES:
                    continue
                seen.add(key)
                better = self.tried(text, made, each, first, now)
                if better is not None:
                    text, now = made, better
                    break
            if better is None:
                break
        by_hand.sort()
        chosen = advice.combined([number for number, _ in by_hand])
        reached = now.latency_us
        for (number, problem), latency in zip(by_hand, chosen, strict=True):
            if latency is not None:
                estimate = reached * report[number]["estimate_us"] / now.latency_us
                self.note(text, report[number], "by hand", problem, (reached, estimate, latency))
                reached = latency
        return first, now, text

    def tried(
        self, text: KernelText, made: KernelText, each: Any, first: TimedRun, now: TimedRun
    ) -> TimedRun | None:
        """Profile a changed text, and return its run if it is faster and has the same values."""
        figures = now.latency_us, each["estimate_us"]
        try:
            ran = self.run(made)
        except Exception as error:
            # Whatever it does otherwise, the text before it stays.
            why = f"{type(error).__name__}: {error}"
            self.note(text, each, "taken back", why, (*figures, None))
            return None
        problem = "" if ran.values == first.values else "its values are others"
        if ran.latency_us > now.latency_us * (1 - LEAST_GAIN):
            problem = problem or "profiled it is not faster"
        status: Literal["written", "taken back"] = "taken back" if problem else "written"
        self.note(text, each, status, problem, (*figures, ran.latency_us))
        return None if problem else ran

    def note(
        self,
        text: KernelText,
        each: Any,
        status: Literal["written", "by hand", "taken back"],
        problem: str,
        figures: tuple[float, float, float | None],
    ) -> None:
        lines = [text.origin(line) for line in each["lines"]]
        before = None if each["before"] is None else text.origin(each["before"])
        tensors = _names(text, each)
        of = (each["kind"], lines, each["engines"], tensors, before, each["pass"], status, problem)
        self.changes.append(TriedChange(*of, *figures))

    def takes_engine(self, text: KernelText) -> Callable[[ast.expr], bool]:
        known = unwrap(self.load(text.source)).__globals__

        def takes(function: ast.expr) -> bool:
            if not isinstance(function, ast.Attribute):
                return False
            first, *path = ast.unparse(function).split(".")
            found: Any = known.get(first)
            for name in path:
                found = getattr(found, name, None)
            module = getattr(found, "__module__", None) or ""
            return module.startswith(_ISA) and "engine" in signature(found).parameters

        return takes


def optimize(
    path: str,
    text: str,
    kernel: Kernel,
    load: Callable[[str], Kernel],
    arguments: Mapping[str, Any],
    arch: str | ArchSpec | None = None,
    *,
    values: bool = True,
    **options: Any,
) -> OptimizedKernel:
    """Find what makes a kernel faster, and write what can be written mechanically.

    Every change is estimated alone on the trace of the run, the best is written into the text,
    which is profiled: one that is no faster, or whose values are not the same bits, is taken back.

    Parameters
    ----------
    path : str
        The kernel's file, as its code names it.
    text : str
        What stands in it.
    kernel : Kernel
    load : callable
        Makes the kernel of another text of the file.
    arguments : mapping
        By name.
    arch : str or ArchSpec, optional
        Machine instead of the kernel's target.
    values : bool
        Whether values are computed, and compared after each change; else time alone decides.
    **options
        Those of `trn3.machine.NeuronCore`.

    Raises
    ------
    ByHandError
        If the file does not define the kernel's function.
    Exception
        What the kernel itself raises.
    """
    own = KernelText.of(text, unwrap(kernel).__name__)
    _ = own.function
    optimizer = _Optimizer(path, load, arguments, arch, values, options)
    as_written, written, made = optimizer.improve(own)
    cores = kernel.cores(arch, compile="neuronx-cc", values=values, **options)
    kernel.launch(cores, (), copy.deepcopy(dict(arguments)))
    compiled = profile_of(cores, kernel.name)
    return OptimizedKernel(as_written, written, compiled, optimizer.changes, made.source)


def run_as_written(
    kernel: Kernel,
    arguments: Mapping[str, Any],
    arch: str | ArchSpec | None = None,
    *,
    values: bool = True,
    **options: Any,
) -> TimedRun:
    """Run a kernel in the order of its text, whatever its dialect.

    Parameters
    ----------
    kernel : Kernel
    arguments : mapping
        By name; they are left as they are.
    arch, values, **options
        As of `optimize`.
    """
    given = copy.deepcopy(dict(arguments))
    cores = kernel.cores(arch, compile="as-written", values=values, **options)
    result = kernel.launch(cores, (), given)
    latency = profile_of(cores, kernel.name).latency_us
    return TimedRun(latency, list(_flat((result, given))) if values else [])


def _first_line(text: KernelText, words: re.Match[str]) -> str:
    """Return a line of a text as that of the first one, in words."""
    return f"line {text.origin(int(words[1]))}"


def _lines(advice: Any) -> list[int]:
    return [*advice["lines"], *filter(None, [advice["before"]])]


def _names(text: KernelText, advice: Any) -> list[str]:
    """Return what the kernel calls tensors."""
    found = []
    for tensor in advice["tensors"]:
        made = text.path(tensor["line"])[-1]
        target = made.targets[0] if isinstance(made, ast.Assign) else None
        found.append(target.id if isinstance(target, ast.Name) else tensor["name"])
    return found


def _flat(value: Any) -> Any:
    """Yield the bits of all arrays in a result, and all else as text."""
    if isinstance(value, np.ndarray):
        yield str(value.dtype), value.shape, value.tobytes()
    elif isinstance(value, Mapping):
        for key in value:
            yield from _flat(value[key])
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _flat(each)
    else:
        yield str(value), (), b""
