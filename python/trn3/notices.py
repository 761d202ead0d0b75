"""What checks found, in the forms that services of continuous integration read: one home for all.

SARIF is 2.1.0 of OASIS, JUnit what Jenkins' schema has, GitHub its workflow commands.
"""

from __future__ import annotations

import html
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

from trn3.text import printable

FormatName: TypeAlias = Literal["text", "github", "sarif", "junit", "markdown", "json"]
NoticeLevel: TypeAlias = Literal["error", "warning", "note"]

_SCHEMA: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_GITHUB: Final = {"error": "error", "warning": "warning", "note": "notice"}
_MARKDOWN: Final = re.compile(r"([\\`*_\[\]|~#!])")


@dataclass(frozen=True, slots=True)
class Notice:
    """One thing that a check found.

    Attributes
    ----------
    level : str
        ``"error"``, ``"warning"`` or ``"note"``.
    rule : str
        What kind of thing it is, such as ``TRN3-P001`` or ``wrong-result``.
    message : str
    file : str
        Empty where it has no place.
    line, column : int
        From 1; 0 where there is none.
    about : str
        Which of the things that were checked it was found in.
    """

    level: NoticeLevel
    rule: str
    message: str
    file: str = ""
    line: int = 0
    column: int = 0
    about: str = ""

    @property
    def place(self) -> str:
        """``file:line:column``, as far as it is known; empty without a file."""
        numbers = [f":{number}" for number in (self.line, self.column) if number]
        return f"{_relative(self.file)}{''.join(numbers)}" if self.file else ""


@dataclass(frozen=True, slots=True)
class NoticeReport:
    r"""All that a command found.

    Attributes
    ----------
    command : str
        Such as ``trn3 lint``.
    notices : tuple of Notice
    checked : tuple of str
        All that was checked, also what nothing was found in.
    rules : mapping
        What each rule finds, in words, where they are known.
    failing : frozenset of str
        Levels that fail a test case of JUnit.

    Examples
    --------
    >>> found = Notice("error", "TRN3-P001", "`is`: 100% refused", "k.py", 3, 8, "softmax")
    >>> report = NoticeReport("trn3 lint", (found,), ("softmax", "norm"))
    >>> print(report.written("github"))
    ::error file=k.py,line=3,col=8,title=TRN3-P001::`is`: 100%25 refused
    >>> print(report.written("markdown").splitlines()[-1])
    | error | k.py:3:8 | TRN3-P001 | softmax | \`is\`: 100% refused |
    """

    command: str
    notices: tuple[Notice, ...]
    checked: tuple[str, ...] = ()
    rules: Mapping[str, str] = field(default_factory=dict)
    failing: frozenset[NoticeLevel] = frozenset({"error"})

    def written(self, form: FormatName) -> str:
        """Return the report in a form that is neither the command's own text nor its JSON.

        Raises
        ------
        ValueError
            If it is another one.
        """
        forms = {
            "github": self._github, "sarif": self._sarif, "junit": self._junit,
            "markdown": self._markdown,
        }  # fmt: skip
        if form not in forms:
            message = f"form is {form!r}; allowed: {', '.join(forms)}"
            raise ValueError(message)
        return forms[form]()

    def _github(self) -> str:
        lines = []
        for each in self.notices:
            named = {"file": _relative(each.file), "line": each.line, "col": each.column}
            given = [(name, str(value)) for name, value in named.items() if value]
            where = ",".join(
                f"{name}={_command(value, ':,')}" for name, value in [*given, ("title", each.rule)]
            )
            lines.append(f"::{_GITHUB[each.level]} {where}::{_command(each.message)}")
        return "\n".join(lines)

    def _markdown(self) -> str:
        count = f"{len(self.notices)} found in {len(self.checked)} checked"
        if not self.notices:
            return f"**{self.command}**: {count}"
        rows = [["level", "place", "rule", "in", "what"], ["---"] * 5]
        for each in self.notices:
            cells = (each.level, each.place, each.rule, each.about, each.message)
            escaped = [html.escape(printable(cell), quote=False) for cell in cells]
            rows.append([_MARKDOWN.sub(r"\\\1", cell) for cell in escaped])
        table = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join([f"**{self.command}**: {count}", "", *table])

    def _sarif(self) -> str:
        import trn3

        rules = list(dict.fromkeys(each.rule for each in self.notices))
        driver = {
            "name": self.command,
            "version": trn3.__version__,
            "rules": [
                {"id": rule, "shortDescription": {"text": self.rules.get(rule, rule)}}
                for rule in rules
            ],
        }
        results = [
            {
                "ruleId": each.rule,
                "ruleIndex": rules.index(each.rule),
                "level": each.level,
                "message": {"text": each.message},
                "locations": [_location(each)] if each.file else [],
            }
            for each in self.notices
        ]
        run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
        document = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
        return json.dumps(document, indent=2, allow_nan=False)

    def _junit(self) -> str:
        from xml.etree import ElementTree as ET

        suite = ET.Element("testsuite", name=self.command)
        about: dict[str, list[Notice]] = {name: [] for name in self.checked}
        for each in self.notices:
            about.setdefault(each.about, []).append(each)
        failures = 0
        for name, notices in about.items():
            group = self.command.replace(" ", ".")
            case = ET.SubElement(suite, "testcase", classname=group, name=printable(name))
            failures += any(each.level in self.failing for each in notices)
            for each in notices:
                text = printable(f"{each.place}: {each.message}" if each.place else each.message)
                if each.level in self.failing:
                    ET.SubElement(case, "failure", type=each.rule, message=text).text = text
                else:
                    ET.SubElement(case, "system-out").text = f"{each.level} {each.rule}: {text}"
        counts = {"tests": len(about), "failures": failures, "errors": 0}
        root = ET.Element("testsuites")
        for element in (root, suite):
            for key, value in counts.items():
                element.set(key, str(value))
        root.append(suite)
        ET.indent(root)
        return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, "unicode")


def _command(text: str, also: str = "") -> str:
    """Return a text for a workflow command, in which some characters have meanings."""
    lines = [printable(line) for line in text.splitlines()]
    return "%0A".join(
        "".join(f"%{ord(c):02X}" if c in f"%{also}" else c for c in line) for line in lines
    )


def _relative(file: str) -> str:
    """Return a file below the folder of work by its name from there, with slashes."""
    path = Path(file)
    here = Path.cwd()
    found = path.relative_to(here) if path.is_absolute() and path.is_relative_to(here) else path
    return found.as_posix() if file else ""


def _location(notice: Notice) -> dict[str, Any]:
    name = _relative(notice.file)
    absolute = Path(name).is_absolute()
    artifact = {"uri": Path(name).as_uri()} if absolute else {"uri": quote(os.fsencode(name))}
    region = {"startLine": notice.line, "startColumn": notice.column}
    physical = {
        "artifactLocation": artifact if absolute else {**artifact, "uriBaseId": "%SRCROOT%"},
        "region": {key: value for key, value in region.items() if value},
    }
    return {"physicalLocation": {key: value for key, value in physical.items() if value}}
