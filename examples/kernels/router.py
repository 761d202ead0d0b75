"""Top-k router of a mixture of experts: softmax over the experts, the k best and their weights."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax


@nki.jit
def topk_router(logits, k=4):
    """Weights (float32) and experts (uint32) of the k <= 8 largest probabilities of logits [tokens,
    experts], both [tokens, k], weights summing to one.
    """
    tokens, experts = logits.shape
    weights = nl.ndarray((tokens, k), dtype=nl.float32, buffer=nl.shared_hbm)
    chosen = nl.ndarray((tokens, k), dtype=nl.uint32, buffer=nl.shared_hbm)
    for i in nl.affine_range((tokens + P - 1) // P):
        rows = nl.ds(i * P, min(P, tokens - i * P))
        tile = nl.ndarray((rows.size, experts), dtype=nl.float32, buffer=nl.sbuf)
        nisa.dma_copy(dst=tile, src=logits[rows, :])
        best = nl.ndarray((rows.size, 8), dtype=nl.float32, buffer=nl.sbuf)
        nisa.max8(dst=best, src=tile)
        index = nl.ndarray((rows.size, 8), dtype=nl.uint32, buffer=nl.sbuf)
        nisa.nc_find_index8(dst=index, data=tile, vals=best)
        negated = nl.ndarray((rows.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_scalar(negated, best[:, 0:1], op0=nl.multiply, operand0=-1.0)
        powers = nl.ndarray((rows.size, k), dtype=nl.float32, buffer=nl.sbuf)
        total = nl.ndarray((rows.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation_reduce(
            powers, op=nl.exp, data=best[:, 0:k], bias=negated, reduce_op=nl.add, reduce_res=total
        )
        inverse = nl.ndarray((rows.size, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(inverse, total)
        nisa.tensor_scalar(powers, powers, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=weights[rows, :], src=powers)
        nisa.dma_copy(dst=chosen[rows, :], src=index[:, 0:k])
    return weights, chosen


def inputs(tokens=256, experts=128, seed=0):
    """Arguments of :func:`topk_router`."""
    return {
        "logits": np.random.default_rng(seed).standard_normal((tokens, experts), dtype=np.float32)
    }


def golden(logits, k=4):
    """Weights and experts by a stable sort."""
    order = np.argsort(-logits, axis=1, kind="stable")[:, :k]
    best = np.take_along_axis(logits.astype(np.float64), order, axis=1)
    powers = np.exp(best - best[:, :1])
    return powers / powers.sum(axis=1, keepdims=True), order.astype(np.uint32)
