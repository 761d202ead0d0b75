"""A class name is used once."""

from __future__ import annotations

from pathlib import Path

from house import class_names
from support.trees import RULES, plant, plant_crates


def test_the_same_class_twice_is_found_in_both_places(tmp_path: Path) -> None:
    """In another room and inside a function too."""
    files = {
        "python/trn3/a/one.py": "class Result: ...\nclass Other: ...",
        "python/trn3/b/two.py": "def make():\n    class Result: ...",
        "python/trn3_pytest/__init__.py": "",
    }
    found = class_names.find_python(plant(tmp_path, files), RULES)
    assert [finding.key for finding in found] == ["Result in trn3.a.one", "Result in trn3.b.two"]
    assert found[0].place == "python/trn3/a/one.py:1"
    assert "python/trn3/b/two.py:2" in found[0].text


def test_an_excuse_holds_and_an_idle_one_is_found(tmp_path: Path) -> None:
    """Names that the vendor dictates may be used again, and only while they are."""
    files = {
        "python/trn3/a/one.py": "class ndarray: ...",
        "python/trn3/b/two.py": "class ndarray: ...",
        "python/trn3_pytest/__init__.py": "",
    }
    names = {**RULES["class_names"], "python": {"ndarray": "vendor", "Tensor": "vendor"}}
    found = class_names.find_python(plant(tmp_path, files), {**RULES, "class_names": names})
    assert [finding.key for finding in found] == ["excuse Tensor"]


def test_public_types_of_crates(tmp_path: Path) -> None:
    """A binding may have the name of what it binds, once; private types and tests do not count."""
    files = {
        "ground/src/lib.rs": "pub struct Shape; pub(crate) struct Own; struct Own2; pub enum E {}",
        "wall/src/lib.rs": "pub trait Shape {} pub(crate) struct Own; pub struct E2;\n"
        "#[cfg(test)] mod tests { pub struct E; }",
        "roof/src/lib.rs": "pub struct E; mod a;",
        "roof/src/a.rs": "pub struct Twice; pub mod b { pub struct Twice; }",
    }
    root = plant_crates(tmp_path, files, ground=[], wall=[], roof=[])
    assert [finding.key for finding in class_names.find_rust(root, RULES)] == [
        "Shape in ground",
        "Shape in wall",
        "Twice of roof in roof::a",
    ]
