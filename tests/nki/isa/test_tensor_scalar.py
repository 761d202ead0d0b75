"""tensor_scalar and tensor_scalar_reduce against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.core import Machine
from support.engines import FLOATS, INTEGERS, assert_same, cases, cast, sample, widen
from trn3.machine import NkiValidationError
from trn3.nki import isa
from trn3.nki.isa import elementwise as nisa, reduce_cmd

OPS: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": lambda x, y: np.where(x >= y, x, y),
    "less": np.less,
}


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("op", OPS)
def test_tensor_scalar_one_operator(op: str, reverse: bool, dtype: str) -> None:
    x = sample(np.random.default_rng(1), (128, 21), dtype)
    s = np.random.default_rng(2).normal(size=(128, 1)).astype(np.float32)
    arguments = (s, widen(x)) if reverse else (widen(x), s)
    expected = cast(OPS[op](*arguments).astype(np.float32), dtype)
    with Machine() as m:
        dst = m.empty((128, 21), dtype)
        nisa.tensor_scalar(dst, m.tile(x, dtype), op, m.tile(s), reverse)
        assert_same(m.get(dst), expected)


@pytest.mark.parametrize(
    "constant", [3, 2.5, np.float32(0.1), np.float64(0.1), np.int64(-2), np.bool_(True)]
)
def test_tensor_scalar_constants_are_float32(constant: Any) -> None:
    x = sample(np.random.default_rng(3), (128, 21), "bfloat16")
    with Machine() as m:
        dst = m.empty((128, 3, 7))
        nisa.tensor_scalar(
            dst, m.tile(x, "bfloat16"), np.multiply, constant, op1=np.add, operand1=constant
        )
        s = np.float32(constant)
        assert_same(m.get(dst), widen(x) * s + s)


def test_tensor_scalar_vector_is_a_view_of_a_wider_tile() -> None:
    x, s = np.ones((64, 10), np.float32), np.arange(64 * 9, dtype=np.float32).reshape(64, 9)
    with Machine() as m:
        dst = m.empty((64, 10))
        nisa.tensor_scalar(dst, m.tile(x), "add", m.tile(s, buffer="psum")[:, 4:5])
        assert_same(m.get(dst), x + s[:, 4:5])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_tensor_scalar_bits(dtype: str) -> None:
    x = sample(np.random.default_rng(4), (128, 8), dtype)
    unsigned = x.view(f"u{x.itemsize}")
    with Machine() as m:
        dst = m.empty((128, 8), dtype)
        nisa.tensor_scalar(
            dst, m.tile(x, dtype), "bitwise_and", 2**32 - 2, op1="right_shift", operand1=1
        )
        assert_same(
            m.get(dst), ((unsigned & ~np.uint64(1)).astype(unsigned.dtype) >> 1).view(x.dtype)
        )
        nisa.tensor_scalar(dst, m.tile(x, dtype), "invert", None)
        assert_same(m.get(dst), ~x)


def test_tensor_scalar_bits_by_a_vector() -> None:
    x = np.arange(256, dtype=np.uint32).reshape(128, 2)
    s = (np.arange(128, dtype=np.uint8) % 40).reshape(128, 1)
    with Machine() as m:
        dst = m.empty((128, 2), "uint32")
        nisa.tensor_scalar(dst, m.tile(x, "uint32"), "left_shift", m.tile(s, "uint8"))
        expected = np.where(s < 32, x << np.minimum(s, 31).astype(np.uint32), 0).astype(np.uint32)
        assert_same(m.get(dst), expected)


def test_tensor_scalar_rsqrt_runs_on_gpsimd() -> None:
    x = np.random.default_rng(5).uniform(0.01, 100, (128, 16)).astype(np.float32)
    with Machine() as m:
        dst = m.empty((128, 16))
        nisa.tensor_scalar(
            dst, m.tile(x), "add", 1e-5, op1="rsqrt", operand1=0.0, engine=isa.engine.gpsimd
        )
        exact = (1 / np.sqrt((x + np.float32(1e-5)).astype(np.float64))).astype(np.float32)
        np.testing.assert_array_almost_equal_nulp(m.get(dst), exact, 1)
        nisa.tensor_scalar(dst, m.tile(x), "power", -0.5)
        exact = (1 / np.sqrt(x.astype(np.float64))).astype(np.float32)
        np.testing.assert_array_almost_equal_nulp(m.get(dst), exact, 1)


def test_tensor_scalar_unary_operators() -> None:
    x = np.array([[-2.0, 0.0, 3.0]], np.float32)
    with Machine() as m:
        for op, expected in [("square", x * x), ("relu", np.maximum(x, 0)), ("abs", np.abs(x))]:
            dst = m.empty((1, 3))
            nisa.tensor_scalar(dst, m.tile(x), op, 0)
            assert_same(m.get(dst), expected)


def test_tensor_scalar_refusals() -> None:
    with Machine() as m:
        a, i = m.tile(np.ones((128, 8))), m.tile(np.ones((128, 8)), "int32")
        for arguments, keywords, message in cases(
            (
                (a, a, "add", m.tile(np.ones((128, 1)), "int32")),
                {},
                "operand0.* has dtype int32; allowed: float32",
            ),
            (
                (a, a, "add", m.tile(np.ones((128, 2)))),
                {},
                r"operand0.* a scalar or a tile of shape \[128, 1\]",
            ),
            (
                (a, a, "add", m.tile(np.ones((1, 1)))),
                {},
                r"operand0.* a scalar or a tile of shape \[128, 1\]",
            ),
            ((a, a, "add", None), {}, "operand0.* is None for add"),
            ((a, a, "square", 2.0), {}, "square is unary: None or 0"),
            ((a, a, "bitwise_and", 1), {}, "an integer dtype"),
            ((i, i, "bitwise_and", 1.5), {}, "a whole number of 32 bits"),
            ((i, i, "bitwise_and", 2**33), {}, "a whole number of 32 bits"),
            (
                (i, i, "bitwise_and", 1),
                {"op1": "add", "operand1": 1.0},
                "both must be bit operators or both",
            ),
            ((a, a, "add", 1.0), {"operand1": 1.0}, "operand1.* is given without op1"),
            (
                (a, a, "add", 1.0),
                {"engine": isa.engine.gpsimd},
                "gpsimd computes rsqrt and power alone",
            ),
            (
                (a, a, "rsqrt", None),
                {"engine": isa.engine.vector},
                "gpsimd, which alone computes it",
            ),
            (
                (a, a, "less", 1.0),
                {"engine": isa.engine.scalar},
                "is scalar for less; scalar computes multiply",
            ),
        ):
            with pytest.raises(NkiValidationError, match=message):
                nisa.tensor_scalar(*arguments, **keywords)
        with pytest.raises(TypeError, match="operand0 is of type str"):
            nisa.tensor_scalar(a, a, "add", "one")
    with Machine("trn2") as m:
        a = m.tile(np.ones((128, 8)))
        nisa.tensor_scalar(a, a, "multiply", 2.0, op1="add", operand1=1.0, engine=isa.engine.scalar)
        assert (m.get(a) == 3).all()
        for op in ("square", "relu", "abs_max", "abs_min"):
            with pytest.raises(NkiValidationError, match=r"on trn2 \(gen3\); available from gen4"):
                nisa.tensor_scalar(a, a, op, None)
        with pytest.raises(NkiValidationError, match=r"\(multiply, add\), multiply or add on gen3"):
            nisa.tensor_scalar(a, a, "subtract", 1.0, engine=isa.engine.scalar)
    with Machine("trn1") as m:
        a = m.tile(np.ones((128, 8)))
        with pytest.raises(NkiValidationError, match=r"engine scalar.* available from gen3"):
            nisa.tensor_scalar(a, a, "add", 1.0, engine=isa.engine.scalar)


def ascending(values: np.ndarray[Any, Any], op: Any, start: float) -> np.ndarray[Any, Any]:
    state = np.full((values.shape[0], 1), start, np.float32)
    for column in range(values.shape[1]):
        state[:, 0] = op(state[:, 0], values[:, column])
    return state


@pytest.mark.parametrize(
    ("op", "start"), [("add", 0), ("multiply", 1), ("maximum", -np.inf), ("minimum", np.inf)]
)
def test_tensor_scalar_reduce(op: str, start: float) -> None:
    ops = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
    x = np.random.default_rng(6).normal(size=(100, 30)).astype(np.float32)
    with Machine() as m, np.errstate(all="ignore"):
        dst, res = m.empty((100, 30), "bfloat16"), m.empty((100, 1))
        nisa.tensor_scalar_reduce(dst, m.tile(x), "multiply", 1.5, op, res)
        once = ascending(x * np.float32(1.5), ops[op], start)
        assert_same(m.get(dst), cast(x * np.float32(1.5), "bfloat16"))
        assert_same(m.get(res), once)
        nisa.tensor_scalar_reduce(
            dst,
            m.tile(x),
            "multiply",
            1.5,
            op,
            res,
            reduce_cmd=reduce_cmd.reduce,
            reduce_res_negate=True,
        )
        twice = ascending(np.concatenate([x, x], 1) * np.float32(1.5), ops[op], start)
        assert_same(m.get(res), -twice)
        initial = np.arange(100, dtype=np.float32).reshape(100, 1)
        nisa.tensor_scalar_reduce(
            dst,
            m.tile(x),
            "multiply",
            1.5,
            op,
            res,
            reduce_cmd=reduce_cmd.load_reduce,
            reduce_init=m.tile(initial),
        )
        joined = np.concatenate([initial, x * np.float32(1.5)], 1)
        assert_same(m.get(res), _from(joined, ops[op]))


def _from(values: np.ndarray[Any, Any], op: Any) -> np.ndarray[Any, Any]:
    state = values[:, 0].copy()
    for column in range(1, values.shape[1]):
        state = op(state, values[:, column])
    return state.reshape(-1, 1)


def test_tensor_scalar_reduce_refusals() -> None:
    with Machine() as m:
        a, r = m.tile(np.ones((128, 8))), m.empty((128, 1))
        for arguments, keywords, message in cases(
            (
                (a, a, "add", 1.0, "subtract", r),
                {},
                "reduce_op.* is subtract; add, multiply, maximum, minimum",
            ),
            ((a, a, "add", 1.0, "add", a), {}, "reduce_res.* has shape"),
            ((a, a, "add", 1.0, "add", r), {"reverse0": True}, "reverse0.* is True"),
            (
                (a, a, "add", 1.0, "add", r),
                {"reduce_init": 1.0},
                "reduce_init.* load_reduce alone takes it",
            ),
            (
                (a, a, "add", 1.0, "add", r),
                {"reduce_cmd": reduce_cmd.load_reduce},
                "load_reduce needs it",
            ),
            ((a, a, "add", 1.0, "add", r), {"reduce_cmd": reduce_cmd.idle}, "reduce_cmd.* is idle"),
            ((a, a, "rsqrt", None, "add", r), {}, "op0.* is rsqrt"),
        ):
            with pytest.raises(NkiValidationError, match=message):
                nisa.tensor_scalar_reduce(*arguments, **keywords)
