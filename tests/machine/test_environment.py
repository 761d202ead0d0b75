"""A host's floating-point modes reach no value of the machine."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from trn3 import nki
from trn3.nki import isa as nisa, language as nl

SOURCE = """
#include <xmmintrin.h>
void set_mode(unsigned mode) { _mm_setcsr(mode); }
unsigned get_mode(void) { return _mm_getcsr(); }
"""
DEFAULT = 0x1F80
STICKY = 0x3F


@pytest.fixture(scope="module")
def processor(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or platform.machine() not in {"x86_64", "AMD64"}:
        pytest.skip("no C compiler, or no x86 mode register")
    folder: Path = tmp_path_factory.mktemp("mode")
    (folder / "mode.c").write_text(SOURCE, encoding="ascii")
    command = [compiler, "-O0", "-shared", "-fPIC", "-o", "mode.so", "mode.c"]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    return ctypes.CDLL(str(folder / "mode.so"))


@nki.jit
def arithmetic(x, y):
    out = nl.ndarray((5, *x.shape), dtype=nl.float32, buffer=nl.shared_hbm)
    a, b = nl.load(x), nl.load(y)
    results = [nl.ndarray(x.shape, dtype=nl.float32, buffer=nl.sbuf) for _ in range(5)]
    nisa.tensor_tensor(results[0], a, b, op=nl.multiply)
    nisa.tensor_scalar(results[1], a, op0=nl.multiply, operand0=0.37, op1=nl.add, operand1=1e-40)
    nisa.activation(results[2], op=nl.exp, data=a, scale=-3.0)
    nisa.tensor_tensor_scan(results[3], a, b, initial=0.1, op0=nl.multiply, op1=nl.add)
    nisa.reciprocal(results[4], b)
    for i, result in enumerate(results):
        nisa.dma_copy(dst=out[i], src=result)
    return out


@pytest.mark.parametrize("mode", [0x8040, 0x2000, 0x6000, 0xE040])
def test_modes_of_the_host_change_no_bit(processor: ctypes.CDLL, mode: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((128, 16), dtype=np.float32)
    x[:, ::3] *= np.float32(1e-38)
    y = rng.standard_normal((128, 16), dtype=np.float32)
    y[:, ::2] *= np.float32(1e-20)
    expected = arithmetic(x, y)
    assert (np.abs(expected[expected != 0]) < np.finfo(np.float32).tiny).any()
    processor.set_mode(DEFAULT | mode)
    try:
        result = arithmetic(x, y)
        kept = processor.get_mode() & ~STICKY
    finally:
        processor.set_mode(DEFAULT)
    assert result.tobytes() == expected.tobytes()
    assert kept == DEFAULT | mode
