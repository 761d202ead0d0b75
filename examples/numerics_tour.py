"""The README's ten lines, with what they must show asserted below them."""

import numpy as np

import trn3
from trn3 import numerics as tn

rng = np.random.default_rng(0)
x = rng.standard_normal((4, 64), np.float32)
w = rng.standard_normal((64, 4), np.float32)
qx = tn.quantize_mx(x, "float8_e4m3fn")  # blocks of 32 along K, as QuantizeMX scales them
qw = tn.quantize_mx(w, "float4_e2m1fn", axis=-2)
print(tn.matmul_mx(qx, qw)[0])  # the 512-row array, float32 chains in ascending k
print(x[0] @ w)  # the same in float32
print(f"{8 * qw.nbytes / w.size} bits a weight, at SIMD level {trn3.simd_level()}")

assert qx.scales.shape == (4, 2)
assert qw.scales.shape == (2, 4)
assert 8 * qx.nbytes == 8.25 * x.size
assert 8 * qw.nbytes == 4.25 * w.size
# One tile of 64 steps: the chain, written out with NumPy's own float32 arithmetic. The products of
# these narrow values are exact, so rounding the sum is all that a fused step does.
chain = np.zeros((4, 4), np.float32)
for column, row in zip(qx.dequantize().T, qw.dequantize(), strict=True):
    chain += np.outer(column, row)
np.testing.assert_array_equal(tn.matmul_mx(qx, qw), chain)
# What quantization costs: no more than the roundings of both operands can add up to.
bound = abs(qx.dequantize()) @ abs(qw.dequantize() - w) + abs(qx.dequantize() - x) @ abs(w)
assert np.all(abs(chain - x @ w) <= bound + 1e-4)
