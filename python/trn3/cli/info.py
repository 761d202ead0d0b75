"""What ``trn3 info`` does: versions, and what the arithmetic runs on."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import typer

from trn3.cli.settings import check_settings

PACKAGES = ("numpy", "ml_dtypes", "typer", "rich", "matplotlib")


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def info() -> None:
        """Show versions and what the arithmetic runs on: what a bug report needs."""
        check_settings()
        print_info()


def print_info() -> None:
    """Print versions and what the arithmetic runs on, one line each."""
    from rich.console import Console
    from rich.table import Table

    import trn3

    table = Table.grid(padding=(0, 2))
    table.add_row("trn3", trn3.__version__)
    profile = getattr(trn3, "build_profile", None)
    if profile is not None:
        table.add_row("build profile", str(profile() if callable(profile) else profile))
    table.add_row("SIMD level", trn3.simd_level())
    table.add_row("threads", str(trn3.get_num_threads()))
    table.add_row("processor", processor())
    table.add_row("system", platform.platform())
    table.add_row("Python", f"{platform.python_version()} ({platform.python_implementation()})")
    for package in PACKAGES:
        table.add_row(package, version_of(package))
    Console(highlight=False).print(table)


def version_of(package: str) -> str:
    """Return the version of an installed package without importing it.

    >>> version_of("no-such-package")
    'not installed'
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def processor() -> str:
    """Return the processor's name and its number of logical processors."""
    name = platform.processor() or platform.machine()
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    name = line.partition(":")[2].strip()
                    break
    except OSError:
        pass  # not Linux: the short name must do
    return f"{name} ({os.cpu_count()} logical processors)"
