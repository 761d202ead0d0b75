"""Attention and MLP of one layer of a sentence encoder, from bfloat16 operands, summed in float32.

Both take x [features, tokens] and return what is added to the residual stream, [features, tokens]
in float32. Weights are [in, out], biases [out, 1] in float32; features, hidden units and tokens are
multiples of 128. Features lie on partitions, so that projections chain without being turned.
"""

import math

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax
N = nl.tile_size.gemm_moving_fmax
HEAD = 32
#: Heads whose scores are made at once, each in its own 32 rows of the array.
GROUP = P // HEAD
#: Groups of heads by which making weights runs ahead of using them: engines then overlap.
AHEAD = 1
LOWEST = -1.0e30


def _sbuf(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.sbuf)


def _psum(shape, dtype=nl.float32):
    return nl.ndarray(shape, dtype=dtype, buffer=nl.psum)


def _load(tensor):
    """[rows, columns] in HBM as [128, rows / 128, columns] in SBUF."""
    rows, columns = tensor.shape
    tile = _sbuf((P, rows // P, columns), tensor.dtype)
    nisa.dma_copy(dst=tile, src=tensor.reshape((rows // P, P, columns)).permute((1, 0, 2)))
    return tile


def _project(weights, column, x, tokens):
    """``weights[:, column block].T @ x[:, tokens]`` in PSUM."""
    acc = _psum((P, tokens.size))
    for k in nl.affine_range(weights.shape[1]):
        nisa.nc_matmul(acc, weights[:, k, nl.ds(column * P, P)], x[:, k, tokens])
    return acc


def _blocks(tokens):
    """Slices of up to 512 tokens, as one matmul takes them."""
    return [nl.ds(start, min(N, tokens - start)) for start in range(0, tokens, N)]


def _linear(weights, bias, x, out):
    """``weights.T @ x + bias`` to HBM, in blocks of features and tokens."""
    for tokens in _blocks(x.shape[2]):
        for f in nl.affine_range(weights.shape[2] // P):
            result = _sbuf((P, tokens.size), out.dtype)
            nisa.tensor_scalar(
                result, _project(weights, f, x, tokens), op0=nl.add, operand0=bias[:, f, :]
            )
            nisa.dma_copy(dst=out[nl.ds(f * P, P), tokens], src=result)


@nki.jit
def attention(x, query, key, value, output, query_bias, key_bias, value_bias, output_bias, mask):
    """Multi-head self-attention with heads of 32 features, within tiles of 128 tokens.

    A tile holds whole sentences of one padded length; mask [tokens, 128], float32, is added to each
    token's scores with those of its tile: 0 where it attends, -1e30 at padding and other sentences.
    """
    features, tokens = x.shape
    out = nl.ndarray((features, tokens), dtype=nl.float32, buffer=nl.shared_hbm)
    inputs, masks = _load(x), _load(mask)
    weights = [_load(tensor) for tensor in (query, key, value, output)]
    biases = [_load(tensor) for tensor in (query_bias, key_bias, output_bias)]
    value_row = _sbuf((P, features))
    nisa.dma_copy(dst=value_row, src=value_bias.ap([[0, P], [1, features]]))

    # Queries and keys with heads on partitions, as scores contract them.
    queries, keys = (_sbuf((P, features // P, tokens), x.dtype) for _ in range(2))
    for projected, weight, bias in zip((queries, keys), weights, biases, strict=False):
        for block in _blocks(tokens):
            for f in nl.affine_range(features // P):
                product = _project(weight, f, inputs, block)
                nisa.tensor_scalar(
                    projected[:, f, block], product, op0=nl.add, operand0=bias[:, f, :]
                )
    values = _sbuf((P, tokens // P, features), x.dtype)
    for tile in nl.affine_range(tokens // P):
        # Values with tokens on partitions, as mixing contracts them.
        product = _psum((P, features))
        for k in nl.affine_range(features // P):
            nisa.nc_matmul(product, inputs[:, k, nl.ds(tile * P, P)], weights[2][:, k, :])
        nisa.tensor_tensor(values[:, tile, :], product, value_row, op=nl.add)
    mixed = _sbuf((P, features // P, tokens), x.dtype)
    steps = [(tile, f) for tile in range(tokens // P) for f in range(features // P)]
    ahead = []
    for number in range(len(steps) + AHEAD):
        if number < len(steps):
            ahead.append(_attend(queries, keys, masks, *steps[number]))
        if number >= AHEAD:
            scores, total = ahead.pop(0)
            _mix(scores, total, values, mixed, *steps[number - AHEAD])
    _linear(weights[3], biases[2], mixed, out)
    return out


def _attend(queries, keys, masks, tile, f):
    """Return the weights of four heads in one tile, [queries, 4, keys], and their sums."""
    block = nl.ds(tile * P, P)
    products, scores = _psum((P, GROUP, P)), _sbuf((P, GROUP, P))
    for h in nl.affine_range(GROUP):
        rows = nl.ds(h * HEAD, HEAD)
        nisa.nc_matmul(
            products[:, h, :],
            queries[rows, f, block],
            keys[rows, f, block],
            tile_position=(h * HEAD, 0),
            tile_size=(HEAD, P),
        )
    mask = masks[:, tile, :].expand_dim(1).broadcast(1, GROUP)
    nisa.scalar_tensor_tensor(
        scores, products, op0=nl.multiply, operand0=HEAD**-0.5, op1=nl.add, operand1=mask
    )
    lowered, total = _sbuf((P, GROUP)), _sbuf((P, GROUP))
    nisa.tensor_reduce(lowered, op=nl.maximum, data=scores, axis=2, negate=True)
    weights = _sbuf((P, GROUP, P), queries.dtype)
    for h in nl.affine_range(GROUP):
        nisa.activation_reduce(
            weights[:, h, :],
            op=nl.exp,
            data=scores[:, h, :],
            bias=lowered[:, h : h + 1],
            reduce_op=nl.add,
            reduce_res=total[:, h : h + 1],
        )
    return weights, total


def _mix(weights, total, values, mixed, tile, f):
    """Mix the values of four heads in one tile by weights that sum to `total`, features first."""
    dtype = values.dtype
    turned, columns = _psum((P, GROUP, P), dtype), _sbuf((P, GROUP, P), dtype)
    shares, result = _psum((P, GROUP, HEAD)), _sbuf((P, GROUP, HEAD), dtype)
    back, inverse = _psum((P, P), dtype), _sbuf((P, GROUP))
    for h in nl.affine_range(GROUP):
        nisa.nc_transpose(turned[:, h, :], weights[:, h, :])
    nisa.tensor_copy(columns, turned, engine=nisa.vector_engine)
    for h in nl.affine_range(GROUP):
        head = nl.ds(f * P + h * HEAD, HEAD)
        nisa.nc_matmul(shares[:, h, :], columns[:, h, :], values[:, tile, head])
    nisa.reciprocal(inverse, total)
    scale = inverse.expand_dim(2).broadcast(2, HEAD)
    nisa.tensor_tensor(result, shares, scale, op=nl.multiply)
    nisa.nc_transpose(back, result.reshape((P, P)))
    nisa.tensor_copy(mixed[:, f, nl.ds(tile * P, P)], back, engine=nisa.scalar_engine)


@nki.jit
def mlp(x, up, down, up_bias, down_bias):
    """Return ``down.T @ gelu(up.T @ x + up_bias) + down_bias`` with the exact GELU.

    up is [features, hidden], down [hidden, features].
    """
    features, tokens = x.shape
    hidden = up.shape[1]
    out = nl.ndarray((features, tokens), dtype=nl.float32, buffer=nl.shared_hbm)
    inputs, ups, up_biases = _load(x), _load(up), _load(up_bias)
    downs, down_biases = _load(down), _load(down_bias)
    middle = _sbuf((P, hidden // P, tokens), x.dtype)
    for block in _blocks(tokens):
        for h in nl.affine_range(hidden // P):
            product = _project(ups, h, inputs, block)
            nisa.activation(middle[:, h, block], op=nl.gelu, data=product, bias=up_biases[:, h, :])
    _linear(downs, down_biases, middle, out)
    return out


def _random(seed, dtype, shapes):
    """Make normal values for each shape; weights keep the size of what they multiply."""
    rng = np.random.default_rng(seed)
    made = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    return {
        name: tensor
        if name.endswith("bias")
        else (tensor / (1 if name == "x" else len(tensor) ** 0.5)).astype(dtype)
        for name, tensor in made.items()
    }


def attention_inputs(tokens=384, features=384, length=20, padded=32, dtype=nl.bfloat16, seed=0):
    """Arguments of :func:`attention`.

    Sentences of `length` tokens are padded to `padded`, which divides 128.
    """
    square, column = (features, features), (features, 1)
    weights = ("query", "key", "value", "output")
    shapes = {"x": (features, tokens), **dict.fromkeys(weights, square)}
    shapes |= {f"{name}_bias": column for name in weights}
    return {
        **_random(seed, dtype, shapes),
        "mask": attention_mask(np.arange(tokens).reshape(-1, padded) % padded < length),
    }


def attention_mask(real):
    """Return the mask of :func:`attention`: real [sentences, padded] is False at padding."""
    sentences, padded = real.shape
    if P % padded or sentences * padded % P:
        message = (
            f"real is {real.shape}: its rows must divide {P} tokens and fill a multiple of them"
        )
        raise ValueError(message)
    sentence = np.repeat(np.arange(sentences), padded).reshape(-1, 1, P)
    seen = (sentence == sentence.swapaxes(1, 2)) & real.reshape(-1, 1, P)
    return np.where(seen, 0.0, LOWEST).astype(np.float32).reshape(-1, P)


def mlp_inputs(tokens=384, features=384, hidden=1536, dtype=nl.bfloat16, seed=0):
    """Arguments of :func:`mlp`."""
    shapes = {"x": (features, tokens), "up": (features, hidden), "down": (hidden, features)}
    return _random(seed, dtype, {**shapes, "up_bias": (hidden, 1), "down_bias": (features, 1)})


def attention_golden(
    x, query, key, value, output, query_bias, key_bias, value_bias, output_bias, mask
):
    """Return attention in float64."""
    x, query, key, value, output = (
        tensor.astype(np.float64) for tensor in (x, query, key, value, output)
    )
    q, k, v = (
        (weight.T @ x + bias).T.reshape(-1, P, x.shape[0] // HEAD, HEAD).swapaxes(1, 2)
        for weight, bias in ((query, query_bias), (key, key_bias), (value, value_bias))
    )
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(HEAD) + mask.reshape(-1, 1, P, P)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    mixed = (weights @ v).swapaxes(1, 2).reshape(-1, x.shape[0]).T
    return output.T @ mixed + output_bias


def mlp_golden(x, up, down, up_bias, down_bias):
    """Return the MLP in float64."""
    x, up, down = (tensor.astype(np.float64) for tensor in (x, up, down))
    middle = up.T @ x + up_bias
    return down.T @ (middle * (1 + np.vectorize(math.erf)(middle / np.sqrt(2))) / 2) + down_bias
