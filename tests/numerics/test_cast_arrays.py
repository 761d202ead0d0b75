"""cast of arrays as they come: memory layouts, shapes, `out`, overlaps, and bad arguments."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from oracle.arrays import assert_same_bits, bits, from_bits, layouts, strided_float32
from oracle.formats import (
    BFLOAT16,
    CAST_TARGETS,
    E2M1,
    E4M3FN,
    FLOAT16,
    FLOAT32,
    STORAGE,
    TFLOAT32,
    Format,
)
from oracle.rounding import cast_codes
from support.casts import check_cast, draws_for, dtype_argument
from trn3 import numerics


def sample_of(source: Format, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return an array of a format's codes, spread over all of them."""
    count = int(np.prod(shape))
    if source is FLOAT32:
        return strided_float32(max(count, 1), offset=11)[:count].reshape(shape)
    codes = np.arange(count) * 2654435761 % (1 << source.storage_bits)
    return from_bits(codes, source).reshape(shape)


@pytest.mark.parametrize("source", STORAGE, ids=str)
def test_any_memory_layout(source: Format) -> None:
    x = sample_of(source, (5, 7, 33))
    for target in (FLOAT32, BFLOAT16, E4M3FN, E2M1):
        for name, same in layouts(x):
            before = bits(same).copy()
            got = numerics.cast(same, dtype_argument(target))
            assert got.flags.c_contiguous, name
            assert got.dtype.isnative, name
            assert_same_bits(got, cast_codes(bits(x), source, target), x)
            assert (bits(same) == before).all(), f"{name}: the input was changed"


@pytest.mark.parametrize("source", [FLOAT32, FLOAT16], ids=str)
def test_big_endian_strided(source: Format) -> None:
    wide = sample_of(source, (9, 22)).astype(np.dtype(source.dtype).newbyteorder(">"))
    x = wide[::-2, 1::3]
    got = numerics.cast(x, ml_dtypes.bfloat16)
    assert_same_bits(got, cast_codes(bits(x), source, BFLOAT16), x)


def test_broadcast_input_has_zero_strides() -> None:
    x = np.broadcast_to(strided_float32(50)[:, None], (3, 50, 4))
    check_cast(x, E4M3FN)


def test_many_dimensions() -> None:
    x = sample_of(FLOAT32, (2, 1, 3, 1, 2, 2, 1, 5))
    check_cast(x.transpose(7, 0, 4, 1, 2, 6, 5, 3), FLOAT16)


@pytest.mark.parametrize("shape", [(0,), (0, 5), (3, 0, 2)])
@pytest.mark.parametrize("target", CAST_TARGETS, ids=str)
def test_empty(target: Format, shape: tuple[int, ...]) -> None:
    for rounding in ("nearest", "zero", "stochastic"):
        check_cast(np.zeros(shape, dtype=np.float32), target, rounding)


@pytest.mark.parametrize("target", CAST_TARGETS, ids=str)
def test_zero_dimensional(target: Format) -> None:
    x = np.array(1.3, dtype=np.float32)
    got = check_cast(x, target)
    out = np.zeros((), dtype=target.dtype)
    assert numerics.cast(x, dtype_argument(target), out=out) is out
    assert bits(out) == bits(got)


@pytest.mark.parametrize("target", CAST_TARGETS, ids=str)
@pytest.mark.parametrize("rounding", ["nearest", "stochastic"])
def test_out_is_filled_and_returned(target: Format, rounding: Any) -> None:
    x = sample_of(FLOAT32, (13, 17))
    draws = draws_for(x.shape) if rounding == "stochastic" else None
    fresh = check_cast(x, target, rounding, draws=draws)
    out = np.ones((13, 17), dtype=target.dtype)
    got = numerics.cast(
        np.asfortranarray(x), dtype_argument(target), rounding=rounding, rng=draws, out=out
    )
    assert got is out
    assert (bits(out) == bits(fresh)).all()


@pytest.mark.parametrize("source", STORAGE, ids=str)
def test_out_may_be_the_input(source: Format) -> None:
    x = sample_of(source, (300,))
    expected = cast_codes(bits(x), source, source)
    assert numerics.cast(x, source.dtype, out=x) is x
    assert_same_bits(x, expected, x)


def test_in_place_tfloat32_of_a_large_array() -> None:
    x = strided_float32(1 << 18)
    expected = cast_codes(bits(x), FLOAT32, TFLOAT32)
    assert numerics.cast(x, numerics.tfloat32, out=x) is x
    assert_same_bits(x, expected, x)


def test_in_place_through_another_view_of_the_same_memory() -> None:
    """Not the same object, but exactly the same elements."""
    x = sample_of(FLOAT32, (4, 8))
    expected = cast_codes(bits(x), FLOAT32, TFLOAT32)
    alias = x[:]
    assert numerics.cast(alias, numerics.tfloat32, out=x) is x
    assert_same_bits(x, expected, x)


@pytest.mark.parametrize("shift", [1, 8, 63])
def test_shifted_overlap_is_refused(shift: int) -> None:
    memory = np.ones(64 + shift, dtype=np.float32)
    for x, out in ((memory[:64], memory[shift:]), (memory[shift:], memory[:64])):
        with pytest.raises(ValueError, match=r"\bout\b.*overlap|overlap.*\bout\b"):
            numerics.cast(x, numerics.tfloat32, out=out)
    assert (memory == 1).all()


def test_other_overlaps_are_refused() -> None:
    x = np.ones((8, 8), dtype=np.float32)
    memory = np.ones(64, dtype=np.float32)
    narrow = memory.view(ml_dtypes.bfloat16)[:64]
    draws = np.zeros(64, dtype=np.uint32)
    with pytest.raises(ValueError, match="overlap"):
        numerics.cast(x.T, numerics.tfloat32, out=x)
    with pytest.raises(ValueError, match="overlap"):
        numerics.cast(x[::-1], numerics.tfloat32, out=x)
    with pytest.raises(ValueError, match="overlap"):
        numerics.cast(memory, ml_dtypes.bfloat16, out=narrow)
    with pytest.raises(ValueError, match="overlap"):
        numerics.cast(
            memory, np.float32, rounding="stochastic", rng=draws, out=draws.view(np.float32)
        )


def test_neighbouring_memory_is_not_an_overlap() -> None:
    memory = np.ones(128, dtype=np.float32)
    out = memory[64:]
    assert numerics.cast(memory[:64] * 1.0, np.float32, out=out) is out
    assert numerics.cast(memory[:64], np.float32, out=out) is out


def bad_out() -> list[Any]:
    """Return every unsuitable `out` for a (4, 6) float32 to bfloat16 cast, with its error."""
    bfloat16 = ml_dtypes.bfloat16
    frozen = np.zeros((4, 6), dtype=bfloat16)
    frozen.setflags(write=False)
    return [
        pytest.param(np.zeros((4, 5), dtype=bfloat16), ValueError, r"4.*5", id="shape"),
        pytest.param(np.zeros(24, dtype=bfloat16), ValueError, "24", id="dimensions"),
        pytest.param(np.zeros((4, 6), dtype=np.float16), TypeError, "float16", id="dtype"),
        pytest.param(np.zeros((4, 6), dtype=np.uint16), TypeError, "uint16", id="integers"),
        pytest.param(
            np.zeros((6, 4), dtype=bfloat16).T, ValueError, "(?i)contiguous", id="fortran"
        ),
        pytest.param(
            np.zeros((4, 12), dtype=bfloat16)[:, ::2], ValueError, "(?i)contiguous", id="strided"
        ),
        pytest.param(frozen, ValueError, "(?i)read-?only|writ", id="read-only"),
        pytest.param([0.0] * 24, TypeError, "list", id="list"),
    ]


@pytest.mark.parametrize(("out", "error", "words"), bad_out())
def test_bad_out(out: Any, error: type[Exception], words: str) -> None:
    x = np.ones((4, 6), dtype=np.float32)
    with pytest.raises(error, match=words) as caught:
        numerics.cast(x, ml_dtypes.bfloat16, out=out)
    assert re.search(r"\bout\b", str(caught.value))


def test_big_endian_out_is_refused() -> None:
    with pytest.raises((TypeError, ValueError), match=r"\bout\b"):
        numerics.cast(np.ones(3, np.float32), np.float32, out=np.zeros(3, dtype=">f4"))


@pytest.mark.parametrize(
    "dtype", [np.float64, np.int8, np.int32, np.int64, np.uint16, np.bool_, np.complex64]
)
def test_bad_input_dtype(dtype: Any) -> None:
    with pytest.raises(TypeError, match=np.dtype(dtype).name) as caught:
        numerics.cast(np.ones(3, dtype=dtype), ml_dtypes.bfloat16)
    message = str(caught.value)
    assert re.search(r"\bx\b", message)
    assert "float32" in message
    assert "bfloat16" in message


@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_wide_input_is_told_to_convert_first(dtype: Any) -> None:
    with pytest.raises(TypeError, match=r"(?i)convert|astype"):
        numerics.cast(np.ones(3, dtype=dtype), ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    "x",
    [
        np.array([1.0, None], dtype=object),
        np.array(["1.0"]),
        np.zeros(2, dtype="M8[s]"),
        np.zeros(2, dtype=[("a", np.float32)]),
        np.zeros(2, dtype=np.dtype(("V", 4))),
        [1.0, 2.0],
        None,
        "1.0",
    ],
    ids=["object", "string", "datetime", "record", "void", "list", "None", "str"],
)
def test_what_is_no_array_of_numbers(x: Any) -> None:
    with pytest.raises(TypeError, match=r"\bx\b"):
        numerics.cast(x, ml_dtypes.bfloat16)


@pytest.mark.parametrize(
    "dtype",
    [
        np.float64,
        np.int8,
        np.bool_,
        ml_dtypes.float8_e8m0fnu,
        ml_dtypes.float8_e4m3b11fnuz,
        ml_dtypes.float6_e2m3fn,
        ml_dtypes.int4,
        ">f4",
        "no such type",
        None,
        7,
    ],
    ids=str,
)
def test_bad_target_dtype(dtype: Any) -> None:
    with pytest.raises(TypeError, match="dtype"):
        numerics.cast(np.ones(3, dtype=np.float32), dtype)


@pytest.mark.parametrize("name", ["float64", "int8", "float8_e4m3b11fnuz"])
def test_bad_target_dtype_is_named_with_what_is_allowed(name: str) -> None:
    with pytest.raises(TypeError, match=name) as caught:
        numerics.cast(np.ones(3, dtype=np.float32), np.dtype(name))
    for allowed in ("bfloat16", "float8_e4m3fn", "float4_e2m1fn", "tfloat32"):
        assert allowed in str(caught.value)


@pytest.mark.parametrize(
    ("argument", "value", "allowed"),
    [
        ("rounding", "up", ("nearest", "zero", "stochastic")),
        ("rounding", "", ("nearest", "zero", "stochastic")),
        ("rounding", "Nearest", ("nearest", "zero", "stochastic")),
        ("overflow", "wrap", ("ieee", "saturate")),
        ("overflow", "", ("ieee", "saturate")),
    ],
)
def test_bad_option(argument: str, value: str, allowed: tuple[str, ...]) -> None:
    options: dict[str, Any] = {argument: value}
    with pytest.raises(ValueError, match=argument) as caught:
        numerics.cast(np.ones(3, dtype=np.float32), ml_dtypes.bfloat16, **options)
    for word in (value, *allowed):
        assert word in str(caught.value)


def test_options_are_keywords_only() -> None:
    call: Any = numerics.cast
    with pytest.raises(TypeError, match="positional"):
        call(np.ones(3, dtype=np.float32), ml_dtypes.bfloat16, "zero")


def test_stochastic_needs_rng() -> None:
    with pytest.raises(ValueError, match=r"\brng\b.*stochastic|stochastic.*\brng\b"):
        numerics.cast(np.ones(3, dtype=np.float32), ml_dtypes.bfloat16, rounding="stochastic")


@pytest.mark.parametrize("rounding", ["nearest", "zero"])
def test_rng_needs_stochastic(rounding: Any) -> None:
    x = np.ones(3, dtype=np.float32)
    for rng in (numerics.Xorwow.seed(1), np.zeros(3, dtype=np.uint32)):
        with pytest.raises(ValueError, match=r"\brng\b.*stochastic|stochastic.*\brng\b"):
            numerics.cast(x, ml_dtypes.bfloat16, rounding=rounding, rng=rng)


@pytest.mark.parametrize(
    ("rng", "error", "words"),
    [
        (np.zeros(4, dtype=np.uint32), ValueError, "4"),
        (np.zeros((3, 1), dtype=np.uint32), ValueError, "3, 1"),
        (np.zeros((), dtype=np.uint32), ValueError, r"\(\)"),
        (np.zeros(3, dtype=np.int32), TypeError, "int32"),
        (np.zeros(3, dtype=np.uint64), TypeError, "uint64"),
        (np.zeros(3, dtype=np.float32), TypeError, "float32"),
        (np.random.default_rng(1), TypeError, "Generator"),
        (5, TypeError, "int"),
    ],
    ids=["length", "dimensions", "0-d", "int32", "uint64", "float32", "Generator", "int"],
)
def test_bad_rng(rng: Any, error: type[Exception], words: str) -> None:
    x = np.ones(3, dtype=np.float32)
    with pytest.raises(error, match=words) as caught:
        numerics.cast(x, ml_dtypes.bfloat16, rounding="stochastic", rng=rng)
    assert "rng" in str(caught.value)


def test_a_refused_call_spends_no_draws() -> None:
    rng = numerics.Xorwow.seed(4)
    before = rng.state
    with pytest.raises(ValueError, match="out"):
        numerics.cast(
            np.ones(3, dtype=np.float32),
            ml_dtypes.bfloat16,
            rounding="stochastic",
            rng=rng,
            out=np.zeros(4, dtype=ml_dtypes.bfloat16),
        )
    assert (rng.state == before).all()
