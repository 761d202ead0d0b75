"""What an export gives: the content, its notes, and how both are written."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from trn3.files import write_bytes
from trn3.system import System
from trn3.system.catalogue import load


class ExportError(ValueError):
    """A system cannot be said in the other simulator's terms."""


@dataclass(frozen=True)
class ExportDocument:
    """An input file of another simulator.

    Attributes
    ----------
    name
        The system.
    content
        What the other simulator reads.
    notes
        What was simplified, and the numbers in it that nobody has published.
    form
        How it is written.
    """

    name: str
    content: Mapping[str, Any]
    notes: tuple[str, ...]
    form: Literal["json", "yaml"]

    def text(self) -> str:
        """Return the file's text; YAML has the notes as comments, JSON has no place for them.

        Raises
        ------
        ImportError
            If it is YAML and PyYAML is not installed.
        """
        if self.form == "json":
            return json.dumps(self.content, indent=2, allow_nan=False) + "\n"
        try:
            import yaml
        except ImportError as error:
            message = "writing YAML needs PyYAML: pip install 'trn3[interchange]'"
            raise ImportError(message) from error
        comments = "".join(f"# {note}\n" for note in (self.name, *self.notes))
        body: str = yaml.safe_dump(dict(self.content), sort_keys=False, default_flow_style=None)
        return comments + body

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the file; it appears when it is complete.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        write_bytes(path, [self.text().encode()])


#: Its name in earlier releases.
Document = ExportDocument


def export(system: object, program: str, form: Literal["json", "yaml"]) -> ExportDocument:
    """Return a system, given by name, by the path of a spec file or as it is, for a program.

    Raises
    ------
    ExportError
        If it cannot be said in the program's terms.
    ValueError
        If there is no system of that name.
    TypeError
        If it is none of these.
    """
    if not isinstance(system, str | Path | System):
        message = f"system is {system!r}, must be a name, a spec file or a system of trn3"
        raise TypeError(message)
    asked = load(system)
    try:
        content, notes = asked.exported(program)
    except ValueError as error:
        raise ExportError(str(error)) from error
    return ExportDocument(asked.title, content, notes, form)
