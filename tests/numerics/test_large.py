"""Sizes beyond 32 bits, and the memory a call may take: inputs, outputs and at most 64 MB."""

from __future__ import annotations

import subprocess
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from oracle import operands
from oracle.operands import BFLOAT16, E4M3FN, E5M2, FLOAT32
from support.checks import need_memory, run_python
from trn3.numerics import Xorwow, cast, exp, matmul, quantize_mx

Array = npt.NDArray[Any]


# No power of two: an offset that lost its upper bits must not fall on the same place of a row.
COLUMNS = 65_568


def assert_every_row(got: Array, row: Array, chunk: int = 1 << 11) -> None:
    """Compare each row of a large array with the one it should be."""
    unit = np.uint64 if row.nbytes % 8 == 0 else np.uint8
    wanted = np.ascontiguousarray(row).view(unit)
    for start in range(0, len(got), chunk):
        part = got[start : start + chunk].view(unit)
        assert np.array_equal(part, np.broadcast_to(wanted, part.shape)), f"from row {start}"


def test_cast_of_more_than_2_32_elements() -> None:
    """Every element of 4.3 billion is right, in a result of more than 2^32 bytes."""
    need_memory(12)
    row = operands.codes(np.random.default_rng(1), (COLUMNS,), E4M3FN)
    x = np.broadcast_to(row, (65_537, COLUMNS))
    assert x.size > 1 << 32
    got = cast(x, E5M2, overflow="saturate")
    assert got.shape == x.shape
    assert_every_row(got, cast(row, E5M2, overflow="saturate"))


def test_cast_of_an_input_of_more_than_2_31_bytes() -> None:
    """The input lies in memory for real: offsets of it are beyond 2^31 bytes."""
    need_memory(12)
    x = np.empty((8_209, COLUMNS), dtype=np.float32)
    row = operands.normal(np.random.default_rng(2), (COLUMNS,), FLOAT32)
    x[...] = row
    x[-1] = -row
    assert x.nbytes > 1 << 31
    # Every second row from the end, so that the largest offset comes first.
    got = cast(x[::-2], BFLOAT16)
    assert np.array_equal(got[0].view(np.uint16), cast(-row, BFLOAT16).view(np.uint16))
    assert_every_row(got[1:], cast(row, BFLOAT16))


def test_quantize_mx_of_more_than_2_31_bytes() -> None:
    need_memory(12)
    row = operands.normal(np.random.default_rng(3), (COLUMNS,), FLOAT32)
    x = np.broadcast_to(row, (8_209, COLUMNS))
    got, expected = quantize_mx(x, E4M3FN), quantize_mx(row[None], E4M3FN)
    assert_every_row(got.elements, expected.elements[0])
    assert_every_row(got.scales, expected.scales[0])


def test_exp_of_more_than_2_31_bytes() -> None:
    need_memory(12)
    row = operands.normal(np.random.default_rng(4), (COLUMNS,), FLOAT32)
    x = np.broadcast_to(row, (8_209, COLUMNS))
    got, sums = exp(x, out_dtype=BFLOAT16, accumulate=True)
    expected, expected_sums = exp(row[None], out_dtype=BFLOAT16, accumulate=True)
    assert_every_row(got, expected[0])
    assert np.array_equal(sums, np.broadcast_to(expected_sums, sums.shape))


def test_xorwow_of_more_than_2_31_bytes() -> None:
    """The last draws are those that a jump leads to."""
    need_memory(12)
    count = (1 << 25) + 5
    rng = Xorwow.seed(5, lanes=17)
    ahead = Xorwow.seed(5, lanes=17)
    draws = rng.uint32(count)
    assert draws.nbytes > 1 << 31
    ahead.jump(count - 100)
    assert np.array_equal(draws[:, -100:], ahead.uint32(100))
    assert rng == ahead


def test_matmul_with_a_result_of_more_than_2_31_bytes() -> None:
    need_memory(12)
    random = np.random.default_rng(6)
    m, n = 23_211, 23_173
    a, b = operands.normal(random, (m, 3), BFLOAT16), operands.normal(random, (3, n), BFLOAT16)
    got = matmul(a, b)
    assert got.nbytes > 1 << 31
    for rows in (slice(0, 3), slice(m // 2, m // 2 + 3), slice(m - 3, m)):
        assert np.array_equal(got[rows], matmul(a[rows], b))


def zeros(shape: tuple[int, ...]) -> Array:
    """Make zeros that take no memory: pages never written to share one page of zeros."""
    return np.zeros(shape, dtype=np.uint8).view(E4M3FN)


def test_matmul_with_an_operand_of_more_than_2_31_bytes() -> None:
    need_memory(12)
    m, k = (1 << 20) + 1, 2_051
    a, b = zeros((m, k)), zeros((k, 1))
    assert a.nbytes > 1 << 31
    b[0, 0], b[-1, 0] = 3, 7
    expected = np.zeros((m, 1), dtype=np.float32)
    for row in (0, m // 2, m - 1):
        a[row, 0], a[row, -1] = row % 5 + 1, 2
        expected[row] = 3 * (row % 5 + 1) + 14
    assert np.array_equal(matmul(a, b), expected)


@pytest.mark.slow
def test_matmul_with_more_than_2_31_steps() -> None:
    """A single row of more than 2^31 numbers: the last ones count, and nothing else does."""
    need_memory(12)
    k = (1 << 31) + 131
    a, b = zeros((1, k)), zeros((k, 1))
    a[0, 0], b[0, 0] = 2, 3
    a[0, -1], b[-1, 0] = 5, 7
    a[0, -130], b[-130, 0] = 0.5, 0.25
    assert matmul(a, b)[0, 0] == 6 + 35 + 0.125


PEAK = """
import pathlib, sys
import ml_dtypes, numpy as np
import trn3
from trn3 import numerics as tn

bf16, e4m3fn, e2m1 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn

def memory(field):
    status = pathlib.Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) << 10

def filled(shape, dtype, value=1.5):
    array = np.empty(shape, dtype=dtype)
    array[...] = np.array(value).astype(dtype)
    return array

def arrays(result):
    if isinstance(result, tuple):
        return [array for part in result for array in arrays(part)]
    if isinstance(result, np.ndarray):
        return [result]
    return [getattr(result, name) for name in PARTS if hasattr(result, name)]

PARTS = ("elements", "scales", "values", "indices")
trn3.set_num_threads(2)
tn.matmul(filled((64, 64), bf16), filled((64, 64), bf16))  # starts the pool
exec(sys.argv[1])
pathlib.Path("/proc/self/clear_refs").write_text("5")
before = memory("VmRSS")
result = call()
peak = memory("VmHWM")
outputs = sum(array.nbytes for array in arrays(result))
print((peak - before - outputs) >> 20)
"""

# Inputs of about 256 MB each, many of them strided so that a packed copy would show.
PEAK_CALLS = {
    "cast": "x = filled((1 << 13, 1 << 13), 'f4'); call = lambda: tn.cast(x, bf16)",
    "cast, transposed": "x = filled((1 << 13, 1 << 13), 'f4').T; call = lambda: tn.cast(x, e4m3fn)",
    "cast, big-endian": "x = filled((1 << 13, 1 << 13), '>f4'); call = lambda: tn.cast(x, bf16)",
    "cast, stochastic": """
x = filled((1 << 13, 1 << 13), 'f4')[:, ::-1]
call = lambda: tn.cast(x, bf16, rounding='stochastic', rng=tn.Xorwow.seed(1))""",
    "quantize_mx": """
x = filled((1 << 13, 1 << 13), 'f4')
call = lambda: tn.quantize_mx(x, e4m3fn)""",
    "quantize_mx, axis -2": """
x = filled((1 << 13, 1 << 13), 'f4')
call = lambda: tn.quantize_mx(x, e2m1, axis=-2)""",
    "quantize_mx, transposed": """
x = filled((1 << 13, 1 << 13), 'f4').T
call = lambda: tn.quantize_mx(x, e4m3fn)""",
    "quantize_mx, stochastic": """
x = filled((1 << 13, 1 << 13), 'f4')
call = lambda: tn.quantize_mx(x, e4m3fn, rounding='stochastic', rng=tn.Xorwow.seed(1))""",
    "dequantize": """
mx = tn.MXArray.from_parts(filled((1 << 14, 1 << 14), e4m3fn), filled((1 << 14, 1 << 9), 'u1', 127))
call = lambda: mx.dequantize(bf16)""",
    "exp": """
x = filled((1 << 13, 1 << 13), 'f4')
call = lambda: tn.exp(x, accumulate=True)""",
    "exp, transposed": """
x = filled((1 << 13, 1 << 13), 'f4').T
call = lambda: tn.exp(x, out_dtype=bf16)""",
    "xorwow": "call = lambda: tn.Xorwow.seed(1).uint32(1 << 19)",
    "uniform": "call = lambda: tn.Xorwow.seed(1).uniform(1 << 19)",
    "matmul": """
a, b = filled((1 << 16, 1 << 11), bf16), filled((1 << 11, 64), bf16)
call = lambda: tn.matmul(a, b)""",
    "matmul, transposed": """
a, b = filled((1 << 11, 1 << 16), bf16).T, filled((64, 1 << 11), bf16).T
call = lambda: tn.matmul(a, b)""",
    "matmul, large b": """
a, b = filled((64, 1 << 11), bf16), filled((1 << 16, 1 << 11), bf16).T
call = lambda: tn.matmul(a, b)""",
    "matmul, float32 with c": """
a, b = filled((1 << 14, 1 << 12), 'f4'), filled((1 << 12, 256), 'f4')[:, ::-1]
c = filled((256, 1 << 14), 'f4').T
call = lambda: tn.matmul(a, b, c=c)""",
    "matmul, fp8 widened": """
a, b = filled((1 << 16, 1 << 12), e4m3fn), filled((1 << 12, 48), e4m3fn)
call = lambda: tn.matmul(a, b)""",
    "matmul, stochastic": """
a, b = filled((1 << 13, 256), bf16), filled((256, 1 << 13), bf16)
rng = tn.Xorwow.seed(1)
call = lambda: tn.matmul(a, b, out_dtype=bf16, rounding='stochastic', rng=rng)""",
    "matmul_mx": """
a = tn.MXArray.from_parts(filled((1 << 16, 1 << 12), e4m3fn), filled((1 << 16, 1 << 7), 'u1', 127))
b = tn.MXArray.from_parts(filled((1 << 12, 48), e2m1), filled((1 << 7, 48), 'u1', 127), axis=-2)
call = lambda: tn.matmul_mx(a, b)""",
    "prune": """
x = filled((1 << 13, 1 << 13), 'f4')
call = lambda: tn.prune(x, '4:16')""",
    "compress": """
x = np.zeros((1 << 14, 1 << 13), bf16)
x[::4] = 1
call = lambda: tn.compress(x, '4:16')""",
    "matmul_sparse": """
x = np.zeros((1 << 14, 1 << 13), bf16)
x[::4] = 1
w, a = tn.compress(x, '4:16'), filled((48, 1 << 14), bf16)
call = lambda: tn.matmul_sparse(a, w)""",
    "matmul_sparse, large a": """
x = np.zeros((1 << 11, 48), bf16)
x[::4] = 1
w, a = tn.compress(x, '4:16'), filled((1 << 11, 1 << 16), bf16).T
call = lambda: tn.matmul_sparse(a, w)""",
}


def extra_megabytes(finished: subprocess.CompletedProcess[str]) -> int:
    assert finished.returncode == 0, finished.stderr
    return int(finished.stdout)


def test_the_measure_of_memory_sees_a_copy() -> None:
    need_memory(4)
    call = "x = filled((1 << 13, 1 << 13), 'f4'); call = lambda: (x.copy() + 1).astype(bf16)"
    assert extra_megabytes(run_python(PEAK, call)) > 200


@pytest.mark.parametrize("name", PEAK_CALLS)
def test_peak_memory(name: str) -> None:
    need_memory(4)
    assert extra_megabytes(run_python(PEAK, PEAK_CALLS[name])) <= 64
