"""Run the benches with two builds in turn: ``make bench-compare BASE=rev``.

The base is a revision, built in ``build/compare/REV``; the head is the working tree as it stands.
The benches are the head's for both, without rivals. Each pair runs one build right after the other,
every second pair in the other order, so that what drifts falls on both. A ratio is the base's time
over the head's: above 1, the head is faster; its interval is Student's of the logarithms of the
pairs' ratios.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from scipy import stats

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "compare"
CONFIDENCE = 0.95
FEWEST_PAIRS = 3

#: Seconds by row: what was called, on how many threads, at which level.
Times: TypeAlias = Mapping[tuple[str, int, str], float]


@dataclass(frozen=True, slots=True)
class PairedRatio:
    """How much faster the head is, and the interval in which that lies."""

    ratio: float
    low: float
    high: float

    @classmethod
    def of(cls, base: Sequence[float], head: Sequence[float]) -> PairedRatio:
        """Return the ratio of times that were measured pair by pair.

        >>> found = PairedRatio.of([2.0, 2.2, 1.8], [1.0, 1.1, 0.9])
        >>> round(found.ratio, 6), round(found.low, 6), round(found.high, 6)
        (2.0, 2.0, 2.0)
        """
        logs = [math.log(old / new) for old, new in zip(base, head, strict=True)]
        middle = statistics.fmean(logs)
        quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(logs) - 1))
        reach = quantile * statistics.stdev(logs) / math.sqrt(len(logs))
        return cls(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))

    @property
    def verdict(self) -> str:
        """What the interval allows to say: nothing where it holds 1."""
        if self.low <= 1 <= self.high:
            return ""
        return "faster" if self.low > 1 else "SLOWER"


def built(revision: str) -> Path:
    """Build a revision, unless that was done before, and return the folder to import it from."""
    found = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if found.returncode:
        sys.exit(f"BASE is {revision!r}; it must name a commit of this repository")
    commit = found.stdout.strip()
    folder = BUILD / commit[:12]
    site, tree, wheels = folder / "site", folder / "tree", folder / "wheels"
    if (site / "trn3").is_dir():
        return site
    folder.mkdir(parents=True, exist_ok=True)
    print(f"building {revision} in {folder.relative_to(ROOT)}", flush=True)
    if not (tree / "Cargo.toml").exists():
        git = ["git", "-c", "advice.detachedHead=false", "worktree", "add", "--force", "--detach"]
        subprocess.run([*git, tree, commit], cwd=ROOT, check=True)
    with (folder / "build.log").open("w") as log:
        status = subprocess.run(
            [sys.executable, "-m", "maturin", "build", "--release", "--locked", "--out", wheels],
            cwd=tree,
            # What revisions share is compiled once.
            env={**os.environ, "CARGO_TARGET_DIR": str(BUILD / "target")},
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    if status:
        sys.exit(f"the base does not build; see {(folder / 'build.log').relative_to(ROOT)}")
    wheel = next(wheels.glob("*.whl"))
    # Complete, or not there at all: the folder says that it was built.
    partial = folder / "partial"
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, partial], check=True)
    partial.rename(site)
    return site


def measured(site: Path, arguments: Sequence[str], name: str) -> Times:
    """Return the times of the benches' rows with the package in a folder."""
    rows, log = BUILD / f"{name}.jsonl", BUILD / f"{name}.log"
    rows.unlink(missing_ok=True)
    variables = {"PYTHONPATH": str(site), "TRN3_BENCH_ROWS": str(rows), "TRN3_BENCH_ALONE": "1"}
    options = ["-q", "-m", "", "--benchmark-enable", "--timeout", "0"]
    with log.open("w") as sink:
        status = subprocess.run(
            [sys.executable, "-m", "pytest", "benches", *options, *arguments],
            cwd=ROOT,
            env={**os.environ, **variables},
            stdout=sink,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    if status == 5:
        sys.exit("no bench has such a name")
    # Benches of what the base does not have fail there; their rows are missing.
    lines = rows.read_text(encoding="utf-8").splitlines() if rows.exists() else []
    records = [json.loads(line) for line in lines]
    if not records:
        sys.exit(f"{name}: no bench ran; see {log.relative_to(ROOT)}")
    return {(each["what"], each["threads"], each["level"]): each["seconds"] for each in records}


def table(base: Sequence[Times], head: Sequence[Times]) -> list[str]:
    """Return a line for every row that both builds have, and one for every other."""
    lines = []
    keys = [key for key in head[0] if all(key in times for times in [*base, *head])]
    for key in keys:
        found = PairedRatio.of([times[key] for times in base], [times[key] for times in head])
        what, threads, level = key
        name = f"{what}, {threads} thread{'s' if threads > 1 else ''}, {level}"
        interval = f"[{found.low:.3f}, {found.high:.3f}]"
        lines.append(f"{name:<64} {found.ratio:7.3f}  {interval:<18} {found.verdict}".rstrip())
    others = {key[0] for times in [*base, *head] for key in times} - {key[0] for key in keys}
    lines += [f"{what:<64} not measured with both builds" for what in sorted(others)]
    return lines


def options(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", required=True, help="the revision to compare with")
    parser.add_argument("--pairs", type=int, default=5, help="how often both run; default: 5")
    parser.add_argument("-k", default="", help="which benches, as pytest's -k takes them")
    found = parser.parse_args(words)
    if found.pairs < FEWEST_PAIRS:
        parser.error(f"--pairs is {found.pairs}; allowed: {FEWEST_PAIRS} and more")
    return found


def main() -> None:
    """Build, measure and print."""
    wanted = options(sys.argv[1:])
    sites = {"base": built(wanted.base), "head": ROOT / "python"}
    times: dict[str, list[Times]] = {"base": [], "head": []}
    arguments = ["-k", wanted.k] if wanted.k else []
    for pair in range(wanted.pairs):
        for name in ("base", "head") if pair % 2 == 0 else ("head", "base"):
            print(f"  pair {pair + 1} of {wanted.pairs}: {name}", flush=True)
            times[name].append(measured(sites[name], arguments, name))
    print(
        f"\n{'time of the base over that of the head':<64} {'ratio':>7}  {CONFIDENCE:.0%} interval"
    )
    print("\n".join(table(times["base"], times["head"])))


if __name__ == "__main__":
    main()
