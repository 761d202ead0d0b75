"""activation: every function to one ulp, special values, formats, `parameter`, `out` and errors.

The judge is mpmath. Evaluating it for all bfloat16 inputs of 26 functions would take minutes, so it
takes a sample that is dense where it matters (each binade, both signs, zeros of the functions, ends
of ranges), and on that sample it also judges NumPy's long double formulas of `oracle.activation`;
those, then known to be good to 2^-10 ulp, judge every bfloat16 and a sweep of float32.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from oracle import activation as oracle
from oracle.arrays import all_codes, assert_same_bits, bits, from_bits, layouts, strided_float32
from oracle.formats import BFLOAT16, FLOAT16, FLOAT32, Format
from oracle.rounding import cast_codes
from trn3 import numerics

NAMES = tuple(oracle.EXACT)
POSITIVE_ONLY = ("log", "sqrt", "rsqrt")
ROUNDED = ("copy", "square", "relu", "prelu", "sqrt", "reciprocal", "sign", "abs")
TRANSCENDENTAL = tuple(name for name in NAMES if name not in ROUNDED)
# exp is the exponent unit's, whose contract is one ulp; the others come from float64, rounded once.
LIMIT = {name: 0.9 if name == "exp" else 0.501 for name in TRANSCENDENTAL}
SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0]
INF = float("inf")


def activate(x: npt.NDArray[Any], name: Any, **options: Any) -> npt.NDArray[Any]:
    """Call the function, prelu with the oracle's slope."""
    slope = oracle.SLOPE if name == "prelu" else 0.0
    return numerics.activation(x, name, parameter=slope, **options)


def domain(name: str, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return the finite values of an array that a function is defined and finite on."""
    x = x[np.isfinite(x)]
    if name in POSITIVE_ONLY:
        return x[x > 0]
    return x[x != 0] if name == "reciprocal" else x


def near_zero(name: str, x: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Return where cancellation leaves the judgement to mpmath."""
    if name not in oracle.CANCELLING:
        return np.zeros(x.shape, dtype=np.bool_)
    near: npt.NDArray[np.bool_] = np.abs(x - oracle.CANCELLING[name]) < 2.0**-10
    return near


def sample(name: str) -> npt.NDArray[np.float32]:
    """Return inputs for mpmath: every binade, the range that matters, and what is special."""
    random = np.random.default_rng(26)
    powers = np.ldexp(np.float32(1), np.arange(-149, 128)).astype(np.float32)
    within = random.uniform(-20, 20, 300).astype(np.float32)
    tails = random.uniform(-110, 95, 200).astype(np.float32)
    ends = np.array([np.pi, np.pi / 2, 1, 4, 15, 88.7, 104, 9], dtype=np.float32)
    points = np.concatenate([ends, np.array([oracle.ZEROS.get(name, 1)], dtype=np.float32)])
    steps = np.concatenate([np.arange(-20, 21), np.arange(-5000, 5001, 613)])
    near = (bits(points).astype(np.int64)[:, None] + steps).astype(np.uint32).view(np.float32)
    x = np.concatenate([powers, strided_float32(500), within, tails, near.ravel()])
    return domain(name, np.unique(np.concatenate([x, -x])))


@pytest.mark.parametrize("name", TRANSCENDENTAL)
def test_activation_is_within_its_limit_of_mpmath(name: Any) -> None:
    """The exact judge; it judges the fast formulas as well, which the tests below rely on."""
    x = sample(name)
    got = activate(x, name)
    with np.errstate(all="ignore"):
        fast = oracle.fast(name, x)
    cancelling = near_zero(name, x)
    worst = 0.0
    columns = zip(x.tolist(), got.tolist(), fast, cancelling.tolist(), strict=True)
    for argument, result, formula, cancels in columns:
        true = oracle.exact(name, argument)
        error = oracle.error_in_ulp(result, true)
        worst = max(worst, error)
        assert error <= LIMIT[name], (argument.hex(), result, float(true))
        if not cancels:
            assert oracle.wide_error_in_ulp(formula, true) <= 2.0**-10, (argument.hex(), formula)
    # An error measure that were always zero would prove nothing.
    assert worst > 0.1


@pytest.mark.parametrize("name", TRANSCENDENTAL)
def test_activation_of_every_bfloat16_is_within_its_limit(name: Any) -> None:
    with np.errstate(invalid="ignore"):
        x = domain(name, all_codes(BFLOAT16).astype(np.float32))
    check_with_fast_formulas(name, x)


@pytest.mark.parametrize("name", TRANSCENDENTAL)
def test_activation_of_float32_is_within_its_limit(name: Any) -> None:
    """A sweep of all float32, and of the range in which the functions differ from their limits."""
    random = np.random.default_rng(27)
    ranges = [random.uniform(-16, 16, 60_000), random.uniform(-150, 90, 20_000)]
    x = np.concatenate([strided_float32(60_000), *(part.astype(np.float32) for part in ranges)])
    check_with_fast_formulas(name, domain(name, x))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", TRANSCENDENTAL)
def test_activation_of_many_float32_is_within_its_limit(name: Any) -> None:
    for offset in range(16):
        check_with_fast_formulas(name, domain(name, strided_float32(1 << 20, offset * 257 + 1)))


def check_with_fast_formulas(name: Any, x: npt.NDArray[np.float32]) -> None:
    """Compare float32 results with the long double formulas, but where those cancel."""
    x = x[~near_zero(name, x)]
    with np.errstate(all="ignore"):
        true = oracle.fast(name, x)
        errors = oracle.errors_in_ulp(activate(x, name), true)
    at = int(errors.argmax())
    assert errors[at] <= LIMIT[name] + 2.0**-10, (float(x[at]).hex(), true[at])


@pytest.mark.parametrize("name", oracle.CANCELLING)
def test_derivatives_near_their_zeros(name: Any) -> None:
    """Every float32 that is within a thousand steps of the zero, and the signs on either side."""
    zero = np.array([oracle.ZEROS[name]], dtype=np.float32)
    x = (bits(zero).astype(np.int64) + np.arange(-1000, 1001)).astype(np.uint32).view(np.float32)
    got = activate(x, name)
    for argument, result in zip(x.tolist(), got.tolist(), strict=True):
        assert oracle.error_in_ulp(result, oracle.exact(name, argument)) <= LIMIT[name]
    assert (np.diff(np.sign(got)) != 0).sum() == 1


@pytest.mark.parametrize("name", ROUNDED)
def test_simple_functions_are_correctly_rounded(name: Any) -> None:
    """In float64 they are exact, or good enough that rounding again makes no difference."""
    with np.errstate(invalid="ignore"):
        brain = all_codes(BFLOAT16).astype(np.float32)
    x = np.concatenate([brain, strided_float32(300_000)])
    x = x[~np.isnan(x)]
    got = activate(x, name)
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        results = {
            "copy": wide,
            "square": wide * wide,
            "relu": np.where(wide > 0, wide, 0.0),
            "prelu": np.where(wide >= 0, wide, wide * oracle.SLOPE),
            "sqrt": np.sqrt(wide),
            "reciprocal": 1 / wide,
            "sign": np.where(wide == 0, 0.0, np.sign(wide)),
            "abs": np.abs(wide),
        }
        expected = results[name].astype(np.float32)
    codes = np.where(np.isnan(expected), FLOAT32.nan_code, bits(expected))
    assert_same_bits(got, codes, x)


SPECIAL_RESULTS: dict[str, list[float]] = {
    # of inf, -inf, 0, -0
    "copy": [INF, -INF, 0.0, -0.0],
    "square": [INF, INF, 0.0, 0.0],
    "sigmoid": [1.0, 0.0, 0.5, 0.5],
    "relu": [INF, 0.0, 0.0, 0.0],
    "prelu": [INF, -INF, 0.0, -0.0],
    "gelu": [INF, -0.0, 0.0, -0.0],
    "gelu_dx": [1.0, -0.0, 0.5, 0.5],
    "gelu_apprx_tanh": [INF, -0.0, 0.0, -0.0],
    "gelu_apprx_sigmoid": [INF, -0.0, 0.0, -0.0],
    "gelu_apprx_sigmoid_dx": [1.0, -0.0, 0.5, 0.5],
    "silu": [INF, -0.0, 0.0, -0.0],
    "silu_dx": [1.0, -0.0, 0.5, 0.5],
    "tanh": [1.0, -1.0, 0.0, -0.0],
    "softplus": [INF, 0.0, float(np.float32(np.log(2))), float(np.float32(np.log(2)))],
    "mish": [INF, -0.0, 0.0, -0.0],
    "erf": [1.0, -1.0, 0.0, -0.0],
    "erf_dx": [0.0, 0.0, 1.1283791670955126, 1.1283791670955126],
    "exp": [INF, 0.0, 1.0, 1.0],
    "log": [INF, np.nan, -INF, -INF],
    "sin": [INF, -INF, 0.0, -0.0],
    "arctan": [np.pi / 2, -np.pi / 2, 0.0, -0.0],
    "sqrt": [INF, np.nan, 0.0, -0.0],
    "rsqrt": [0.0, np.nan, INF, -INF],
    "reciprocal": [0.0, -0.0, INF, -INF],
    "sign": [1.0, -1.0, 0.0, 0.0],
    "abs": [INF, INF, 0.0, 0.0],
}


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_special_values(name: Any, dtype: Any) -> None:
    got = activate(np.array(SPECIAL, dtype=np.float32).astype(dtype), name, out_dtype=np.float32)
    expected = bits(np.array([np.nan, np.nan, *SPECIAL_RESULTS[name]], dtype=np.float32))
    assert bits(got).tolist() == expected.tolist()


@pytest.mark.parametrize("name", POSITIVE_ONLY)
def test_outside_the_domain_is_the_canonical_nan(name: Any) -> None:
    x = -np.abs(strided_float32(10_000))
    x = x[np.isfinite(x) & (x < 0)]
    assert (bits(activate(x, name)) == FLOAT32.nan_code).all()


def test_every_nan_gives_the_canonical_one() -> None:
    codes = np.arange(0x7F800001, 0x80000000, 4097, dtype=np.uint32)
    x = np.concatenate([codes, codes | 0x80000000]).view(np.float32)
    for name in NAMES:
        assert (bits(activate(x, name)) == FLOAT32.nan_code).all(), name


@pytest.mark.parametrize(
    ("name", "low", "high", "least"),
    [
        ("exp", -103.9, -87.4, 900),
        ("sigmoid", -103.9, -87.4, 900),
        ("silu", -108.0, -92.5, 900),
        ("softplus", -103.9, -87.4, 900),
        ("mish", -108.0, -92.5, 900),
        ("gelu", -14.1, -13.1, 900),
        ("erf_dx", 9.4, 10.19, 900),
        ("tanh", -1e-38, 1e-38, 900),
        ("log", 1e-45, 1e-38, 0),
    ],
)
def test_subnormal_results_and_arguments(name: Any, low: float, high: float, least: int) -> None:
    x = np.linspace(low, high, 1000).astype(np.float32)
    got = activate(x, name)
    for argument, result in zip(x.tolist(), got.tolist(), strict=True):
        assert oracle.error_in_ulp(result, oracle.exact(name, argument)) <= LIMIT[name]
    assert ((np.abs(got) < 2.0**-126) & (got != 0)).sum() >= least


def test_sin_is_extrapolated_as_documented() -> None:
    x = np.array([9.0, -9.0, 3.5, -100.0, 1e12, 3e13, -3e38], dtype=np.float32)
    got = numerics.activation(x, "sin")
    assert abs(got[0] - 27.65) < 0.005
    assert got[1] == -got[0]
    for argument, result in zip(x.tolist(), got.tolist(), strict=True):
        assert oracle.error_in_ulp(result, oracle.exact("sin", argument)) <= 0.501
    assert got[-2:].tolist() == [np.inf, -np.inf]


def test_exp_is_the_exponent_units() -> None:
    x = strided_float32(1 << 17)
    assert (bits(numerics.activation(x, "exp")) == bits(numerics.exp(x))).all()


@pytest.mark.parametrize("target", [BFLOAT16, FLOAT16], ids=str)
@pytest.mark.parametrize("source", [FLOAT32, BFLOAT16, FLOAT16], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_other_formats_are_the_cast_of_the_float32_result(
    name: Any, source: Format, target: Format
) -> None:
    x = strided_float32(4000) if source is FLOAT32 else all_codes(source)[::17]
    with np.errstate(invalid="ignore"):
        wide = activate(x.astype(np.float32), name)
    expected = cast_codes(bits(wide), FLOAT32, target)
    assert_same_bits(activate(x, name, out_dtype=target.dtype), expected, x)


@pytest.mark.parametrize(
    "dtype",
    [
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e4m3,
        ml_dtypes.float8_e3m4,
        ml_dtypes.float4_e2m1fn,
    ],
    ids=str,
)
def test_small_formats_in_and_out(dtype: Any) -> None:
    codes = np.arange(16 if np.dtype(dtype).name.startswith("float4") else 256, dtype=np.uint8)
    x = codes.view(dtype)
    for name in NAMES:
        wide = activate(numerics.cast(x, np.float32), name)
        got = activate(x, name)
        assert got.dtype == x.dtype
        assert (bits(got) == bits(numerics.cast(wide, dtype))).all(), name


def test_tfloat32_out() -> None:
    x = np.linspace(-4, 4, 100, dtype=np.float32)
    got = numerics.activation(x, "tanh", out_dtype=numerics.tfloat32)
    assert got.dtype == np.float32
    assert not (bits(got) & 0x1FFF).any()
    expected = numerics.cast(numerics.activation(x, "tanh"), numerics.tfloat32)
    assert (bits(got) == bits(expected)).all()


@pytest.mark.parametrize("slope", [0.0, 0.25, -2.0, 1e-40, np.inf, np.float32(0.1), 3])
def test_prelu_slope(slope: float) -> None:
    x = strided_float32(5000)
    x = x[np.isfinite(x)]
    got = numerics.activation(x, "prelu", parameter=slope)
    with np.errstate(all="ignore"):
        expected = np.where(x >= 0, x, np.float32(slope) * x)
    assert_same_bits(got, np.where(np.isnan(expected), FLOAT32.nan_code, bits(expected)), x)


@pytest.mark.parametrize("name", ["gelu", "log", "copy"])
def test_any_memory_layout(name: Any) -> None:
    x = np.random.default_rng(3).standard_normal((6, 8, 10)).astype(np.float32)
    expected = bits(activate(x, name))
    for layout, same in layouts(x):
        got = activate(same, name)
        assert (bits(got) == expected).all(), layout
        assert got.flags.c_contiguous, layout


def test_result_does_not_depend_on_the_place_in_a_vector() -> None:
    x = np.linspace(-110, 95, 200).astype(np.float32)
    for name in NAMES:
        whole = bits(activate(x, name))
        for length in (1, 2, 15, 16, 17, 33):
            for offset in (0, 1, 3, 8, 17):
                part = slice(offset, offset + length)
                assert (bits(activate(x[part], name)) == whole[part]).all(), (name, length, offset)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (), (1,), (3, 1, 2)])
def test_shapes(shape: tuple[int, ...]) -> None:
    got = numerics.activation(np.ones(shape, dtype=np.float32), "square")
    assert isinstance(got, np.ndarray)
    assert got.shape == shape
    assert (got == 1).all()


def test_out_is_filled_and_may_be_the_input() -> None:
    x = np.random.default_rng(4).standard_normal((7, 9)).astype(np.float32)
    expected = bits(numerics.activation(x, "gelu"))
    out = np.zeros((7, 9), dtype=np.float32)
    assert numerics.activation(x, "gelu", out=out) is out
    assert (bits(out) == expected).all()
    assert numerics.activation(x, "gelu", out=x) is x
    assert (bits(x) == expected).all()
    brain = from_bits(np.arange(0x3F00, 0x4100), BFLOAT16)
    same_size = brain.view(np.float16)
    expected = bits(numerics.activation(brain, "tanh", out_dtype=np.float16))
    numerics.activation(brain, "tanh", out_dtype=np.float16, out=same_size)
    assert (bits(same_size) == expected).all()


def test_bad_calls_name_what_came_and_what_is_allowed() -> None:
    x = np.ones(4, dtype=np.float32)
    memory = np.ones(65, dtype=np.float32)
    cases: list[tuple[type[Exception], str, Any, Any, dict[str, Any]]] = [
        (ValueError, r"function.*'gelo'.*'gelu_dx'", x, "gelo", {}),
        (ValueError, "function", x, None, {}),
        (ValueError, "parameter.*0.5.*prelu", x, "relu", {"parameter": 0.5}),
        (TypeError, "parameter", x, "prelu", {"parameter": "a"}),
        (TypeError, "x.*float64.*bfloat16", x.astype(np.float64), "relu", {}),
        (TypeError, "x.*float8_e8m0fnu", np.ones(4, ml_dtypes.float8_e8m0fnu), "relu", {}),
        (TypeError, "out_dtype.*int32", x, "relu", {"out_dtype": np.int32}),
        (TypeError, "out_dtype", x, "relu", {"out_dtype": ml_dtypes.float8_e8m0fnu}),
        (ValueError, "out.*shape", x, "relu", {"out": np.ones(5, dtype=np.float32)}),
        (ValueError, "overlap", memory[:64], "relu", {"out": memory[1:]}),
    ]
    for error, words, array, function, options in cases:
        with pytest.raises(error, match=re.compile(words, re.DOTALL)):
            numerics.activation(array, function, **options)
