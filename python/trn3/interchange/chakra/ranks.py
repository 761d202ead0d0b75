"""The files of a job's ranks: ``NAME.0.et``, ``NAME.1.et``, ..."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from trn3.interchange.chakra.codec import read, write
from trn3.interchange.chakra.trace import Trace, TraceError


def rank_files(prefix: str | os.PathLike[str]) -> list[Path]:
    """Return the files ``PREFIX.RANK.et`` by rank.

    Raises
    ------
    FileNotFoundError
        If there are none.
    TraceError
        If a rank is missing.
    """
    prefix = Path(prefix)
    pattern = re.compile(re.escape(prefix.name) + r"\.(\d+)\.et")
    folder = prefix.parent
    found = {
        int(match.group(1)): path
        for path in (folder.iterdir() if folder.is_dir() else ())
        if (match := pattern.fullmatch(path.name))
    }
    if not found:
        raise FileNotFoundError(2, "No trace files of this prefix", f"{prefix}.*.et")
    missing = sorted(set(range(max(found) + 1)) - set(found))
    if missing:
        message = f"{prefix}.{missing[0]}.et is missing: ranks go from 0 to {max(found)}"
        raise TraceError(message)
    return [found[rank] for rank in sorted(found)]


def read_ranks(prefix: str | os.PathLike[str]) -> list[Trace]:
    """Read the traces of all ranks of a job.

    Raises
    ------
    FileNotFoundError
        If there are none.
    TraceError
        If a rank is missing or a file is no trace.
    """
    return [read(path) for path in rank_files(prefix)]


def write_ranks(traces: Sequence[Trace], prefix: str | os.PathLike[str]) -> list[Path]:
    """Write the traces of all ranks of a job and return their paths."""
    paths = [Path(f"{os.fspath(prefix)}.{rank}.et") for rank in range(len(traces))]
    for trace, path in zip(traces, paths, strict=True):
        write(trace, path)
    return paths
