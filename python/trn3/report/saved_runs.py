"""Runs below a folder: found, read, and opened without a way out of it."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Final, TypeGuard
from urllib.parse import quote

from trn3.files import LIMITS, parse_json

#: What of a run's folder is shown, and what it is.
FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "report.html": "text/html; charset=utf-8",
        "profile.json": "application/json",
        "trace.perfetto": "application/octet-stream",
        "timeline.png": "image/png",
        "roofline.png": "image/png",
    }
)
#: A folder is a run if it has one of these.
MARKS: Final = ("profile.json", "report.html")
#: How many levels below the folder are looked at **(choice)**.
MOST_LEVELS: Final = 8


#: More is no figure of a run, and less than what a double holds.
_LARGEST: Final = 1e300


@dataclass(frozen=True, slots=True)
class SavedRun:
    """A run that was saved below a folder.

    Attributes
    ----------
    place
        Its folder, from the one that is looked at, with ``/`` between names; empty for that itself.
    files
        Which of `FILES` it has.
    modified
        When its first file was written, in seconds since 1970.
    figures
        Those of ``profile.json``; empty where there is a `problem`.
    problem
        Why there are no figures; empty where there are.
    """

    place: str
    files: tuple[str, ...]
    modified: float
    figures: Mapping[str, Any]
    problem: str = ""

    @property
    def title(self) -> str:
        """What it is called: its kernel and its place."""
        kernel = str(self.figures.get("kernel", ""))
        return " in ".join(filter(None, (kernel, self.place))) or "run"

    @property
    def level(self) -> str:
        """The compiler's level; empty where it is not known."""
        compiled = self.figures.get("compile")
        return str(compiled.get("level", "")) if isinstance(compiled, Mapping) else ""

    @property
    def quoted(self) -> str:
        """Its place as part of a URL."""
        return quote(os.fsencode(self.place))


class RunFolder:
    """A folder with runs in it, or in folders below.

    Links are not followed, and folders whose names begin with a point are not looked into.

    Parameters
    ----------
    folder
        The folder.

    Raises
    ------
    OSError
        If it is none, or cannot be read.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.root = Path(folder).resolve(strict=True)
        with os.scandir(self.root):
            pass
        self._known: dict[str, tuple[object, SavedRun]] = {}

    def runs(self) -> list[SavedRun]:
        """Return what runs there are now, the newest first."""
        found = [self._run(place, files) for place, files in self._places(self.root, "", 0)]
        return sorted(found, key=lambda run: (-run.modified, run.place))

    def open(self, place: str, name: str) -> BinaryIO:
        """Open a file of a run.

        Raises
        ------
        OSError
            If there is no such regular file, or a link stands on the way to it.
        ValueError
            If the place or the name would lead elsewhere.
        """
        steps = place.split("/") if place else []
        for step in (*steps, name):
            if step in ("", ".", "..") or "/" in step or "\0" in step:
                message = f"{step!r} is no name of a file or folder"
                raise ValueError(message)
        # Name by name: what is checked is what is opened, whatever is moved meanwhile.
        with ExitStack() as stack:
            folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            stack.callback(os.close, folder)
            for step in steps:
                flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                folder = os.open(step, flags, dir_fd=folder)
                stack.callback(os.close, folder)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
            file = os.open(name, flags, dir_fd=folder)
            if not stat.S_ISREG(os.fstat(file).st_mode):
                os.close(file)
                message = f"{name} is not a regular file"
                raise ValueError(message)
            return os.fdopen(file, "rb")

    def _places(
        self, folder: Path, place: str, level: int
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError:
            # A folder that may not be read has no runs for this reader.
            return
        files = {entry.name for entry in entries if entry.is_file(follow_symlinks=False)}
        if files.intersection(MARKS):
            yield place, tuple(name for name in FILES if name in files)
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            if is_folder and level < MOST_LEVELS:
                below = f"{place}/{entry.name}" if place else entry.name
                yield from self._places(Path(entry.path), below, level + 1)

    def _run(self, place: str, files: tuple[str, ...]) -> SavedRun:
        mark = next(name for name in MARKS if name in files)
        try:
            with self.open(place, mark) as file:
                status = os.fstat(file.fileno())
                key = (files, status.st_ino, status.st_mtime_ns, status.st_size)
                known = self._known.get(place)
                if known is not None and known[0] == key:
                    return known[1]
                figures, problem = _figures(file, mark, status.st_size)
        except (OSError, ValueError) as error:
            return SavedRun(place, files, 0.0, {}, f"{mark}: {error}")
        run = SavedRun(place, files, status.st_mtime, figures, problem)
        self._known[place] = (key, run)
        return run


def _figures(file: BinaryIO, name: str, size: int) -> tuple[Mapping[str, Any], str]:
    if name != "profile.json":
        return {}, "there is no profile.json"
    limit = LIMITS["profile"]
    if size > limit:
        return {}, f"profile.json has {size:,} bytes; a profile has at most {limit:,}"
    try:
        document = parse_json(file.read(limit), name)
    except ValueError as error:
        return {}, str(error)
    figures = document.get("figures") if isinstance(document, dict) else None
    if not isinstance(figures, dict):
        return {}, "profile.json: no profile: it has no figures"
    latency = figures.get("latency_us")
    if not is_number(latency):
        return {}, f"profile.json: no profile: latency_us is {latency!r}, must be a number"
    try:
        # Pages have them as JSON, which knows no infinity.
        json.dumps(figures, allow_nan=False)
    except (ValueError, RecursionError) as error:
        return {}, f"profile.json: no profile: {error}"
    return figures, ""


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value of JSON is a number that can be written and drawn.

    >>> is_number(2), is_number(float("nan")), is_number(10**400), is_number(True)
    (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) < _LARGEST
