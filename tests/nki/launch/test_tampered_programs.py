"""Programs that somebody changed: refused as documented, or run; never anything else."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import trn3.nki.language as nl
from trn3 import nki
from trn3.nki import gpsimd
from trn3.nki.launch.programs import Program

VALUES: list[Any] = [
    None, 0, -1, 1, 10**30, 2**63, -(2**63), 1e308, "", "x", [], {}, [[]], {"a": 1}, True, [1] * 70,
    "float32", "\ud800", 2**31, 2**32, 128,
]  # fmt: skip
X = np.ones((128, 4), np.float32)


@nki.jit
def double(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Return the way to each value in a document."""
    yield path
    pairs = value.items() if isinstance(value, dict) else ()
    for key, inner in enumerate(value) if isinstance(value, list) else pairs:
        yield from places(inner, (*path, key))


def at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def tampered(text: str, seed: int) -> str:
    """Return a program with a few values replaced, left out, moved or named otherwise."""
    chance = random.Random(seed)
    document = json.loads(text)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        ways = list(places(document))
        path, other = chance.choice(ways), chance.choice(ways)
        if not path:
            continue
        holder, key, what = at(document, path[:-1]), path[-1], chance.randrange(10)
        if what < 5:
            holder[key] = chance.choice(VALUES)
        elif what < 7:
            del holder[key]
        elif what == 7 and isinstance(holder, dict):
            holder["else"] = holder.pop(key)
        else:
            holder[key] = json.loads(json.dumps(at(document, other)))
    changed = json.dumps(document)
    if chance.random() < 0.1:
        where = chance.randrange(len(changed))
        changed = changed[:where] + chance.choice(["", '"', "}", "[", "\0"]) + changed[where + 1 :]
    return changed


@pytest.mark.parametrize("part", range(4))
def test_tampered_programs_raise_only_what_is_documented(part: int) -> None:
    text = nki.record(double, X).text
    ran = refused = 0
    for seed in range(part * 500, part * 500 + 500):
        program = Program(tampered(text, seed))
        try:
            told = (program.name, program.arch, program.inputs, program.instructions)
        except ValueError:
            told = None
        try:
            program.run({"x": X})
        except (ValueError, TypeError):
            refused += 1
        else:
            ran += 1
            assert told is not None
    assert ran > 10
    assert refused > 100
    # And none of it harms who comes after.
    assert (Program(text).run({"x": X}).outputs["result"] == 2).all()


@nki.jit
def marked(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.load(x)
    for _ in nl.affine_range(2):
        with nl.no_reorder():
            gpsimd.call(np.abs, tile, tile, cycles=9, op="f")
    nl.store(out, tile)
    return out


@pytest.mark.parametrize("part", range(2))
def test_tampered_programs_of_version_2_raise_only_what_is_documented(part: int) -> None:
    text = nki.record(marked, X, loops=True, open_places=True).text
    ran = refused = 0
    for seed in range(part * 400, part * 400 + 400):
        program = Program(tampered(text, seed))
        try:
            told = (program.tensors, program.functions, program.instructions)
        except ValueError:
            told = None
        try:
            program.run({"x": X}, functions={"f": np.abs})
        except (ValueError, TypeError, NotImplementedError):
            refused += 1
        else:
            ran += 1
            assert told is not None
    assert ran > 10
    assert refused > 100
    replay = Program(text).run({"x": X}, functions={"f": np.abs})
    assert (replay.outputs["result"] == 1).all()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": ' * 100_000, "\0", "[]", "1" * 5000])
def test_texts_that_are_no_program(text: str) -> None:
    with pytest.raises(ValueError, match=r"the program: is not JSON|the text is no program"):
        _ = Program(text).inputs


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 3}, "its name is 3; needed: a text"),
        ({"tensors": 3}, "its tensors is 3; needed: a list"),
        ({"tensors": [3]}, r"its tensors\[0\] is 3; needed: an object"),
        ({"tensors": [{"name": "x"}]}, r"its tensors\[0\]\.dtype is None; needed: a text"),
        (
            {"tensors": [{"name": "x", "dtype": "float32", "shape": [True]}]},
            r"its tensors\[0\]\.shape is \[True\]; needed: a list of whole numbers",
        ),
        ({"steps": [{}]}, r"its steps\[0\]\.op is None; needed: a text"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], words: str) -> None:
    text = json.dumps({**json.loads(nki.record(double, X).text), **change})
    with pytest.raises(ValueError, match=f"the text is no program: {words}"):
        _ = Program(text).inputs
