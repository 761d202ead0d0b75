"""Hold ten hot paths to the instructions that they took before: ``python scripts/instructions.py``.

Instructions are counted, not seconds, so that nothing else that the machine does matters. The
paths are those of `rust/trn3/benches/paths.rs`, in the profile of the tests, which is built anyway:
counts hold checks that a release leaves out, and calls that it would merge. With ``--record`` the
table is written again. Both take ``CARGO_INCREMENTAL=0``, as ``.ci/run`` has it. Only the standard
library is imported.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from environment import CARGO_TEST, ROOT

TABLE = ROOT / "benches" / "instructions.toml"
SLACK = 0.02
#: Paths without kernels of any level are counted at the last one.
LEVELS = ("avx2", "portable")
LEVELLESS = ("kernel_timing", "serving")

#: Instructions by level and path.
Counts: TypeAlias = Mapping[str, Mapping[str, int]]


class NotCountedError(Exception):
    """Nothing can be counted, or compared; the text says why."""


@dataclass(frozen=True, slots=True)
class Counter:
    """A program that counts the instructions of another one."""

    name: str
    words: tuple[str, ...]
    found: re.Pattern[str]

    def count(self, command: Sequence[str | Path], level: str) -> int:
        """Return how many instructions a command executes in user space."""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report"
            words = [word.format(report=report) for word in self.words]
            done = subprocess.run(
                [*words, *map(str, command)],
                env={**os.environ, "TRN3_SIMD": level, "TRN3_NUM_THREADS": "1", "LC_ALL": "C"},
                capture_output=True,
                text=True,
                check=False,
            )
            text = report.read_text(encoding="utf-8") if report.exists() else ""
        number = self.found.search(text)
        if done.returncode or number is None:
            message = f"{self.name} counts nothing here: {(done.stderr + text)[-300:].strip()!r}"
            raise NotCountedError(message)
        return int(number[1].replace(",", ""))


COUNTERS = (
    Counter(
        "perf",
        ("perf", "stat", "-x", ",", "-e", "instructions:u", "-o", "{report}", "--"),
        re.compile(r"^(\d+),", re.MULTILINE),
    ),
    Counter(
        "valgrind",
        (
            "valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
            "--log-file={report}",
        ),
        re.compile(r"I +refs: +([\d,]+)"),
    ),
)  # fmt: skip


def counters() -> list[Counter]:
    """Return what can count here, the quickest first."""
    found = []
    for counter in COUNTERS:
        if shutil.which(counter.words[0]):
            try:
                counter.count(["true"], LEVELS[-1])
            except NotCountedError:
                continue
            found.append(counter)
    return found


def check_build(variables: Mapping[str, str]) -> None:
    """Refuse to compare what is built otherwise than for the table.

    Raises
    ------
    NotCountedError
        If flags are set, or builds are incremental.
    """
    if variables.get("RUSTFLAGS"):
        message = "not compared: RUSTFLAGS are set"
        raise NotCountedError(message)
    # Cut into other units, other calls are merged: products differ by 5 %.
    if variables.get("CARGO_INCREMENTAL") != "0":
        message = "not compared: incremental builds count otherwise; CARGO_INCREMENTAL=0 compares"
        raise NotCountedError(message)


def toolchain() -> str:
    """Return the compiler as the table names it."""
    said = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    facts = dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)
    return f"{facts['release']} {facts['host']}"


def chosen(
    table: Mapping[str, Any], available: Sequence[Counter], compiler: str
) -> tuple[Counter, Counts]:
    """Return the counter to use and what it counted before.

    Raises
    ------
    NotCountedError
        If there is no counter, or none that the table has counts of by this compiler.
    """
    if not available:
        message = "none ran: `perf stat` is not allowed here, and there is no valgrind"
        raise NotCountedError(message)
    for counter in available:
        if compiler in table.get(counter.name, {}):
            return counter, table[counter.name][compiler]
    names = ", ".join(counter.name for counter in available)
    known = "; ".join(f"{name} of {key}" for name in table for key in table[name])
    message = f"not compared: other toolchain ({names} of {compiler}; the table has {known})"
    raise NotCountedError(message)


def built() -> Path:
    """Build the paths, in the profile of the tests, and return the program."""
    command = [*CARGO_TEST, "--bench", "paths", "--no-run", "--message-format", "json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    programs = [
        message["executable"]
        for message in messages
        if message.get("executable") and message["target"]["name"] == "paths"
    ]
    return Path(programs[-1])


def counted(counter: Counter, program: Path) -> dict[str, dict[str, int]]:
    """Return the instructions of every path at every level that this processor has."""
    listed = subprocess.run([program, "list"], capture_output=True, text=True, check=True).stdout
    features = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    levels = [level for level in LEVELS if level == LEVELS[-1] or level in features]
    work = [
        (level, path)
        for level in levels
        for path in listed.split()
        if path not in LEVELLESS or level == LEVELS[-1]
    ]
    # The longest first, or they end alone.
    work.sort(key=lambda each: each[1] not in LEVELLESS)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        numbers = pool.map(lambda each: counter.count([program, each[1]], each[0]), work)
        found: dict[str, dict[str, int]] = {level: {} for level in levels}
        for (level, path), number in zip(work, numbers, strict=True):
            found[level][path] = number
    return found


def compared(before: Counts, now: Counts) -> tuple[list[str], int]:
    """Return a line for every path, and how many take more than they may."""
    lines, worse = [], 0
    for level, counts in now.items():
        for path, number in sorted(counts.items()):
            old = before.get(level, {}).get(path)
            if old is None:
                lines.append(f"{path} {level}: {number:,}, not in the table")
                worse += 1
                continue
            change = number / old - 1
            word = "ok"
            if change > SLACK:
                word, worse = f"MORE than {SLACK:.0%} above the table", worse + 1
            elif change < -SLACK:
                word = "fewer: `python scripts/instructions.py --record` keeps it so"
            lines.append(f"{path} {level}: {number:,} after {old:,} ({change:+.2%}) {word}")
    return lines, worse


def document(table: Mapping[str, Mapping[str, Counts]]) -> str:
    """Return the table as TOML."""
    lines = [
        "# Instructions of rust/trn3/benches/paths.rs, by counter, toolchain, level and path.",
        "# Written by `python scripts/instructions.py --record`.",
    ]
    for counter, compilers in sorted(table.items()):
        for compiler, levels in sorted(compilers.items()):
            for level, counts in sorted(levels.items()):
                lines += ["", f'[{counter}."{compiler}".{level}]']
                lines += [f"{path} = {number:_}" for path, number in sorted(counts.items())]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Count, compare and return the exit status; that nothing can be compared is no failure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write the table again")
    record = parser.parse_args().record
    table = tomllib.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {}
    try:
        check_build(os.environ)
        compiler, available = toolchain(), counters()
        if record:
            program = built()
            for counter in available:
                table[counter.name] = {compiler: counted(counter, program)}
            TABLE.write_text(document(table), encoding="utf-8")
            print(f"recorded by {', '.join(each.name for each in available) or 'nothing'}")
            return 0
        counter, before = chosen(table, available, compiler)
        lines, worse = compared(before, counted(counter, built()))
    except NotCountedError as reason:
        print(reason)
        return 0
    print("\n".join(lines))
    print(
        f"{len(lines)} counts by {counter.name}, {worse} worse than the table by over {SLACK:.0%}"
    )
    return int(worse > 0)


if __name__ == "__main__":
    sys.exit(main())
