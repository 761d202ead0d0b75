"""What it takes until something happens: imports, the command's front page, the first kernel.

Each side is a process of its own. A goal that is a difference of times is a rival that sleeps for
it after doing its part.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from comparison import Call, Comparison, Rival, Work

IMPORT_OVER_SECONDS = 0.010
FIRST_KERNEL_OVER_SECONDS = 0.200
#: Times that typer and rich alone take.
FRONT_PAGE = 1.3

KERNEL = """
import numpy as np
import trn3.nki as nki
import trn3.nki.isa as nisa
import trn3.nki.language as nl

@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""
CALL = """
x = np.ones((128, 8), np.float32)
assert (np.asarray(copied(x)) == x).all()
"""


@pytest.fixture
def threads() -> int:
    """Return one: nothing here computes."""
    return 1


def process(*words: str, sleep: float = 0.0) -> Call:
    """Return a call that runs Python with these words, and sleeps."""

    def call() -> None:
        subprocess.run([sys.executable, *words], stdout=subprocess.DEVNULL, check=True)
        time.sleep(sleep)

    return call


def bench_import(compare: Comparison) -> None:
    before = "import numpy, ml_dtypes"
    over = IMPORT_OVER_SECONDS
    rival = Rival(f"{before}, and {over * 1e3:g} ms", process("-c", before, sleep=over), goal=1.0)
    compare(
        "import numpy, ml_dtypes, trn3",
        process("-c", f"{before}, trn3"),
        [rival],
        Work(1, "starts/s"),
    )


@pytest.mark.parametrize("word", ["--help", "--version"])
def bench_front_page(compare: Comparison, word: str) -> None:
    rival = Rival(
        "import typer, rich", process("-c", "import typer, rich"), goal=round(1 / FRONT_PAGE, 2)
    )
    compare(f"trn3 {word}", process("-m", "trn3", word), [rival], Work(1, "starts/s"))


def bench_first_kernel(compare: Comparison, tmp_path: Path) -> None:
    imported, called = tmp_path / "imported.py", tmp_path / "called.py"
    imported.write_text(KERNEL)
    called.write_text(KERNEL + CALL)
    over = FIRST_KERNEL_OVER_SECONDS
    rival = Rival(
        f"import trn3.nki, and {over * 1e3:g} ms", process(str(imported), sleep=over), goal=1.0
    )
    compare("import trn3.nki and run a kernel", process(str(called)), [rival], Work(1, "starts/s"))
