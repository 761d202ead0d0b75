# mypy: ignore-errors
"""Element by element, and moves: optimizers, embeddings, masks, windows, transposes."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

from plainlib.case import BF16, F32, case

P = 128


def adam(weight, grad, mean, square):
    mean = 0.9 * mean + 0.1 * grad
    square = 0.999 * square + 0.001 * grad**2
    return weight - 1e-3 * mean / (np.sqrt(square) + 1e-8), mean, square


@case(
    small={"rows": 128, "columns": 512},
    tight={"rows": 128, "columns": 8192},
    real={"rows": 1024, "columns": 8192},
    shapes=lambda rows, columns: {
        name: ((rows, columns), F32) for name in ("weight", "grad", "mean", "square")
    },
    golden=adam,
    fill=lambda rng, rows, columns: {"square": rng.uniform(0.5, 2.0, (rows, columns))},
    lacks=("sbuf", "sbuf"),
)
@nki.jit
def adam_update(weight, grad, mean, square):
    """Four tiles of [128, 8192] come in, and every term of the update is one more."""
    rows, columns = weight.shape
    outs = [nl.ndarray(weight.shape, dtype=weight.dtype, buffer=nl.shared_hbm) for _ in range(3)]
    for i in nl.affine_range(rows // P):
        w = nl.load(weight[i * P : (i + 1) * P, :])
        g = nl.load(grad[i * P : (i + 1) * P, :])
        m = nl.load(mean[i * P : (i + 1) * P, :])
        v = nl.load(square[i * P : (i + 1) * P, :])
        new_m = m * 0.9 + g * 0.1
        new_v = v * 0.999 + nl.square(g) * 0.001
        denominator = nl.sqrt(new_v) + 1e-8
        update = new_m * nl.reciprocal(denominator)
        new_w = w - update * 1e-3
        nl.store(outs[0][i * P : (i + 1) * P, :], value=new_w)
        nl.store(outs[1][i * P : (i + 1) * P, :], value=new_m)
        nl.store(outs[2][i * P : (i + 1) * P, :], value=new_v)
    return tuple(outs)


def residuals(x, gains):
    out = x
    kept = [x]
    for gain in gains[:, 0]:
        out = out + np.maximum(out * gain, 0)
        kept.append(out)
    return sum(kept)


@case(
    small={"rows": 128, "columns": 512, "layers": 3},
    tight={"rows": 128, "columns": 8192, "layers": 7},
    real={"rows": 512, "columns": 8192, "layers": 8},
    shapes=lambda rows, columns, layers: {
        "x": ((rows, columns), F32),
        "gains": ((layers, 1), F32),
    },
    golden=residuals,
    fill=lambda rng, rows, columns, layers: {"gains": rng.uniform(-0.5, 0.5, (layers, 1))},
    lacks=("sbuf", "sbuf"),
)
@nki.jit
def residual_chain(x, gains):
    """Every layer's result is kept for the sum at the end."""
    rows, columns = x.shape
    layers = gains.shape[0]
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(rows // P):
        kept = nl.ndarray((layers + 1, nl.par_dim(P), columns), dtype=x.dtype, buffer=nl.sbuf)
        kept[0] = nl.load(x[i * P : (i + 1) * P, :])
        for n in nl.sequential_range(layers):
            gain = nl.load(gains[n : n + 1, 0:1]).broadcast_to((P, 1))
            kept[n + 1] = nl.add(kept[n], nl.relu(nl.multiply(kept[n], gain)))
        total = nl.zeros((nl.par_dim(P), columns), dtype=x.dtype, buffer=nl.sbuf)
        for n in nl.affine_range(layers + 1):
            total += kept[n]
        nl.store(out[i * P : (i + 1) * P, :], value=total)
    return out


def rotate(x, cos, sin):
    first, second = np.split(x, 2, axis=1)
    return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=1)


@case(
    small={"tokens": 256, "size": 64},
    real={"tokens": 16384, "size": 128},
    shapes=lambda tokens, size: {
        "x": ((tokens, size), BF16),
        "cos": ((tokens, size // 2), BF16),
        "sin": ((tokens, size // 2), BF16),
    },
    golden=rotate,
    tolerance=1e-2,
)
@nki.jit
def rope(x, cos, sin):
    """Halves by index expressions, a tile of 128 tokens at a time."""
    tokens, size = x.shape
    half = size // 2
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_h = nl.mgrid[0:P, 0:half]
    for t in nl.affine_range(tokens // P):
        tile = nl.load(x[t * P : (t + 1) * P, 0:size])
        c = nl.load(cos[t * P + i_p, i_h])
        s = nl.load(sin[t * P + i_p, i_h])
        turned = nl.ndarray((nl.par_dim(P), size), dtype=x.dtype, buffer=nl.sbuf)
        turned[i_p, i_h] = nl.subtract(tile[i_p, i_h] * c, tile[i_p, half + i_h] * s)
        turned[i_p, half + i_h] = nl.add(tile[i_p, half + i_h] * c, tile[i_p, i_h] * s)
        nl.store(out[t * P : (t + 1) * P, 0:size], value=turned)
    return out


@case(
    small={"rows": 256, "columns": 256},
    real={"rows": 4096, "columns": 2048},
    shapes=lambda rows, columns: {"x": ((rows, columns), F32), "mask": ((rows, columns), F32)},
    golden=lambda x, mask: np.where(mask > 0, np.tanh(x), 0.1 * x),
)
@nki.jit
def mask_and_select(x, mask):
    """Both branches are computed and one is taken."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:P, 0:columns]
    for i in nl.affine_range(rows // P):
        tile = nl.load(x[i * P + i_p, i_f])
        which = nl.load(mask[i * P + i_p, i_f])
        taken = nl.tanh(tile)
        other = nl.multiply(tile, 0.1)
        nl.store(out[i * P + i_p, i_f], value=nl.where(which > 0, taken, other))
    return out


@case(
    small={"rows": 256, "columns": 512},
    tight={"rows": 128, "columns": 1536},
    real={"rows": 2048, "columns": 2048},
    shapes=lambda rows, columns: {"x": ((rows, columns), F32)},
    golden=lambda x: x.T,
    tolerance=0.0,
    lacks=("psum", "psum"),
)
@nki.jit
def transpose_by_rows(x):
    """A row of tiles is turned into PSUM before the first is written out."""
    rows, columns = x.shape
    out = nl.ndarray((columns, rows), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:P, 0:P]
    for i in nl.affine_range(rows // P):
        tile = nl.load(x[i * P : (i + 1) * P, 0:columns])
        turned = nl.ndarray((columns // P, nl.par_dim(P), P), dtype=x.dtype, buffer=nl.psum)
        for j in nl.affine_range(columns // P):
            turned[j] = nisa.nc_transpose(tile[i_p, j * P + i_f])
        for j in nl.affine_range(columns // P):
            nl.store(out[j * P + i_p, i * P + i_f], value=nl.copy(turned[j]))
    return out


def convolve(x, weight):
    length = x.shape[1] - weight.shape[1] + 1
    return sum(x[:, t : t + length] * weight[:, t, None] for t in range(weight.shape[1]))


@case(
    small={"channels": 128, "tokens": 131, "taps": 4},
    real={"channels": 1024, "tokens": 2051, "taps": 4},
    shapes=lambda channels, tokens, taps: {
        "x": ((channels, tokens), F32),
        "weight": ((channels, taps), F32),
    },
    golden=convolve,
)
@nki.jit
def depthwise_conv1d(x, weight):
    """Channels on partitions, a shifted window for each tap."""
    channels, tokens = x.shape
    taps = weight.shape[1]
    length = tokens - taps + 1
    out = nl.ndarray((channels, length), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p, i_t = nl.mgrid[0:P, 0:length]
    for c in nl.affine_range(channels // P):
        tile = nl.load(x[c * P : (c + 1) * P, 0:tokens])
        w = nl.load(weight[c * P : (c + 1) * P, 0:taps])
        acc = nl.zeros((nl.par_dim(P), length), dtype=nl.float32, buffer=nl.sbuf)
        for k in nl.affine_range(taps):
            acc[i_p, i_t] += nl.multiply(tile[i_p, k + i_t], w[0:P, k])
        nl.store(out[c * P : (c + 1) * P, 0:length], value=acc)
    return out


def convolve_all(x, weight):
    taps = weight.shape[0]
    length = x.shape[1] - taps + 1
    return sum(weight[t].T @ x[:, t : t + length] for t in range(taps))


@case(
    small={"channels": 128, "outs": 128, "tokens": 1024 + 2, "taps": 3},
    tight={"channels": 128, "outs": 128, "tokens": 5120 + 2, "taps": 3},
    real={"channels": 256, "outs": 256, "tokens": 8192 + 2, "taps": 3},
    shapes=lambda channels, outs, tokens, taps: {
        "x": ((channels, tokens), BF16),
        "weight": ((taps, channels, outs), BF16),
    },
    golden=convolve_all,
    tolerance=1e-2,
    lacks=("psum", "psum"),
)
@nki.jit
def conv1d(x, weight):
    """A product for each tap; weights stay while all tokens pass, their sums in PSUM."""
    channels, tokens = x.shape
    taps, _, outs = weight.shape
    length = tokens - taps + 1
    out = nl.ndarray((outs, length), dtype=x.dtype, buffer=nl.shared_hbm)
    x_sb = nl.ndarray((channels // P, nl.par_dim(P), tokens), dtype=x.dtype, buffer=nl.sbuf)
    for c in nl.affine_range(channels // P):
        x_sb[c] = nl.load(x[c * P : (c + 1) * P, 0:tokens])
    i_p, i_t = nl.mgrid[0:P, 0:512]
    for o in nl.affine_range(outs // P):
        acc = nl.zeros((length // 512, nl.par_dim(P), 512), dtype=nl.float32, buffer=nl.psum)
        for c in nl.affine_range(channels // P):
            for k in nl.affine_range(taps):
                w = nl.load(weight[k, c * P : (c + 1) * P, o * P : (o + 1) * P])
                for t in nl.affine_range(length // 512):
                    acc[t] += nisa.nc_matmul(w, x_sb[c, i_p, t * 512 + k + i_t])
        for t in nl.affine_range(length // 512):
            nl.store(out[o * P + i_p, t * 512 + i_t], value=nl.copy(acc[t], dtype=x.dtype))
    return out


def pool_golden(x):
    channels, height, width = x.shape
    return x.reshape(channels, height // 2, 2, width // 2, 2).max(axis=(2, 4))


@case(
    small={"channels": 128, "height": 8, "width": 12},
    real={"channels": 512, "height": 56, "width": 56},
    shapes=lambda channels, height, width: {"x": ((channels, height, width), F32)},
    golden=pool_golden,
    tolerance=0.0,
)
@nki.jit
def max_pool(x):
    """Windows are an index expression of five axes."""
    channels, height, width = x.shape
    out = nl.ndarray((channels, height // 2, width // 2), dtype=x.dtype, buffer=nl.shared_hbm)
    i0 = nl.arange(P)[:, None, None, None, None]
    i1 = nl.arange(height // 2)[None, :, None, None, None]
    i2 = nl.arange(width // 2)[None, None, :, None, None]
    i3 = nl.arange(2)[None, None, None, :, None]
    i4 = nl.arange(2)[None, None, None, None, :]
    for c in nl.affine_range(channels // P):
        tile = nl.load(x[c * P : (c + 1) * P, 0:height, 0:width])
        pooled = nl.max(tile[i0, 2 * i1 + i3, 2 * i2 + i4], axis=[3, 4])
        nl.store(out[c * P : (c + 1) * P], value=pooled)
    return out


@case(
    small={"tokens": 256, "vocabulary": 512, "size": 128},
    real={"tokens": 4096, "vocabulary": 32000, "size": 1024},
    shapes=lambda tokens, vocabulary, size: {
        "ids": ((tokens, 1), np.int32),
        "table": ((vocabulary, size), BF16),
        "positions": ((tokens, size), BF16),
    },
    golden=lambda ids, table, positions: table[ids[:, 0]] + positions,
    tolerance=5e-3,
    fill=lambda rng, tokens, vocabulary, size: {"ids": rng.integers(0, vocabulary, (tokens, 1))},
)
@nki.jit
def embedding(ids, table, positions):
    """Rows picked by a tile of indices, and the positions' embedding added."""
    tokens, _ = ids.shape
    _, size = table.shape
    out = nl.ndarray((tokens, size), dtype=table.dtype, buffer=nl.shared_hbm)
    i_p, i_f = nl.mgrid[0:P, 0:size]
    i_one = nl.arange(P)[:, None]
    for t in nl.affine_range(tokens // P):
        rows = nl.load(ids[t * P : (t + 1) * P, :])
        picked = nl.load(table[rows[i_one, 0], i_f])
        place = nl.load(positions[t * P + i_p, i_f])
        nl.store(out[t * P + i_p, i_f], value=nl.add(picked, place))
    return out
