"""Several layers of a decoder for one token of each sequence: kernels that call kernels."""

from dataclasses import dataclass
from typing import List, Optional, Tuple

import nki
import nki.isa as nisa
import nki.language as nl

from ..attention.attention_tkg import AttnTkgConfig, KVCache, attention_tkg
from ..core.utils.common_types import NormType
from ..core.utils.kernel_helpers import get_program_sharding_info
from ..core.utils.logger import get_logger
from ..mlp.mlp import MLPParameters, mlp
from ..projection.output_projection import output_projection_tkg
from ..projection.qkv_cte import qkv_cte


class Layer(nl.NKIObject):
    """Weights and cache of one layer."""

    qkv_w: nl.ndarray
    out_w: nl.ndarray
    attn_gamma: nl.ndarray
    mlp_gamma: nl.ndarray
    mlp: MLPParameters
    cache: KVCache


@nki.jit
def transformer_tkg(
    hidden: nl.ndarray,
    layers: List[Layer],
    position_ids: nl.ndarray,
    q_heads: int,
    d_head: int,
    eps: float = 1e-6,
):
    """hidden [bs, H] -> [bs, H], and the caches, one of each layer, updated in place."""
    bs, H = hidden.shape
    _, n_prgs, prg_id = get_program_sharding_info()
    logger = get_logger("transformer_tkg")
    x = hidden
    for index, layer in enumerate(layers):
        logger.debug(f"layer {index}")
        block_len = layer.cache.k.shape[1]
        cfg = AttnTkgConfig(
            bs=bs,
            q_heads=q_heads,
            d_head=d_head,
            block_len=block_len,
            max_blocks=layer.cache.block_table.shape[1],
        )
        qkv = qkv_cte(
            x.reshape((1, bs, H)),
            layer.qkv_w,
            norm_type=NormType.RMS_NORM,
            gamma_norm_weights=layer.attn_gamma,
            norm_eps=eps,
        ).reshape((bs, q_heads + 2, d_head))
        _meet(qkv, n_prgs)
        # Patterns address whole tensors, so that the queries become one; each core has its own.
        queries = nl.ndarray(
            (bs, q_heads, d_head), x.dtype, buffer=nl.private_hbm, name=f"q_{index}"
        )
        nisa.dma_copy(dst=queries, src=qkv[:, 0:q_heads])
        results = attention_tkg(
            queries,
            qkv[:, q_heads],
            qkv[:, q_heads + 1],
            layer.cache,
            position_ids,
            cfg,
        )
        _meet(results["out"], n_prgs)
        projected = output_projection_tkg(
            results["out"].reshape((bs, 1, q_heads, d_head)).permute((3, 0, 2, 1)), layer.out_w
        )
        _meet(projected, n_prgs)
        middle = _add(x, projected, f"attn_residual_{index}", n_prgs, prg_id)
        normed = _norm(middle, layer.mlp_gamma, eps, index, n_prgs, prg_id)
        ffn = mlp(normed, layer.mlp)
        _meet(ffn, n_prgs)
        x = _add(middle, ffn, f"mlp_residual_{index}", n_prgs, prg_id)
    return x, [(layer.cache.k, layer.cache.v) for layer in layers]


def _meet(tensor, n_prgs):
    if n_prgs > 1:
        nisa.core_barrier(tensor, (0, 1))


def _add(a, b, name, n_prgs, prg_id):
    total = nl.ndarray(a.shape, a.dtype, buffer=nl.shared_hbm, name=name)
    if prg_id == 0:
        tile = nl.ndarray(a.shape, a.dtype)
        nisa.dma_compute(tile, [a, b], nl.add, scales=[1.0, 1.0])
        nisa.dma_copy(total, tile)
    _meet(total, n_prgs)
    return total


def _norm(x, gamma, eps, index, n_prgs, prg_id):
    bs, H = x.shape
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name=f"normed_{index}")
    if prg_id == 0:
        tile, square = [nl.ndarray(x.shape, nl.float32) for _ in range(2)]
        nisa.dma_copy(tile, x)
        weights = nl.ndarray(x.shape, nl.float32)
        nisa.dma_copy(weights, gamma.ap([[0, bs], [1, H]]))
        total = nl.ndarray((bs, 1), nl.float32)
        nisa.activation(
            square,
            nl.square,
            tile,
            reduce_op=nl.add,
            reduce_res=total,
            reduce_cmd=nisa.reduce_cmd.reset_reduce,
        )
        nisa.activation(total, nl.rsqrt, total, scale=1.0 / H, bias=eps)
        result = nl.ndarray(x.shape, x.dtype)
        nisa.scalar_tensor_tensor(
            result, data=tile, op0=nl.multiply, operand0=total, op1=nl.multiply, operand1=weights
        )
        nisa.dma_copy(out, result)
    _meet(out, n_prgs)
    return out
