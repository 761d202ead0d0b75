"""Run all benches and write ``docs/explanation/performance.md``: ``make bench``.

Arguments are handed to pytest, for example ``-k cast``; the page is then left as it is. OpenBLAS
picks its kernels when NumPy is loaded, and trn3 its SIMD level when it is, so each combination is
a process of its own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import bench_report
import host
import trn3

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "benches"


# Idle threads of BLAS and OpenMP spin for a while, on the cores that the next call wants: with two
# threads, a product of ours right after one of OpenBLAS ran at half speed. They sleep at once.
QUIET = {"OPENBLAS_THREAD_TIMEOUT": "4", "OMP_WAIT_POLICY": "PASSIVE"}


@dataclass(frozen=True, slots=True)
class Pass:
    """One process: which benches, what trn3 and its rivals are told to use, which rivals count."""

    title: str
    rows: str
    variables: dict[str, str]
    rival: str = ""


def passes(features: set[str]) -> list[Pass]:
    """Return the processes to run on a CPU with these features."""
    # Left alone, OpenBLAS takes AVX2 kernels on CPUs that it does not know yet.
    best = {"OPENBLAS_CORETYPE": "SkylakeX"} if "avx512f" in features else {}
    bf16 = "benches/bench_matmul.py::bench_matmul_bf16"
    found = [Pass("best level", "benches", best)]
    levels = ["avx512"] if "avx512_bf16" in features else []
    if levels and trn3.simd_level() != "avx512bf16":
        # Unasked, dot products are not used where they are slower than multiply-adds.
        levels.insert(0, "avx512bf16")
    found += [Pass(f"TRN3_SIMD={name}", bf16, best | {"TRN3_SIMD": name}) for name in levels]
    if {"avx512f", "avx2", "fma"} <= features:
        haswell = {"OPENBLAS_CORETYPE": "Haswell", "TRN3_SIMD": "avx2"}
        found.append(Pass("TRN3_SIMD=avx2, sgemm of AVX2", bf16, haswell))
    if "amx_bf16" in features and importlib.util.find_spec("torch"):
        # Tile products sum in an order of their own; this rival has the instructions that we have.
        held = best | {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
        found.append(Pass("torch held to AVX-512", bf16, held, rival="torch"))
    return found


def run(part: Pass, number: int, arguments: list[str]) -> list[bench_report.Row]:
    """Run the benches in one process and return the rows it recorded."""
    result, log = BUILD / f"pass-{number}.jsonl", BUILD / f"pass-{number}.log"
    result.unlink(missing_ok=True)
    options = ["-q", "-m", "", "--benchmark-enable"]
    # A bench takes as long as it takes.
    options += ["--timeout", "0", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "TRN3_SIMD"}
    program = host.compiled(ROOT / "benches" / "handover.c", BUILD)
    handover = {"TRN3_BENCH_HANDOVER": str(program)} if program else {}
    start = time.monotonic()
    print(f"  {part.title:<32}", end="", flush=True)
    with log.open("w") as sink:
        status = subprocess.run(
            [sys.executable, "-m", "pytest", part.rows, *options],
            cwd=ROOT,
            env=environment | QUIET | part.variables | {"TRN3_BENCH_ROWS": str(result)} | handover,
            stdout=sink,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    print(
        f"{time.monotonic() - start:7.1f} s  {'ok' if status in {0, 5} else 'FAILED'}", flush=True
    )
    if status == 5:  # no bench has such a name
        return []
    if status != 0:
        print("\n".join(log.read_text(errors="replace").splitlines()[-40:]))
        sys.exit(f"the benches stopped; the whole output: {log.relative_to(ROOT)}")
    return measured(part, number)


def measured(part: Pass, number: int) -> list[bench_report.Row]:
    """Return the rows that a process has recorded, also one that was stopped."""
    result = BUILD / f"pass-{number}.jsonl"
    lines = result.read_text(encoding="utf-8").splitlines() if result.exists() else []
    return [bench_report.Row.from_json(json.loads(line), part.title, part.rival) for line in lines]


def criterion() -> None:
    """Run the benches of the Rust crates, where there is a toolchain."""
    if not shutil.which("cargo"):
        return
    log = BUILD / "criterion.log"
    crates = (
        "trn3-numerics",
        "trn3-machine",
        "trn3-compiler",
        "trn3-system",
        "trn3-planner",
        "trn3-embed",
        "trn3-capi",
    )
    packages = [word for crate in crates for word in ("-p", crate)]
    start = time.monotonic()
    print(f"  {'criterion, Rust crates':<32}", end="", flush=True)
    with log.open("w") as sink:
        status = subprocess.run(
            ["cargo", "bench", "--locked", *packages],
            cwd=ROOT,
            stdout=sink,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    print(f"{time.monotonic() - start:7.1f} s  {'ok' if status == 0 else 'FAILED'}", flush=True)
    print(f"  its times: {log.relative_to(ROOT)}")
    if status != 0:
        sys.exit("the Rust benches stopped")


def stopped(rows: list[bench_report.Row], limits: dict[str, float]) -> NoReturn:
    """Print what was measured until now, keep it, and end as what is interrupted does."""
    print()
    if rows:
        text = bench_report.plain_table(rows, limits)
        kept = BUILD / "measured.txt"
        kept.write_text(text + "\n", encoding="utf-8")
        print(f"{text}\nStopped: {len(rows)} rows were measured, kept in {kept.relative_to(ROOT)};")
    else:
        print("Stopped before anything was measured;")
    print("docs/explanation/performance.md is left as it is.")
    sys.exit(130)


def main() -> None:
    """Measure, print and write the page."""
    arguments = sys.argv[1:]
    BUILD.mkdir(parents=True, exist_ok=True)
    features = host.cpu_features()
    limits = host.peaks(ROOT / "benches" / "peaks.c", BUILD)
    limits["memory"] = host.copy_bandwidth()
    # Stopped by a signal, it tells what it has all the same.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    rows: list[bench_report.Row] = []
    for number, part in enumerate(passes(features)):
        try:
            rows += run(part, number, arguments)
        except KeyboardInterrupt:
            stopped(rows + measured(part, number), limits)
    if not rows:
        sys.exit("no bench has such a name")
    try:
        if not arguments:
            criterion()
    except KeyboardInterrupt:
        stopped(rows, limits)
    print()
    print(bench_report.plain_table(rows, limits))
    print(bench_report.verdict(rows, limits))
    if arguments:
        print("A part only: docs/explanation/performance.md is left as it is.")
        return
    page = ROOT / "docs" / "explanation" / "performance.md"
    bench_report.write_page(page, rows, limits)
    print(f"Written: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
