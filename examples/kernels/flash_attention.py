"""Flash attention for one head, causal or not: forward with running statistics, backward by recomputation.

q and k are [size, tokens] (the head's dimension on partitions, as the array wants both operands), v is [tokens, size];
tokens are a multiple of 128, size is at most 128.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax
LOWEST = -3.0e38


def _mask(scores, query, key):
    """Keep where the query's position is not before the key's."""
    nisa.affine_select(
        scores,
        pattern=[[-1, P]],
        offset=query * P - key * P,
        channel_multiplier=1,
        on_true_tile=scores,
        on_false_value=LOWEST,
        cmp_op=nl.greater_equal,
    )


def _load(view, shape, dtype):
    tile = nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=view)
    return tile


def _rows(tensor, tokens, size):
    """[tokens, size] in HBM as [128, tokens / 128, size] in SBUF: one transfer."""
    tile = nl.ndarray((P, tokens // P, size), dtype=tensor.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=tensor.reshape((tokens // P, P, size)).permute((1, 0, 2)))
    return tile


def _transposed(data, dtype):
    """data.T by TensorE, copied to SBUF."""
    rows, columns = data.shape
    in_psum = nl.ndarray((columns, rows), dtype=data.dtype, buffer=nl.psum)
    nisa.nc_transpose(in_psum, data)
    tile = nl.ndarray((columns, rows), dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(tile, in_psum)
    return tile


@nki.jit
def forward(q, k, v, scale=None, causal=True):
    """``softmax(q.T @ k * scale) @ v``; returns the output [tokens, size] and the log-sum-exp of each row [tokens, 1]."""
    size, tokens = q.shape
    scale = 1.0 / size**0.5 if scale is None else scale
    out = nl.ndarray((tokens, size), dtype=q.dtype, buffer=nl.shared_hbm)
    logsum = nl.ndarray((tokens, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    blocks = tokens // P
    queries = _load(q, (size, tokens), q.dtype)
    keys = _load(k, (size, tokens), k.dtype)
    values = _rows(v, tokens, size)
    for i in nl.affine_range(blocks):
        total = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        largest = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        mixed = nl.ndarray((P, size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(total, 0.0)
        nisa.memset(largest, LOWEST)
        nisa.memset(mixed, 0.0)
        for j in nl.sequential_range(i + 1 if causal else blocks):
            product = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(product, queries[:, nl.ds(i * P, P)], keys[:, nl.ds(j * P, P)])
            scores = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(scores, op=nl.copy, data=product, scale=scale)
            if causal and i == j:
                _mask(scores, i, j)
            peak = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_reduce(peak, op=nl.maximum, data=scores, axis=1)
            raised = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(raised, largest, peak, op=nl.maximum)
            negated = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(negated, raised, op0=nl.multiply, operand0=-1.0)
            # What was summed so far is scaled to the new maximum.
            shrink = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(shrink, op=nl.exp, data=largest, bias=negated)
            weights = nl.ndarray((P, P), dtype=q.dtype, buffer=nl.sbuf)
            part = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation_reduce(
                weights, op=nl.exp, data=scores, bias=negated, reduce_op=nl.add, reduce_res=part
            )
            nisa.scalar_tensor_tensor(total, total, op0=nl.multiply, operand0=shrink, op1=nl.add, operand1=part)
            turned = _transposed(weights, q.dtype)
            share = nl.ndarray((P, size), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(share, turned, values[:, j, :])
            nisa.scalar_tensor_tensor(mixed, mixed, op0=nl.multiply, operand0=shrink, op1=nl.add, operand1=share)
            nisa.tensor_copy(largest, raised)
        inverse = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.reciprocal(inverse, total)
        result = nl.ndarray((P, size), dtype=q.dtype, buffer=nl.sbuf)
        nisa.tensor_scalar(result, mixed, op0=nl.multiply, operand0=inverse)
        nisa.dma_copy(dst=out[nl.ds(i * P, P), :], src=result)
        statistic = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.activation(statistic, op=nl.log, data=total)
        nisa.tensor_tensor(statistic, statistic, largest, op=nl.add)
        nisa.dma_copy(dst=logsum[nl.ds(i * P, P), :], src=statistic)
    return out, logsum


@nki.jit
def backward(q, k, v, out, logsum, grad, scale=None, causal=True):
    """Gradients of q [size, tokens], k [size, tokens] and v [tokens, size] for the gradient ``grad`` of the output."""
    size, tokens = q.shape
    scale = 1.0 / size**0.5 if scale is None else scale
    blocks = tokens // P
    dq = nl.ndarray((tokens, size), dtype=q.dtype, buffer=nl.shared_hbm)
    dk = nl.ndarray((tokens, size), dtype=k.dtype, buffer=nl.shared_hbm)
    dv = nl.ndarray((tokens, size), dtype=v.dtype, buffer=nl.shared_hbm)
    queries = _load(q, (size, tokens), q.dtype)
    keys = _load(k, (size, tokens), k.dtype)
    values, grads, outs = _rows(v, tokens, size), _rows(grad, tokens, size), _rows(out, tokens, size)
    query_rows = nl.ndarray((P, blocks, size), dtype=q.dtype, buffer=nl.sbuf)
    key_rows = nl.ndarray((P, blocks, size), dtype=k.dtype, buffer=nl.sbuf)
    value_columns = nl.ndarray((size, tokens), dtype=v.dtype, buffer=nl.sbuf)
    grad_columns = nl.ndarray((size, tokens), dtype=grad.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(blocks):
        block = nl.ds(i * P, P)
        nisa.tensor_copy(query_rows[:, i, :], _transposed(queries[:, block], q.dtype))
        nisa.tensor_copy(key_rows[:, i, :], _transposed(keys[:, block], k.dtype))
        nisa.tensor_copy(value_columns[:, block], _transposed(values[:, i, :], v.dtype))
        nisa.tensor_copy(grad_columns[:, block], _transposed(grads[:, i, :], grad.dtype))
    query_grads = nl.ndarray((P, blocks, size), dtype=nl.float32, buffer=nl.sbuf)
    key_grads = nl.ndarray((P, blocks, size), dtype=nl.float32, buffer=nl.sbuf)
    value_grads = nl.ndarray((P, blocks, size), dtype=nl.float32, buffer=nl.sbuf)
    for gradient in (query_grads, key_grads, value_grads):
        nisa.memset(gradient, 0.0)
    for i in nl.affine_range(blocks):
        block = nl.ds(i * P, P)
        negated = _load(logsum[block, :], (P, 1), nl.float32)
        nisa.tensor_scalar(negated, negated, op0=nl.multiply, operand0=-1.0)
        products = nl.ndarray((P, size), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_tensor(products, outs[:, i, :], grads[:, i, :], op=nl.multiply)
        delta = nl.ndarray((P, 1), dtype=nl.float32, buffer=nl.sbuf)
        nisa.tensor_reduce(delta, op=nl.add, data=products, axis=1)
        for j in nl.sequential_range(i + 1 if causal else blocks):
            other = nl.ds(j * P, P)
            product = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(product, queries[:, block], keys[:, other])
            scores = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.sbuf)
            nisa.activation(scores, op=nl.copy, data=product, scale=scale)
            if causal and i == j:
                _mask(scores, i, j)
            weights = nl.ndarray((P, P), dtype=q.dtype, buffer=nl.sbuf)
            nisa.activation(weights, op=nl.exp, data=scores, bias=negated)
            value_share = nl.ndarray((P, size), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(value_share, weights, grads[:, i, :])
            nisa.tensor_tensor(value_grads[:, j, :], value_grads[:, j, :], value_share, op=nl.add)
            weight_grads = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(weight_grads, grad_columns[:, block], value_columns[:, other])
            score_grads = nl.ndarray((P, P), dtype=nl.float32, buffer=nl.sbuf)
            nisa.scalar_tensor_tensor(
                score_grads, weight_grads, op0=nl.subtract, operand0=delta, op1=nl.multiply, operand1=weights
            )
            scaled = nl.ndarray((P, P), dtype=q.dtype, buffer=nl.sbuf)
            nisa.tensor_scalar(scaled, score_grads, op0=nl.multiply, operand0=scale)
            key_share = nl.ndarray((P, size), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(key_share, scaled, query_rows[:, i, :])
            nisa.tensor_tensor(key_grads[:, j, :], key_grads[:, j, :], key_share, op=nl.add)
            turned = _transposed(scaled, q.dtype)
            query_share = nl.ndarray((P, size), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(query_share, turned, key_rows[:, j, :])
            nisa.tensor_tensor(query_grads[:, i, :], query_grads[:, i, :], query_share, op=nl.add)
    for target, gradient in ((dq, query_grads), (dk, key_grads), (dv, value_grads)):
        rounded = nl.ndarray((P, blocks, size), dtype=target.dtype, buffer=nl.sbuf)
        nisa.tensor_copy(rounded, gradient)
        nisa.dma_copy(dst=target.reshape((blocks, P, size)).permute((1, 0, 2)), src=rounded)
    return dq, dk, dv


def forward_inputs(tokens=512, size=64, dtype=nl.bfloat16, seed=0):
    """Arguments of :func:`forward`."""
    rng = np.random.default_rng(seed)
    shapes = {"q": (size, tokens), "k": (size, tokens), "v": (tokens, size)}
    return {name: rng.standard_normal(shape, dtype=np.float32).astype(dtype) for name, shape in shapes.items()}


def forward_golden(q, k, v, causal=True):
    """Attention in float64, and the log-sum-exp of each row."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q.T @ k / np.sqrt(q.shape[0])
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape, bool)), scores, -np.inf)
    largest = scores.max(axis=1, keepdims=True)
    weights = np.exp(scores - largest)
    total = weights.sum(axis=1, keepdims=True)
    return weights / total @ v, np.log(total) + largest


def backward_inputs(tokens=256, size=64, dtype=nl.bfloat16, seed=0):
    """Arguments of :func:`backward`, with the forward pass's results from NumPy."""
    arguments = forward_inputs(tokens, size, dtype, seed)
    out, logsum = forward_golden(**arguments)
    grad = np.random.default_rng(seed + 1).standard_normal((tokens, size), dtype=np.float32)
    return {**arguments, "out": out.astype(dtype), "logsum": logsum.astype(np.float32), "grad": grad.astype(dtype)}


def backward_golden(q, k, v, out, logsum, grad, causal=True):
    """Gradients in float64, each [tokens, size]."""
    q, k, v, out, logsum, grad = (x.astype(np.float64) for x in (q, k, v, out, logsum, grad))
    scale = 1.0 / np.sqrt(q.shape[0])
    weights = np.exp(q.T @ k * scale - logsum)
    if causal:
        weights = np.tril(weights)
    delta = (out * grad).sum(axis=1, keepdims=True)
    score_grads = weights * (grad @ v.T - delta) * scale
    return score_grads @ k.T, score_grads.T @ q.T, weights.T @ grad
