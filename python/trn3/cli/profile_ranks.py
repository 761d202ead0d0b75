"""What ``trn3 profile --ranks`` does: a kernel on several ranks, in one report."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trn3.cli.consoles import output
from trn3.cli.kernel_file import KernelFile, arguments
from trn3.cli.refusal import RefusedError

if TYPE_CHECKING:
    from trn3.profile import Profile


def check_ranks(ranks: int | None, system: str | None, ranks_per_chip: int | None) -> None:
    """Refuse what only several ranks have.

    Raises
    ------
    RefusedError
        If it is given without ``--ranks``.
    """
    if ranks is not None:
        return
    for option, value in (("--system", system), ("--ranks-per-chip", ranks_per_chip)):
        if value is not None:
            raise RefusedError(f"{option} needs --ranks")


def inputs_of(
    file: KernelFile, words: list[str], seed: int, ranks: int | None
) -> list[dict[str, Any]]:
    """Return the kernel's arguments, of each rank if there are several."""
    if ranks is None:
        return [arguments(file, words, seed)]
    return [arguments(file, words, seed, (rank, ranks)) for rank in range(ranks)]


def save(profiles: Sequence[Profile], folder: Path) -> list[Path]:
    """Write the files of all ranks into a folder, which is made if it is not there.

    Raises
    ------
    OSError
        If that cannot be done; a new folder is not left then.
    """
    from trn3 import report

    made = not folder.is_dir()
    if made:
        folder.mkdir()
    try:
        return report.save(profiles, folder)
    except BaseException:
        if made:
            shutil.rmtree(folder)
        raise


def show(profiles: Sequence[Profile], wall_seconds: float, *, has_golden: bool) -> None:
    """Print what the first rank's run cost, and what tells the ranks apart."""
    from rich.text import Text

    from trn3.profile.summary import rank_table

    console = output(100)
    console.print(profiles[0].summary())
    console.print(Text())
    console.print(rank_table(profiles))
    if has_golden:
        console.print(Text("The results are not held against the golden, which is of one rank."))
    count = sum(len(core.data.instructions) for each in profiles for core in each.cores)
    rate = count / max(wall_seconds, 1e-9)
    console.print(f"Simulated in {wall_seconds:.2f} s ({rate:,.0f} instructions/s)")


def document(
    profiles: Sequence[Profile], wall_seconds: float, files: Sequence[Path]
) -> dict[str, Any]:
    """Return what ``--json`` prints: the first rank's figures, and those of each."""
    return {
        **profiles[0].figures(),
        "ranks": [each.figures() for each in profiles],
        "golden_error": None,
        "check": None,
        "wall_seconds": wall_seconds,
        "files": [str(path) for path in files],
    }
