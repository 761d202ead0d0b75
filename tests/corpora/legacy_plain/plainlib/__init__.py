"""Kernels of the legacy dialect as people wrote them, who left places on chip to a compiler.

They are written from the language's reference for NKI 0.1 (SDK 2.20 to 2.26) in the manner of its
time: arrays of tiles by block axes, index expressions, masks, operators, every intermediate a new
tile, accumulators in PSUM declared where they are first needed. Each has sizes at which it fits as
written, and sizes at which it was meant to run. At the latter these do not fit as written:

| kernel | lacks | trn1 | trn2 | what is alive at once |
| --- | --- | --- | --- | --- |
| `attention_scores_in_psum` | PSUM | no | no | scores of all queries, read in a second loop |
| `flash_backward` | PSUM | no | no | gradients of all queries beside seven products |
| `decode_attention` | SBUF | no | yes | scores, positions, mask and powers of 8192 tokens |
| `adam_update` | SBUF | no | no | eight and more tiles of 32 KiB a partition |
| `residual_chain` | SBUF | no | no | every layer's result, 32 KiB a partition each |
| `transpose_by_rows` | PSUM | no | no | 16 turned tiles, a bank each |
| `conv1d` | PSUM | no | no | sums of all tokens while weights pass |
| `layernorm_wide` | SBUF | no | no | every line of the formula, 32 KiB a partition each |
| `groupnorm` | SBUF | no | no | a group of 64 KiB a partition, centred, scaled and shifted |
| `cross_entropy` | SBUF | no | no | logits, powers, a mask, its product, 48 KiB a partition each |
| `matmul_row_in_psum` | PSUM | no | no | 16 tiles of a row of results while k passes |
| `matmul_all_in_psum` | PSUM | no | no | all 16 tiles of the result, copied in a second loop |
| `matmul_whole_operands` | SBUF | no | no | both operands, 256 KiB a partition |
| `mlp_silu_gate` | PSUM | no | no | 8 banks of gate and 8 of up |
| `mamba_long` | SBUF | no | no | rows of 8192 tokens, 32 KiB a partition each |

The others fit on both.
"""

from plainlib import attention, elementwise, norms, products, scans, windows
from plainlib.case import CASES, PlainCase

__all__ = [
    "CASES",
    "PlainCase",
    "attention",
    "elementwise",
    "norms",
    "products",
    "scans",
    "windows",
]
