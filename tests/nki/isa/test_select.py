"""select_reduce, range_select and tensor_copy_predicated against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.core import Machine
from support.engines import FLOATS, INTEGERS, assert_same, cases, cast, sample, widen
from trn3.machine import NkiValidationError
from trn3.nki.isa import reduce_cmd, select as nisa

LOWEST = np.finfo(np.float32).min


@pytest.mark.parametrize("predicate", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("reverse", [False, True])
def test_select_reduce(predicate: str, reverse: bool) -> None:
    rng = np.random.default_rng(1)
    x, p = sample(rng, (128, 24), "bfloat16"), rng.integers(0, 3, (128, 24))
    otherwise = rng.normal(size=(128, 1)).astype(np.float32)
    chosen = np.where((p != 0) != reverse, widen(x), otherwise)
    with Machine() as m:
        dst, res = m.empty((128, 2, 12), "float16"), m.empty((128, 1))
        arguments = (dst, m.tile(p, predicate), m.tile(x, "bfloat16", "psum"), m.tile(otherwise))
        nisa.select_reduce(*arguments, res, reduce_cmd.reset_reduce, np.maximum, reverse)
        assert_same(m.get(dst), cast(chosen, "float16"))
        assert_same(m.get(res), chosen.max(axis=1, keepdims=True))
        nisa.select_reduce(
            dst, m.tile(p, predicate), m.tile(x, "bfloat16"), 99.0, res, reduce_cmd.reduce
        )
        both = np.maximum(chosen.max(axis=1), np.where(p != 0, widen(x), 99).max(axis=1)).astype(
            np.float32
        )
        assert_same(m.get(res), both)


def test_select_reduce_refusals() -> None:
    with Machine() as m:
        a, p = m.tile(np.ones((128, 8))), m.tile(np.ones((128, 8)), "uint8")
        i, r = m.tile(np.ones((128, 8)), "int32"), m.empty((128, 1))
        for arguments, keywords, message in cases(
            (
                (a, a, a, 0.0),
                {},
                "predicate.* has dtype float32; allowed: int8, uint8, int16, uint16",
            ),
            ((a, p, i, 0.0), {}, "on_true.* has dtype int32; any dtype but"),
            ((a, p, a, None), {}, "on_false.* is None"),
            ((a, p, a, 0.0), {"reduce_op": "add"}, "reduce_op.* is add; maximum"),
            (
                (a, p, a, 0.0, m.empty((128, 1), "int32")),
                {},
                "reduce_res.* has dtype int32; a floating-point dtype",
            ),
            ((a, p, a, 0.0, r, reduce_cmd.load_reduce), {}, "reduce_cmd.* is load_reduce"),
            (
                (
                    a,
                    m.tile(np.ones((128, 8)), "uint8", "psum"),
                    m.tile(np.ones((128, 8)), buffer="psum"),
                    0.0,
                ),
                {},
                "both",
            ),
        ):
            with pytest.raises(NkiValidationError, match=message):
                nisa.select_reduce(*arguments, **keywords)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float8_e5m2"])
def test_range_select_window(dtype: str) -> None:
    x = np.random.default_rng(2).normal(size=(128, 64)).astype(np.float32)
    low = (np.arange(128, dtype=np.float32) % 70).reshape(128, 1)
    high = low + 5
    place = np.arange(64) + 7
    chosen = np.where((place >= low) & (place < high), x, LOWEST)
    with Machine("trn2") as m:
        dst, res = m.empty((128, 64), dtype), m.empty((128, 1))
        bounds = m.tile(low), m.tile(high)
        nisa.range_select(
            dst, m.tile(x), np.greater_equal, np.less, *bounds, reduce_res=res, range_start=7
        )
        assert_same(m.get(dst), cast(chosen, dtype))
        if dtype != "float32":
            assert np.isneginf(m.get(dst).astype(np.float32)).any()
        assert_same(m.get(res), chosen.max(axis=1, keepdims=True))


def test_range_select_refusals() -> None:
    with Machine() as m:
        a, b = m.tile(np.ones((128, 8))), m.tile(np.ones((128, 1)))
        nisa.range_select(a, a, "equal", "less", b, b, on_false_value=LOWEST)
        nisa.range_select(a, a, "equal", "less", b, b, on_false_value=-3.4028235e38)
        for arguments, keywords, message in cases(
            ((a, a, "add", "less", b, b), {}, "comp_op0.* is add; equal, less"),
            ((a, a, "equal", "not_equal", b, b), {}, "comp_op1.* is not_equal"),
            (
                (a, a, "equal", "less", b, b),
                {"on_false_value": 0.0},
                "on_false_value.* the lowest float32",
            ),
            ((a, a, "equal", "less", a, b), {}, "bound0.* has shape"),
            (
                (a, m.tile(np.ones((128, 8)), "int32"), "equal", "less", b, b),
                {},
                "on_true_tile.* a floating-point",
            ),
        ):
            with pytest.raises(NkiValidationError, match=message):
                nisa.range_select(*arguments, **keywords)
    with Machine("trn1") as m:
        a, b = m.tile(np.ones((128, 8))), m.tile(np.ones((128, 1)))
        with pytest.raises(
            NkiValidationError, match=r"range_select.* on trn1 \(gen2\); available from gen3"
        ):
            nisa.range_select(a, a, "equal", "less", b, b)


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("predicate", ["uint8", "uint16", "uint32"])
@pytest.mark.parametrize("reverse", [False, True])
def test_tensor_copy_predicated(dtype: str, predicate: str, reverse: bool) -> None:
    rng = np.random.default_rng(3)
    x, old, p = (
        sample(rng, (128, 18), dtype),
        sample(rng, (128, 18), dtype),
        rng.integers(0, 2, (128, 18)),
    )
    with Machine() as m:
        dst = m.tile(old, dtype)
        nisa.tensor_copy_predicated(dst, m.tile(x, dtype, "psum"), m.tile(p, predicate), reverse)
        assert_same(m.get(dst), np.where((p != 0) != reverse, x, old))


@pytest.mark.parametrize(
    ("dtype", "value"), [("float32", -1.5), ("bfloat16", 0.1), ("int32", -7), ("uint32", 2**32 - 1)]
)
def test_tensor_copy_predicated_constant(dtype: str, value: Any) -> None:
    with Machine() as m:
        dst = m.tile(np.zeros((4, 2)), dtype)
        nisa.tensor_copy_predicated(dst, value, m.tile([[1, 0]] * 4, "uint8"))
        expected = np.zeros((4, 2))
        expected[:, 0] = value
        assert_same(m.get(dst), cast(expected, dtype))


def test_tensor_copy_predicated_leaves_the_rest_uninitialised() -> None:
    with Machine(strict=True) as m:
        dst = m.empty((2, 2))
        nisa.tensor_copy_predicated(dst, m.tile(np.ones((2, 2))), m.tile([[1, 0], [1, 0]], "uint8"))
        assert (m.get(dst[:, 0:1]) == 1).all()
        assert not m.core.is_initialised(dst)


def test_tensor_copy_predicated_refusals() -> None:
    with Machine() as m:
        a, p = m.tile(np.ones((128, 8))), m.tile(np.ones((128, 8)), "uint8")
        for arguments, message in cases(
            (
                (a, m.tile(np.ones((128, 8)), "bfloat16"), p),
                "src.* has dtype bfloat16, dst has float32",
            ),
            ((a, a, m.tile(np.ones((128, 8)), "int8")), "predicate.* has dtype int8"),
            ((a, a[:, 0:4], p), "src.* has 4 elements"),
        ):
            with pytest.raises(NkiValidationError, match=message):
                nisa.tensor_copy_predicated(*arguments)
        with pytest.raises(TypeError, match="src is None"):
            nisa.tensor_copy_predicated(a, None, p)
