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

BEGIN = "<!-- measured on {}: begin. Written by `make bench`; edit outside of the marks. -->"
END = "<!-- measured on {}: end -->"
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
    #: The share of the limit to reach, if that is a goal.
    share_goal: float | None = None
    #: Nanoseconds of a cache line from one core to another around a row of several threads.
    handover: float | None = None

    @classmethod
    def from_json(cls, record: dict[str, Any], group: str, rival: str) -> Row:
        """Read what the fixture ``compare`` recorded, of rivals that begin with `rival`."""
        rivals = tuple(
            Rival(found["label"], found["goal"], found["ratio"])
            for found in record["rivals"]
            if found["label"].startswith(rival)
        )
        names = ("what", "threads", "level", "rate", "unit", "limit")
        return cls(
            group=group,
            rivals=rivals,
            share_goal=None if rival else record.get("share"),
            handover=record.get("handover"),
            **{name: record[name] for name in names},
        )

    def cores(self) -> str:
        """Return how many threads worked, and how far apart their cores were, if that is known."""
        return f"{self.threads}" + ("" if self.handover is None else f", {self.handover:.0f} ns")

    def share(self, limits: dict[str, float]) -> float | None:
        """Return the rate as a share of the speed of light on as many cores, if that is known."""
        name = self.limit
        if name == "fma":
            name = f"fma_{self.level.removesuffix('bf16')}"
        # One core saturates the memory; arithmetic grows with the cores, where they are cores.
        if name != "memory" and self.threads > 1:
            name = f"{name} x {self.threads}"
        return self.rate / limits[name] if name in limits else None

    def beside_limit(self, limits: dict[str, float]) -> Rival | None:
        """Return the speed of light as a rival, where a share of it is the goal."""
        share = self.share(limits)
        if self.share_goal is None or share is None:
            return None
        return Rival("its limit", self.share_goal, share)


def cells(rows: Sequence[Row], limits: dict[str, float]) -> list[tuple[str, ...]]:
    """Return the table's cells, one line for each row and rival."""
    table: list[tuple[str, ...]] = []
    for row in rows:
        share, beside = row.share(limits), row.beside_limit(limits)
        for rival in (*([beside] if beside else []), *row.rivals):
            goal = "" if rival.goal is None else f">= {rival.goal:g}"
            rate, ratio = f"{row.rate:.3g} {row.unit}", f"{rival.ratio:.2f}"
            head = (row.what, row.cores(), rate, "" if share is None else f"{share:.0%}")
            table.append((*head, rival.label, ratio, goal, rival.verdict))
    return table


def groups(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows by the process that measured them."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(f"{row.group} ({row.level})", []).append(row)
    return found


def plain_table(rows: Sequence[Row], limits: dict[str, float]) -> str:
    """Return the table for a terminal."""
    lines = []
    for title, members in groups(rows).items():
        table = [HEADINGS, *cells(members, limits)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines.append(title)
        for line in table:
            padded = (f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True))
            lines.append(f"  {'  '.join(padded)}".rstrip())
        lines.append("")
    return "\n".join(lines)


def verdict(rows: Sequence[Row], limits: dict[str, float]) -> str:
    """Return how many goals were met."""
    verdicts = [line[-1] for line in cells(rows, limits) if line[-1]]
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
        "Measured": f"{dt.datetime.now(dt.UTC).date().isoformat()}, revision {host.revision()}",
    }
    names = {
        "fma_avx2": "float32 multiply-adds, AVX2",
        "fma_avx512": "float32 multiply-adds, AVX-512",
        "bf16_dot": "bfloat16 dot products, AVX-512",
        "amx_bf16": "bfloat16 products of tiles, AMX",
        "amx_step": "the same, one k at a time: the only way to one rounding a step",
    }
    lines = [f"## {key()}", "", "| | |", "| --- | --- |"]
    lines += [f"| {name} | {text} |" for name, text in facts.items()]
    lines += ["", "Speeds of light of one core, measured in the same run:", ""]
    lines += ["| | |", "| --- | --- |"]
    lines += [f"| {names[name]} | {limits[name]:.0f} GFLOP/s |" for name in names if name in limits]
    lines += [
        f"| {names[name]}, two threads at once | {limits[f'{name} x 2']:.0f} GFLOP/s |"
        for name in names
        if f"{name} x 2" in limits
    ]
    lines += [f"| memory, copying 64 MiB, read plus written | {limits['memory']:.1f} GB/s |"]
    lines += ["", f"{verdict(rows, limits)}."]
    for title, members in groups(rows).items():
        lines += ["", f"### {title[0].upper()}{title[1:]}", ""]
        lines += [f"| {' | '.join(HEADINGS)} |", f"|{' --- |' * len(HEADINGS)}"]
        lines += [f"| {' | '.join(line)} |" for line in cells(members, limits)]
    return "\n".join(lines)


def key() -> str:
    """Return what tables are kept by: the CPU's name, and what tells those of one name apart."""
    parts = [host.cpu_model()]
    if host.cpu_field("vendor_id") == "AuthenticAMD":
        # Guests see one name for all generations, and two of them have the same instructions.
        parts.append(f"family {host.cpu_field('cpu family')} model {host.cpu_field('model')}")
    newest = [name for name in host.FEATURES if name in host.cpu_features()]
    return ", ".join([*parts, *newest[-1:]])


def write_page(page: Path, rows: Sequence[Row], limits: dict[str, float]) -> None:
    """Replace the part of `page` that was measured on this CPU, or add one before all others."""
    text = page.read_text(encoding="utf-8")
    begin, end = BEGIN.format(key()), END.format(key())
    part = f"{begin}\n\n{markdown(rows, limits)}\n\n{end}"
    before, found, rest = text.partition(begin)
    if found:
        _, closed, after = rest.partition(end)
        if not closed:
            message = f"{page.name}: the mark {end!r} is missing"
            raise SystemExit(message)
        page.write_text(f"{before}{part}{after}", encoding="utf-8")
        return
    before, found, rest = text.partition(BEGIN.partition("{}")[0])
    if not found:
        message = f"{page.name}: no mark {begin!r}, nor one of another CPU"
        raise SystemExit(message)
    page.write_text(f"{before}{part}\n\n{found}{rest}", encoding="utf-8")
