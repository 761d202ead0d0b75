"""Rotary embedding: halves side by side (as HF's models) or pairs interleaved, on head_dim x tokens."""

from typing import Optional, Tuple

import nki
import nki.isa as nisa
import nki.language as nl

from ..core.utils.kernel_assert import kernel_assert
from ..core.utils.kernel_helpers import div_ceil, get_program_sharding_info, shard_dim
from ..core.utils.tensor_view import TensorView
from ..core.utils.tiled_range import TiledRange


@nki.jit
def RoPE(
    x_in: nl.ndarray,
    cos: nl.ndarray,
    sin: nl.ndarray,
    lnc_shard: bool = True,
    contiguous_layout: bool = True,
    relayout_in_sbuf: bool = False,
) -> nl.ndarray:
    """x_in [d, B, heads, S]; cos, sin [d/2, B, S]; returns the shape of x_in."""
    d, B, heads, S = x_in.shape
    half = d // 2
    kernel_assert(d % 2 == 0 and d <= 128, f"head dimension {d}")
    kernel_assert(cos.shape == (half, B, S), f"cos has shape {cos.shape}")
    _, n_prgs, prg_id = get_program_sharding_info()
    if not lnc_shard:
        n_prgs, prg_id = 1, 0
    out = nl.ndarray(x_in.shape, dtype=x_in.dtype, buffer=nl.shared_hbm)
    mine = shard_dim(S, n_prgs, prg_id)
    for tile in TiledRange(mine.size, 512 // heads, start=mine.start):
        for b in nl.affine_range(B):
            n = tile.size
            x_sb = nl.ndarray((d, heads, n), dtype=x_in.dtype, buffer=nl.sbuf)
            cos_sb = nl.ndarray((half, n), dtype=cos.dtype, buffer=nl.sbuf)
            sin_sb = nl.ndarray((half, n), dtype=sin.dtype, buffer=nl.sbuf)
            nisa.dma_copy(dst=cos_sb, src=cos[:, b, tile.ds()])
            nisa.dma_copy(dst=sin_sb, src=sin[:, b, tile.ds()])
            src = TensorView(x_in).select(1, b).slice(2, tile.start_offset, tile.end_offset)
            if contiguous_layout:
                nisa.dma_copy(dst=x_sb, src=src.get_view())
            else:
                # Even rows first, then odd ones: strides of two on the way in.
                for part in range(2):
                    nisa.dma_copy(
                        dst=x_sb[part * half : (part + 1) * half],
                        src=src.slice(0, part, d, step=2).get_view(),
                    )
            RoPE_sbuf(x_sb, cos_sb, sin_sb, x_sb)
            dst = TensorView(out).select(1, b).slice(2, tile.start_offset, tile.end_offset)
            if contiguous_layout:
                nisa.dma_copy(dst=dst.get_view(), src=x_sb)
            else:
                for part in range(2):
                    nisa.dma_copy(
                        dst=dst.slice(0, part, d, step=2).get_view(),
                        src=x_sb[nl.ds(part * half, half)],
                    )
    return out


def RoPE_sbuf(x_sb, cos_sb, sin_sb, out_sb):
    """Rotate [d, heads, n] in SBUF; the second half moves to the first's partitions and back."""
    d, heads, n = x_sb.shape
    half = d // 2
    cos_view = cos_sb.expand_dim(1).broadcast(1, heads)
    sin_view = TensorView(sin_sb).expand_dim(1).broadcast(1, heads).get_view()
    other = nl.ndarray((half, heads, n), dtype=x_sb.dtype, buffer=nl.sbuf)
    # Halves need not start where an engine could reach them.
    nisa.dma_copy(dst=other, src=x_sb[half:d])
    products = [nl.ndarray((half, heads, n), nl.float32, nl.sbuf) for _ in range(4)]
    nisa.tensor_tensor(products[0], x_sb[:half], cos_view, nl.multiply)
    nisa.tensor_tensor(products[1], other, sin_view, op=nl.multiply)
    nisa.tensor_tensor(products[2], other, cos_view, nl.multiply, engine=nisa.gpsimd_engine)
    nisa.tensor_tensor(products[3], x_sb[0:half], sin_view, nl.multiply)
    nisa.tensor_tensor(out_sb[:half], products[0], products[1], nl.subtract)
    turned = nl.ndarray((half, heads, n), out_sb.dtype, nl.sbuf)
    nisa.tensor_tensor(turned, products[2], products[3], nl.add)
    nisa.dma_copy(out_sb[half:d], turned)


@nki.jit
def rope_hf(
    q: nl.ndarray,
    k: nl.ndarray,
    q_out: nl.ndarray,
    k_out: nl.ndarray,
    cos: nl.ndarray,
    sin: nl.ndarray,
    rope_cache: Optional[nl.ndarray] = None,
    backward: bool = False,
) -> Tuple[nl.ndarray, nl.ndarray]:
    """q, k [B, heads, S, d]; cos, sin [B, S, d]; results go into q_out and k_out, given by the caller."""
    if rope_cache is not None:
        kernel_assert(cos is None and sin is None, "either a cache, or cos and sin")
        cos, sin = rope_cache[0], rope_cache[1]
    _, n_prgs, prg_id = get_program_sharding_info()
    P = nl.tile_size.pmax
    B, _, S, d = q.shape
    half = d // 2
    for x, out in [(q, q_out), (k, k_out)]:
        for s in range(prg_id, div_ceil(S, P), n_prgs):
            rows = min(P, S - s * P)
            for b in range(B):
                angles = nl.ndarray((P, 2, d), nl.float32)
                nisa.dma_copy(angles[:rows, 0], cos[b, s * P : s * P + rows])
                nisa.dma_copy(angles[:rows, 1], sin[b, s * P : s * P + rows])
                heads = x.shape[1]
                tile = nl.ndarray((P, heads, d), x.dtype)
                nisa.dma_copy(
                    tile[:rows],
                    x.ap(
                        [[d, rows], [S * d, heads], [1, d]],
                        offset=b * heads * S * d + s * P * d,
                    ),
                )
                result = nl.ndarray((P, heads, d), x.dtype)
                for i in range(heads):
                    turned = nl.ndarray((P, d), nl.float32)
                    nisa.tensor_tensor(
                        turned[:rows, :half],
                        tile[:rows, i, half:],
                        angles[:rows, 1, :half],
                        nl.multiply,
                    )
                    nisa.tensor_tensor(
                        turned[:rows, half:],
                        tile[:rows, i, :half],
                        angles[:rows, 1, half:],
                        nl.multiply,
                    )
                    low, high = (1.0, -1.0) if backward else (-1.0, 1.0)
                    nisa.tensor_scalar(turned[:rows, :half], turned[:rows, :half], nl.multiply, low)
                    nisa.tensor_scalar(
                        turned[:rows, half:], turned[:rows, half:], nl.multiply, high
                    )
                    straight = nl.ndarray((P, d), nl.float32)
                    nisa.tensor_tensor(
                        straight[:rows], tile[:rows, i], angles[:rows, 0], nl.multiply
                    )
                    nisa.tensor_tensor(result[:rows, i], straight[:rows], turned[:rows], nl.add)
                nisa.dma_copy(
                    out.ap(
                        [[d, rows], [S * d, heads], [1, d]],
                        offset=b * heads * S * d + s * P * d,
                    ),
                    result[:rows],
                )
    return q_out, k_out
