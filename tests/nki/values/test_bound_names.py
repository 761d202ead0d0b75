"""Tensors without a name have that of the variable."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from trn3 import nki
from trn3.nki import language as nl
from trn3.nki.dialects import legacy
from trn3.nki.dialects.legacy import language as legacy_language

X = np.ones((128, 8), np.float32)


def new() -> Any:
    return nl.ndarray((128, 8), nl.float32)


class Holder:
    tile: Any = None


def names_of_kernel() -> list[str]:
    found: list[str] = []

    @nki.jit
    def kernel(x: Any) -> Any:
        acc = nl.ndarray((128, 8), nl.float32)
        typed: Any = nl.ndarray((128, 8), nl.float32)
        first = second = nl.zeros((128, 8), nl.float32)
        loaded = nl.load(x)
        total = nl.add(loaded, acc)
        helped = new()
        tiles: list[Any] = []
        for _ in range(2):
            tiles.append(new())  # noqa: PERF401
        by_place: list[Any] = [None, None]
        by_place[1] = nl.ndarray(
            (128, 8),
            nl.float32,
        )
        holder = Holder()
        holder.tile = nl.ndarray((128, 8), nl.float32)
        given = nl.ndarray((128, 8), nl.float32, name="given_name")
        shared = nl.ndarray((128, 8), nl.float32, buffer=nl.shared_hbm)
        made = (acc, typed, first, second, loaded, total, helped, tiles[1], by_place[1])
        found.extend(tile.name for tile in (*made, holder.tile, given, shared))
        pair = (x, nl.square(nl.load(x)))
        found.append(pair[1].name)
        return x

    kernel(X)
    return found


def test_names_are_what_the_kernel_binds() -> None:
    assert names_of_kernel() == [
        *("acc", "typed", "second", "second", "loaded", "total", "helped", "tiles[...]"),
        *("by_place[1]", "holder.tile", "given_name", "shared", "nl.square(nl.load(x))"),
    ]


def test_tiles_of_the_legacy_dialect_keep_the_names_they_were_made_under() -> None:
    """Their instructions run later, when another line wants something."""
    found: list[str] = []

    @legacy.jit
    def kernel(x: Any) -> Any:
        first = legacy_language.load(x)
        total = first + 1
        pair = (legacy_language.exp(total), x)
        found.extend(tile.view.name for tile in (first, total, pair[0]))
        return x

    kernel(X)
    assert found == ["first", "total", "pair"]


def test_errors_say_them() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        acc = nl.ndarray((128, 8), nl.float32)
        acc[:, 0:9]
        return x

    text = "tensor `acc` on dimension 1: index range [0, 8] exceed dimension size of 8"
    with pytest.raises(IndexError, match=re.escape(text)):
        kernel(X)


def test_findings_say_them() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        acc = nl.ndarray((128, 8), nl.float32)
        out = nl.ndarray((128, 8), nl.float32, buffer=nl.shared_hbm)
        nl.store(out, acc)
        return out

    _, profile = nki.profile(kernel, X)
    assert "tensor `acc`: 1024 uninitialised elements read" in str(profile.findings[0])


def test_without_a_source_there_is_none() -> None:
    names: dict[str, Any] = {"nl": nl, "found": []}
    lines = ("def made(x):", "t = nl.ndarray((128, 8), nl.float32)", "found.append(t.name)")
    code = "\n    ".join((*lines, "return x\n"))
    exec(code, names)
    nki.jit(names["made"])(X)
    assert names["found"] == [""]


def test_names_of_shared_tensors_do_not_make_them_others() -> None:
    """The k-th shared tensor without a name is one for all instances, whatever they call it."""

    @nki.jit
    def kernel(x: Any) -> Any:
        if nl.program_id(0) == 0:
            mine = nl.ndarray((128, 8), nl.float32, buffer=nl.shared_hbm)
        else:
            mine = theirs = nl.ndarray((128, 8), nl.float32, buffer=nl.shared_hbm)
            del theirs
        nl.store(mine, nl.load(x))
        return mine

    assert np.array_equal(kernel[2](X), X)
