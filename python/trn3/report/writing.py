"""The page: what the core writes of a run, and what draws it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from trn3.files import write_bytes
from trn3.profile import Profile, report_page
from trn3.report.shell import drawing

# A rank's folder is called so, with its number.
_RANK = "rank"


def page(profiles: Sequence[Profile]) -> str:
    """Return the report of a kernel's ranks, beside each other; figures are the first one's.

    Parameters
    ----------
    profiles : sequence of Profile
        One a rank; of a kernel on one rank, its own.

    Raises
    ------
    ValueError
        Without a profile.

    Examples
    --------
    >>> from trn3.machine import NeuronCore
    >>> from trn3.profile import profile_of
    >>> html = page([profile_of([NeuronCore("trn3")], "nothing")])
    >>> html.startswith("<!doctype html>"), "<h1>nothing</h1>" in html
    (True, True)
    """
    return report_page(profiles, **drawing())


def save(profiles: Sequence[Profile], folder: str | os.PathLike[str]) -> list[Path]:
    """Write the files of a kernel's ranks: a folder each, and one report of all.

    Parameters
    ----------
    profiles : sequence of Profile
        One a rank.
    folder : path
        Gets ``report.html``, and ``rank0``, ``rank1``, ... with what `Profile.save` writes.

    Returns
    -------
    list of Path
        The files; where one cannot be written, there is an error and no new folder.

    Raises
    ------
    OSError
        If a file cannot be written, or there is no such directory.
    ValueError
        Without a profile.
    """
    html = page(profiles)
    target = Path(folder) / "report.html"
    written, made = [target], []
    try:
        for rank, profile in enumerate(profiles):
            own = Path(folder) / f"{_RANK}{rank}"
            if not own.is_dir():
                own.mkdir()
                made.append(own)
            written += profile.save(own)
        write_bytes(target, [html.encode()])
    except BaseException:
        for own in made:
            shutil.rmtree(own)
        raise
    return written


def _ranks_of(folder: Path) -> list[Path]:
    """Return the profiles that `save` wrote, in the order of ranks."""
    found: list[Path] = []
    while (path := folder / f"{_RANK}{len(found)}" / "profile.json").is_file():
        found.append(path)
    return found


def rebuild(folder: str | os.PathLike[str]) -> Path:
    """Write ``report.html`` anew into the folder of a run, from its ``profile.json``.

    Of a folder that `save` wrote, from those of its ranks.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    FileNotFoundError
        If there is no ``profile.json``.
    OSError
        If a file cannot be read or written.
    ValueError
        If it holds no profile.
    """
    source = Path(folder) / "profile.json"
    sources = [source] if source.is_file() else _ranks_of(Path(folder))
    if not sources:
        message = (
            f"{folder}: holds no profile.json; `trn3 profile --out` and `Profile.save` write one"
        )
        raise FileNotFoundError(message)
    target = source.with_name("report.html")
    write_bytes(target, [page([Profile.from_json(each) for each in sources]).encode()])
    return target
