"""What changed from one run to another: by engine, by cause of waiting, and by line of the text."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trn3._trn3.profile import cause_words
from trn3.profile.figures import RunFigures
from trn3.profile.results import LineTotal, location
from trn3.profile.summary import microseconds, shortened
from trn3.text import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Rows of a table for people.
_SHOWN: Final = 8
#: Pairs of lines in a stretch of which it is asked how alike they are.
_COMPARED: Final = 10_000
#: What is less of the longer latency is not shown.
_LEAST: Final = 1e-3


@dataclass(frozen=True, slots=True)
class LineChange:
    """A line of the one run, of the other, or of both.

    Attributes
    ----------
    base, other : LineTotal or None
        What it cost in each; None where it is not there.
    base_text, text : str
        How it reads in each; empty where that is not known.
    """

    base: LineTotal | None
    other: LineTotal | None
    base_text: str = ""
    text: str = ""

    @property
    def change_us(self) -> float:
        """How much longer its part of the critical path got."""
        return _critical(self.other) - _critical(self.base)

    def figures(self) -> dict[str, Any]:
        """Return all of it as plain data, with units in the names."""
        figures: dict[str, Any] = {"change_us": self.change_us}
        both = {"base_": (self.base, self.base_text), "": (self.other, self.text)}
        for prefix, (total, text) in both.items():
            figures[f"{prefix}line"] = None if total is None else _place(total)
            figures[f"{prefix}text"] = text
            for name in ("critical_us", "wait_us", "instructions"):
                figures[f"{prefix}{name}"] = getattr(total, name, 0)
        return figures


@dataclass(frozen=True, slots=True)
class RunChange:
    """One run beside another one, the base.

    Attributes
    ----------
    base, other : Profile
    base_title, title : str
        What to call them.
    is_source_known : bool
        Whether the files still hold the texts that ran.
    """

    base: RunFigures
    other: RunFigures
    base_title: str = "base"
    title: str = "other"
    is_source_known: bool = True

    @property
    def is_by_text(self) -> bool:
        """Whether lines are aligned by what they say; where texts are unknown, by numbers."""
        lines = [*self.base.lines(), *self.other.lines()]
        return self.is_source_known and all(each.text for each in lines if each.line)

    def engines(self) -> list[tuple[str, float, float]]:
        """Return each engine's time at work in both runs, in microseconds."""
        pairs = zip(self.base.engines(), self.other.engines(), strict=True)
        return [(was.engine, was.busy_us, now.busy_us) for was, now in pairs]

    def causes(self) -> list[tuple[str, str, float, float]]:
        """Return what engines waited for in both runs, in microseconds, largest change first."""
        found = [
            (was.engine, cause, was.waits.get(cause, 0.0), now.waits.get(cause, 0.0))
            for was, now in zip(self.base.engines(), self.other.engines(), strict=True)
            for cause in dict.fromkeys([*was.waits, *now.waits])
        ]
        return sorted(found, key=lambda each: -abs(each[3] - each[2]))

    def largest(self) -> list[tuple[str, float, float]]:
        """Return what engines did, or waited for, in words, and how long: largest changes first.

        Changes of less than a thousandth of the longer latency are left out, and so is what follows
        the first eight.
        """
        least = _LEAST * max(self.base.latency_us, self.other.latency_us)
        rows = [(f"{engine} at work", was, now) for engine, was, now in self.engines()]
        rows += [(f"{each[0]}: {cause_words(each[1])}", *each[2:]) for each in self.causes()]
        rows.sort(key=lambda row: -abs(row[2] - row[1]))
        return [row for row in rows[:_SHOWN] if abs(row[2] - row[1]) >= least]

    def lines(self) -> list[LineChange]:
        """Return the lines of both runs, aligned by what they say, largest change first.

        Lines that read the same are one line, where the texts go side by side, then wherever they
        moved to; in a stretch that is replaced by another, those that read alike.
        """
        was, now = (sorted(run.lines(), key=_order) for run in (self.base, self.other))
        texts = [[each.text for each in of] for of in (was, now)]
        keys = texts if self.is_by_text else [[_place(each) for each in of] for of in (was, now)]
        pairs, left = _aligned(*keys)
        found = [LineChange(was[i], now[j], texts[0][i], texts[1][j]) for i, j in pairs]
        found += [LineChange(was[i], None, texts[0][i]) for i in left[0]]
        found += [LineChange(None, now[j], "", texts[1][j]) for j in left[1]]
        return sorted(found, key=lambda each: -abs(each.change_us))

    def figures(self) -> dict[str, Any]:
        """Return all of it as plain data, ready for JSON."""
        return {
            "base": self.base_title,
            "kernel": self.title,
            "arch": self.other.data.arch["name"],
            "base_latency_us": self.base.latency_us,
            "latency_us": self.other.latency_us,
            "engines": [
                {"engine": engine, "base_busy_us": was, "busy_us": now}
                for engine, was, now in self.engines()
            ],
            "causes": [
                {"engine": engine, "cause": cause, "base_us": was, "us": now}
                for engine, cause, was, now in self.causes()
            ],
            "aligned_by": "text" if self.is_by_text else "number",
            "lines": [line.figures() for line in self.lines()],
        }

    def headline(self) -> str:
        """Return both latencies in a line."""
        was, now = self.base.latency_us, self.other.latency_us
        shown = " -> ".join(microseconds(each, max(was, now)) for each in (was, now))
        ratio = f", {was / now:.2f} x as fast" if was and now else ""
        return f"{self.title} beside {self.base_title}: {shown}{ratio}"

    def summary(self) -> RenderableType:
        """Return tables for people: engines and causes, then lines."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        was, now = self.base.latency_us, self.other.latency_us
        like = max(was, now)

        def table(first: str, last: str = "") -> Table:
            made = Table(box=None, header_style="bold", pad_edge=False)
            made.add_column(first, overflow="fold")
            for heading in (self.base_title, self.title, "change"):
                made.add_column(printable(heading), justify="right", overflow="fold", min_width=9)
            if last:
                made.add_column(last, overflow="fold")
            return made

        figures, lines = table("engine, what it waited for"), table("critical path of", "line")
        for name, *of in self.largest():
            figures.add_row(Text(name), *(microseconds(each, like) for each in of), _signed(of))
        for line in self.lines()[:_SHOWN]:
            if abs(line.change_us) < _LEAST * like:
                continue
            both = [_critical(line.base), _critical(line.other)]
            cells = [
                microseconds(value, like) if each else "-"
                for each, value in zip((line.base, line.other), both, strict=True)
            ]
            places = [_place(each) for each in (line.base, line.other) if each is not None]
            place = " -> ".join(dict.fromkeys(shortened(each, 30) for each in places))
            text = printable(line.text or line.base_text)
            lines.add_row(Text(place), *cells, _signed(both), Text(text))
        how = "" if self.is_by_text else " (lines by number: the text that ran is not there)"
        parts: list[RenderableType] = [Text(), Text(printable(self.headline()) + how, "bold")]
        parts += [each for each in (figures, lines) if each.row_count]
        return Group(*parts)


def _aligned(
    base: Sequence[str], other: Sequence[str]
) -> tuple[list[tuple[int, int]], tuple[list[int], list[int]]]:
    """Return the pairs of places that go together, and the places that are left on each side.

    >>> _aligned(["load", "multiply", "store"], ["multiply", "load", "store"])
    ([(0, 1), (2, 2), (1, 0)], ([], []))
    >>> _aligned(["a = f(x)", "end"], ["new = 1", "a = g(x)", "end"])
    ([(1, 2), (0, 1)], ([], [0]))
    """
    pairs: dict[int, int] = {}
    free = dict.fromkeys(range(len(other)))

    def pair(i: int, j: int) -> None:
        if i not in pairs and j in free:
            pairs[i] = j
            del free[j]

    blocks = difflib.SequenceMatcher(None, base, other, autojunk=False).get_opcodes()
    for _, i, until, j, _ in (block for block in blocks if block[0] == "equal"):
        for k in range(until - i):
            pair(i + k, j + k)
    moved: dict[str, list[int]] = {}
    for j in reversed(free):
        moved.setdefault(other[j], []).append(j)
    for i, text in enumerate(base):
        if i not in pairs and moved.get(text):
            pair(i, moved[text].pop())
    for _, i, until, j, end in blocks:
        for k in range(i, until) if (until - i) * (end - j) <= _COMPARED else ():
            alike = difflib.get_close_matches(
                base[k], [other[m] for m in range(j, end) if m in free], 1
            )
            if alike and k not in pairs:
                pair(k, next(m for m in range(j, end) if m in free and other[m] == alike[0]))
    left = [i for i in range(len(base)) if i not in pairs]
    return list(pairs.items()), (left, list(free))


def _order(total: LineTotal) -> tuple[str, int]:
    return Path(total.file).name, total.line


def _place(total: LineTotal) -> str:
    return location(Path(total.file).name, total.line)


def _critical(total: LineTotal | None) -> float:
    return 0.0 if total is None else total.critical_us


def _signed(both: Sequence[float]) -> str:
    change = both[1] - both[0]
    return f"{'-' if change < 0 else '+'}{microseconds(abs(change), max(both))}"
