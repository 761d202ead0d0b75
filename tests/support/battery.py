"""One fixed run over every function, for tests that compare its results under many conditions.

Inputs are made beforehand, and the operations do no floating-point arithmetic of their own, so that
only the library's results can depend on the state of the processor.
"""

from __future__ import annotations

import ctypes
import hashlib
import itertools
import os
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from oracle import operands, sparse as sparse_oracle
from oracle.operands import BFLOAT16, E2M1FN, E4M3FN, E5M2, FLOAT16, FLOAT32, FP8, MX_ELEMENTS

#: All functions of the activation unit; tests of the compiled core hold them to be all.
ACTIVATIONS: Any = (
    "copy",
    "square",
    "sigmoid",
    "relu",
    "prelu",
    "gelu",
    "gelu_dx",
    "gelu_apprx_tanh",
    "gelu_apprx_sigmoid",
    "gelu_apprx_sigmoid_dx",
    "silu",
    "silu_dx",
    "tanh",
    "softplus",
    "mish",
    "erf",
    "erf_dx",
    "exp",
    "log",
    "sin",
    "arctan",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "sign",
    "abs",
)
Array = npt.NDArray[Any]
Inputs = dict[str, Array]
Operation = Callable[[], Any]

DEFAULT_MODE = 0x1F80  # every exception masked, nearest even, nothing flushed
STICKY_FLAGS = 0x3F

ELEMENTS = 70_003
# The scalar level takes some 50 ns a step, so the products are small; a larger one of each kind
# keeps several threads busy.
M, K, N = 41, 300, 67
MX_M, MX_K, MX_N = 19, 1056, 35
LARGE = 130
SMALL_EXPONENTS = (-85, -68, -53, -50)
ROUNDINGS = ("nearest", "zero", "stochastic")
MATMUL_PAIRS = [
    (FLOAT32, FLOAT32),
    (BFLOAT16, BFLOAT16),
    (FLOAT16, FLOAT16),
    (BFLOAT16, E5M2),
    (E4M3FN, FLOAT16),
    *zip(FP8, reversed(FP8), strict=True),
    (E4M3FN, E4M3FN),
]


def make_inputs() -> Inputs:
    """Make all operands. Some are ordinary, some hold every code, some make subnormal sums."""
    random = np.random.default_rng(2026)
    inputs: Inputs = {}
    for dtype in (FLOAT32, BFLOAT16, FLOAT16, *FP8, E2M1FN):
        inputs[f"codes {dtype}"] = operands.codes(random, (ELEMENTS,), dtype)
        inputs[f"normal {dtype}"] = operands.normal(random, (96, 704), dtype)
        inputs[f"a {dtype}"] = operands.normal(random, (M, K), dtype)
        inputs[f"b {dtype}"] = operands.normal(random, (K, N), dtype)
    for dtype in (FLOAT32, BFLOAT16):
        inputs[f"wild a {dtype}"] = operands.codes(random, (M, 5), dtype)
        inputs[f"wild b {dtype}"] = operands.codes(random, (5, N), dtype)
        inputs[f"small a {dtype}"] = operands.between(random, (M, K), dtype, -62, -58)
        for low in SMALL_EXPONENTS:
            small = operands.between(random, (K, N), dtype, low, low + 4)
            inputs[f"small b {low} {dtype}"] = small
    for dtype in (FLOAT32, BFLOAT16, E4M3FN):
        inputs[f"large a {dtype}"] = operands.normal(random, (LARGE, 160), dtype)
        inputs[f"large b {dtype}"] = operands.normal(random, (160, LARGE), dtype)
    for dtype in MX_ELEMENTS:
        inputs[f"mx a {dtype}"] = operands.normal(random, (MX_M, MX_K), dtype)
        inputs[f"mx b {dtype}"] = operands.normal(random, (MX_K, MX_N), dtype)
    for kind, low, high in [("ordinary", 120, 134), ("small", 55, 75), ("wild", 0, 255)]:
        for side, shape in [("a", (MX_M, MX_K // 32)), ("b", (MX_K // 32, MX_N))]:
            scales = random.integers(low, high + 1, shape)
            inputs[f"{kind} scales {side}"] = scales.astype(np.uint8)
    for pattern in sparse_oracle.PATTERNS:
        dense = operands.normal(random, (336, N), BFLOAT16)
        inputs[f"dense {pattern}"] = dense
        inputs[f"sparse {pattern}"] = sparse_oracle.prune(dense, pattern)
    inputs["sparse a"] = operands.normal(random, (M, 336), BFLOAT16)
    inputs["c"] = operands.normal(random, (M, N), FLOAT32)
    inputs["rows"] = operands.between(random, (301, 257), FLOAT32, -20, 7)
    inputs["bias"] = operands.normal(random, (301, 1), FLOAT32)
    return inputs


def generator(rounding: str) -> Any:
    """Make the generator that a rounding needs."""
    if rounding != "stochastic":
        return None
    from trn3.numerics import Xorwow

    return Xorwow.seed(42, generators=4)


def cast(x: Array, dtype: Any, rounding: Any) -> Any:
    from trn3 import numerics

    return tuple(
        numerics.cast(x, dtype, rounding=rounding, overflow=overflow, rng=generator(rounding))
        for overflow in ("ieee", "saturate")
    )


def quantize(x: Array, dtype: Any, rule: Any, axis: int, rounding: Any) -> Any:
    from trn3.numerics import quantize_mx

    rng = generator(rounding)
    mx = quantize_mx(x, dtype, axis=axis, scale_rule=rule, rounding=rounding, rng=rng)
    return mx.elements, mx.scales, mx.dequantize(), mx.dequantize(BFLOAT16)


def matmul(a: Array, b: Array, c: Array | None = None) -> Any:
    from trn3 import numerics

    return numerics.matmul(a, b, c=c)


def matmul_to_bfloat16(a: Array, b: Array, rounding: Any) -> Any:
    from trn3 import numerics

    rng = generator(rounding)
    return numerics.matmul(a, b, out_dtype=BFLOAT16, rounding=rounding, rng=rng)


def matmul_mx(a: Array, a_scales: Array, b: Array, b_scales: Array) -> Any:
    from trn3 import numerics

    left = numerics.MXArray.from_parts(a, a_scales, axis=-1)
    right = numerics.MXArray.from_parts(b, b_scales, axis=-2)
    rounded = numerics.matmul_mx(left, right, out_dtype=BFLOAT16)
    return numerics.matmul_mx(left, right), rounded


def sparse(a: Array, dense: Array, pruned: Array, pattern: Any) -> Any:
    from trn3.numerics import compress, matmul_sparse, prune

    w = compress(pruned, pattern)
    return w.values, w.to_tags(), w.to_dense(), prune(dense, pattern), matmul_sparse(a, w)


def exp(*arrays: Array) -> Any:
    from trn3 import numerics

    return tuple(numerics.exp(x, accumulate=True) for x in arrays)


def exp_with_bias(x: Array, bias: Array) -> Any:
    from trn3 import numerics

    return numerics.exp(x, bias=bias, out_dtype=BFLOAT16, accumulate=True)


def activation(*arrays: Array) -> Any:
    from trn3 import numerics

    return tuple(numerics.activation(x, name) for x in arrays for name in ACTIVATIONS)


def xorwow(generators: int) -> Any:
    from trn3.numerics import Xorwow

    source = Xorwow.seed(7, lanes=33, generators=generators)
    first = source.uint32(3001)
    source.jump(12_345)
    return first, source.uniform(1001, -2, 5), source.state


def operations(inputs: Inputs) -> Iterator[tuple[str, Operation]]:
    """Name every call; each returns arrays, in tuples where there are several."""
    from trn3.numerics import tfloat32

    sources = (FLOAT32, FLOAT16, BFLOAT16, E4M3FN, E2M1FN)
    targets = (FLOAT32, FLOAT16, BFLOAT16, *FP8, E2M1FN, tfloat32)
    for source, target, rounding in itertools.product(sources, targets, ROUNDINGS):
        x = inputs[f"codes {source}"]
        yield f"cast {source} to {target} {rounding}", partial(cast, x, target, rounding)

    wide = (FLOAT32, BFLOAT16, FLOAT16)
    choices = itertools.product(wide, MX_ELEMENTS, ("trn3", "ocp", "rceil"), (-1, -2), ROUNDINGS)
    for source, *choice in choices:
        name = f"quantize_mx {source} {' '.join(map(str, choice))}"
        yield name, partial(quantize, inputs[f"normal {source}"], *choice)

    for left, right in MATMUL_PAIRS:
        a, b = inputs[f"a {left}"], inputs[f"b {right}"]
        yield f"matmul {left} {right}", partial(matmul, a, b, inputs["c"])
    for dtype in (FLOAT32, BFLOAT16, E4M3FN):
        a, b = inputs[f"large a {dtype}"], inputs[f"large b {dtype}"]
        yield f"matmul of more rows {dtype}", partial(matmul, a, b)
    for dtype in (FLOAT32, BFLOAT16):
        a, b = inputs[f"wild a {dtype}"], inputs[f"wild b {dtype}"]
        yield f"matmul of any codes {dtype}", partial(matmul, a, b)
        for low in SMALL_EXPONENTS:
            a, b = inputs[f"small a {dtype}"], inputs[f"small b {low} {dtype}"]
            yield f"matmul of exponents -62 and {low} {dtype}", partial(matmul, a, b)
        for rounding in ROUNDINGS:
            a, b = inputs[f"a {dtype}"], inputs[f"b {dtype}"]
            name = f"matmul {dtype} to bfloat16 {rounding}"
            yield name, partial(matmul_to_bfloat16, a, b, rounding)

    kinds = ("ordinary", "small", "wild")
    for left, right, kind in itertools.product(MX_ELEMENTS, MX_ELEMENTS, kinds):
        a, b = inputs[f"mx a {left}"], inputs[f"mx b {right}"]
        a_scales, b_scales = inputs[f"{kind} scales a"], inputs[f"{kind} scales b"]
        yield f"matmul_mx {left} {right} {kind}", partial(matmul_mx, a, a_scales, b, b_scales)

    for pattern in sparse_oracle.PATTERNS:
        dense, pruned = inputs[f"dense {pattern}"], inputs[f"sparse {pattern}"]
        yield f"sparse {pattern}", partial(sparse, inputs["sparse a"], dense, pruned, pattern)

    for dtype in (FLOAT32, BFLOAT16, FLOAT16):
        yield f"exp {dtype}", partial(exp, inputs[f"codes {dtype}"], inputs[f"normal {dtype}"])
    yield "exp with bias", partial(exp_with_bias, inputs["rows"], inputs["bias"])
    for dtype in (FLOAT32, BFLOAT16, FLOAT16, E4M3FN):
        yield f"activation {dtype}", partial(activation, inputs[f"normal {dtype}"])
    yield "activation of any codes", partial(activation, inputs["codes float32"])
    for generators in (1, 4):
        yield f"xorwow {generators}", partial(xorwow, generators)


def flatten(result: Any) -> Iterator[Array]:
    """List the arrays of a result."""
    if isinstance(result, tuple):
        for part in result:
            yield from flatten(part)
    else:
        yield np.asarray(result)


def digest(result: Any) -> str:
    """Hash dtypes, shapes and bytes."""
    state = hashlib.sha256()
    for array in flatten(result):
        state.update(f"{array.dtype} {array.shape}".encode())
        state.update(array.tobytes())
    return state.hexdigest()[:16]


def run(inputs: Inputs) -> dict[str, str]:
    """Call everything and hash the results."""
    return {name: digest(operation()) for name, operation in operations(inputs)}


def run_under_mode(library: str, mode: int) -> dict[str, str]:
    """Run with the processor's rounding and flushing mode set before trn3 is even loaded.

    `library` is the path of a shared library with `get_mode` and `set_mode`. The threads of the
    pool, which start later, inherit the mode. Hashing waits until it is restored.
    """
    inputs = make_inputs()
    processor = ctypes.CDLL(library)
    results: dict[str, Any] = {}
    changed: list[str] = []
    processor.set_mode(mode)
    try:
        for name, operation in operations(inputs):
            results[name] = operation()
            if processor.get_mode() & ~STICKY_FLAGS != mode:
                changed.append(name)
                processor.set_mode(mode)
    finally:
        processor.set_mode(DEFAULT_MODE)
    if changed:
        raise AssertionError(f"these calls changed the caller's mode: {changed}")
    return {name: digest(result) for name, result in results.items()}


def run_in_threads(count: int) -> list[dict[str, str]]:
    """Run in several Python threads at once, while one more changes the size of the pool."""
    import trn3

    inputs = make_inputs()
    sizes = itertools.cycle([1, 2, 3])
    with ThreadPoolExecutor(count) as executor:
        running = [executor.submit(run, inputs) for _ in range(count)]
        while not all(future.done() for future in running):
            trn3.set_num_threads(next(sizes))
            time.sleep(0.01)
        return [future.result() for future in running]


def run_in_fork() -> dict[str, str]:
    """Use the pool, fork, run in the child, and return what the child found."""
    inputs = make_inputs()
    run(inputs)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            lines = [f"{name}={value}" for name, value in run(inputs).items()]
            os.write(writer, "\n".join(lines).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            # Nothing of the parent's clean-up may run twice.
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as stream:
        text = stream.read()
    os.waitpid(child, 0)
    return dict(line.rsplit("=", 1) for line in text.splitlines())
