"""The probes as data: their texts, the folder of them, and the runner that goes with it."""

from __future__ import annotations

import hashlib
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from types import ModuleType

from trn3.files import write_bytes
from trn3.validation.imported import import_text
from trn3.validation.probe.received import ProbeError


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe.

    Attributes
    ----------
    id
        Its name, and that of its file.
    title
        What it shows.
    source
        The text of its file.
    """

    id: str
    title: str
    source: str

    @property
    def digest(self) -> str:
        """SHA-256 of the text, by which a result says what it ran."""
        return hashlib.sha256(self.source.encode()).hexdigest()


def _resource(name: str) -> str:
    return files("trn3.validation.probe").joinpath(name).read_text(encoding="utf-8")


@cache
def probes() -> tuple[Probe, ...]:
    """Return all probes, in the order of the table."""
    document = tomllib.loads(_resource("probes.toml"))
    made = []
    for entry in document["probe"]:
        text = document["header"] + document["templates"][entry["template"]]
        # An entry's own placeholders may name the defaults.
        source = Template(text).substitute({**document["defaults"], **entry})
        made.append(Probe(entry["id"], entry["title"], source.lstrip()))
    return tuple(made)


@cache
def runner() -> ModuleType:
    """Return the module that a folder's ``run.py`` is."""
    return import_text("run.py", _resource("run.py.txt"))


def write(folder: Path) -> int:
    """Write the probes and their runner; return how many probes there are.

    Raises
    ------
    ProbeError
        If the folder exists and is not empty.
    OSError
        If it cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        message = f"{folder}: exists already; name a new or empty folder"
        raise ProbeError(message)
    (folder / "probes").mkdir(parents=True, exist_ok=True)
    readme: str = tomllib.loads(_resource("probes.toml"))["readme"]
    texts = {f"probes/{probe.id}.py": probe.source for probe in probes()}
    texts |= {"README.md": readme.lstrip(), "run.py": _resource("run.py.txt")}
    for name, text in texts.items():
        write_bytes(folder / name, [text.encode()])
    return len(probes())
