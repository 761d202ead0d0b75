"""What makes kernels faster: each kind of advice on a small kernel of its own."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from trn3.cli import kernel_file
from trn3.compiler.advice import said
from trn3.studies.optimizing import OptimizedKernel, TriedChange, optimize

HEAD: Final = """
import nki
import nki.isa as nisa
import nki.language as nl

P = 128


@nki.jit
def kernel(x, y):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
"""
#: Of each kind the body of a kernel that wants for it, and a piece of what is written.
WANTING: Final = {
    "hoist": (
        """
    for i in nl.affine_range(4):
        tile = nl.load(x[nl.ds(i * P, P)])
        bias = nl.load(y[0:P])
        nl.store(out[nl.ds(i * P, P)], nl.add(tile, bias))
""",
        "    bias = nl.load(y[0:P])\n    for i in",
    ),
    "double-buffer": (
        """
    tile = nl.ndarray((P, 512), x.dtype, buffer=nl.sbuf)
    for row in (0, P, 2 * P, 3 * P):
        nisa.dma_copy(tile, x[nl.ds(row, P)], dge_mode=nisa.dge_mode.none)
        nisa.dma_copy(out[nl.ds(row, P)], tile, dge_mode=nisa.dge_mode.none)
""",
        "        tile = nl.ndarray((P, 512), x.dtype, buffer=nl.sbuf)",
    ),
    "engine": (
        """
    tile = nl.load(x[0:P])
    for i in nl.affine_range(8):
        copy = nl.ndarray((P, 512), x.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(copy, tile, engine=nisa.gpsimd_engine)
        tile = copy
    for i in nl.affine_range(4):
        nl.store(out[nl.ds(i * P, P)], tile)
""",
        "engine=nisa.vector_engine)",
    ),
    "queue": (
        """
    for i in range(0, 512, P):
        for j in range(0, 512, 256):
            tile = nl.ndarray((P, 256), x.dtype, buffer=nl.sbuf)
            nisa.dma_copy(tile, x[i : i + P, j : j + 256])
            nisa.dma_copy(out[i : i + P, j : j + 256], tile)
""",
        "dge_mode=nisa.dge_mode.hwdge, engine=",
    ),
    "join": (
        """
    tile = nl.ndarray((P, 512), x.dtype, buffer=nl.sbuf)
    for j in nl.affine_range(8):
        columns = slice(j * 64, (j + 1) * 64)
        nisa.dma_copy(tile[:, columns], x[0:P, columns])
    for i in nl.affine_range(4):
        nl.store(out[nl.ds(i * P, P)], tile)
""",
        "    nisa.dma_copy(tile[:, 0:512], x[0:P, 0:512]",
    ),
    "direct": (
        """
    tile = nl.load(x[0:P])
    product = nl.ndarray((P, 512), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(product, tile[:, 0:P], tile)
    copy = nl.ndarray((P, 512), nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(copy, product)
    result = nl.ndarray((P, 512), x.dtype, buffer=nl.sbuf)
    nisa.activation(result, op=nl.exp, data=copy)
    for i in nl.affine_range(4):
        nl.store(out[nl.ds(i * P, P)], result)
""",
        "data=product)",
    ),
    "ahead": (
        """
    for i in range(0, 512, P):
        tile = nl.ndarray((P, 512), x.dtype, buffer=nl.sbuf)
        nisa.dma_copy(tile, x[i : i + P], dge_mode=nisa.dge_mode.none)
        nisa.activation(tile, op=nl.exp, data=tile)
        nisa.tensor_tensor(tile, tile, tile, op=nl.add, engine=nisa.vector_engine)
        nisa.activation(tile, op=nl.exp, data=tile)
        nisa.dma_copy(out[i : i + P], tile, dge_mode=nisa.dge_mode.none)
""",
        "    for i in range(0, 512 + P, P):",
    ),
    "dead": (
        """
    tile = nl.load(x[0:P])
    twice = nl.ndarray((P, 512), x.dtype, buffer=nl.sbuf)
    nisa.tensor_tensor(twice, tile, tile, op=nl.add)
    scratch = nl.ndarray((P, 4096), x.dtype, buffer=nl.sbuf)
    nisa.memset(scratch, 1.0, engine=nisa.vector_engine)
    product = nl.ndarray((P, 512), nl.float32, buffer=nl.psum)
    nisa.memset(product, 0.0, engine=nisa.vector_engine)
    nisa.nc_matmul(product, twice[:, 0:P], tile)
    result = nl.ndarray((P, 512), x.dtype, buffer=nl.sbuf)
    nisa.tensor_copy(result, product, engine=nisa.scalar_engine)
    for i in nl.affine_range(4):
        nl.store(out[nl.ds(i * P, P)], result)
""",
        "",
    ),
}


def found(tmp_path: Path, source: str, **options: Any) -> OptimizedKernel:
    path = tmp_path / "kernel.py"
    path.write_text(source)
    kernel: Any = kernel_file.load(f"{path}:kernel").kernel
    x, y = np.random.default_rng(0).standard_normal((2, 512, 512), dtype=np.float32)

    def load(text: str) -> Any:
        return kernel_file.load_text(f"{path}:kernel", text).kernel

    return optimize(str(path), source, kernel, load, {"x": x, "y": y}, **options)


def written(optimized: OptimizedKernel) -> list[TriedChange]:
    return [change for change in optimized.changes if change.status == "written"]


@pytest.mark.parametrize("kind", WANTING)
def test_each_kind_of_advice_is_found_confirmed_and_written(kind: str, tmp_path: Path) -> None:
    body, words = WANTING[kind]
    optimized = found(tmp_path, HEAD + body.lstrip("\n") + "    return out\n")
    changes = [change for change in written(optimized) if change.kind == kind]
    assert changes
    assert words in optimized.text
    assert optimized.written.values == optimized.as_written.values
    assert optimized.speedup > 1
    for change in written(optimized):
        assert change.confirmed_us == pytest.approx(change.estimate_us, rel=0.1)
        assert all(change.words())
    if kind == "dead":
        assert optimized.text.count("memset") < body.count("memset")
    ast.parse(optimized.text)


def test_words_say_what_to_write() -> None:
    assert said("queue", [4, 9], [["sync", "scalar"], ["sync"]], [], None) == (
        (
            "trigger the transfers of line 4 from SyncE and ScalarE in turn; trigger the transfers "
            "of line 9 from SyncE"
        ),
        (
            "dge_mode=nisa.dge_mode.hwdge, engine=(nisa.sync_engine, nisa.scalar_engine)"
            "[index % 2]; dge_mode=nisa.dge_mode.hwdge, engine=nisa.sync_engine"
        ),
    )
    assert said("direct", [4, 9], [], ["copy", "acc"], None)[0] == (
        "read `acc` instead of `copy`, its copy of line 4"
    )
    assert "line 4" in said("join", [4], [], [], None)[0]


def test_changes_say_which_pass_makes_them(tmp_path: Path) -> None:
    optimized = found(tmp_path, HEAD + WANTING["direct"][0].lstrip("\n") + "    return out\n")
    passes = {change.kind: change.pass_name for change in written(optimized)}
    assert passes["direct"] == "copies"


def test_time_alone_decides_where_values_are_not_computed(tmp_path: Path) -> None:
    body = HEAD + WANTING["join"][0].lstrip("\n") + "    return out\n"
    optimized = found(tmp_path, body, values=False)
    assert (optimized.as_written.values, optimized.written.values) == ([], [])
    assert [change.kind for change in written(optimized)][:1] == ["join"]


LEGACY: Final = """
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x, y):
    out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)
    acc = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(4):
        left = nl.load(y[0:128, 0:128])
        acc[...] += nisa.nc_matmul(left, nl.load(x[k * 128 : (k + 1) * 128, :]))
    nl.store(out, value=nl.copy(acc))
    return out
"""


def test_kernels_of_the_older_dialect_are_written_as_well(tmp_path: Path) -> None:
    optimized = found(tmp_path, LEGACY)
    assert "    left = nl.load(y[0:128, 0:128])\n    for k in" in optimized.text
    assert optimized.written.values == optimized.as_written.values
    for change in written(optimized):
        assert change.confirmed_us == pytest.approx(change.estimate_us, rel=0.1)
