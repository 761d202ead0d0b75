"""What a measurement has to say of the machine it ran on."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np

# Those that decide which kernels run.
FEATURES = ("avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_bf16", "amx_bf16")


def cpu_model() -> str:
    """Return the name of the CPU as the kernel gives it."""
    return cpu_field("model name") or platform.processor() or platform.machine()


def cpu_features() -> set[str]:
    """Return the instruction-set flags of the CPU; empty where the kernel lists none."""
    return set(cpu_field("flags").split())


def cpu_field(name: str) -> str:
    """Return the first value of a field of ``/proc/cpuinfo``, or an empty string."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return ""
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def memory_gigabytes() -> float:
    """Return the size of main memory in 10^9 bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def huge_pages() -> str:
    """Return the kernel's setting for transparent huge pages."""
    try:
        setting = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    except OSError:
        return "unknown"
    return setting.partition("[")[2].partition("]")[0]


def version(package: str) -> str:
    """Return the version of an installed package, or say that there is none."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def rustc() -> str:
    """Return the version of the Rust compiler."""
    if not shutil.which("rustc"):
        return "not found"
    run = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=False)
    return run.stdout.split(" (", maxsplit=1)[0].removeprefix("rustc ").strip()


def copy_bandwidth() -> float:
    """Return the bytes a second that a copy moves on one core, in GB/s, read plus written."""
    from time import perf_counter

    source, target = np.ones(1 << 26, np.uint8), np.zeros(1 << 26, np.uint8)
    best = float("inf")
    for _ in range(10):
        start = perf_counter()
        np.copyto(target, source)
        best = min(best, perf_counter() - start)
    return 2e-9 * source.nbytes / best


def compiled(source: Path, build: Path) -> Path | None:
    """Compile a program of the benches; None where there is no compiler that does."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    program = build / source.stem
    build.mkdir(parents=True, exist_ok=True)
    words: list[str | Path] = [compiler, "-O2", "-pthread", "-o", program, source]
    made = subprocess.run(words, capture_output=True, check=False)
    return program if made.returncode == 0 else None


def peaks(source: Path, build: Path) -> dict[str, float]:
    """Compile and run the program that measures a core's peak rates; empty where it cannot."""
    program = compiled(source, build)
    if program is None:
        return {}
    alone = rates([subprocess.Popen([program], stdout=subprocess.PIPE, text=True)])
    if (os.cpu_count() or 1) < 2:
        return alone
    # Two hardware threads of one core, or two cores that share their power, do not double.
    pair = [subprocess.Popen([program], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    return alone | {f"{name} x 2": rate for name, rate in rates(pair).items()}


def rates(running: list[subprocess.Popen[str]]) -> dict[str, float]:
    """Return what several runs of the program reach together."""
    found: dict[str, float] = {}
    for process in running:
        output, _ = process.communicate()
        for name, rate in map(str.split, output.splitlines()):
            found[name] = found.get(name, 0.0) + float(rate)
    return found


def revision() -> str:
    """Return the commit that the working tree is at, and whether it has changes."""
    words = ["git", "describe", "--always", "--dirty=, changed", "--exclude", "*"]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    return run.stdout.strip() or "unknown"
