"""The list of what still breaks a rule only shrinks."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from house import __main__ as house, debt
from house.finding import Finding
from house.table import Table


def found(*keys: str) -> dict[str, list[Finding]]:
    """Return findings of one check."""
    return {"circles": [Finding(key, "a.py:1", "is wrong") for key in keys]}


def test_what_is_listed_passes() -> None:
    """Debt is no failure."""
    assert debt.compare({"circles": ["a -> b"]}, found("a -> b")) == []


def test_what_is_new_fails() -> None:
    """A breach that is not listed says where it stands, and which check found it."""
    (message,) = debt.compare({"circles": ["a -> b"]}, found("a -> b", "b -> c"))
    assert message == "a.py:1: b -> c: is wrong [circles]"


def test_what_is_gone_fails() -> None:
    """A listed breach that is mended has to go, so that it cannot come back."""
    (message,) = debt.compare({"circles": ["a -> b", "b -> c"]}, found("a -> b"))
    assert "'b -> c' is mended" in message
    assert len(debt.compare({"circles": [], "squares": []}, found())) == 1


def test_settling_never_lets_a_list_grow(tmp_path: Path) -> None:
    """A moved file's breach changes its name; one more is refused."""
    lists = debt.settled({"circles": ["a -> b", "b -> c"]}, found("new.a -> b"))
    assert lists == {"circles": ["new.a -> b"]}
    path = tmp_path / "debt.toml"
    debt.write(path, lists)
    assert debt.read(path) == lists
    assert debt.compare(lists, found("new.a -> b")) == []
    with pytest.raises(ValueError, match="circles would grow to 2; mend what is new: c -> d"):
        debt.settled(lists, found("new.a -> b", "c -> d"))


def test_the_rules_of_the_house_are_whole() -> None:
    """Every check has its list, the tables are orders, and every excuse gives a reason."""
    rules = tomllib.loads((house.HERE / "house.toml").read_text(encoding="utf-8"))
    assert debt.read(house.HERE / "debt.toml").keys() == house.CHECKS.keys()
    assert Table(rules["python"]).may("cli", "machine")
    assert Table(rules["rust"]).may("trn3-py", "trn3-numerics")
    assert not Table(rules["rust"]).may("trn3-system", "trn3-machine")
    excuses = [rules["files"]["alike"], rules["figures"]["excuses"], rules["private_names"]]
    excuses += [rules["class_names"]["python"], rules["class_names"]["rust"]]
    excuses += [rules["tests"]["others"]]
    assert all(reason for each in excuses for reason in each.values())
