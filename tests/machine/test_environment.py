"""A host's floating-point modes reach no value of the machine."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from support.battery import DEFAULT_MODE, STICKY_FLAGS
from trn3 import nki
from trn3.nki import isa as nisa, language as nl


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
def test_modes_of_the_host_change_no_bit(mode_library: str, mode: int) -> None:
    processor = ctypes.CDLL(mode_library)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((128, 16), dtype=np.float32)
    x[:, ::3] *= np.float32(1e-38)
    y = rng.standard_normal((128, 16), dtype=np.float32)
    y[:, ::2] *= np.float32(1e-20)
    expected = arithmetic(x, y)
    assert (np.abs(expected[expected != 0]) < np.finfo(np.float32).tiny).any()
    processor.set_mode(DEFAULT_MODE | mode)
    try:
        result = arithmetic(x, y)
        kept = processor.get_mode() & ~STICKY_FLAGS
    finally:
        processor.set_mode(DEFAULT_MODE)
    assert result.tobytes() == expected.tobytes()
    assert kept == DEFAULT_MODE | mode
