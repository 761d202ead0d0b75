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
#: Modules and packages inside of packages that stand on the pages too.
WITHIN = [
    "cost", "flows", "interchange.chakra", "nki.collectives", "nki.gpsimd", "nki.isa",
    "nki.language", "nki.lint", "power", "studies.budget", "studies.sweep", "systems", "traffic",
    "validation.claims", "validation.probe",
]  # fmt: skip
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
        "BEGIN": "the marks of the page on validation",
        "CLAIMS_BEGIN": "likewise",
        "CLAIMS_END": "likewise",
        "END": "likewise",
        "SECTIONS": "likewise",
        "LEVELS": "the columns of the page on validation",
    },
    "trn3.validation.claims": {
        "cells": "the tables of the page on validation",
        "fits": "likewise",
        "known": "likewise",
        "markdown": "likewise",
        "number": "likewise",
        "STATUS_TEXTS": "likewise",
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


@pytest.mark.parametrize("package", ["", *PACKAGES, *WITHIN])
def test_what_is_public_is_on_a_page(package: str) -> None:
    """Each class, function and constant of `__all__` is there, under this name or another."""
    name = f"trn3.{package}".rstrip(".")
    module = importlib.import_module(name)
    known = {id(each) for each in shown()}
    lacking = {
        each
        for each in getattr(module, "__all__", ())
        if inspect.isroutine(thing := getattr(module, each))
        or inspect.isclass(thing)
        or each.isupper()
        if id(thing) not in known
    }
    assert lacking == set(NOT_SHOWN.get(name, {}))


def test_every_module_with_public_names_is_checked() -> None:
    """A page that takes a module in has all of it, unless a package lists what is public of it."""
    pages = "".join(page.read_text() for page in PAGES.glob("*.md"))
    modules = set(re.findall(r"^\.\. automodule:: trn3\.?(\S*)$", pages, re.MULTILINE))
    public = {
        module
        for module in modules
        if not module.startswith("nki.launch.")
        and hasattr(importlib.import_module(f"trn3.{module}".rstrip(".")), "__all__")
    }
    within = {"economics.cost": "cost", "economics.power": "power"}
    assert {within.get(module, module) for module in public} <= {"", *PACKAGES, *WITHIN}
