"""Launches that cannot be what their author means are refused before anything runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki

X = np.ones((2, 2), np.float32)


def test_functions_whose_body_would_never_run_are_no_kernels() -> None:
    def generator(x: Any) -> Iterator[Any]:
        yield x

    async def coroutine(x: Any) -> Any:
        return x

    async def both(x: Any) -> AsyncIterator[Any]:
        yield x

    for function in (generator, coroutine, both):
        for make in (nki.jit, nki.simulate, nki.benchmark):
            with pytest.raises(TypeError, match="is a generator or async function, whose body"):
                make(function)  # type: ignore[operator]


def test_a_kernel_does_not_end_the_program() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        sys.exit(0)

    with pytest.raises(RuntimeError, match=r"raised SystemExit\(0\); kernels return") as caught:
        kernel(X)
    assert any("test_refused_launches.py" in note for note in caught.value.__notes__)


def test_diff_tells_of_a_kernel_that_exits(tmp_path: Path) -> None:
    source = tmp_path / "kernel.py"
    source.write_text(
        "import sys\nimport numpy as np\nimport nki\n\n"
        "@nki.jit\ndef kernel(x):\n    sys.exit(0)\n\n"
        "def kernel_inputs():\n    return {'x': np.ones((2, 2), np.float32)}\n"
    )
    words = [sys.executable, "-m", "trn3", "diff", f"{source}:kernel"]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "SystemExit(0)" in run.stderr


def test_masks_of_arrays_are_not_dropped() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        return x

    masked = np.ma.masked_array(X, mask=[[True, False], [False, False]])
    with pytest.raises(TypeError, match="x is a masked array, and tensors have no mask"):
        kernel(masked)


def test_launches_of_countless_instances_are_refused() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        return x

    for brackets in (10**12, (10**6, 10**6)):
        with pytest.raises(ValueError, match="instances; allowed: up to 1048576"):
            kernel[brackets]


def test_a_tile_of_an_earlier_launch_is_refused_by_name_and_line() -> None:
    """Its bytes are the new kernel's, which it would read without a word."""
    kept: list[Any] = []

    @nki.jit
    def first(x: Any) -> Any:
        tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf, name="kept")
        nisa.dma_copy(tile, x)
        kept.append(tile)
        return x

    @nki.jit
    def second(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(out, kept[0])
        return out

    first(X)
    with pytest.raises(ValueError, match=r"tensor `kept` .* was made in another launch") as caught:
        second(X)
    assert "test_refused_launches.py" in str(caught.value)
