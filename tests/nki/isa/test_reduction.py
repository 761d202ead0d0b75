"""tensor_reduce and the scans against loops of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.core import Machine
from support.engines import FLOATS, INTEGERS, assert_same, cases, cast, sample, widen
from trn3.machine import NkiValidationError
from trn3.nki.isa import reduce_cmd, tensor_reduction as nisa

STEPS: dict[str, tuple[Any, float | None]] = {
    "add": (np.add, 0.0),
    "subtract": (np.subtract, None),
    "multiply": (np.multiply, 1.0),
    "maximum": (lambda x, y: np.where(x >= y, x, y), -np.inf),
    "minimum": (lambda x, y: np.where(x <= y, x, y), np.inf),
    "logical_and": (np.logical_and, 1.0),
    "logical_or": (np.logical_or, 0.0),
    "logical_xor": (np.logical_xor, 0.0),
}


def reduced(op: str, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Reduce the last axis in ascending order."""
    step, start = STEPS[op]
    state = x[..., 0] if start is None else np.full(x.shape[:-1], start, np.float32)
    for column in range(1 if start is None else 0, x.shape[-1]):
        state = step(state, x[..., column]).astype(np.float32)
    return state


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
@pytest.mark.parametrize("op", STEPS)
def test_tensor_reduce_is_ascending_float32(op: str, dtype: str) -> None:
    x = sample(np.random.default_rng(1), (100, 45), dtype)
    with Machine() as m, np.errstate(all="ignore"):
        dst = m.empty((100, 1), dtype)
        nisa.tensor_reduce(dst, op, m.tile(x, dtype), 1)
        assert_same(m.get(dst), cast(reduced(op, widen(x)), dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("op", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_tensor_reduce_bits(op: str, dtype: str) -> None:
    x = sample(np.random.default_rng(2), (128, 3, 5), dtype)
    with Machine() as m:
        dst = m.empty((128, 3), dtype)
        nisa.tensor_reduce(dst, op, m.tile(x, dtype), -1)
        assert_same(m.get(dst), getattr(np, op).reduce(x, axis=2))


@pytest.mark.parametrize(
    ("axis", "shape"), [(2, (64, 4, 6)), ((1, 2), (64, 24)), ([-1, -2], (64, 24)), (-1, (64, 4, 6))]
)
@pytest.mark.parametrize("buffer", ["sbuf", "psum"])
def test_tensor_reduce_axes(axis: Any, shape: tuple[int, ...], buffer: str) -> None:
    x = np.random.default_rng(3).normal(size=(64, 4, 6)).astype(np.float32)
    expected = -reduced("add", x.reshape(shape if len(shape) == 2 else x.shape))
    with Machine() as m:
        for keep in (False, True):
            kept = expected.shape + ((1,) * (3 - expected.ndim) if keep else (1,))
            dst = m.empty(kept, "float32", buffer)
            nisa.tensor_reduce(
                dst, np.add, m.tile(x, buffer=buffer), axis, negate=True, keepdims=keep
            )
            assert_same(m.get(dst), expected)


def test_tensor_reduce_refusals() -> None:
    with Machine() as m:
        a, d, i = (
            m.tile(np.ones((128, 4, 8))),
            m.empty((128, 4)),
            m.tile(np.ones((128, 8)), "int32"),
        )
        for arguments, keywords, message in cases(
            ((d, "add", a, 1), {}, r"axis.*Got axis=\(1,\); a tile of 3 axes"),
            ((d, "add", a, 0), {}, "partitions on axis 0"),
            ((d, "add", a, (0, 1, 2)), {}, "partitions on axis 0"),
            ((d, "add", a, 3), {}, r"Got axis=\(3,\)"),
            ((d, "add", a, ()), {}, r"Got axis=\(\)"),
            (
                (d, "add", a, (1, 2)),
                {},
                "dst.* has 4 elements per partition.*; 1 elements per partition",
            ),
            ((d, "less", a, 2), {}, "op.* is less; an operator that may reduce"),
            ((d, "bitwise_or", a, 2), {}, "an integer dtype"),
            ((i[:, 0:1], "bitwise_or", i, 1), {"negate": True}, "negate.* is True for bitwise_or"),
            ((d[0:64], "add", a, 2), {}, "data.* has 128 partitions, dst has 64"),
        ):
            with pytest.raises(NkiValidationError, match=message):
                nisa.tensor_reduce(*arguments, **keywords)


@pytest.mark.parametrize("ops", [("multiply", "add"), ("maximum", "subtract"), ("add", "minimum")])
@pytest.mark.parametrize("reverse", [(False, False), (True, True), (False, True)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_tensor_tensor_scan(ops: tuple[str, str], reverse: tuple[bool, bool], dtype: str) -> None:
    rng = np.random.default_rng(4)
    x, y = sample(rng, (128, 20), dtype), sample(rng, (128, 20), dtype)
    state = rng.normal(size=(128,)).astype(np.float32)
    first, second = STEPS[ops[0]][0], STEPS[ops[1]][0]
    with Machine() as m, np.errstate(all="ignore"):
        dst, start = m.empty((128, 4, 5), dtype), m.tile(state.reshape(128, 1))
        nisa.tensor_tensor_scan(
            dst, m.tile(x, dtype), m.tile(y, dtype, "psum"), start, *ops, *reverse
        )
        expected = np.empty((128, 20), np.float32)
        for i in range(20):
            a, b = widen(x[:, i]), widen(y[:, i])
            inner = first(state, a) if reverse[0] else first(a, state)
            state = second(b, inner) if reverse[1] else second(inner, b)
            expected[:, i] = state
        assert_same(m.get(dst), cast(expected, dtype))


def test_tensor_tensor_scan_refusals() -> None:
    with Machine() as m:
        a, p = m.tile(np.ones((128, 8))), m.tile(np.ones((128, 8)), buffer="psum")
        for arguments, message in cases(
            ((a, p, p, 0.0, "add", "add"), "both in PSUM"),
            ((a, a, a, None, "add", "add"), "initial.* is None"),
            ((a, a, a, 0.0, "square", "add"), "op0.* has one operand"),
            ((a, a, a, 0.0, "add", "bitwise_or"), "op1.* is bitwise_or"),
            ((a, a, a[:, 0:4], 0.0, "add", "add"), "data1.* has 4 elements"),
        ):
            with pytest.raises(NkiValidationError, match=message):
                nisa.tensor_tensor_scan(*arguments)


@pytest.mark.parametrize("op1", ["add", "subtract", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int16"])
def test_tensor_scalar_cumulative(op1: str, dtype: str) -> None:
    x = sample(np.random.default_rng(5), (96, 12), dtype)
    step, identity = STEPS[op1]
    with Machine() as m, np.errstate(all="ignore"):
        state = np.full(96, identity or 0.0, np.float32)
        dst, src = m.empty((96, 12), dtype), m.tile(x, dtype)
        for command, initial in [("reset_reduce", None), ("reduce", None), ("load_reduce", 0.5)]:
            if initial is not None:
                state = np.full(96, initial, np.float32)
            nisa.tensor_scalar_cumulative(
                dst, src, "multiply", op1, 0.75, initial, reduce_cmd[command]
            )
            expected = np.empty((96, 12), np.float32)
            for i in range(12):
                state = step(widen(x[:, i]) * np.float32(0.75), state).astype(np.float32)
                expected[:, i] = state
            assert_same(m.get(dst), cast(expected, dtype))


def test_tensor_scalar_cumulative_refusals() -> None:
    with Machine() as m:
        a, i = m.tile(np.ones((128, 8))), m.tile(np.ones((128, 8)), "int32")
        for arguments, keywords, message in cases(
            ((a, i, "add", "add", 0.0), {}, "src.* has dtype int32; no 32-bit integers"),
            ((a, a, "add", "logical_or", 0.0), {}, "op1.* is logical_or"),
            ((a, a, "add", "add", 0.0), {"imm1": 1.0}, "imm1.* load_reduce alone takes it"),
            (
                (a, a, "add", "add", 0.0),
                {"reduce_cmd": reduce_cmd.load_reduce},
                "imm1.* load_reduce needs it",
            ),
            ((a, a, "add", "add", 0.0), {"reduce_cmd": reduce_cmd.idle}, "reduce_cmd.* is idle"),
        ):
            with pytest.raises(NkiValidationError, match=message):
                nisa.tensor_scalar_cumulative(*arguments, **keywords)
