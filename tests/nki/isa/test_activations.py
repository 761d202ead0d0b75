"""activation, activation_reduce, activate2 and exponential against NumPy and trn3.numerics."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from support.core import Machine
from support.engines import TYPES, assert_same, cases, cast, sample, widen
from trn3 import numerics
from trn3.machine import NkiValidationError
from trn3.nki.isa import activations as nisa, reduce_cmd

FUNCTIONS: dict[str, Any] = {
    "copy": lambda x: x,
    "square": lambda x: x * x,
    "relu": lambda x: np.maximum(x, 0),
    "exp": np.exp,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "gelu": lambda x: x * 0.5 * np.vectorize(math.erfc)(-x / math.sqrt(2)),
    "erf": np.vectorize(math.erf),
    "arctan": np.arctan,
    "sign": np.sign,
    "abs": np.abs,
}


def fma(x: Any, y: Any, z: Any) -> Any:
    """x * y + z rounded once: exact in float64 for these arguments, whose bits are few."""
    return (x.astype(np.float64) * np.float64(y) + np.float64(z)).astype(np.float32)


@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_activation_is_the_true_function(op: str, dtype: str) -> None:
    x = sample(np.random.default_rng(1), (128, 40), dtype)
    if dtype == "int8":
        x = (x // 32).astype(np.int8)
    with Machine() as m:
        dst = m.empty((128, 40), "float32", "psum")
        nisa.activation(dst, op, m.tile(x, dtype))
        exact = FUNCTIONS[op](x.astype(np.float64))
        np.testing.assert_allclose(m.get(dst), exact, rtol=3e-7, atol=1e-44)


def test_activation_argument_is_rounded_once() -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(-(2**23), 2**23, (128, 30)).astype(np.float32)
    scale = rng.integers(1, 2**20, (128, 1)).astype(np.float32)
    bias = rng.integers(-(2**20), 2**20, (128, 1)).astype(np.float32)
    with Machine() as m:
        dst = m.empty((128, 30))
        nisa.activation(
            dst, "copy", m.tile(x), bias=m.tile(bias), scale=m.tile(scale, buffer="psum")
        )
        assert_same(m.get(dst), fma(x, scale, bias))
        assert (m.get(dst) != x * scale + bias).any()
        nisa.activation(dst, "copy", m.tile(x), bias=3.0, scale=0.5)
        assert_same(m.get(dst), fma(x, 0.5, 3.0))
        nisa.activation(dst, "copy", m.tile(x), bias=m.tile(bias, "bfloat16"))
        assert_same(m.get(dst), x + widen(cast(bias, "bfloat16")))
        nisa.activation(dst, "copy", m.tile(x), scale=np.float64(0.1))
        assert_same(m.get(dst), x * np.float32(0.1))


def chain(start: Any, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    state = np.full(values.shape[0], start, np.float32)
    for column in range(values.shape[1]):
        state = state + widen(values[:, column])
    return state.reshape(-1, 1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e4m3", "int16"])
def test_activation_sums_what_it_wrote(dtype: str) -> None:
    x = np.random.default_rng(3).normal(size=(64, 33)).astype(np.float32)
    with Machine() as m:
        dst, res = m.empty((64, 33), dtype), m.empty((64, 1))
        common: dict[str, Any] = {"reduce_op": np.add}
        nisa.activation(dst, "exp", m.tile(x), reduce_cmd=reduce_cmd.reset_reduce, **common)
        first = m.get(dst)
        nisa.activation(
            dst, "square", m.tile(x), reduce_cmd=reduce_cmd.reduce, reduce_res=res, **common
        )
        second = m.get(dst)
        assert_same(second, cast(x * x, dtype))
        assert_same(m.get(res), chain(0, np.concatenate([first, second], axis=1)))
        before = m.get(res)
        nisa.activation(dst, "square", m.tile(x), reduce_res=res)
        assert_same(m.get(res), before)
        nisa.activation(dst, "square", m.tile(x), reduce_cmd=reduce_cmd.reset, reduce_res=res)
        assert (m.get(res) == 0).all()
        nisa.activation_reduce(dst, "square", m.tile(x), np.add, res)
        assert_same(m.get(res), chain(0, second))
        nisa.activation_reduce(dst, "square", m.tile(x), np.add, None)


def test_activation_result_may_lie_in_dst() -> None:
    with Machine() as m:
        dst = m.tile(np.ones((4, 3)))
        nisa.activation(
            dst, "copy", dst, reduce_cmd=reduce_cmd.reset_reduce, reduce_res=dst[:, 1:2]
        )
        assert m.get(dst).tolist() == [[1, 3, 1]] * 4


def test_activation_refusals() -> None:
    with Machine() as m:
        a, r, v = (
            m.tile(np.ones((128, 8))),
            m.empty((128, 1)),
            m.tile(np.ones((128, 1)), "bfloat16"),
        )
        for arguments, keywords, message in cases(
            ((a, "exp", a), {"scale": v}, "scale.* has dtype bfloat16; allowed: float32"),
            ((a, "exp", a), {"scale": a}, r"scale.* a scalar or a tile of shape \[128, 1\]"),
            ((a, "exp", a), {"bias": a}, r"bias.* a scalar or a tile of shape \[128, 1\]"),
            ((a, "exp", a), {"bias": m.empty((128, 1), "tfloat32")}, "bias.* has dtype tfloat32"),
            ((a, "exp", a), {"reduce_op": "maximum"}, "reduce_op.* is maximum; add"),
            ((a, "exp", a), {"reduce_res": a}, "reduce_res.* has shape"),
            ((a, "exp", a), {"reduce_cmd": reduce_cmd.load_reduce}, "reduce_cmd.* is load_reduce"),
            ((a, "exp", a[:, 0:4]), {}, "data.* has 4 elements"),
        ):
            with pytest.raises(NkiValidationError, match=message):
                nisa.activation(*arguments, **keywords)
        with pytest.raises((TypeError, ValueError)):
            nisa.activation(a, "subtract", a)
        del r
    with Machine("trn1") as m:
        a, b = m.tile(np.ones((128, 8))), m.tile(np.ones((128, 1)))
        nisa.activation(a, "exp", a, bias=b)
        with pytest.raises(NkiValidationError, match=r"bias.* constants are available from gen3"):
            nisa.activation(a, "exp", a, bias=1.0)
        with pytest.raises(NkiValidationError, match="reciprocal takes a bias from gen3"):
            nisa.activation(a, "reciprocal", a, bias=b)


@pytest.mark.parametrize(
    ("op0", "op1", "reverse", "value"),
    [
        ("multiply", "add", (False, False), fma),
        ("multiply", "subtract", (False, False), lambda x, a, b: fma(x, a, -b)),
        ("multiply", "subtract", (False, True), lambda x, a, b: fma(-x, a, b)),
        ("multiply", "bypass", (True, False), lambda x, a, _: x * a),
        ("add", None, (False, False), lambda x, a, _: x + a),
        ("subtract", "bypass", (False, False), lambda x, a, _: x - a),
        ("subtract", "bypass", (True, False), lambda x, a, _: a - x),
        (None, None, (False, False), lambda x, _, __: x),
    ],
)
def test_activate2_argument(op0: Any, op1: Any, reverse: tuple[bool, bool], value: Any) -> None:
    rng = np.random.default_rng(4)
    x = rng.integers(-1000, 1000, (128, 20)).astype(np.float32)
    a, b = (rng.integers(-1000, 1000, (128, 1)).astype(np.float32) for _ in "ab")
    with Machine() as m:
        dst = m.empty((128, 20))
        nisa.activate2(dst, "copy", m.tile(x), m.tile(a), m.tile(b), op0, op1, 0.0, *reverse)
        assert_same(m.get(dst), value(x, a, b).astype(np.float32))


@pytest.mark.parametrize("op", ["add", "maximum", "minimum", "abs_max", "abs_min"])
def test_activate2_reductions(op: str) -> None:
    x = np.random.default_rng(5).normal(size=(128, 21)).astype(np.float32)
    by_size = np.argsort(np.abs(x), axis=1)
    expected = {
        "add": chain(0, x)[:, 0],
        "maximum": x.max(axis=1),
        "minimum": x.min(axis=1),
        "abs_max": np.take_along_axis(x, by_size[:, -1:], 1)[:, 0],
        "abs_min": np.take_along_axis(x, by_size[:, :1], 1)[:, 0],
    }[op]
    with Machine() as m:
        dst, res = m.empty((128, 21)), m.empty((128, 1))
        keywords: dict[str, Any] = {
            "reduce_op": op,
            "reduce_res": res,
            "reduce_cmd": reduce_cmd.reset_reduce,
        }
        nisa.activate2(dst, "copy", m.tile(x), None, None, None, None, **keywords)
        assert_same(m.get(res), expected)


def test_activate2_prelu_has_a_slope_a_partition() -> None:
    x = np.random.default_rng(6).normal(size=(128, 9)).astype(np.float32)
    slope = np.linspace(-1, 1, 128, dtype=np.float32).reshape(128, 1)
    with Machine() as m:
        dst = m.empty((128, 9))
        nisa.activate2(dst, "prelu", m.tile(x), 1.0, 0.0, "multiply", "add", m.tile(slope))
        assert_same(m.get(dst), np.where(x >= 0, x, slope * x))


def test_activate2_refusals() -> None:
    with Machine() as m:
        a, v, w = (
            m.tile(np.ones((128, 8))),
            m.tile(np.ones((128, 1))),
            m.tile(np.ones((128, 1)), "bfloat16"),
        )
        for arguments, keywords, message in cases(
            ((a, "exp", a, 1.0, 1.0, "add", "multiply"), {}, r"op0, op1.* are \(add, multiply\)"),
            ((a, "exp", a, 1.0, 1.0, None, "bypass"), {}, "op1.* is given without op0"),
            (
                (a, "exp", a, 1.0, 1.0, None, None),
                {"reverse0": True},
                "reverse0.* without its operator",
            ),
            (
                (a, "exp", a, 1.0, 1.0, "multiply", None),
                {"reverse1": True},
                "reverse1.* without its operator",
            ),
            (
                (a, "exp", a, v, w, "multiply", "add"),
                {},
                "imm1.* has dtype bfloat16, imm0 has float32",
            ),
            ((a, "exp", a, None, 1.0, "multiply", "add"), {}, "imm0.* is None for multiply"),
            (
                (a, "exp", a, 1.0, 1.0, "multiply", "add"),
                {"reduce_op": "multiply"},
                "reduce_op.* is multiply",
            ),
        ):
            with pytest.raises(NkiValidationError, match=message):
                nisa.activate2(*arguments, **keywords)
    with Machine("trn2") as m:
        a = m.tile(np.ones((128, 8)))
        with pytest.raises(
            NkiValidationError, match=r"activate2.* on trn2 \(gen3\); available from gen4"
        ):
            nisa.activate2(a, "exp", a, 1.0, 1.0, "multiply", "add")


@pytest.mark.parametrize("src", ["float32", "bfloat16", "float16", "float8_e5m2", "int8", "uint32"])
@pytest.mark.parametrize(
    "dst_type", ["float32", "bfloat16", "float16", "float8_e4m3", "int32", "uint8"]
)
def test_exponential(src: str, dst_type: str) -> None:
    x = sample(np.random.default_rng(7), (96, 40), src)
    if "int" in src:
        x = (x % 5).astype(x.dtype)
    high = np.random.default_rng(8).uniform(-1, 3, (96, 1)).astype(np.float32)
    narrow = (np.float16, ml_dtypes.bfloat16)
    with Machine() as m, np.errstate(over="ignore"):
        dst, res = m.empty((96, 8, 5), dst_type), m.empty((96, 1), "bfloat16")
        start = np.linspace(0, 2, 96, dtype=np.float32)
        nisa.exponential(
            dst,
            m.tile(x, src),
            m.tile(high),
            res,
            reduce_cmd.load_reduce,
            m.tile(start.reshape(96, 1)),
        )
        if TYPES[src] in narrow and TYPES[dst_type] in narrow:
            expected = numerics.exp(x, bias=high, out_dtype=TYPES[dst_type])
        else:
            expected = cast(numerics.exp(widen(x), bias=high), dst_type)
        got = m.get(dst).reshape(96, 40)
        assert_same(got, expected)
        np.testing.assert_allclose(
            widen(got),
            widen(cast(np.exp(x.astype(np.float64) - high).astype(np.float32), dst_type)),
            rtol=0.08,
            atol=1,
        )
        assert_same(m.get(res), cast(chain(start, got), "bfloat16"))


def test_exponential_running_sum_is_that_of_numerics() -> None:
    x = np.random.default_rng(9).normal(size=(128, 200)).astype(ml_dtypes.bfloat16)
    values, sums = numerics.exp(x, bias=1.5, accumulate=True)
    with Machine() as m:
        dst, res = m.empty((128, 200), "bfloat16"), m.empty((128, 1))
        nisa.exponential(dst, m.tile(x, "bfloat16"), 1.5, res, reduce_cmd.reset_reduce)
        assert_same(m.get(dst), values)
        assert_same(m.get(res), sums)


def test_exponential_refusals() -> None:
    with Machine() as m:
        a = m.tile(np.ones((128, 8)))
        five = m.tile(np.ones((128, 1, 2, 2, 2)))
        for arguments, keywords, message in cases(
            ((m.empty((128, 8), "float8_e4m3fn"), a), {}, "dst.* has dtype float8_e4m3fn"),
            ((m.empty((128, 8), "uint32"), a), {}, "dst.* has dtype uint32"),
            ((a, m.empty((128, 8), "tfloat32")), {}, "src.* has dtype tfloat32"),
            ((a, five), {}, "src.* has 5 axes; at most 4"),
            ((a, a), {"reduce_init": 1.0}, "reduce_init.* load_reduce alone takes it"),
            (
                (a, a),
                {"reduce_init": None, "reduce_cmd": reduce_cmd.load_reduce},
                "reduce_init.* load_reduce needs it",
            ),
            ((a, a), {"reduce_cmd": reduce_cmd.reset}, "reduce_cmd.* is reset"),
            (
                (a, a),
                {"reduce_res": m.empty((128, 1), "int32")},
                "reduce_res.* a floating-point dtype",
            ),
            ((a, a), {"max_value": m.empty((128, 1), "bfloat16")}, "max_value.* allowed: float32"),
        ):
            with pytest.raises(NkiValidationError, match=message):
                nisa.exponential(*arguments, **keywords)
    with Machine("trn2") as m:
        a = m.tile(np.ones((128, 8)))
        with pytest.raises(
            NkiValidationError, match=r"exponential.* on trn2 \(gen3\); available from gen4"
        ):
            nisa.exponential(a, a)
