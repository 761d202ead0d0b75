"""tensor_tensor, scalar_tensor_tensor, reciprocal against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.core import Machine
from support.engines import FLOATS, INTEGERS, TYPES, assert_same, cases, cast, sample, widen
from trn3.machine import NkiValidationError
from trn3.nki import isa
from trn3.nki.isa import elementwise as nisa

ARITHMETIC: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": lambda x, y: np.where(x >= y, x, y),
    "minimum": lambda x, y: np.where(x <= y, x, y),
    "equal": np.equal,
    "not_equal": np.not_equal,
    "greater_equal": np.greater_equal,
    "greater": np.greater,
    "less_equal": np.less_equal,
    "less": np.less,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
    "abs_max": lambda x, y: np.where(np.abs(x) > np.abs(y), x, y),
    "abs_min": lambda x, y: np.where(np.abs(x) < np.abs(y), x, y),
}
BITS: dict[str, Any] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
}


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("op", ARITHMETIC)
def test_tensor_tensor_arithmetic_is_float32(op: str, dtype: str) -> None:
    rng = np.random.default_rng(1)
    x, y = sample(rng, (128, 37), dtype), sample(rng, (128, 37), dtype)
    y[:, ::5] = x[:, ::5]
    y[:, ::7] = 0
    expected = cast(ARITHMETIC[op](widen(x), widen(y)).astype(np.float32), dtype)
    with Machine() as m:
        dst = m.empty((128, 37), dtype)
        nisa.tensor_tensor(dst, m.tile(x, dtype), m.tile(y, dtype), op, isa.engine.vector)
        assert_same(m.get(dst), expected)


@pytest.mark.parametrize("dtype", ["int32", "uint32"])
@pytest.mark.parametrize(
    "op", ["add", "subtract", "multiply", "maximum", "minimum", "less", "equal"]
)
def test_tensor_tensor_integers_are_exact_on_gpsimd(op: str, dtype: str) -> None:
    rng = np.random.default_rng(2)
    limits = np.iinfo(TYPES[dtype])
    x, y = (
        rng.integers(limits.min, limits.max, (128, 16), TYPES[dtype], endpoint=True) for _ in "xy"
    )
    expected = ARITHMETIC[op](x, y).astype(TYPES[dtype])
    with Machine() as m:
        dst = m.empty((128, 16), dtype)
        nisa.tensor_tensor(dst, m.tile(x, dtype), m.tile(y, dtype), op)
        assert_same(m.get(dst), expected)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", BITS)
def test_tensor_tensor_bits(op: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    x, y = sample(rng, (64, 9), dtype), sample(rng, (64, 9), dtype)
    with Machine() as m:
        dst = m.empty((64, 9), dtype)
        nisa.tensor_tensor(dst, m.tile(x, dtype), m.tile(y, dtype), op)
        assert_same(m.get(dst), BITS[op](x, y))


def test_tensor_tensor_shifts_beyond_the_width_give_zero() -> None:
    x = np.full((1, 5), 0x80000001, np.uint32)
    y = np.array([[0, 1, 31, 32, 40]], np.uint32)
    with Machine() as m:
        dst = m.empty((1, 5), "uint32")
        nisa.tensor_tensor(dst, m.tile(x, "uint32"), m.tile(y, "uint32"), "right_shift")
        assert m.get(dst).tolist() == [[0x80000001, 0x40000000, 1, 0, 0]]
        nisa.tensor_tensor(dst, m.tile(x, "uint32"), m.tile(y, "uint32"), "left_shift")
        assert m.get(dst).tolist() == [[0x80000001, 2, 0x80000000, 0, 0]]


def test_tensor_tensor_power_runs_on_gpsimd() -> None:
    rng = np.random.default_rng(4)
    x, y = (
        rng.uniform(0.1, 3, (128, 8)).astype(np.float32),
        rng.normal(0, 2, (128, 8)).astype(np.float32),
    )
    with Machine() as m:
        dst = m.empty((128, 8))
        nisa.tensor_tensor(dst, m.tile(x), m.tile(y), "power")
        exact = np.power(x.astype(np.float64), y.astype(np.float64)).astype(np.float32)
        np.testing.assert_array_almost_equal_nulp(m.get(dst), exact, 1)
        with pytest.raises(
            NkiValidationError, match=r"data1: must be in \['sbuf'\]|data1 must be in \['sbuf'\]"
        ):
            nisa.tensor_tensor(dst, m.tile(x, buffer="psum"), m.tile(y), "power")
        with pytest.raises(NkiValidationError, match="gpsimd, which alone computes power"):
            nisa.tensor_tensor(dst, m.tile(x), m.tile(y), "power", isa.engine.vector)


@pytest.mark.parametrize("buffers", [("sbuf", "psum"), ("psum", "sbuf"), ("sbuf", "sbuf")])
@pytest.mark.parametrize("out", ["sbuf", "psum"])
def test_tensor_tensor_memories_and_ranks(buffers: tuple[str, str], out: str) -> None:
    rng = np.random.default_rng(5)
    x, y = (
        rng.normal(size=(128, 4, 128)).astype(np.float32),
        rng.normal(size=(128, 512)).astype(np.float32),
    )
    with Machine() as m:
        dst = m.empty((128, 2, 2, 128), "float32", out)
        nisa.tensor_tensor(dst, m.tile(x, buffer=buffers[0]), m.tile(y, buffer=buffers[1]), np.add)
        assert_same(m.get(dst), x.reshape(128, 512) + y)


def test_tensor_tensor_may_write_over_its_inputs() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    with Machine() as m:
        tile = m.tile(x)
        nisa.tensor_tensor(tile[:, 1:6], tile[:, 0:5], tile[:, 1:6], "add")
        expected = x.copy()
        expected[:, 1:] = x[:, :5] + x[:, 1:]
        assert_same(m.get(tile), expected)


def test_tensor_tensor_nan_and_zero() -> None:
    x = np.array([[np.nan, 1.0, -0.0, np.inf, -np.inf]], np.float32)
    y = np.array([[1.0, np.nan, 0.0, -np.inf, -np.inf]], np.float32)
    with Machine() as m:
        dst = m.empty((1, 5))
        nisa.tensor_tensor(dst, m.tile(x), m.tile(y), "maximum")
        assert np.isnan(m.get(dst)[0, :2]).all()
        assert m.get(dst)[0, 3:].tolist() == [np.inf, -np.inf]
        nisa.tensor_tensor(dst, m.tile(x), m.tile(y), "equal")
        assert m.get(dst).tolist() == [[0.0, 0.0, 1.0, 0.0, 1.0]]


def test_tensor_tensor_refusals() -> None:
    with Machine() as m:
        a, b = m.tile(np.zeros((128, 8))), m.tile(np.zeros((128, 8)))
        i = m.tile(np.zeros((128, 8)), "int32")
        p, q = (m.tile(np.zeros((128, 8)), buffer="psum") for _ in "pq")
        cases: list[tuple[tuple[Any, ...], str]] = [
            ((a, p, q, "add"), "data1.* and data2 are both in PSUM"),
            ((a, a[0:64], b, "add"), "data1.* has 64 partitions, dst has 128"),
            ((a, a, b[:, 0:4], "add"), "data2.* has 4 elements per partition"),
            ((a, a, b, "bitwise_and"), "dst.* has dtype float32; an integer dtype"),
            ((i, i, i, "bitwise_and", isa.engine.gpsimd), "vector for bit operators"),
            ((a, a, b, "add", isa.engine.scalar), "engine.* is scalar; vector or gpsimd"),
            ((a, a, p, "add", isa.engine.gpsimd), r"data2.* must be in \['sbuf'\]"),
            ((a, a, b, "square"), "op.* is square; an operator of two operands"),
            ((a[32:96], a[32:96], b[32:96], "add"), "starts at partition 32 with 64 partitions"),
        ]
        for arguments, message in cases:
            with pytest.raises(NkiValidationError, match=message):
                nisa.tensor_tensor(*arguments)
        with pytest.raises(TypeError, match="data1 is of type int"):
            nisa.tensor_tensor(a, 1, b, "add")  # type: ignore[arg-type]
    with Machine("trn2") as m:
        a = m.tile(np.zeros((128, 8)))
        with pytest.raises(
            NkiValidationError, match=r"abs_max on trn2 \(gen3\); available from gen4"
        ):
            nisa.tensor_tensor(a, a, a, "abs_max")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int16"])
@pytest.mark.parametrize("reverse", [(False, False), (True, False), (False, True), (True, True)])
def test_scalar_tensor_tensor(dtype: str, reverse: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(6)
    x, y = sample(rng, (128, 33), dtype), sample(rng, (128, 33), dtype)
    s = rng.normal(size=(128, 1)).astype(np.float32)
    inner = s - widen(x) if reverse[0] else widen(x) - s
    expected = cast(widen(y) - inner if reverse[1] else inner - widen(y), dtype)
    with Machine() as m:
        dst = m.empty((128, 33), dtype)
        nisa.scalar_tensor_tensor(
            dst,
            m.tile(x, dtype),
            "subtract",
            m.tile(s),
            "subtract",
            m.tile(y, dtype),
            *reverse,
            dtype=dtype,
        )
        assert_same(m.get(dst), expected)


def test_scalar_tensor_tensor_refusals() -> None:
    with Machine() as m:
        a, p = m.tile(np.zeros((128, 8))), m.tile(np.zeros((128, 8)), buffer="psum")
        for arguments, message in cases(
            ((a, p, "add", 1.0, "add", p), "both in PSUM"),
            ((a, a, "bitwise_and", 1, "add", a), "op0.* is bitwise_and"),
            ((a, a, "add", None, "add", a), "operand0.* is None for add"),
            ((a, a, "add", m.tile(np.zeros((128, 1)), "float16"), "add", a), "allowed: float32"),
            ((a, a, "add", 1.0, "power", a), "op1.* is power"),
        ):
            with pytest.raises(NkiValidationError, match=message):
                nisa.scalar_tensor_tensor(*arguments)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e4m3"])
def test_reciprocal_is_correctly_rounded(dtype: str) -> None:
    x = sample(np.random.default_rng(7), (128, 65), dtype)
    x[0, :2] = [0.0, -0.0]
    with Machine() as m, np.errstate(divide="ignore"):
        dst = m.empty((128, 65), dtype, "psum")
        nisa.reciprocal(dst, m.tile(x, dtype))
        assert_same(m.get(dst), cast(np.float32(1) / widen(x), dtype))
