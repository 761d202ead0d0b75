"""The table of ratios: on the terminal, and between two marks of the page of performance."""

from __future__ import annotations

import datetime as dt
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import threadpoolctl

import host
import trn3

BEGIN = "<!-- measured: begin. Written by `make bench`; edit outside of the marks. -->"
END = "<!-- measured: end -->"
HEADINGS = ("what", "threads", "trn3", "of limit", "beside", "ratio", "goal", "")


@dataclass(frozen=True, slots=True)
class Rival:
    """The other side of a row."""

    label: str
    goal: float | None
    ratio: float

    @property
    def verdict(self) -> str:
        """Whether the goal was met; empty if there is none."""
        if self.goal is None:
            return ""
        return "met" if self.ratio >= self.goal else "missed"


@dataclass(frozen=True, slots=True)
class Row:
    """One measured call and what it was set beside."""

    group: str
    what: str
    threads: int
    level: str
    rate: float
    unit: str
    limit: str
    rivals: tuple[Rival, ...]

    @classmethod
    def from_json(cls, record: dict[str, Any], group: str, rival: str) -> Row:
        """Read what the fixture ``compare`` recorded, of rivals that begin with `rival`."""
        rivals = tuple(
            Rival(found["label"], found["goal"], found["ratio"])
            for found in record["rivals"]
            if found["label"].startswith(rival)
        )
        names = ("what", "threads", "level", "rate", "unit", "limit")
        return cls(group=group, rivals=rivals, **{name: record[name] for name in names})

    def share(self, limits: dict[str, float]) -> str:
        """Return the rate as a share of the speed of light on as many cores; may be empty."""
        name = self.limit
        if name == "fma":
            name = f"fma_{self.level.removesuffix('bf16')}"
        if name not in limits:
            return ""
        # One core saturates the memory; arithmetic grows with the cores.
        cores = 1 if name == "memory" else self.threads
        return f"{self.rate / (limits[name] * cores):.0%}"


def cells(rows: Sequence[Row], limits: dict[str, float]) -> list[tuple[str, ...]]:
    """Return the table's cells, one line for each row and rival."""
    table: list[tuple[str, ...]] = []
    for row in rows:
        for rival in row.rivals:
            goal = "" if rival.goal is None else f">= {rival.goal:g}"
            rate, ratio = f"{row.rate:.3g} {row.unit}", f"{rival.ratio:.2f}"
            head = (row.what, str(row.threads), rate, row.share(limits))
            table.append((*head, rival.label, ratio, goal, rival.verdict))
    return table


def groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows by the process that measured them."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(f"{row.group} ({row.level})", []).append(row)
    return found


def plain_table(rows: Sequence[Row]) -> str:
    """Return the table for a terminal, without the shares of limits."""
    lines = []
    for title, members in groups(rows).items():
        table = [HEADINGS, *cells(members, {})]
        table = [line[:3] + line[4:] for line in table]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines.append(title)
        for line in table:
            padded = (f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True))
            lines.append(f"  {'  '.join(padded)}".rstrip())
        lines.append("")
    return "\n".join(lines)


def verdict(rows: Sequence[Row]) -> str:
    """Return how many goals were met."""
    verdicts = [rival.verdict for row in rows for rival in row.rivals if rival.verdict]
    return f"{verdicts.count('met')} of {len(verdicts)} goals met"


def markdown(rows: Sequence[Row], limits: dict[str, float]) -> str:
    """Return the measured part of the page."""
    blas = [
        f"{found['internal_api']} {found['version']}"
        for found in threadpoolctl.threadpool_info()
        if found["user_api"] == "blas"
    ]
    features = [name for name in host.FEATURES if name in host.cpu_features()]
    facts = {
        "CPU": f"{host.cpu_model()}, {os.cpu_count()} cores",
        "Instruction sets": ", ".join(features) or "not listed",
        "Memory": f"{host.memory_gigabytes():.0f} GB, huge pages: {host.huge_pages()}",
        "System": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "trn3": f"{trn3.__version__}, built by rustc {host.rustc()}",
        "Python": f"{platform.python_version()}, NumPy {host.version('numpy')}"
        f" ({', '.join(blas)}), ml_dtypes {host.version('ml_dtypes')},"
        f" torch {host.version('torch')}",
        "Measured": dt.datetime.now(dt.UTC).date().isoformat(),
    }
    names = {
        "fma_avx2": "float32 multiply-adds, AVX2",
        "fma_avx512": "float32 multiply-adds, AVX-512",
        "bf16_dot": "bfloat16 dot products, AVX-512",
    }
    lines = ["## The machine", "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {text} |" for name, text in facts.items()]
    lines += ["", "Speeds of light of one core, measured in the same run:", ""]
    lines += ["| | |", "| --- | --- |"]
    lines += [f"| {names[name]} | {limits[name]:.0f} GFLOP/s |" for name in names if name in limits]
    lines += [f"| memory, copying 64 MiB, read plus written | {limits['memory']:.1f} GB/s |"]
    lines += ["", "## The table", "", f"{verdict(rows)}."]
    for title, members in groups(rows).items():
        lines += ["", f"### {title[0].upper()}{title[1:]}", ""]
        lines += [f"| {' | '.join(HEADINGS)} |", f"|{' --- |' * len(HEADINGS)}"]
        lines += [f"| {' | '.join(line)} |" for line in cells(members, limits)]
    return "\n".join(lines)


def write_page(page: Path, rows: Sequence[Row], limits: dict[str, float]) -> None:
    """Replace the part of `page` between the marks."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        message = f"{page.name}: the marks {BEGIN!r} and {END!r} are missing"
        raise SystemExit(message)
    page.write_text(f"{before}{BEGIN}\n\n{markdown(rows, limits)}\n\n{END}{after}")
