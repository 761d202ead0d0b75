"""Run every fuzz target of ``rust/fuzz`` for a while, from the seeds beside them.

The target ``levels`` is no libFuzzer's: random programs at every level of the compiler are held
against themselves as written.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from environment import BUILD, ROOT
from steps import Runner

FUZZ = ROOT / "rust" / "fuzz"
CARGO_FUZZ = "0.13.2"
LEVELS = "levels"
TARGETS = ("spec", "program", "snapshot", "arrays", LEVELS)
# Longer inputs only repeat what shorter ones do. A program of few instructions may still be a large
# one, and the instrumented build is slow.
LIMITS = (
    "-max_len=16384",
    "-len_control=0",
    "-timeout=60",
    "-rss_limit_mb=4096",
    "-print_final_stats=1",
)


def options(words: Sequence[str]) -> argparse.Namespace:
    """Read the words after ``make.py fuzz``."""
    parser = argparse.ArgumentParser(prog="make.py fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=120, help="of each target (default: 120)")
    parser.add_argument(
        "--programs", type=int, default=100_000, help=f"of {LEVELS} (default: 100000)"
    )
    parser.add_argument("--seed", type=int, default=0, help=f"first of {LEVELS} (default: 0)")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    wanted = parser.parse_args(words)
    if unknown := set(wanted.targets) - set(TARGETS):
        parser.error(f"no target {', '.join(sorted(unknown))}; targets: {', '.join(TARGETS)}")
    return wanted


def tool(runner: Runner, variables: Mapping[str, str]) -> Path:
    """Return cargo-fuzz of this checkout, and install it if it is not there."""
    program = BUILD / "tools" / "bin" / "cargo-fuzz"
    if found := shutil.which("cargo-fuzz"):
        return Path(found)
    if not program.exists():
        command: list[str | Path] = ["cargo", "install", "--locked", "--version", CARGO_FUZZ]
        command += ["--root", BUILD / "tools", "cargo-fuzz"]
        runner.run("cargo-fuzz", command, environment=variables, required=True)
    return program


def corpus(target: str) -> Path:
    """Return the folder where a target's inputs are kept, with its seeds in it."""
    folder = FUZZ / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    for seed in sorted((FUZZ / "seeds" / target).glob("*")):
        shutil.copy2(seed, folder / seed.name)
    return folder


def compare_levels(
    runner: Runner, variables: Mapping[str, str], *, programs: int, seed: int
) -> bool:
    """Compile random programs at every level; return whether each gives the bits it gave."""
    environment = {
        **variables,
        "TRN3_FUZZ_PROGRAMS": str(programs),
        "TRN3_FUZZ_SEED": str(seed),
    }
    words = ["cargo", "test", "--release", "-p", "trn3-compiler", "--test", "differential"]
    what = f"fuzz {LEVELS}, {programs} programs from {seed}"
    return runner.run(what, words, environment=environment).ok


def run(
    runner: Runner,
    variables: Mapping[str, str],
    *,
    seconds: int,
    targets: Sequence[str],
    programs: int,
    seed: int,
) -> int:
    """Run targets (all, if none is named) so long each; return the exit status."""
    wanted = list(targets or TARGETS)
    failed = 0
    if LEVELS in wanted:
        wanted.remove(LEVELS)
        failed += not compare_levels(runner, variables, programs=programs, seed=seed)
    if not wanted:
        return 1 if failed else 0
    # Sanitizers are options of compilers in the making; this opens them in the one that is used.
    environment = {**variables, "RUSTC_BOOTSTRAP": "1"}
    program = tool(runner, environment)
    common: list[str | Path] = [program, "fuzz"]
    build = [*common, "build", "--fuzz-dir", FUZZ]
    runner.run("fuzz targets", build, environment=environment, required=True)
    for target in wanted:
        words = [*common, "run", "--fuzz-dir", FUZZ, target, corpus(target)]
        words += ["--", f"-max_total_time={seconds}", *LIMITS]
        result = runner.run(f"fuzz {target}, {seconds} s", words, environment=environment)
        failed += not result.ok
    if failed:
        print(f"  inputs that fail are in {(FUZZ / 'artifacts').relative_to(ROOT)}")
    return 1 if failed else 0
