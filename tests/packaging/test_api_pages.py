"""The pages of the API have what is public, one page a package."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trn3

PAGES = Path(__file__).resolve().parents[2] / "docs" / "reference" / "api"
PACKAGES = sorted(path.parent.name for path in Path(trn3.__file__).parent.glob("[!_]*/__init__.py"))
DIRECTIVE = re.compile(r"^\.\. (auto\w+|currentmodule):: (\S+)\n((?:   :.*\n)*)", re.MULTILINE)
#: Public names that no page has, and why.
NOT_SHOWN = {
    "trn3.collectives": {
        "CollectiveEngine": "what systems are to this package, which callers have as `System`",
        "CollectiveSystem": "likewise",
        "CollectiveUnits": "likewise",
    },
    "trn3.validation": {
        "command_tables": "the tables of the page on validation",
        "figure": "the words of the page on validation",
        "markdown": "likewise",
        "numbers": "likewise",
        "percent": "likewise",
        "ratios": "likewise",
        "replace_section": "likewise",
        "fits": "likewise",
    },
}


def shown() -> Iterator[Any]:
    """Yield every object that a page documents."""
    for page in PAGES.glob("*.md"):
        module = ""
        for kind, name, options in re.findall(
            r"^\.\. (auto\w+|currentmodule):: (\S+)\n((?:   :.*\n)*)",
            page.read_text(),
            re.MULTILINE,
        ):
            if kind in {"currentmodule", "automodule"}:
                module = name
            if kind == "automodule":
                members = re.search(r":members:(.*)", options)
                names = members[1].split(", ") if members and members[1] else None
                home = importlib.import_module(name)
                for each in names or (home.__all__ if members else ()):
                    yield getattr(home, each.strip())
            elif kind != "currentmodule":
                home, _, last = name.rpartition(".")
                yield getattr(importlib.import_module(home or module), last)


def test_each_package_has_a_page() -> None:
    """Pages are called as packages are, and stand in the table of contents."""
    listed = re.findall(r"^[\w.]+$", (PAGES / "index.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(
        page.stem for page in PAGES.glob("*.md") if page.stem != "index"
    )
    assert {name for name in listed if "." not in name} == {"trn3", *PACKAGES}
    for name in set(listed) - {"trn3", "cli"}:
        assert re.search(
            rf"automodule:: trn3\.{re.escape(name)}\b", (PAGES / f"{name}.md").read_text()
        )


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_public_is_on_a_page(package: str) -> None:
    """Each class and function of a package's `__all__` is there, under this name or another."""
    module = importlib.import_module(f"trn3.{package}")
    excused = NOT_SHOWN.get(f"trn3.{package}", {})
    known = {id(each) for each in shown()}
    lacking = {
        name
        for name in getattr(module, "__all__", ())
        if (inspect.isroutine(thing := getattr(module, name)) or inspect.isclass(thing))
        and id(thing) not in known
    }
    assert lacking == set(excused)
