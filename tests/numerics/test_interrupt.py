"""Ctrl-C during a long call raises KeyboardInterrupt at once, and the library still works."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from support.checks import environment, need_memory

DELAY = 0.3
LIMIT = 1.0

PREPARE = """
import sys, time
import ml_dtypes, numpy as np
import trn3
from trn3 import numerics as tn

bf16, e4m3fn = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
wide = np.broadcast_to(np.float32(1.5), (1 << 13, 1 << 13))
"""

RUN = """
small = np.ones((40, 40), dtype=np.float32)
expected = tn.matmul(small, small).tobytes()
print("ready", flush=True)
try:
    call()
except KeyboardInterrupt:
    assert tn.matmul(small, small).tobytes() == expected
    assert np.all(tn.cast(small, bf16) == 1)
    print("interrupted", flush=True)
else:
    print("finished", flush=True)
"""

# Each takes several seconds at the scalar level, and needs at most 2 GB.
CALLS = {
    "matmul": "call = lambda: tn.matmul(wide[:4096, :4096], wide[:4096, :4096])",
    "matmul bfloat16": """
x = np.ones((4096, 4096), dtype=bf16)
call = lambda: tn.matmul(x, x, out_dtype=bf16, rounding="stochastic", rng=tn.Xorwow.seed(1))""",
    "matmul of many small ones": """
a, b = np.broadcast_to(np.float32(1), (1 << 20, 4, 96)), np.ones((96, 24), dtype=np.float32)
call = lambda: tn.matmul(a, b)""",
    "matmul of one long chain": """
long = np.broadcast_to(np.ones((), dtype=e4m3fn), (8, 1 << 30))
call = lambda: tn.matmul(long, long.T)""",
    "matmul_mx": """
e, s = np.ones((4096, 4096), dtype=e4m3fn), np.full((4096, 128), 127, dtype=np.uint8)
a, b = tn.MXArray.from_parts(e, s, axis=-1), tn.MXArray.from_parts(e, s.T, axis=-2)
call = lambda: tn.matmul_mx(a, b)""",
    "matmul_sparse": """
w = tn.compress(tn.prune(np.ones((8192, 4096), dtype=bf16), "4:16"), "4:16")
x = np.ones((8192, 8192), dtype=bf16)
call = lambda: tn.matmul_sparse(x, w)""",
    "quantize_mx": """
big = np.broadcast_to(np.float32(1.5), (1 << 15, 1 << 15))
call = lambda: tn.quantize_mx(big, e4m3fn)""",
    "quantize_mx across": """
big = np.broadcast_to(np.float32(1.5), (1 << 15, 1 << 15))
call = lambda: tn.quantize_mx(big, ml_dtypes.float4_e2m1fn, axis=-2)""",
    "dequantize": """
ones = np.broadcast_to(np.ones((), dtype=e4m3fn), (1 << 14, 1 << 15))
scales = np.full((1 << 14, 1 << 10), 127, dtype=np.uint8)
mx = tn.MXArray.from_parts(ones, scales)
call = lambda: [mx.dequantize(bf16) for _ in range(20)]""",
    "cast": """
big = np.broadcast_to(np.float32(1.5), (1 << 15, 1 << 15))
rng = tn.Xorwow.seed(1)
call = lambda: tn.cast(big, e4m3fn, rounding="stochastic", rng=rng)""",
    "exp": """
big = np.broadcast_to(np.float32(1.5), (1 << 14, 1 << 15))
call = lambda: [tn.exp(big, out_dtype=bf16, accumulate=True) for _ in range(20)]""",
    "activation": """
big = np.broadcast_to(np.float32(1.5), (1 << 14, 1 << 15))
call = lambda: [tn.activation(big, "gelu", out_dtype=bf16) for _ in range(20)]""",
    "xorwow": "call = lambda: [tn.Xorwow.seed(1).uint32(1 << 22) for _ in range(20)]",
    "xorwow of one lane": "call = lambda: tn.Xorwow.seed(1, lanes=1).uint32(1 << 29)",
    "uniform": "call = lambda: [tn.Xorwow.seed(1).uniform(1 << 21) for _ in range(40)]",
    "prune": """
big = np.broadcast_to(np.float32(1.5), (1 << 15, 1 << 14))
call = lambda: tn.prune(big, "4:16")""",
    "compress": """
big = np.zeros((1 << 15, 1 << 14), dtype=bf16)
call = lambda: [tn.compress(big, "4:16") for _ in range(20)]""",
}


@pytest.mark.parametrize("name", CALLS)
def test_keyboard_interrupt(name: str) -> None:
    need_memory(4)
    process = subprocess.Popen(
        [sys.executable, "-c", PREPARE + CALLS[name] + RUN],
        env=environment({"TRN3_SIMD": "scalar"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line == "ready\n", process.communicate(timeout=10)[1]
        time.sleep(DELAY)
        process.send_signal(signal.SIGINT)
        start = time.perf_counter()
        line = process.stdout.readline()
        elapsed = time.perf_counter() - start
        assert line == "interrupted\n", process.communicate(timeout=10)[1]
        assert elapsed < LIMIT
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        process.communicate()
