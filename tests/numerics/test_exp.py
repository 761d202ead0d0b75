"""exp: correct rounding in 16 bits, one ulp in float32, biases, row sums, `out` and errors."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from oracle import exp as oracle
from oracle.arrays import (
    all_codes,
    assert_same_bits,
    bits,
    float32_specials,
    from_bits,
    layouts,
    strided_float32,
)
from oracle.formats import (
    BFLOAT16,
    FLOAT16,
    FLOAT32,
    Format,
    Value,
    decode,
    decode_table,
    power_of_two,
)
from oracle.rounding import cast_codes, round_value
from trn3 import numerics

FORMATS_16 = (BFLOAT16, FLOAT16)
# The range of inputs whose float32 result is neither 0 nor infinity.
LOWEST, HIGHEST = -104.0, 89.0


@pytest.mark.parametrize("result", FORMATS_16, ids=str)
@pytest.mark.parametrize("source", FORMATS_16, ids=str)
def test_every_16_bit_number_is_correctly_rounded(source: Format, result: Format) -> None:
    x = all_codes(source)
    got = numerics.exp(x, out_dtype=result.dtype)
    assert got.dtype == np.dtype(result.dtype)
    expected = [oracle.exp_code(value, result) for value in decode_table(source)]
    assert_same_bits(got, np.array(expected), x)


def ulp_errors(x: npt.NDArray[np.float32], got: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return each result's distance from e^x in float32 ulp of e^x, good to about 2^-27.

    For many values at once: NumPy's float64 exp, whose own error is far below one float32 ulp.
    """
    with np.errstate(over="ignore", under="ignore"):
        exact = np.exp(x.astype(np.float64))
    # Infinity counts as 2^128, and past it the spacing stays that of the last binade.
    capped = np.minimum(exact, 2.0**128)
    exponent = np.clip(np.frexp(capped)[1] - 1, -126, 127)
    result = np.where(np.isinf(got), 2.0**128, got.astype(np.float64))
    errors: npt.NDArray[np.float64] = np.abs(result - capped) / np.ldexp(1.0, exponent - 23)
    return errors


def directed_float32() -> npt.NDArray[np.float32]:
    """Return inputs where an exponential's range reduction, tails and subnormals are decided."""
    ln2 = 0.6931471805599453
    multiples = np.arange(-300, 260) * (ln2 / 2)
    powers = 2.0 ** np.arange(-149, 7)
    ends = np.array(
        [88.72283, 88.722839, 88.72284, -87.33654, -87.336548, -103.27893, -103.972084, -104.0]
    )
    points = np.concatenate([multiples, powers, -powers, ends, np.arange(-104, 90)])
    codes = bits(points.astype(np.float32)).astype(np.int64)
    near = np.unique(np.concatenate([codes + offset for offset in range(-3, 4)]))
    x = (near & 0xFFFFFFFF).astype(np.uint32).view(np.float32)
    return x[np.isfinite(x)]


def test_float32_is_within_one_ulp_of_mpmath() -> None:
    """The exact judge, on directed values and a thin sweep."""
    sweep = np.linspace(LOWEST, HIGHEST, 6001).astype(np.float32)
    x = np.concatenate([directed_float32(), sweep, strided_float32(3000)])
    x = x[np.isfinite(x)]
    got = numerics.exp(x)
    assert got.dtype == np.float32
    worst = Fraction(0)
    for pattern, code in zip(bits(x).tolist(), bits(got).tolist(), strict=True):
        exact_x = decode(FLOAT32, pattern).as_fraction()
        error = oracle.error_in_ulp(decode(FLOAT32, code), exact_x)
        worst = max(worst, error)
        assert error <= 1, (hex(pattern), hex(code))
    # An error measure that were always zero would prove nothing.
    assert worst > 0


def test_float32_is_within_one_ulp_over_the_range() -> None:
    """Two million patterns from the range where results differ, in ulp by float64."""
    lowest, highest = bits(np.array([LOWEST, HIGHEST], dtype=np.float32)).tolist()
    x = (
        np.concatenate([np.arange(0, highest, 997), np.arange(1 << 31, lowest, 1201)])
        .astype(np.uint32)
        .view(np.float32)
    )
    assert ulp_errors(x, numerics.exp(x)).max() <= 1 + 2.0**-26


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("sign", [0, 1])
def test_every_float32_is_within_one_ulp(sign: int) -> None:
    size = 1 << 23
    for start in range(sign << 31, (sign << 31) + FLOAT32.infinity_code, size):
        x = np.arange(start, start + size, dtype=np.uint32).view(np.float32)
        got = numerics.exp(x)
        if x[0] > HIGHEST:
            assert (got == np.inf).all(), hex(start)
        elif x[0] < LOWEST - 1:
            assert (got <= 2.0**-149).all(), hex(start)
            assert not np.signbit(got).any(), hex(start)
        else:
            assert ulp_errors(x, got).max() <= 1 + 2.0**-26, hex(start)


def test_subnormal_results() -> None:
    """From the smallest normal number down to half the smallest subnormal and below."""
    x = np.linspace(-104.5, -87.3, 4001).astype(np.float32)
    got = numerics.exp(x)
    codes = bits(got).tolist()
    for pattern, code in zip(bits(x).tolist(), codes, strict=True):
        exact_x = decode(FLOAT32, pattern).as_fraction()
        assert oracle.error_in_ulp(decode(FLOAT32, code), exact_x) <= 1
    assert sum(0 < code < 0x00800000 for code in codes) > 3000
    assert not got[x < -105].any()


def test_float32_in_the_large() -> None:
    """Inputs so far out that only one result is within one ulp."""
    x = np.array([90.0, 1e10, 3.4e38, -105.0, -1e10, -3.4e38], dtype=np.float32)
    got = numerics.exp(x)
    assert (got[:3] == np.inf).all()
    assert (got[3:] <= 2.0**-149).all()
    assert not np.signbit(got).any()


@pytest.mark.parametrize("result", [FLOAT32, *FORMATS_16], ids=str)
@pytest.mark.parametrize("source", [FLOAT32, *FORMATS_16], ids=str)
def test_special_values(source: Format, result: Format) -> None:
    x = np.array([-np.inf, np.inf, 0.0, -0.0], dtype=np.float32).astype(source.dtype)
    one = round_value(Value(0, "finite", Fraction(1)), result)
    got = numerics.exp(x, out_dtype=result.dtype)
    assert bits(got).tolist() == [0, result.infinity_code, one, one]
    nans = float32_specials()
    nans = nans[np.isnan(nans)]
    if source is not FLOAT32:
        quiet = np.arange(source.infinity_code + 1, source.sign_mask, 5)
        nans = from_bits(np.concatenate([quiet, quiet | source.sign_mask]), source)
    assert (bits(numerics.exp(nans, out_dtype=result.dtype)) == result.nan_code).all()


@pytest.mark.parametrize("result", FORMATS_16, ids=str)
def test_16_bit_result_of_float32_is_the_cast_of_its_result(result: Format) -> None:
    x = np.concatenate([directed_float32(), strided_float32(1 << 17), float32_specials()])
    wide = numerics.exp(x)
    got = numerics.exp(x, out_dtype=result.dtype)
    assert_same_bits(got, cast_codes(bits(wide), FLOAT32, result), x)


@pytest.mark.parametrize("source", FORMATS_16, ids=str)
def test_float32_result_of_16_bits_is_within_one_ulp(source: Format) -> None:
    x = all_codes(source)
    with np.errstate(invalid="ignore"):
        wide = x.astype(np.float32)
    got = numerics.exp(x, out_dtype=np.float32)
    finite = np.isfinite(wide)
    assert ulp_errors(wide[finite], got[finite]).max() <= 1 + 2.0**-26


@pytest.mark.parametrize("source", [FLOAT32, *FORMATS_16], ids=str)
def test_default_result_dtype_is_the_inputs(source: Format) -> None:
    x = np.linspace(-3, 3, 40).astype(source.dtype)
    got = numerics.exp(x)
    assert got.dtype == x.dtype
    assert (bits(got) == bits(numerics.exp(x, out_dtype=source.dtype))).all()


def within_one_float32_ulp(
    x: npt.NDArray[np.float32], got: npt.NDArray[Any], result: Format
) -> None:
    """Check that each code could be the rounding of a float32 within one ulp of e^x."""
    for pattern, code in zip(bits(x).ravel().tolist(), bits(got).ravel().tolist(), strict=True):
        value = decode(FLOAT32, pattern)
        if value.kind != "finite":
            assert code == oracle.exp_code(value, result)
            continue
        exact = oracle.exp_value(value.as_fraction())
        spacing = oracle.ulp(min(exact, power_of_two(127)))
        ends = [
            round_value(Value(0, "finite", max(end, Fraction(0))), result)
            for end in (exact - spacing, exact + spacing)
        ]
        assert ends[0] <= code <= ends[1], (hex(pattern), hex(code))


@pytest.mark.parametrize("bias", [0, 1.5, -3.25, 0.1, np.float32(2.7), 100.0, -60.0])
@pytest.mark.parametrize("source", [FLOAT32, *FORMATS_16], ids=str)
def test_scalar_bias_is_subtracted_in_float32(source: Format, bias: float) -> None:
    x = np.linspace(-90, 90, 333).astype(source.dtype)
    shifted = x.astype(np.float32) - np.float32(bias)
    for result in (FLOAT32, *FORMATS_16):
        got = numerics.exp(x, bias=bias, out_dtype=result.dtype)
        within_one_float32_ulp(shifted, got, result)
    if source is FLOAT32:
        assert (bits(numerics.exp(x, bias=bias)) == bits(numerics.exp(shifted))).all()


def test_the_subtraction_is_rounded_to_float32() -> None:
    """x - bias rounds: 1e8 - 1 is 1e8 in float32, so the exact difference must not show."""
    x = np.array([100000008.0, 16777216.0], dtype=np.float32)
    bias = np.array([100000001.0, 16777199.0], dtype=np.float32)
    for index in range(2):
        shifted = x[index : index + 1] - bias[index]
        got = numerics.exp(x[index : index + 1], bias=float(bias[index]))
        assert (bits(got) == bits(numerics.exp(shifted))).all()
    tiny = np.array([1.0], dtype=np.float32)
    assert (numerics.exp(tiny, bias=1e-10) == numerics.exp(tiny)).all()


@pytest.mark.parametrize("shape", [(4, 9), (2, 3, 8), (1, 5), (6, 1)])
@pytest.mark.parametrize("bias_dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("keep_axis", [True, False])
def test_bias_per_row(shape: tuple[int, ...], bias_dtype: Any, keep_axis: bool) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal(shape).astype(np.float32) * 5
    bias = (generator.standard_normal(shape[:-1]) * 5).astype(bias_dtype)
    shifted = x - bias.astype(np.float32)[..., None]
    got = numerics.exp(x, bias=bias[..., None] if keep_axis else bias)
    assert (bits(got) == bits(numerics.exp(shifted))).all()


def test_bias_rows_in_any_memory() -> None:
    x = strided_float32(6 * 8 * 10).reshape(6, 8, 10)
    x = np.where(np.isfinite(x), np.clip(x, -50, 50), np.float32(1))
    bias = np.linspace(-4, 4, 48, dtype=np.float32).reshape(6, 8)
    expected = bits(numerics.exp(x - bias[..., None]))
    for name, same in layouts(bias):
        assert (bits(numerics.exp(x, bias=same)) == expected).all(), name


def test_one_bias_row_serves_broadcast_batches() -> None:
    x = np.random.default_rng(1).standard_normal((3, 4, 5)).astype(np.float32)
    bias = np.arange(4, dtype=np.float32).reshape(1, 4, 1)
    assert (bits(numerics.exp(x, bias=bias)) == bits(numerics.exp(x - bias))).all()


def test_bias_may_be_infinite() -> None:
    """The maximum of a fully masked row: -inf - -inf is NaN, as float32 says."""
    x = np.array([[1.0, -np.inf], [2.0, 3.0]], dtype=np.float32)
    got = numerics.exp(x, bias=np.array([-np.inf, np.inf], dtype=np.float32))
    assert bits(got).tolist() == [[0x7F800000, 0x7FC00000], [0, 0]]


@pytest.mark.parametrize("columns", [0, 1, 2, 7, 8, 9, 16, 31, 33, 64, 1000])
@pytest.mark.parametrize("result", [FLOAT32, *FORMATS_16], ids=str)
@pytest.mark.parametrize("source", [FLOAT32, *FORMATS_16], ids=str)
def test_row_sums_are_sequential_float32_of_the_cast_values(
    source: Format, result: Format, columns: int
) -> None:
    x = (np.random.default_rng(columns).standard_normal((3, 5, columns)) * 4).astype(source.dtype)
    values, sums = numerics.exp(x, out_dtype=result.dtype, accumulate=True)
    assert values.dtype == np.dtype(result.dtype)
    assert sums.dtype == np.float32
    assert sums.shape == (3, 5)
    assert (bits(values) == bits(numerics.exp(x, out_dtype=result.dtype))).all()
    expected = np.zeros((3, 5), dtype=np.float32)
    for column in range(columns):
        expected = expected + values[..., column].astype(np.float32)
    assert (bits(sums) == bits(expected)).all()


def test_row_sums_of_special_values() -> None:
    x = np.array(
        [[0.0, np.nan, 1.0], [np.inf, 1.0, 2.0], [-np.inf, -np.inf, -np.inf], [88.7, 88.7, 88.7]],
        dtype=np.float32,
    )
    _, sums = numerics.exp(x, accumulate=True)
    assert bits(sums).tolist() == [0x7FC00000, 0x7F800000, 0, 0x7F800000]


def test_row_sums_honour_subnormals() -> None:
    x = np.full((1, 9), -100.0, dtype=np.float32)
    values, sums = numerics.exp(x, accumulate=True)
    assert 0 < values[0, 0] < 2.0**-126
    assert sums[0] == 9 * values[0, 0].astype(np.float64)


def test_one_dimensional_input_has_one_sum() -> None:
    values, sums = numerics.exp(np.zeros(5, dtype=np.float32), accumulate=True)
    assert isinstance(sums, np.ndarray)
    assert sums.shape == ()
    assert sums == 5
    assert values.shape == (5,)


def test_sums_need_an_axis() -> None:
    with pytest.raises(ValueError, match=r"accumulate|axis|dimension"):
        numerics.exp(np.array(1.0, dtype=np.float32), accumulate=True)


def test_softmax_row() -> None:
    """What the unit is for: exp(x - max) and its sums in one call."""
    x = np.random.default_rng(2).standard_normal((8, 100)).astype(np.float32)
    values, sums = numerics.exp(x, bias=x.max(axis=-1), accumulate=True)
    softmax = values / sums[:, None]
    reference = np.exp((x - x.max(axis=-1, keepdims=True)).astype(np.float64))
    reference /= reference.sum(axis=-1, keepdims=True)
    assert np.abs(softmax - reference).max() < 1e-6


@pytest.mark.parametrize("source", [FLOAT32, *FORMATS_16], ids=str)
def test_any_memory_layout(source: Format) -> None:
    x = np.random.default_rng(3).standard_normal((6, 8, 10)).astype(source.dtype)
    values, sums = numerics.exp(x, bias=0.5, accumulate=True)
    for name, same in layouts(x):
        before = bits(same).copy()
        got, got_sums = numerics.exp(same, bias=0.5, accumulate=True)
        assert (bits(got) == bits(values)).all(), name
        assert (bits(got_sums) == bits(sums)).all(), name
        assert got.flags.c_contiguous, name
        assert got.dtype.isnative, name
        assert (bits(same) == before).all(), f"{name}: the input was changed"


def test_result_does_not_depend_on_the_place_in_a_vector() -> None:
    x = np.linspace(LOWEST, HIGHEST, 200).astype(np.float32)
    whole = bits(numerics.exp(x))
    for length in range(70):
        for offset in (0, 1, 3, 8, 17):
            part = slice(offset, offset + length)
            assert (bits(numerics.exp(x[part])) == whole[part]).all(), (length, offset)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty(shape: tuple[int, ...]) -> None:
    values, sums = numerics.exp(np.zeros(shape, dtype=np.float32), accumulate=True)
    assert values.shape == shape
    assert sums.shape == shape[:-1]
    assert not sums.any()


def test_zero_dimensional() -> None:
    got = numerics.exp(np.array(0.0, dtype=np.float32), bias=np.array(0.0, dtype=np.float32))
    assert isinstance(got, np.ndarray)
    assert got.shape == ()
    assert got == 1


@pytest.mark.parametrize("accumulate", [False, True])
def test_out_is_filled_and_returned(accumulate: bool) -> None:
    x = np.random.default_rng(4).standard_normal((7, 9)).astype(np.float32)
    out = np.zeros((7, 9), dtype=ml_dtypes.bfloat16)
    result: Any = numerics.exp(x, out_dtype=ml_dtypes.bfloat16, accumulate=accumulate, out=out)
    assert (result[0] if accumulate else result) is out
    assert (bits(out) == bits(numerics.exp(x, out_dtype=ml_dtypes.bfloat16))).all()


@pytest.mark.parametrize("source", [FLOAT32, *FORMATS_16], ids=str)
def test_out_may_be_the_input(source: Format) -> None:
    x = np.linspace(-5, 5, 301).astype(source.dtype).reshape(7, 43)
    values, sums = numerics.exp(x, accumulate=True)
    got, got_sums = numerics.exp(x, accumulate=True, out=x)
    assert got is x
    assert (bits(x) == bits(values)).all()
    assert (bits(got_sums) == bits(sums)).all()


def test_other_overlaps_are_refused() -> None:
    memory = np.ones(65, dtype=np.float32)
    square = np.ones((8, 8), dtype=np.float32)
    with pytest.raises(ValueError, match="overlap"):
        numerics.exp(memory[:64], out=memory[1:])
    with pytest.raises(ValueError, match="overlap"):
        numerics.exp(square.T, out=square)
    with pytest.raises(ValueError, match="overlap"):
        numerics.exp(square, bias=memory[:8], out=memory[:64].reshape(8, 8))


def test_bad_out() -> None:
    x = np.ones((4, 6), dtype=np.float32)
    frozen = np.zeros((4, 6), dtype=np.float32)
    frozen.setflags(write=False)
    cases: list[tuple[Any, type[Exception], str]] = [
        (np.zeros((4, 5), dtype=np.float32), ValueError, "4.*5"),
        (np.zeros((4, 6), dtype=np.float16), TypeError, "float16"),
        (np.zeros((6, 4), dtype=np.float32).T, ValueError, "(?i)contiguous"),
        (frozen, ValueError, "(?i)read-?only|writ"),
        ([], TypeError, "list"),
    ]
    for out, error, words in cases:
        with pytest.raises(error, match=words) as caught:
            numerics.exp(x, out=out)
        assert re.search(r"\bout\b", str(caught.value))


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.bool_, ml_dtypes.float8_e4m3fn])
def test_bad_input_dtype(dtype: Any) -> None:
    with pytest.raises(TypeError, match=np.dtype(dtype).name) as caught:
        numerics.exp(np.ones(3, dtype=dtype))
    message = str(caught.value)
    assert re.search(r"\bx\b", message)
    for allowed in ("float32", "bfloat16", "float16"):
        assert allowed in message


@pytest.mark.parametrize("x", [[1.0], 1.0, None, np.array([None])], ids=repr)
def test_what_is_no_array_of_numbers(x: Any) -> None:
    with pytest.raises(TypeError, match=r"\bx\b"):
        numerics.exp(x)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, "no such type"], ids=str)
def test_bad_result_dtype(dtype: Any) -> None:
    with pytest.raises(TypeError, match="out_dtype"):
        numerics.exp(np.ones(3, dtype=np.float32), out_dtype=dtype)


@pytest.mark.parametrize(
    ("bias", "error"),
    [
        (np.zeros(3, dtype=np.float32), ValueError),
        (np.zeros((4, 6), dtype=np.float32), ValueError),
        (np.zeros((6,), dtype=np.float32), ValueError),
        (np.zeros((2, 4, 1), dtype=np.float32), ValueError),
        (np.zeros(4, dtype=np.int32), TypeError),
        (np.zeros(4, dtype=np.float64), TypeError),
        ("1.0", TypeError),
        (None, TypeError),
        ([0.0] * 4, TypeError),
    ],
    ids=["length", "full", "columns", "extra axis", "int32", "float64", "str", "None", "list"],
)
def test_bad_bias(bias: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"\bbias\b"):
        numerics.exp(np.ones((4, 6), dtype=np.float32), bias=bias)
