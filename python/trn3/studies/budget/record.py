"""The file of latencies, and how a run compares with it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, TypeAlias

import trn3
from trn3.files import parse_json, read_text, write_bytes
from trn3.machine.time_model import TIME_MODEL, changes_since

FORMAT: Final = "trn3-budget"
FORMAT_VERSION: Final = 1
#: The level of entries that name none, as before there were levels.
_UNSAID: Final = "as-written"


class BudgetError(ValueError):
    """A file that holds no latencies; the text names it."""


@dataclass(frozen=True, slots=True)
class KernelCost:
    """What a test spends in one kernel.

    Attributes
    ----------
    launches : int
    latency_ps : int
        Simulated picoseconds of all launches together.
    level : str
        That of the compiler; of launches at several levels, all of them.
    figures : mapping
        What else is kept: figures of profiles by name, and picoseconds at work of lines by
        ``file: text``. Of launches together, sums; of peaks the largest.
    """

    launches: int
    latency_ps: int
    level: str = _UNSAID
    figures: Mapping[str, int] = field(default_factory=dict)

    def __add__(self, other: KernelCost) -> KernelCost:
        levels = dict.fromkeys([*self.level.split(" and "), *other.level.split(" and ")])
        launches = self.launches + other.launches
        figures = dict(self.figures)
        for name, value in other.figures.items():
            before = figures.get(name, 0)
            figures[name] = max(before, value) if "_peak_" in name else before + value
        latency = self.latency_ps + other.latency_ps
        return KernelCost(launches, latency, " and ".join(levels), figures)

    def __str__(self) -> str:
        count = f" in {self.launches} launches" if self.launches > 1 else ""
        return f"{self.latency_ps / 1e6:,.3f} us{count}"


#: What `KernelCost` was called in 0.1.0.
Cost = KernelCost
#: What a test spends, by kernel.
Costs: TypeAlias = Mapping[str, KernelCost]


@dataclass(frozen=True, slots=True)
class Change:
    """A kernel of a test whose latency is another one than the file's.

    Attributes
    ----------
    test, kernel : str
    old, new : KernelCost or None
        None where the file, or the run, does not have it.
    """

    test: str
    kernel: str
    old: KernelCost | None
    new: KernelCost | None

    @property
    def is_of_other_level(self) -> bool:
        """Whether the file's was measured at another level of the compiler."""
        if self.old is None or self.new is None:
            return False
        return self.old.level != self.new.level

    @property
    def percent(self) -> float:
        """How much slower it got, in per cent; below 0 if faster, infinite from nothing."""
        old = self.old.latency_ps if self.old else 0
        new = self.new.latency_ps if self.new else 0
        if not old:
            return math.inf if new else 0.0
        return 100 * (new - old) / old

    def grown(self, percent: float) -> list[str]:
        """Return the figures and lines that grew by more per cent, in words."""
        if self.old is None or self.new is None:
            return []
        pairs = [
            (name, was, self.new.figures.get(name, 0)) for name, was in self.old.figures.items()
        ]
        return [
            f"{name}: {now:,}, was {was:,}" + (f": {100 * (now - was) / was:+.2f} %" if was else "")
            for name, was, now in pairs
            if now > was * (1 + percent / 100)
        ]

    def __str__(self) -> str:
        if self.old is None:
            return f"{self.kernel}: {self.new}"
        if self.new is None:
            return f"{self.kernel}: was {self.old}"
        new, old = f"{self.new}", f"{self.old}"
        if self.is_of_other_level:
            new, old = f"{new} at level {self.new.level}", f"{old} at level {self.old.level}"
        return f"{self.kernel} takes {new}, was {old}: {self.percent:+.2f} %"


@dataclass(frozen=True, slots=True)
class Budget:
    """Latencies of the kernels of tests.

    Attributes
    ----------
    tests : mapping
        What each test spends, by its node id.
    version : str
        Of the trn3 that measured.
    time_model : int
        The version of its model of time; 1 in files of 0.1.0, which do not say.

    Examples
    --------
    >>> budget = Budget({"test_a.py::test_b": {"softmax on trn3": KernelCost(1, 1_000_000)}})
    >>> slower = {"softmax on trn3": KernelCost(1, 1_100_000)}
    >>> (change,) = budget.changes("test_a.py::test_b", slower)
    >>> print(change)
    softmax on trn3 takes 1.100 us, was 1.000 us: +10.00 %
    """

    tests: Mapping[str, Costs]
    version: str = trn3.__version__
    time_model: int = TIME_MODEL

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file; one that is not there is empty.

        Raises
        ------
        BudgetError
            If it is none; the text says what is wrong.
        OSError
            If it cannot be read.
        """
        try:
            text = read_text(path, "budget", BudgetError)
        except FileNotFoundError:
            return cls({})
        document = parse_json(text, path, BudgetError, "no JSON")
        found = document.get("format") if isinstance(document, dict) else None
        if found != FORMAT or document.get("version") != FORMAT_VERSION:
            message = f"{path}: no {FORMAT} file of version {FORMAT_VERSION}"
            raise BudgetError(message)
        tests = {
            test: {kernel: _cost(path, test, kernel, cost) for kernel, cost in kernels.items()}
            for test, kernels in _tests(path, document.get("tests"))
        }
        model = document.get("time_model", 1)
        if type(model) is not int or model < 1:
            message = f"{path}: time_model is {model!r}; allowed: a whole number from 1 on"
            raise BudgetError(message)
        return cls(tests, str(document.get("trn3_version", "unknown")), model)

    def save(self, path: Path) -> None:
        """Write the file: the same latencies give the same bytes; it appears when complete.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        tests = {
            test: {kernel: _entry(cost) for kernel, cost in sorted(kernels.items())}
            for test, kernels in sorted(self.tests.items())
            if kernels
        }
        document = {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "trn3_version": self.version,
            "time_model": self.time_model,
            "tests": tests,
        }
        text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        write_bytes(path, [text.encode()])

    def changes(self, test: str, measured: Costs) -> list[Change]:
        """Return what differs for one test that ran, by kernel."""
        known = self.tests.get(test, {})
        found = [
            Change(test, kernel, known.get(kernel), measured.get(kernel))
            for kernel in sorted({*known, *measured})
        ]
        return [change for change in found if change.old != change.new]

    def origin(self) -> list[str]:
        """Return what of differences from these latencies may be the model's, in lines.

        Nothing where this very model of time measured them.

        Examples
        --------
        >>> Budget({}).origin()
        []
        >>> Budget({}, "0.1.0", time_model=1).origin()[0].partition(";")[0]
        'of trn3 0.1.0, whose model of time is version 1'
        """
        if self.time_model == TIME_MODEL:
            return []
        found = (
            f"of trn3 {self.version}, whose model of time is version {self.time_model}; this is "
            f"trn3 {trn3.__version__}, version {TIME_MODEL}"
        )
        return [found, *changes_since(self.time_model)]

    def merged(self, measured: Mapping[str, Costs], gone: frozenset[str] = frozenset()) -> Budget:
        """Return the latencies with those of tests that ran, and without tests that are gone."""
        kept = {test: costs for test, costs in self.tests.items() if test not in gone}
        return Budget({**kept, **measured})


def _tests(path: Path, value: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(value, dict):
        message = f"{path}: tests is no object"
        raise BudgetError(message)
    for test, kernels in value.items():
        if not isinstance(kernels, dict):
            message = f"{path}: tests of {test} is no object"
            raise BudgetError(message)
        yield test, kernels


def _cost(path: Path, test: str, kernel: str, value: Any) -> KernelCost:
    numbers = value if isinstance(value, dict) else {}
    launches, latency = numbers.get("launches"), numbers.get("latency_ps")
    level, figures = numbers.get("level", _UNSAID), numbers.get("figures", {})
    if (
        type(launches) is not int
        or type(latency) is not int
        or min(launches, latency) < 0
        or not isinstance(level, str)
        or not isinstance(figures, dict)
        or not all(type(value) is int and value >= 0 for value in figures.values())
    ):
        message = (
            f"{path}: {kernel} of {test} is {value!r}; allowed: launches, latency_ps, the "
            "compiler's level and figures"
        )
        raise BudgetError(message)
    return KernelCost(launches, latency, level, figures)


def _entry(cost: KernelCost) -> dict[str, Any]:
    entry: dict[str, Any] = {"launches": cost.launches, "latency_ps": cost.latency_ps}
    if cost.level != _UNSAID:
        entry["level"] = cost.level
    return {**entry, "figures": dict(sorted(cost.figures.items()))} if cost.figures else entry
