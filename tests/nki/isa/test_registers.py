"""Registers: values, widths, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.core import Machine


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("int32", -5), ("uint32", 2**32 - 1), ("int16", -1), ("uint8", 255), ("int8", -128)],
)
@pytest.mark.parametrize("memory", ["hbm", "sbuf"])
def test_load_takes_the_value_of_the_type(dtype: str, value: int, memory: str) -> None:
    with Machine() as m:
        array = np.array([[value]], dtype)
        source = m.hbm(array) if memory == "hbm" else m.sbuf(array)
        register = nisa.register_alloc()
        nisa.register_load(src=source, dst=register)
        assert register.state == value
        assert nisa.register_alloc(source).state == value


def test_store_keeps_the_low_bits() -> None:
    with Machine() as m:
        register = nisa.register_alloc(-2)
        for dtype, expected in [("int32", -2), ("uint32", 2**32 - 2), ("uint8", 254)]:
            tile = m.tensor((1, 1), dtype)
            nisa.register_store(tile, register)
            assert m.read(tile).item() == expected


def test_move_copies_a_number_or_another_register() -> None:
    with Machine():
        one, other = nisa.register_alloc(7), nisa.register_alloc()
        nisa.register_move(other, one)
        nisa.register_move(one, 3)
        assert (one.state, other.state) == (3, 7)
        with pytest.raises(nisa.NkiValidationError, match="a number of 32 bits"):
            nisa.register_move(one, 2**32)


def test_a_float_is_loaded_as_bits_with_a_warning() -> None:
    with Machine() as m:
        register = nisa.register_alloc()
        with pytest.warns(UserWarning, match="holds its bits"):
            nisa.register_load(register, m.sbuf(np.ones((1, 1), np.float32)))
        assert register.state == 0x3F800000


def test_registers_refuse() -> None:
    with Machine() as m:
        empty, frozen = nisa.register_alloc(), nisa.VirtualRegister(1, frozen=True)
        with pytest.raises(ValueError, match="before anything was written"):
            nisa.register_move(nisa.register_alloc(), empty)
        with pytest.raises(ValueError, match="before anything was written"):
            nisa.register_store(m.tensor((1, 1), nl.int32), empty)
        with pytest.raises(AssertionError, match="dynamic loop's register"):
            nisa.register_move(frozen, 2)
        with pytest.raises(AssertionError, match="dynamic loop's register"):
            nisa.register_load(frozen, m.sbuf(np.ones((1, 1), np.int32)))
        with pytest.raises(nisa.NkiValidationError, match="one element"):
            nisa.register_load(empty, m.tensor((2, 1), nl.int32))
        with pytest.raises(nisa.NkiValidationError, match="got psum"):
            nisa.register_load(empty, m.tensor((1, 1), nl.int32, nl.psum))
        wrong: Any = 3
        with pytest.raises(TypeError, match="a VirtualRegister"):
            nisa.register_move(wrong, 3)


def test_registers_and_control_work_without_values() -> None:
    with Machine(values=False) as m:
        register = nisa.register_alloc(2)
        tile = m.tensor((1, 1), nl.int32)
        nisa.register_store(tile, register)
        again = nisa.register_alloc(tile)
        assert again.state == 2
