"""The rules that every function shares: what is refused, and that the message says what and why.

A message names the argument, what came and what is allowed. Rules of one function alone are tested
beside that function.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import trn3
from oracle.operands import BFLOAT16, E2M1FN, E4M3FN, FLOAT16, FLOAT32
from support.checks import error
from trn3.numerics import (
    MXArray,
    SparseArray,
    Xorwow,
    cast,
    compress,
    exp,
    matmul,
    matmul_mx,
    matmul_sparse,
    prune,
    quantize_mx,
    tfloat32,
)

Array = npt.NDArray[Any]

SQUARE = np.ones((96, 96), dtype=np.float32)
NARROW = SQUARE.astype(BFLOAT16)
MX_A = quantize_mx(SQUARE, E4M3FN)
MX_B = quantize_mx(SQUARE, E4M3FN, axis=-2)
SPARSE = compress(prune(NARROW, "4:16"), "4:16")

# Every argument that is an array: its name, and a call in which all else is right.
ARRAY_ARGUMENTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "cast": ("x", lambda x: cast(x, BFLOAT16)),
    "quantize_mx": ("x", lambda x: quantize_mx(x, E4M3FN)),
    "exp": ("x", exp),
    "matmul a": ("a", lambda x: matmul(x, SQUARE)),
    "matmul b": ("b", lambda x: matmul(SQUARE, x)),
    "matmul c": ("c", lambda x: matmul(SQUARE, SQUARE, c=x)),
    "matmul_mx c": ("c", lambda x: matmul_mx(MX_A, MX_B, c=x)),
    "matmul_sparse a": ("a", lambda x: matmul_sparse(x, SPARSE)),
    "matmul_sparse c": ("c", lambda x: matmul_sparse(NARROW, SPARSE, c=x)),
    "compress": ("w", lambda x: compress(x, "4:16")),
    "prune": ("w", lambda x: prune(x, "4:16")),
    "from_parts elements": ("elements", lambda x: MXArray.from_parts(x, MX_A.scales)),
    "from_tags values": ("values", lambda x: SparseArray.from_tags(x, SPARSE.to_tags(), "4:16")),
}


@pytest.mark.parametrize("call", ARRAY_ARGUMENTS)
@pytest.mark.parametrize("dtype", ["float64", "int32", "uint8", "bool", "complex64", "object"])
def test_dtypes_that_no_function_takes(dtype: str, call: str) -> None:
    argument, function = ARRAY_ARGUMENTS[call]
    array = np.ones((96, 96), dtype=dtype)
    allowed = "float8_e4m3fn" if "from_parts" in call else "bfloat16"
    with error(TypeError, argument, dtype, allowed):
        function(array)


@pytest.mark.parametrize("call", ARRAY_ARGUMENTS)
@pytest.mark.parametrize("thing", [[[1.0]], "text", 1.5, {}, object()], ids=type)
def test_things_that_are_no_arrays(thing: Any, call: str) -> None:
    """Lists and numbers would be float64 arrays, which are refused as well."""
    argument, function = ARRAY_ARGUMENTS[call]
    with error(TypeError, argument):
        function(thing)


@pytest.mark.parametrize(
    "call", [call for call, (name, _) in ARRAY_ARGUMENTS.items() if name != "c"]
)
def test_none_is_no_array(call: str) -> None:
    argument, function = ARRAY_ARGUMENTS[call]
    with error(TypeError, argument):
        function(None)


@pytest.mark.parametrize("call", ARRAY_ARGUMENTS)
def test_structured_and_text_arrays(call: str) -> None:
    argument, function = ARRAY_ARGUMENTS[call]
    for dtype in ("S4", "U4", "M8[s]", [("field", "f4")]):
        with error(TypeError, argument):
            function(np.zeros((96, 96), dtype=dtype))


def test_float64_is_told_to_convert_first() -> None:
    """Going through float32 silently would round twice."""
    for dtype in ("float64", "int64"):
        with error(TypeError, "x", dtype, "float32", "convert"):
            cast(np.ones(3, dtype=dtype), BFLOAT16)


def test_zero_dimensions_where_a_shape_allows() -> None:
    scalar = np.array(1.0, dtype=np.float32)
    for result in (cast(scalar, BFLOAT16), exp(scalar)):
        assert isinstance(result, np.ndarray)
        assert result.shape == ()
    assert float(cast(scalar, BFLOAT16)) == 1.0


@pytest.mark.parametrize("call", [call for call in ARRAY_ARGUMENTS if call not in ("cast", "exp")])
def test_zero_dimensions_elsewhere(call: str) -> None:
    argument, function = ARRAY_ARGUMENTS[call]
    dtype = E4M3FN if "from_parts" in call else (BFLOAT16 if "sparse" in call else FLOAT32)
    with error(ValueError, argument, "()"):
        function(np.ones((), dtype=dtype))


def test_row_sums_need_a_row() -> None:
    with error(ValueError, "x", "()"):
        exp(np.array(1.0, dtype=np.float32), accumulate=True)


# Every call with `out`: the call, and the dtype and shape `out` must have.
OUT_CALLS: dict[str, tuple[Callable[[Any], Any], Any, tuple[int, ...]]] = {
    "cast": (lambda out: cast(SQUARE, BFLOAT16, out=out), BFLOAT16, (96, 96)),
    "cast to tfloat32": (lambda out: cast(SQUARE, tfloat32, out=out), FLOAT32, (96, 96)),
    "exp": (lambda out: exp(SQUARE, out=out), FLOAT32, (96, 96)),
    "exp with sums": (lambda out: exp(SQUARE, accumulate=True, out=out), FLOAT32, (96, 96)),
    "dequantize": (lambda out: MX_A.dequantize(out=out), FLOAT32, (96, 96)),
    "dequantize to bfloat16": (
        lambda out: MX_A.dequantize(BFLOAT16, out=out),
        BFLOAT16,
        (96, 96),
    ),
    "matmul": (lambda out: matmul(SQUARE, SQUARE, out=out), FLOAT32, (96, 96)),
    "matmul to bfloat16": (
        lambda out: matmul(SQUARE, SQUARE, out_dtype=BFLOAT16, out=out),
        BFLOAT16,
        (96, 96),
    ),
    "matmul_mx": (lambda out: matmul_mx(MX_A, MX_B, out=out), FLOAT32, (96, 96)),
    "matmul_sparse": (lambda out: matmul_sparse(NARROW, SPARSE, out=out), FLOAT32, (96, 96)),
    "uint32": (lambda out: Xorwow.seed(1, lanes=96).uint32(96, out=out), "uint32", (96, 96)),
}


@pytest.mark.parametrize("call", OUT_CALLS)
def test_out_of_the_right_kind_is_returned_itself(call: str) -> None:
    function, dtype, shape = OUT_CALLS[call]
    fresh = function(None)
    out = np.zeros(shape, dtype=dtype)
    result = function(out)
    first = result[0] if isinstance(result, tuple) else result
    expected = fresh[0] if isinstance(fresh, tuple) else fresh
    assert first is out
    assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("call", OUT_CALLS)
def test_out_of_the_wrong_dtype(call: str) -> None:
    function, dtype, shape = OUT_CALLS[call]
    with error(TypeError, "out", "int16", np.dtype(dtype).name):
        function(np.zeros(shape, dtype="int16"))
    other = FLOAT16 if np.dtype(dtype) != FLOAT16 else FLOAT32
    with error(TypeError, "out", other.name, np.dtype(dtype).name):
        function(np.zeros(shape, dtype=other))
    if np.dtype(dtype) != BFLOAT16:
        with error(TypeError, "out", "byte order"):
            function(np.zeros(shape, dtype=np.dtype(dtype).newbyteorder(">")))


@pytest.mark.parametrize("call", OUT_CALLS)
def test_out_of_the_wrong_shape(call: str) -> None:
    """A shape that would broadcast or that holds as many elements is wrong, too."""
    function, dtype, shape = OUT_CALLS[call]
    for wrong in ((96, 97), (1, 96, 96), (96 * 96,), (48, 192), (0, 96), ()):
        with error(ValueError, "out", str(wrong), str(shape)):
            function(np.zeros(wrong, dtype=dtype))


@pytest.mark.parametrize("call", OUT_CALLS)
def test_out_that_cannot_be_filled(call: str) -> None:
    function, dtype, (rows, columns) = OUT_CALLS[call]
    with error(ValueError, "out", "contiguous"):
        function(np.zeros((rows, columns), dtype=dtype, order="F"))
    with error(ValueError, "out", "contiguous"):
        function(np.zeros((rows, 2 * columns), dtype=dtype)[:, ::2])
    frozen = np.zeros((rows, columns), dtype=dtype)
    frozen.setflags(write=False)
    with error(ValueError, "out", "read-only"):
        function(frozen)
    memory = np.zeros(rows * columns * np.dtype(dtype).itemsize + 1, dtype=np.uint8)
    with error(ValueError, "out", "aligned"):
        function(memory[1:].view(dtype).reshape(rows, columns))


@pytest.mark.parametrize("call", OUT_CALLS)
def test_out_that_is_no_array(call: str) -> None:
    function, _, _ = OUT_CALLS[call]
    for thing in ([[0.0]], "text", 1, MX_A):
        with error(TypeError, "out", type(thing).__name__):
            function(thing)


def test_an_elementwise_out_may_be_exactly_its_input() -> None:
    x = np.linspace(-3, 3, 1000, dtype=np.float32).reshape(10, 100)
    for function in (exp, lambda v, out=None: cast(v, tfloat32, out=out)):
        memory = x.copy()
        expected = function(x)
        assert function(memory, out=memory) is memory
        assert memory.tobytes() == expected.tobytes()


def test_an_elementwise_out_overlaps_its_input_in_no_other_way() -> None:
    memory = np.ones(1200, dtype=np.float32)
    x = memory[100:1100].reshape(10, 100)
    overlapping = [memory[:1000], memory[101:1101], memory[200:]]
    for out in overlapping:
        with error(ValueError, "out", "x"):
            exp(x, out=out.reshape(10, 100))
        with error(ValueError, "out", "x"):
            cast(x, tfloat32, out=out.reshape(10, 100))
    with error(ValueError, "out", "x"):
        cast(x[::-1], tfloat32, out=x)
    with error(ValueError, "out", "x"):
        cast(x, BFLOAT16, out=memory.view(BFLOAT16)[1000:2000].reshape(10, 100))
    # Side by side in one block of memory is no overlap.
    cast(x, tfloat32, out=np.ones(1000, dtype=np.float32).reshape(10, 100))
    halves = np.ones((20, 100), dtype=np.float32)
    assert exp(halves[:10], out=halves[10:])[0, 0] == np.float32(np.e)


def test_a_product_overlaps_no_input() -> None:
    """Not even exactly: an operand is still read after the first results are written."""
    a, b, c = SQUARE.copy(), SQUARE.copy(), SQUARE.copy()
    for argument, out in (("a", a), ("b", b), ("c", c)):
        with error(ValueError, "out", argument):
            matmul(a, b, c=c, out=out)
    with error(ValueError, "out", "c"):
        matmul_mx(MX_A, MX_B, c=c, out=c)
    with error(ValueError, "out", "c"):
        matmul_sparse(NARROW, SPARSE, c=c, out=c)
    wide = np.ones((96, 192), dtype=BFLOAT16)
    with error(ValueError, "out", "a"):
        matmul_sparse(wide[:, :96], SPARSE, out=wide.view(np.float32))


def test_out_of_quantize_mx() -> None:
    """It is an MXArray of the same dtype, shape and axis."""
    out = quantize_mx(SQUARE * 3, E4M3FN)
    assert quantize_mx(SQUARE, E4M3FN, out=out) is out
    assert np.all(out.dequantize() == 1)
    with error(TypeError, "out", "float8_e5m2", "float8_e4m3fn"):
        quantize_mx(SQUARE, "float8_e5m2", out=out)
    with error(ValueError, "out", "axis", "-1", "-2"):
        quantize_mx(SQUARE, E4M3FN, axis=-2, out=out)
    with error(ValueError, "out", "(96, 96)", "(64, 96)"):
        quantize_mx(SQUARE[:64], E4M3FN, out=out)
    for thing in (np.zeros((96, 96), dtype=E4M3FN), (out.elements, out.scales), "text"):
        with error(TypeError, "out", type(thing).__name__, "MXArray"):
            quantize_mx(SQUARE, E4M3FN, out=thing)  # type: ignore[arg-type]


# Every call with `rounding` and `rng`.
ROUNDING_CALLS: dict[str, Callable[..., Any]] = {
    "cast": lambda **options: cast(SQUARE, BFLOAT16, **options),
    "quantize_mx": lambda **options: quantize_mx(SQUARE, E4M3FN, **options),
    "matmul": lambda **options: matmul(SQUARE, SQUARE, out_dtype=BFLOAT16, **options),
    "matmul_mx": lambda **options: matmul_mx(MX_A, MX_B, out_dtype=BFLOAT16, **options),
    "matmul_sparse": lambda **options: matmul_sparse(NARROW, SPARSE, out_dtype=BFLOAT16, **options),
}


@pytest.mark.parametrize("call", ROUNDING_CALLS)
def test_rng_comes_with_stochastic_and_only_then(call: str) -> None:
    function = ROUNDING_CALLS[call]
    with error(ValueError, "rng", "stochastic"):
        function(rounding="stochastic")
    rng = Xorwow.seed(1)
    before = copy.copy(rng)
    for rounding in ("nearest", "zero"):
        with error(ValueError, "rng", rounding, "stochastic"):
            function(rounding=rounding, rng=rng)
    with error(ValueError, "rng", "stochastic"):
        function(rng=rng)
    assert rng == before


@pytest.mark.parametrize("call", ROUNDING_CALLS)
def test_things_that_are_no_rng(call: str) -> None:
    function = ROUNDING_CALLS[call]
    for thing in (1, "seed", np.random.default_rng(1)):
        with error(TypeError, "rng", type(thing).__name__, "Xorwow"):
            function(rounding="stochastic", rng=thing)
    with error(TypeError, "rng", "Xorwow"):
        function(rounding="stochastic", rng=np.zeros((96, 96), dtype=np.float32))


@pytest.mark.parametrize("call", ["cast", "quantize_mx"])
def test_an_array_of_draws_has_the_shape_of_x(call: str) -> None:
    function = ROUNDING_CALLS[call]
    for shape in ((96 * 96,), (1, 96), (96, 95), ()):
        with error(ValueError, "rng", str(shape), "(96, 96)"):
            function(rounding="stochastic", rng=np.zeros(shape, dtype=np.uint32))
    for dtype in ("int32", "uint64", "float32"):
        with error(TypeError, "rng", dtype, "uint32"):
            function(rounding="stochastic", rng=np.zeros((96, 96), dtype=dtype))


@pytest.mark.parametrize("call", ROUNDING_CALLS)
def test_unknown_roundings(call: str) -> None:
    for rounding in ("up", "Nearest", "", "nearest "):
        with error(ValueError, "rounding", "nearest", "zero", "stochastic"):
            ROUNDING_CALLS[call](rounding=rounding)


@pytest.mark.parametrize("call", ROUNDING_CALLS)
def test_a_refused_call_takes_no_draws(call: str) -> None:
    rng = Xorwow.seed(3)
    before = copy.copy(rng)
    with error(TypeError, "out"):
        ROUNDING_CALLS[call](rounding="stochastic", rng=rng, out=np.zeros(3, dtype="int16"))
    assert rng == before


def test_unknown_options() -> None:
    with error(ValueError, "overflow", "wrap", "ieee", "saturate"):
        cast(SQUARE, BFLOAT16, overflow="wrap")  # type: ignore[arg-type]
    with error(ValueError, "scale_rule", "floor", "trn3", "ocp", "rceil"):
        quantize_mx(SQUARE, E4M3FN, scale_rule="floor")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["float64", "int8", "uint8", "bool", "object", "complex64"])
def test_dtypes_that_are_no_targets(dtype: str) -> None:
    with error(TypeError, "dtype", dtype, "bfloat16", "float8_e4m3fn", "tfloat32"):
        cast(SQUARE, dtype)
    with error(TypeError, "dtype", dtype, "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"):
        quantize_mx(SQUARE, dtype)
    with error(TypeError, "dtype", dtype, "float32", "bfloat16"):
        MX_A.dequantize(dtype)
    with error(TypeError, "out_dtype", dtype, "float32", "bfloat16"):
        exp(SQUARE, out_dtype=dtype)
    products: list[Callable[[], Any]] = [
        lambda: matmul(SQUARE, SQUARE, out_dtype=dtype),
        lambda: matmul_mx(MX_A, MX_B, out_dtype=dtype),
        lambda: matmul_sparse(NARROW, SPARSE, out_dtype=dtype),
    ]
    for product in products:
        with error(TypeError, "out_dtype", dtype, "float32", "bfloat16"):
            product()


@pytest.mark.parametrize("name", ["nonsense", "", "float33"])
def test_names_that_are_no_dtypes(name: str) -> None:
    with error(TypeError, "dtype", "bfloat16"):
        cast(SQUARE, name)
    with error(TypeError, "dtype", "float8_e4m3fn"):
        quantize_mx(SQUARE, name)


@pytest.mark.parametrize("axis", [2, -3, 10**6])
def test_axis_out_of_range(axis: int) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: quantize_mx(SQUARE, E4M3FN, axis=axis),
        lambda: MXArray.from_parts(MX_A.elements, MX_A.scales, axis=axis),
        lambda: compress(NARROW, "4:16", axis=axis),
        lambda: prune(NARROW, "4:16", axis=axis),
        lambda: SparseArray.from_tags(SPARSE.values, SPARSE.to_tags(), "4:16", axis=axis),
    ]
    for call in calls:
        with error(ValueError, "axis", str(axis), "2"):
            call()


@pytest.mark.parametrize("axis", [1.0, "0", None])
def test_axis_that_is_no_integer(axis: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: quantize_mx(SQUARE, E4M3FN, axis=axis),
        lambda: MXArray.from_parts(MX_A.elements, MX_A.scales, axis=axis),
        lambda: compress(NARROW, "4:16", axis=axis),
        lambda: prune(NARROW, "4:16", axis=axis),
    ]
    for call in calls:
        with pytest.raises((TypeError, ValueError), match=r"\baxis\b"):
            call()


def test_the_blocked_axis_holds_whole_blocks() -> None:
    with error(ValueError, "x", "95", "32"):
        quantize_mx(SQUARE[:, :95], E4M3FN)
    with error(ValueError, "x", "33", "32"):
        quantize_mx(SQUARE[:33], E4M3FN, axis=-2)


@pytest.mark.parametrize("n", [0, -1, True, False, "2", 1.5, 2.0, None, 4096, 10**30])
def test_thread_counts_that_are_refused(n: Any) -> None:
    before = trn3.get_num_threads()
    with pytest.raises((TypeError, ValueError), match=r"\bn\b") as caught:
        trn3.set_num_threads(n)
    assert str(n) in str(caught.value)
    assert "1" in str(caught.value)
    assert trn3.get_num_threads() == before


def test_thread_counts_that_are_taken() -> None:
    before = trn3.get_num_threads()
    try:
        for n in (1, 2, np.int64(3), np.uint8(4)):
            trn3.set_num_threads(int(n) if isinstance(n, int) else n)  # type: ignore[arg-type]
            assert trn3.get_num_threads() == n
    finally:
        trn3.set_num_threads(before)


@pytest.mark.parametrize("seed", [-1, 1 << 64, 1.5, "1", None])
def test_seeds_that_are_refused(seed: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"\bseed\b"):
        Xorwow.seed(seed)


@pytest.mark.parametrize("count", [-1, 1.5, "3", None, 1 << 70])
def test_draw_counts_that_are_refused(count: Any) -> None:
    """A count of draws is a whole number, and one that no memory holds is no crash."""
    rng = Xorwow.seed(1)
    before = copy.copy(rng)
    for function in (rng.uint32, rng.uniform):
        with pytest.raises((TypeError, ValueError, OverflowError), match=r"\bn\b"):
            function(count)
    assert rng == before


def test_more_than_the_memory_is_a_memory_error() -> None:
    """A size within 64 bits that cannot be had fails politely."""
    huge = np.broadcast_to(np.float32(1), (1 << 30, 1 << 24))
    tall = np.broadcast_to(np.ones((), dtype=BFLOAT16), (1 << 40, 2))
    calls: list[Callable[[], Any]] = [
        lambda: cast(huge, E2M1FN),
        lambda: exp(huge),
        lambda: quantize_mx(huge, E4M3FN),
        lambda: prune(huge, "4:16", axis=-1),
        lambda: matmul(tall, tall[:2].T[:2]),
        lambda: Xorwow.seed(1).uint32(1 << 50),
    ]
    for call in calls:
        with pytest.raises((MemoryError, ValueError)):
            call()
