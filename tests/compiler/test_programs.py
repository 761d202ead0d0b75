"""Programs compiled from Python."""

from __future__ import annotations

import json

import numpy as np
import pytest

import trn3.nki.language as nl
from trn3 import compiler, nki


@nki.jit
def scaled(x, y):  # type: ignore[no-untyped-def]
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        rows = nl.load(x[i * 128 : (i + 1) * 128])
        factor = nl.load(y)
        nl.store(out[i * 128 : (i + 1) * 128], nl.multiply(rows, factor))
    return out


X = np.arange(512 * 64, dtype=np.float32).reshape(512, 64)
Y = np.full((128, 64), 3, np.float32)


@pytest.fixture(scope="module")
def program() -> nki.Program:
    return nki.record(scaled, X, Y, open_places=True, loops=True)


def steps(program: nki.Program, op: str) -> int:
    return sum(step["op"] == op for step in json.loads(program.text)["steps"])


def test_every_level_gives_the_same_values(program: nki.Program) -> None:
    """Places are found, marks go, and what repeats is done once at the highest level alone."""
    loads = {}
    for level in compiler.levels():
        made = compiler.compile(program, level=level, verify=True, inputs={"x": X, "y": Y})
        assert made.report["level"] == level
        replay = made.program.run({"x": X, "y": Y})
        assert (replay.outputs["result"] == 3 * X).all()
        # Which share of the DMA engines' rate compiled transfers get is no part of a program.
        near = {"rel": 0.05} if level == "neuronx-cc" else {"abs": 1}
        assert replay.picoseconds == pytest.approx(made.report["compiled_us"] * 1e6, **near)
        loads[level] = steps(made.program, "dma_copy")
        if level != "as-written":
            assert steps(made.program, "loop") == 0
            on_chip = [each for each in made.program.tensors if each.space == "sbuf"]
            assert on_chip
            assert all(each.address is not None for each in on_chip)
            assert json.loads(made.program.text)["version"] == 1
    assert loads["as-written"] == loads["nki"] == 12
    assert loads["neuronx-cc"] == 9


def test_passes_run_as_they_are_named(program: nki.Program) -> None:
    """Each reports what it did, and no other one is run."""
    made = compiler.compile(program, passes=["common_work", "allocate", "schedule"])
    names = [each["name"] for each in made.report["passes"]]
    assert names == ["common_work", "allocate", "schedule"]
    assert made.report["passes"][0]["loads"] == 3
    assert (
        set(compiler.passes("nki")) < set(compiler.passes("neuronx-cc")) == set(compiler.passes())
    )


def test_what_cannot_be_compiled_is_refused(program: nki.Program) -> None:
    """Each error names what is wrong, and what is allowed."""
    with pytest.raises(
        ValueError, match=r'compile is "fast"; allowed: as-written, nki, neuronx-cc'
    ):
        compiler.compile(program, level="fast")
    with pytest.raises(ValueError, match=r'pass is "hoist"; allowed: common_work, '):
        compiler.compile(program, passes=["hoist"])
    with pytest.raises(ValueError, match=r"allocate is one of the passes|has no place"):
        compiler.compile(program, passes=["schedule"], arch="trn3:sbuf_partition_bytes=1024")
    with pytest.raises(ValueError, match='verify needs the contents of input "y"'):
        compiler.compile(program, verify=True, inputs={"x": X})
    with pytest.raises(ValueError, match='tensor "x" has 131072 bytes; 4 came'):
        compiler.compile(program, inputs={"x": X[0, :1]})


def test_little_room_spills(program: nki.Program) -> None:
    """A machine of less SBUF than the kernel holds has the same values."""

    @nki.jit
    def held(x):  # type: ignore[no-untyped-def]
        out = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
        tiles = [nl.multiply(nl.load(x[i * 128 : (i + 1) * 128]), float(i)) for i in range(4)]
        total = tiles[0]
        for tile in tiles[1:]:
            total = nl.add(total, tile)
        nl.store(out, total)
        return out

    wide = nki.record(held, X, open_places=True)
    arch = "trn3:sbuf_partition_bytes=1024,sbuf_reserved_bytes=0"
    made = compiler.compile(wide, passes=["allocate"], arch=arch, verify=True, inputs={"x": X})
    expected = wide.run({"x": X}).outputs["result"]
    assert (made.program.run({"x": X}, arch=arch).outputs["result"] == expected).all()
