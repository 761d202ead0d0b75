"""Flash attention for one head, causal or not: forward with running statistics, backward by
recomputation.

q and k are [size, tokens] (the head's dimension on partitions, as the array wants both operands), v
is [tokens, size]; tokens are a multiple of 128, size is at most 128.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax
KEYS = nl.tile_size.gemm_moving_fmax
LOWEST = -3.0e38


def _mask(tile, query, key, value):
    """Replace by ``value`` what lies after the query: rows are queries from ``query``, columns keys
    from ``key``.
    """
    nisa.affine_select(
        tile,
        pattern=[[-1, tile.shape[1]]],
        offset=query - key,
        channel_multiplier=1,
        on_true_tile=tile,
        on_false_value=value,
        cmp_op=nl.greater_equal,
    )


def _sbuf(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def _psum(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def _load(view, shape, dtype):
    tile = _sbuf(shape, dtype)
    nisa.dma_copy(dst=tile, src=view)
    return tile


def _by_tile(tensor, tokens, size):
    """[tokens, size] in HBM as [128, tokens / 128, size]."""
    return tensor.reshape((tokens // P, P, size)).permute((1, 0, 2))


def _keys_seen(query, start, tokens, causal):
    """How many keys from ``start`` on a tile of queries sees in one block; 0 if none."""
    return max(0, min(KEYS, (query + P if causal else tokens) - start))


@nki.jit
def forward(q, k, v, scale=None, causal=True, group=4):
    """``softmax(q.T @ k * scale) @ v``; returns the output [tokens, size] and the log-sum-exp of
    each row [tokens, 1].

    Blocks of 512 keys meet ``group`` <= 4 tiles of 128 queries, stage by stage, so that each engine
    has another tile to work on while one waits.
    """
    size, tokens = q.shape
    blocks = tokens // P
    scale = scale or 1.0 / size**0.5
    out = nl.ndarray((tokens, size), dtype=q.dtype, buffer=nl.shared_hbm)
    logsum = nl.ndarray((tokens, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    queries = _load(q, (size, tokens), q.dtype)
    keys = _load(k, (size, tokens), k.dtype)
    values = _load(_by_tile(v, tokens, size), (P, blocks, size), v.dtype)
    # Of each row, one column a tile: its largest score so far, and the sum of its weights.
    largest, total = _sbuf((P, blocks)), _sbuf((P, blocks))
    nisa.memset(largest, LOWEST)
    nisa.memset(total, 0.0)
    for first in nl.affine_range(0, blocks, group):
        tiles = range(first, min(first + group, blocks))
        mixed = _sbuf((P, len(tiles), size))
        nisa.memset(mixed, 0.0)
        for start in nl.sequential_range(0, tokens, KEYS):
            seen = [(i, _keys_seen(i * P, start, tokens, causal)) for i in tiles]
            seen = [(i, width) for i, width in seen if width]
            scores, negated, shrink, weights, part, shares = [], [], [], [], [], []
            for i, width in seen:
                scores.append(_psum((P, width)))
                nisa.nc_matmul(
                    scores[-1], queries[:, nl.ds(i * P, P)], keys[:, nl.ds(start, width)]
                )
            for n, (i, width) in enumerate(seen):
                if causal and start + width > i * P:
                    unmasked, scores[n] = scores[n], _sbuf((P, width))
                    nisa.tensor_copy(scores[n], unmasked)
                    _mask(scores[n], i * P, start, LOWEST)
                peak, raised = _sbuf((P, 1)), _sbuf((P, 1))
                negated.append(_sbuf((P, 1)))
                nisa.tensor_reduce(peak, op=nl.maximum, data=scores[n], axis=1)
                before = largest[:, i : i + 1]
                nisa.scalar_tensor_tensor(
                    raised, peak, op0=nl.multiply, operand0=scale, op1=nl.maximum, operand1=before
                )
                nisa.tensor_scalar(negated[n], raised, op0=nl.multiply, operand0=-1.0)
                # What was summed so far is scaled to the new maximum.
                shrink.append(_sbuf((P, 1)))
                nisa.activation(shrink[n], op=nl.exp, data=before, bias=negated[n])
                nisa.tensor_copy(before, raised)
            for n, (i, width) in enumerate(seen):
                weights.append(_sbuf((P, width), q.dtype))
                part.append(_sbuf((P, 1)))
                nisa.activation_reduce(
                    weights[n],
                    op=nl.exp,
                    data=scores[n],
                    bias=negated[n],
                    scale=scale,
                    reduce_op=nl.add,
                    reduce_res=part[n],
                )
                sums = total[:, i : i + 1]
                nisa.scalar_tensor_tensor(
                    sums, sums, op0=nl.multiply, operand0=shrink[n], op1=nl.add, operand1=part[n]
                )
            unmasked = None
            scores.clear()
            for n, (i, _) in enumerate(seen):
                weights[n] = _turned(
                    weights[n], nisa.scalar_engine if i % 2 else nisa.vector_engine
                )
            for n, (_, width) in enumerate(seen):
                shares.append(_psum((P, size)))
                for tile in nl.sequential_range(width // P):
                    nisa.nc_matmul(
                        shares[n], weights[n][:, tile, :], values[:, start // P + tile, :]
                    )
            for n, (i, _) in enumerate(seen):
                sums = mixed[:, i - first, :]
                nisa.scalar_tensor_tensor(
                    sums, sums, op0=nl.multiply, operand0=shrink[n], op1=nl.add, operand1=shares[n]
                )
        for i in tiles:
            inverse, result = _sbuf((P, 1)), _sbuf((P, size), q.dtype)
            nisa.reciprocal(inverse, total[:, i : i + 1])
            nisa.tensor_scalar(result, mixed[:, i - first, :], op0=nl.multiply, operand0=inverse)
            nisa.dma_copy(dst=out[nl.ds(i * P, P), :], src=result)
    # Once for all rows: each change between exp and log would load ScalarE's tables anew.
    statistic = _sbuf((P, blocks))
    nisa.activation(statistic, op=nl.log, data=total)
    nisa.tensor_tensor(statistic, statistic, largest, op=nl.add)
    nisa.dma_copy(dst=logsum.reshape((blocks, P)).permute((1, 0)), src=statistic)
    return out, logsum


def _turned(data, engine):
    """[128, n * 128] as n transposed tiles [128, n, 128], by TensorE through one bank of PSUM."""
    count = data.shape[1] // P
    turned = _psum((P, count, P), data.dtype)
    for tile in nl.affine_range(count):
        nisa.nc_transpose(turned[:, tile, :], data[:, nl.ds(tile * P, P)])
    result = _sbuf((P, count, P), data.dtype)
    nisa.tensor_copy(result, turned, engine=engine)
    return result


def _transposed(data):
    """data.T [rows, columns], both at most 128, in SBUF."""
    rows, columns = data.shape
    turned, result = _psum((columns, rows), data.dtype), _sbuf((columns, rows), data.dtype)
    nisa.nc_transpose(turned, data)
    nisa.tensor_copy(result, turned)
    return result


@nki.jit
def backward(q, k, v, out, logsum, grad, scale=None, causal=True):
    """Gradients of q, k and v, each [tokens, size], for the gradient ``grad`` of the output.

    The products that make weights and their gradients are issued one block ahead of those that use
    them.
    """
    size, tokens = q.shape
    blocks = tokens // P
    scale = scale or 1.0 / size**0.5
    targets = [nl.ndarray((tokens, size), dtype=x.dtype, buffer=nl.shared_hbm) for x in (q, k, v)]
    queries, keys = _load(q, (size, tokens), q.dtype), _load(k, (size, tokens), k.dtype)
    values, grads, outs = (
        _load(_by_tile(x, tokens, size), (P, blocks, size), x.dtype) for x in (v, grad, out)
    )
    negated = _load(logsum.reshape((blocks, P)).permute((1, 0)), (P, blocks), nl.float32)
    nisa.tensor_scalar(negated, negated, op0=nl.multiply, operand0=-1.0)
    products, delta = _sbuf((P, blocks, size)), _sbuf((P, blocks))
    nisa.tensor_tensor(products, outs, grads, op=nl.multiply)
    nisa.tensor_reduce(delta, op=nl.add, data=products, axis=2)
    query_rows, key_rows = _sbuf((P, blocks, size), q.dtype), _sbuf((P, blocks, size), k.dtype)
    value_columns, grad_columns = _sbuf((size, tokens), v.dtype), _sbuf((size, tokens), grad.dtype)
    for i in nl.affine_range(blocks):
        block = nl.ds(i * P, P)
        nisa.tensor_copy(query_rows[:, i, :], _transposed(queries[:, block]))
        nisa.tensor_copy(key_rows[:, i, :], _transposed(keys[:, block]))
        nisa.tensor_copy(value_columns[:, block], _transposed(values[:, i, :]))
        nisa.tensor_copy(grad_columns[:, block], _transposed(grads[:, i, :]))
    query_grads, key_grads, value_grads = (_sbuf((P, blocks, size)) for _ in range(3))
    for gradient in (query_grads, key_grads, value_grads):
        nisa.memset(gradient, 0.0)

    def weights_of(i, start, width):
        """Weights [queries, keys] and their gradients, less each row's share, times the weights."""
        block, others = nl.ds(i * P, P), nl.ds(start, width)
        scores, weight_grads = _psum((P, width)), _psum((P, width))
        nisa.nc_matmul(scores, queries[:, block], keys[:, others])
        nisa.nc_matmul(weight_grads, grad_columns[:, block], value_columns[:, others])
        weights, score_grads = _sbuf((P, width), q.dtype), _sbuf((P, width), q.dtype)
        nisa.activation(weights, op=nl.exp, data=scores, scale=scale, bias=negated[:, i : i + 1])
        if causal and start + width > i * P:
            _mask(weights, i * P, start, 0.0)
        nisa.scalar_tensor_tensor(
            score_grads,
            weight_grads,
            op0=nl.subtract,
            operand0=delta[:, i : i + 1],
            op1=nl.multiply,
            operand1=weights,
        )
        return weights, score_grads

    steps = [
        (i, start, width)
        for i in range(blocks)
        for start in range(0, tokens, KEYS)
        if (width := _keys_seen(i * P, start, tokens, causal))
    ]
    ahead = weights_of(*steps[0])
    for number, (i, start, width) in enumerate(steps):
        weights, score_grads = ahead
        ahead = weights_of(*steps[number + 1]) if number + 1 < len(steps) else ahead
        count, tiles = width // P, nl.ds(start // P, width // P)
        value_share, key_share, query_share = (
            _psum((P, count, size)),
            _psum((P, count, size)),
            _psum((P, size)),
        )
        for tile in nl.affine_range(count):
            nisa.nc_matmul(value_share[:, tile, :], weights[:, nl.ds(tile * P, P)], grads[:, i, :])
            nisa.nc_matmul(
                key_share[:, tile, :], score_grads[:, nl.ds(tile * P, P)], query_rows[:, i, :]
            )
        turned = _turned(score_grads, nisa.scalar_engine)
        for tile in nl.sequential_range(count):
            nisa.nc_matmul(query_share, turned[:, tile, :], key_rows[:, start // P + tile, :])
        nisa.tensor_tensor(
            value_grads[:, tiles, :], value_grads[:, tiles, :], value_share, op=nl.add
        )
        nisa.tensor_tensor(key_grads[:, tiles, :], key_grads[:, tiles, :], key_share, op=nl.add)
        nisa.tensor_tensor(query_grads[:, i, :], query_grads[:, i, :], query_share, op=nl.add)
        del value_share, key_share, query_share
    for target, gradient, factor in zip(
        targets, (query_grads, key_grads, value_grads), (scale, scale, 1.0), strict=True
    ):
        rounded = _sbuf((P, blocks, size), target.dtype)
        nisa.tensor_scalar(rounded, gradient, op0=nl.multiply, operand0=factor)
        nisa.dma_copy(dst=_by_tile(target, tokens, size), src=rounded)
    return tuple(targets)


def forward_inputs(tokens=512, size=64, dtype=nl.bfloat16, seed=0):
    """Arguments of :func:`forward`."""
    rng = np.random.default_rng(seed)
    shapes = {"q": (size, tokens), "k": (size, tokens), "v": (tokens, size)}
    return {
        name: rng.standard_normal(shape, dtype=np.float32).astype(dtype)
        for name, shape in shapes.items()
    }


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
    out, logsum = forward_golden(arguments["q"], arguments["k"], arguments["v"])
    grad = np.random.default_rng(seed + 1).standard_normal((tokens, size), dtype=np.float32)
    return {
        **arguments,
        "out": out.astype(dtype),
        "logsum": logsum.astype(np.float32),
        "grad": grad.astype(dtype),
    }


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
