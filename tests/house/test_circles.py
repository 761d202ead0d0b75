"""Modules do not import each other in circles."""

from __future__ import annotations

from pathlib import Path

import pytest

from house import circles
from support.trees import RULES, plant, plant_crates


def python_keys(root: Path, files: dict[str, str]) -> list[str]:
    """Return the arrows of circles in a tree of Python modules."""
    return [finding.key for finding in circles.find_python(plant(root, files), RULES)]


def rust_keys(root: Path, **files: str) -> list[str]:
    """Return the arrows of circles in one crate with the given files in ``src``."""
    named = {f"ground/src/{name.replace('__', '/')}.rs": text for name, text in files.items()}
    root = plant_crates(root, named, ground=[])
    return [finding.key for finding in circles.find_rust(root, RULES)]


def test_each_arrow_of_a_circle_is_found_and_no_other(tmp_path: Path) -> None:
    """Of a ring of three with a tail, the three."""
    files = {
        "python/trn3/a/one.py": "from trn3.b.two import thing",
        "python/trn3/b/two.py": "def late():\n    from trn3.c import three",
        "python/trn3/c/three.py": "if TYPE_CHECKING:\n    from trn3.a.one import Thing",
        "python/trn3/c/four.py": "from trn3.c import three",
    }
    assert python_keys(tmp_path, files) == [
        "trn3.a.one -> trn3.b.two",
        "trn3.b.two -> trn3.c.three",
        "trn3.c.three -> trn3.a.one",
    ]


def test_a_package_may_import_its_own_modules(tmp_path: Path) -> None:
    """A package page gathers what its modules offer, and these may ask the page."""
    files = {
        "python/trn3/a/__init__.py": "from trn3.a import one\nfrom trn3.a.deep.two import x",
        "python/trn3/a/one.py": "from trn3.a import thing",
        "python/trn3/a/deep/two.py": "from trn3.a import thing",
    }
    assert python_keys(tmp_path, files) == []


@pytest.mark.parametrize(
    "text",
    [
        "use crate::one::Thing;",
        "pub use crate::one;",
        "use super::one::{Thing as Other, deep::*};",
        "use crate::{other::X, one::{self, Y}};",
        "mod inner { use super::super::one::Thing; }",
        "fn late() { use crate::one::Thing; }",
    ],
)
def test_circles_in_a_crate_are_found(tmp_path: Path, text: str) -> None:
    """However the ``use`` line is written, in a function too."""
    found = rust_keys(tmp_path, lib="mod one; mod two;", one="use crate::two::Thing;", two=text)
    assert found == ["ground::one -> ground::two", "ground::two -> ground::one"]


@pytest.mark.parametrize(
    "text",
    [
        "#[cfg(test)]\nmod tests { use crate::one::Thing; }",
        "#[cfg(test)]\nuse crate::one::Thing;",
        "// use crate::one::Thing;",
        'const TEXT: &str = "use crate::one::Thing;";',
        "use one::Thing; // another crate",
        "mod tests;",
    ],
)
def test_tests_comments_and_other_crates_do_not_count(tmp_path: Path, text: str) -> None:
    """Only what the product compiles makes a circle."""
    one, tests = "use crate::two::Thing;", "use crate::one::Thing;"
    assert rust_keys(tmp_path, lib="mod one;", one=one, two=text, two__tests=tests) == []


def test_a_parent_with_its_children_does_not_count(tmp_path: Path) -> None:
    """In either direction and at any depth."""
    found = rust_keys(
        tmp_path,
        lib="mod one;",
        one__mod="mod deep; use deep::Thing; use self::deep::core::Other;",
        one__deep__mod="use super::Thing; mod core;",
        one__deep__core="use crate::one::Thing; use super::super::Thing as Again;",
    )
    assert found == []
