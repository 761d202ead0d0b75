"""quantize_mx: scale rules, rounding, special blocks, axes, layouts, draws, `out` and errors."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st

from oracle import mx as oracle
from oracle.arrays import assert_same_bits, bits, exact_float32, from_bits, layouts
from oracle.formats import (
    BFLOAT16,
    E2M1,
    E4M3FN,
    E5M2,
    FLOAT16,
    FLOAT32,
    Format,
    decode,
    format_of,
    power_of_two,
)
from oracle.rounding import ROUNDINGS, Rounding
from oracle.xorwow import Lanes
from support.casts import draws_for
from trn3 import numerics

SOURCES = (FLOAT32, BFLOAT16, FLOAT16)
Rule = oracle.ScaleRule


def check_quantize(
    x: npt.NDArray[Any],
    target: Format,
    axis: int = -1,
    rule: Rule | None = None,
    rounding: Rounding = "nearest",
) -> numerics.MXArray:
    """Quantize, compare elements and scales with the oracle, and return the result."""
    draws = draws_for(x.shape, seed=1) if rounding == "stochastic" else None
    got = numerics.quantize_mx(
        x, target.dtype, axis=axis, scale_rule=rule, rounding=rounding, rng=draws
    )
    elements, scales = oracle.quantize_codes(
        bits(x), format_of(x.dtype), target, axis, rule=rule, rounding=rounding, draws=draws
    )
    assert got.scales.dtype == ml_dtypes.float8_e8m0fnu
    assert got.elements.dtype == np.dtype(target.dtype)
    assert got.elements.shape == got.shape == x.shape
    assert_same_bits(got.scales, scales, got.scales)
    assert_same_bits(got.elements, elements, x)
    return got


def spread(source: Format, blocks: int, seed: int = 0) -> npt.NDArray[Any]:
    """Return `blocks` x 32 finite numbers; each block has a scale and a width of its own."""
    generator = np.random.default_rng(seed)
    limits = (-126, 120) if source is not FLOAT16 else (-14, 11)
    centre = generator.integers(*limits, (blocks, 1))
    x = generator.standard_normal((blocks, 32)) * 2.0**centre
    x *= 2.0 ** -generator.integers(0, 12, (blocks, 32))
    with np.errstate(under="ignore"):
        return x.astype(source.dtype)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("rule", [None, *oracle.SCALE_RULES])
@pytest.mark.parametrize("target", oracle.ELEMENT_FORMATS, ids=str)
@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_quantize_of_ordinary_blocks(
    source: Format, target: Format, rule: Rule | None, rounding: Rounding
) -> None:
    check_quantize(spread(source, 400), target, rule=rule, rounding=rounding)


@pytest.mark.parametrize("rule", oracle.SCALE_RULES)
@pytest.mark.parametrize("target", oracle.ELEMENT_FORMATS, ids=str)
@pytest.mark.parametrize("source", [BFLOAT16, FLOAT16], ids=str)
def test_quantize_of_every_16_bit_number(source: Format, target: Format, rule: Rule) -> None:
    """All finite patterns: in order, so that a block is a run of neighbours, and shuffled."""
    codes = np.arange(source.infinity_code)
    codes = np.concatenate([codes, codes | source.sign_mask])
    x = from_bits(codes, source)
    check_quantize(x, target, rule=rule)
    check_quantize(x.reshape(32, -1), target, axis=0, rule=rule)
    check_quantize(np.random.default_rng(2).permutation(x), target, rule=rule)


@pytest.mark.parametrize("rule", oracle.SCALE_RULES)
@pytest.mark.parametrize("target", oracle.ELEMENT_FORMATS, ids=str)
def test_scale_turns_where_the_rule_says(target: Format, rule: Rule) -> None:
    """The largest magnitude on, just below and just above every place a rule looks at."""
    turns = []
    for exponent in range(-149, 128):
        for significand in (1, target.max_finite / power_of_two(oracle.EMAX[target])):
            value = significand * power_of_two(exponent)
            if value.denominator <= 1 << 149 and value <= FLOAT32.max_finite:
                turns.append(int(bits(np.array(exact_float32(value)))))
    patterns = np.array(turns, dtype=np.int64)
    patterns = np.concatenate([patterns - 1, patterns, patterns + 1])
    patterns = patterns[(patterns > 0) & (patterns < FLOAT32.infinity_code)]
    x = np.zeros((len(patterns), 32), dtype=np.float32)
    place = np.arange(len(patterns))
    x[place, place % 32] = patterns.astype(np.uint32).view(np.float32)
    x[place, (place + 1) % 32] = -x[place, place % 32] / 2
    check_quantize(x, target, rule=rule)


@given(
    patterns=st.lists(st.integers(0, (1 << 32) - 1), min_size=32, max_size=32),
    centre=st.integers(0, 255),
    target=st.sampled_from(oracle.ELEMENT_FORMATS),
    rule=st.sampled_from(oracle.SCALE_RULES),
    rounding=st.sampled_from(ROUNDINGS),
)
def test_quantize_equals_the_exact_definition(
    patterns: list[int], centre: int, target: Format, rule: Rule, rounding: Rounding
) -> None:
    """Any bits, their exponents drawn together, against the definition in exact rationals."""
    codes = np.array(patterns, dtype=np.int64)
    exponent = np.clip((codes >> 23 & 0x1F) - 16 + centre, 0, 255)
    codes = (codes & 0x807FFFFF) | exponent << 23
    draws = draws_for((32,), seed=centre)
    elements, scale = oracle.quantize_block(
        [decode(FLOAT32, code) for code in codes.tolist()], target, rule, rounding, draws.tolist()
    )
    got = numerics.quantize_mx(
        codes.astype(np.uint32).view(np.float32),
        target.dtype,
        scale_rule=rule,
        rounding=rounding,
        rng=draws if rounding == "stochastic" else None,
    )
    assert bits(got.scales).tolist() == [scale]
    assert bits(got.elements).tolist() == elements


# One block's largest magnitude, and the scale byte each rule gives it: worked by hand.
BY_HAND: list[tuple[Format, Rule, float, int]] = [
    (E4M3FN, "trn3", 1.0, 127 - 7),
    (E4M3FN, "ocp", 1.0, 127 - 8),
    (E4M3FN, "rceil", 1.0, 127 - 8),
    (E4M3FN, "rceil", 1.75, 127 - 8),
    (E4M3FN, "rceil", 1.8, 127 - 7),
    (E4M3FN, "trn3", 1.999, 127 - 7),
    (E5M2, "trn3", 1.0, 127 - 14),
    (E5M2, "ocp", 1.0, 127 - 15),
    (E5M2, "rceil", 57344.0, 127),
    (E5M2, "rceil", 57345.0, 128),
    (E2M1, "trn3", 1.0, 127 - 1),
    (E2M1, "ocp", 1.0, 127 - 2),
    (E2M1, "rceil", 6.0, 127),
    (E2M1, "rceil", 6.5, 128),
    (E4M3FN, "trn3", 2.0**-120, 0),
    (E4M3FN, "trn3", 2.0**-119, 1),
    (E4M3FN, "ocp", 2.0**-149, 0),
    (E2M1, "trn3", 3.0e38, 253),
]


@pytest.mark.parametrize(("target", "rule", "amax", "byte"), BY_HAND)
def test_scale_by_hand(target: Format, rule: Rule, amax: float, byte: int) -> None:
    x = np.zeros(32, dtype=np.float32)
    x[7] = -amax
    got = numerics.quantize_mx(x, target.dtype, scale_rule=rule)
    assert bits(got.scales).tolist() == [byte]


@pytest.mark.parametrize(
    ("target", "rule"), [(E4M3FN, "trn3"), (E5M2, "trn3"), (E2M1, "ocp")], ids=str
)
def test_default_rule(target: Format, rule: Rule) -> None:
    x = spread(FLOAT32, 64, seed=9)
    default = numerics.quantize_mx(x, target.dtype)
    named = numerics.quantize_mx(x, target.dtype, scale_rule=rule)
    assert (bits(default.scales) == bits(named.scales)).all()
    assert (bits(default.elements) == bits(named.elements)).all()


def test_ocp_clips_and_trn3_does_not() -> None:
    x = np.full(32, 1.999, dtype=np.float32)
    clipped = numerics.quantize_mx(x, ml_dtypes.float8_e4m3fn, scale_rule="ocp")
    assert (clipped.elements.astype(np.float32) == 448).all()
    whole = numerics.quantize_mx(x, ml_dtypes.float8_e4m3fn, scale_rule="trn3")
    assert (whole.elements.astype(np.float32) == 256).all()


@pytest.mark.parametrize("rule", oracle.SCALE_RULES)
@pytest.mark.parametrize("target", oracle.ELEMENT_FORMATS, ids=str)
def test_zero_block(target: Format, rule: Rule) -> None:
    """Scale byte 0, and every zero keeps its sign."""
    x = np.zeros(64, dtype=np.float32)
    x[1::2] = -0.0
    got = check_quantize(x, target, rule=rule)
    assert bits(got.scales).tolist() == [0, 0]
    assert bits(got.elements).tolist() == [0, target.sign_mask] * 32


@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("target", oracle.ELEMENT_FORMATS, ids=str)
@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_block_with_nan_or_infinity(source: Format, target: Format, bad: float) -> None:
    """The whole block is marked, whichever element is bad; its neighbours are untouched."""
    for place in range(32):
        x = spread(source, 3)
        x[1, place] = bad
        got = check_quantize(x, target)
        assert bits(got.scales).tolist()[1] == [255]
        assert (bits(got.elements)[1] == (target.nan_code if target.has_nan else 0)).all()
        assert (bits(got.scales)[[0, 2]] != 255).all()
        assert np.isnan(got.dequantize()[1]).all()


@pytest.mark.parametrize("shape", [(64,), (32, 5), (3, 96, 7), (2, 3, 64, 5), (32, 32, 32)])
@pytest.mark.parametrize("target", [E4M3FN, E2M1], ids=str)
def test_any_axis(shape: tuple[int, ...], target: Format) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for axis in range(len(shape)):
        if shape[axis] % 32 == 0:
            for same_axis in (axis, axis - len(shape)):
                got = check_quantize(x, target, axis=same_axis)
                assert got.axis % len(shape) == axis
                expected = [n // 32 if i == axis else n for i, n in enumerate(shape)]
                assert list(got.scales.shape) == expected


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("source", SOURCES, ids=str)
def test_any_memory_layout(source: Format, axis: int) -> None:
    x = np.random.default_rng(1).standard_normal((32, 64, 96)).astype(source.dtype)[:, :, :]
    elements, scales = oracle.quantize_codes(bits(x), source, E4M3FN, axis)
    for name, same in layouts(x):
        before = bits(same).copy()
        got = numerics.quantize_mx(same, ml_dtypes.float8_e4m3fn, axis=axis)
        assert (bits(got.elements) == elements).all(), name
        assert (bits(got.scales) == scales).all(), name
        assert (bits(same) == before).all(), f"{name}: the input was changed"
        assert got.elements.flags.c_contiguous, name
        assert got.scales.flags.c_contiguous, name


@pytest.mark.parametrize("columns", [*range(1, 20), 31, 33, 100])
def test_every_width_beside_the_axis(columns: int) -> None:
    """Blocks down a column must not depend on how many columns stand beside it."""
    x = spread(FLOAT32, columns, seed=columns).T
    check_quantize(x, E4M3FN, axis=0)
    check_quantize(np.ascontiguousarray(x), E2M1, axis=0)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("target", [E4M3FN, E2M1], ids=str)
def test_a_large_array(target: Format, axis: int) -> None:
    """Large enough that the work is split between threads and into strips."""
    x = spread(FLOAT32, 16 * 1024, seed=6).reshape(256, -1)
    x[70, 70], x[200, 1900] = np.nan, np.inf
    check_quantize(x, target, axis=axis)


@pytest.mark.parametrize(
    ("shape", "axis"), [((0,), 0), ((0, 32), 1), ((0, 32), 0), ((32, 0), 0), ((4, 0, 64), -1)]
)
def test_empty(shape: tuple[int, ...], axis: int) -> None:
    got = check_quantize(np.zeros(shape, dtype=np.float32), E4M3FN, axis=axis)
    assert got.nbytes == 0
    assert got.dequantize().shape == shape


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("lanes", [1, 5, 128])
@pytest.mark.parametrize("generators", [1, 4])
def test_stochastic_draws_go_in_c_order(axis: int, lanes: int, generators: int) -> None:
    """The element in C order decides its draw, along whichever axis the blocks lie."""
    x = np.random.default_rng(3).standard_normal((32, 64, 32)).astype(np.float32)
    rng = numerics.Xorwow.seed(21, lanes=lanes, generators=generators)
    copy = numerics.Xorwow.seed(21, lanes=lanes, generators=generators)
    per_lane = -(-x.size // lanes)
    for source in (x, np.asfortranarray(x)):
        draws = copy.uint32(per_lane).ravel()[: x.size].reshape(x.shape)
        got = numerics.quantize_mx(
            source, ml_dtypes.float8_e5m2, axis=axis, rounding="stochastic", rng=rng
        )
        elements, scales = oracle.quantize_codes(
            bits(x), FLOAT32, E5M2, axis, rounding="stochastic", draws=draws
        )
        assert_same_bits(got.elements, elements, x)
        assert_same_bits(got.scales, scales, got.scales)
        assert rng == copy


def test_stochastic_draws_against_the_oracles_generator() -> None:
    x = spread(FLOAT32, 9)
    draws = Lanes.seed(2, 7).cast_draws(x.size).reshape(x.shape)
    rng = numerics.Xorwow.seed(2, lanes=7)
    got = numerics.quantize_mx(x, ml_dtypes.float4_e2m1fn, rounding="stochastic", rng=rng)
    elements, _ = oracle.quantize_codes(bits(x), FLOAT32, E2M1, rounding="stochastic", draws=draws)
    assert_same_bits(got.elements, elements, x)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("target", oracle.ELEMENT_FORMATS, ids=str)
def test_out_is_filled_and_returned(target: Format, axis: int) -> None:
    shape = (96, 64)
    out = numerics.quantize_mx(np.ones(shape, dtype=np.float32), target.dtype, axis=axis)
    elements, scales = out.elements, out.scales
    x = np.random.default_rng(4).standard_normal(shape).astype(np.float32) * 1000
    assert numerics.quantize_mx(x, target.dtype, axis=axis, out=out) is out
    fresh = numerics.quantize_mx(x, target.dtype, axis=axis)
    assert (bits(out.elements) == bits(fresh.elements)).all()
    assert (bits(out.scales) == bits(fresh.scales)).all()
    assert (bits(elements) == bits(fresh.elements)).all(), "the memory given was not written"
    assert (bits(scales) == bits(fresh.scales)).all(), "the memory given was not written"


def test_bad_out() -> None:
    x = np.ones((64, 32), dtype=np.float32)
    e4m3fn = ml_dtypes.float8_e4m3fn
    good = numerics.quantize_mx(x, e4m3fn)
    cases: list[tuple[Any, type[Exception], str]] = [
        (numerics.quantize_mx(x[:32], e4m3fn), ValueError, "32"),
        (numerics.quantize_mx(x, e4m3fn, axis=0), ValueError, "axis"),
        (numerics.quantize_mx(x, ml_dtypes.float8_e5m2), TypeError, "float8_e5m2"),
        (good.elements, TypeError, "ndarray"),
        ((good.elements, good.scales), TypeError, "tuple"),
    ]
    for out, error, words in cases:
        with pytest.raises(error, match=words) as caught:
            numerics.quantize_mx(x, e4m3fn, out=out)
        assert re.search(r"\bout\b", str(caught.value))


def test_out_in_the_memory_of_the_input_is_refused() -> None:
    memory = np.ones(64 * 32, dtype=np.float32)
    x = memory.reshape(64, 32)
    elements = memory.view(np.uint8)[: x.size].view(ml_dtypes.float8_e4m3fn).reshape(x.shape)
    out = numerics.MXArray.from_parts(elements, np.zeros((64, 1), dtype=np.uint8))
    if not np.shares_memory(out.elements, memory):
        # from_parts is free to copy; then there is nothing to refuse.
        assert numerics.quantize_mx(x, ml_dtypes.float8_e4m3fn, out=out) is out
        return
    with pytest.raises(ValueError, match="overlap"):
        numerics.quantize_mx(x, ml_dtypes.float8_e4m3fn, out=out)


@pytest.mark.parametrize("length", [1, 31, 33, 48, 100])
def test_axis_length_must_be_a_multiple_of_32(length: int) -> None:
    with pytest.raises(ValueError, match=rf"(?s)(?=.*\b{length}\b)(?=.*\b32\b)"):
        numerics.quantize_mx(np.ones((32, length), dtype=np.float32), ml_dtypes.float8_e4m3fn)


@pytest.mark.parametrize("axis", [2, -3, 100])
def test_bad_axis(axis: int) -> None:
    with pytest.raises(ValueError, match=rf"axis.*{axis}"):
        numerics.quantize_mx(
            np.ones((32, 32), dtype=np.float32), ml_dtypes.float8_e4m3fn, axis=axis
        )


def test_zero_dimensional_input_has_no_axis() -> None:
    with pytest.raises(ValueError, match="axis"):
        numerics.quantize_mx(np.array(1.0, dtype=np.float32), ml_dtypes.float8_e4m3fn)


@pytest.mark.parametrize(
    "dtype",
    [np.float64, np.int32, np.bool_, ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn],
    ids=lambda dtype: np.dtype(dtype).name,
)
def test_bad_input_dtype(dtype: Any) -> None:
    with pytest.raises(TypeError, match=np.dtype(dtype).name) as caught:
        numerics.quantize_mx(np.ones(32, dtype=dtype), ml_dtypes.float8_e4m3fn)
    message = str(caught.value)
    assert re.search(r"\bx\b", message)
    for allowed in ("float32", "bfloat16", "float16"):
        assert allowed in message


@pytest.mark.parametrize("x", [[1.0] * 32, None, np.array([None] * 32)], ids=repr)
def test_what_is_no_array_of_numbers(x: Any) -> None:
    with pytest.raises(TypeError, match=r"\bx\b"):
        numerics.quantize_mx(x, ml_dtypes.float8_e4m3fn)


@pytest.mark.parametrize(
    "dtype",
    [
        np.float32,
        np.float16,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3,
        ml_dtypes.float8_e3m4,
        ml_dtypes.float8_e8m0fnu,
    ],
    ids=lambda dtype: np.dtype(dtype).name,
)
def test_bad_element_dtype(dtype: Any) -> None:
    with pytest.raises(TypeError, match=np.dtype(dtype).name) as caught:
        numerics.quantize_mx(np.ones(32, dtype=np.float32), dtype)
    message = str(caught.value)
    assert "dtype" in message
    for allowed in ("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"):
        assert allowed in message


def test_tfloat32_is_no_element_type() -> None:
    with pytest.raises(TypeError, match="dtype"):
        numerics.quantize_mx(np.ones(32, dtype=np.float32), numerics.tfloat32)


@pytest.mark.parametrize(
    ("argument", "value", "allowed"),
    [
        ("scale_rule", "floor", ("trn3", "ocp", "rceil")),
        ("scale_rule", "OCP", ("trn3", "ocp", "rceil")),
        ("rounding", "up", ("nearest", "zero", "stochastic")),
    ],
)
def test_bad_option(argument: str, value: str, allowed: tuple[str, ...]) -> None:
    options: dict[str, Any] = {argument: value}
    with pytest.raises(ValueError, match=argument) as caught:
        numerics.quantize_mx(np.ones(32, dtype=np.float32), ml_dtypes.float8_e4m3fn, **options)
    for word in (value, *allowed):
        assert word in str(caught.value)


def test_rng_and_stochastic_need_each_other() -> None:
    x = np.ones(32, dtype=np.float32)
    e4m3fn = ml_dtypes.float8_e4m3fn
    with pytest.raises(ValueError, match="rng"):
        numerics.quantize_mx(x, e4m3fn, rounding="stochastic")
    with pytest.raises(ValueError, match="rng"):
        numerics.quantize_mx(x, e4m3fn, rng=numerics.Xorwow.seed(1))
    with pytest.raises(ValueError, match="rng"):
        numerics.quantize_mx(x, e4m3fn, rounding="stochastic", rng=np.zeros(31, dtype=np.uint32))
    with pytest.raises(TypeError, match="rng"):
        numerics.quantize_mx(x, e4m3fn, rounding="stochastic", rng=np.zeros(32, dtype=np.int64))
