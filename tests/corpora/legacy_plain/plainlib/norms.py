# mypy: ignore-errors
"""Norms, softmax and reductions over rows, with tiles as wide as rows."""

import math

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

from plainlib.case import BF16, F32, case

P = 128


def rows_of(dtype=F32):
    def shapes(rows, columns):
        return {"x": ((rows, columns), dtype)}

    return shapes


@case(
    small={"rows": 200, "columns": 256},
    real={"rows": 4096, "columns": 2048},
    shapes=lambda rows, columns: {"x": ((rows, columns), BF16), "gain": ((1, columns), BF16)},
    golden=lambda x, gain: x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * gain,
    tolerance=1e-2,
)
@nki.jit
def rmsnorm(x, gain):
    """Rows that do not fill the last tile are masked."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ix = nl.arange(P)[:, None]
    iw = nl.arange(1)[:, None]
    iy = nl.arange(columns)[None, :]
    g_tile = nl.load(gain[iw, iy])
    for i in nl.affine_range(math.ceil(rows / P)):
        mask = i * P + ix < rows
        tile = nl.load(x[i * P + ix, iy], mask=mask)
        in_square = nl.square(tile, dtype=nl.float32, mask=mask)
        square_sum = nl.sum(in_square, axis=[1], mask=mask)
        mean = square_sum / columns
        scale = nl.rsqrt(mean + 1e-5)
        out_tile = nl.multiply(tile, scale, mask=mask)
        g_bcast = g_tile.broadcast_to((P, columns))
        out_tile[...] = nl.multiply(out_tile, g_bcast, mask=mask)
        nl.store(out[i * P + ix, iy], value=out_tile, mask=mask)
    return out


def layer_norm(x, gamma, beta):
    centred = x - x.mean(1, keepdims=True)
    return centred / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gamma + beta


def layer_norm_shapes(rows, columns):
    return {name: ((rows if name == "x" else 1, columns), F32) for name in ("x", "gamma", "beta")}


@case(
    small={"rows": 128, "columns": 512},
    tight={"rows": 128, "columns": 8192},
    real={"rows": 1024, "columns": 8192},
    shapes=layer_norm_shapes,
    golden=layer_norm,
    lacks=("sbuf", "sbuf"),
)
@nki.jit
def layernorm_wide(x, gamma, beta):
    """Every line of the formula is a tile of [128, 8192] in float32."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    gamma_b = nl.load(gamma).broadcast_to((P, columns))
    beta_b = nl.load(beta).broadcast_to((P, columns))
    for i in nl.affine_range(rows // P):
        tile = nl.load(x[i * P : (i + 1) * P, 0:columns])
        mean = nl.mean(tile, axis=1, keepdims=True)
        centred = nl.subtract(tile, mean)
        square = nl.square(centred)
        var = nl.mean(square, axis=1, keepdims=True)
        scale = nl.rsqrt(var + 1e-5)
        normed = nl.multiply(centred, scale)
        scaled = nl.multiply(normed, gamma_b)
        shifted = nl.add(scaled, beta_b)
        nl.store(out[i * P : (i + 1) * P, 0:columns], value=shifted)
    return out


@case(
    small={"rows": 200, "columns": 768},
    real={"rows": 4096, "columns": 2048},
    shapes=layer_norm_shapes,
    golden=layer_norm,
)
@nki.jit
def layernorm_statistics(x, gamma, beta):
    """Mean and variance by the statistics of VectorE, in chunks."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(P)[:, None]
    i_f = nl.arange(columns)[None, :]
    gamma_b = nl.load(gamma).broadcast_to((P, columns))
    beta_b = nl.load(beta).broadcast_to((P, columns))
    chunk = math.gcd(nl.tile_size.bn_stats_fmax, columns)
    i_c, i_s = nl.arange(chunk)[None, :], nl.arange(6)[None, :]
    for i in nl.affine_range(math.ceil(rows / P)):
        mask = i * P + i_p < rows
        tile = nl.load(x[i * P + i_p, i_f], mask=mask)
        stats = nl.ndarray((P, 6 * (columns // chunk)), dtype=nl.float32)
        for j in nl.affine_range(columns // chunk):
            stats[i_p, j * 6 + i_s] = nisa.bn_stats(
                tile[i_p, j * chunk + i_c], dtype=np.float32, mask=mask
            )
        i_a = nl.arange(6 * (columns // chunk))[None, :]
        mean_var = nisa.bn_aggr(stats[i_p, i_a], mask=mask)
        scale = nl.rsqrt(nl.add(mean_var[i_p, 1], 1e-5))
        normed = nisa.tensor_scalar(
            data=tile,
            op0=np.subtract,
            operand0=mean_var[i_p, 0],
            op1=np.multiply,
            operand1=scale,
            mask=mask,
        )
        scaled = nl.multiply(normed, gamma_b, mask=mask)
        nl.store(out[i * P + i_p, i_f], value=nl.add(scaled, beta_b, mask=mask), mask=mask)
    return out


def softmax_rows(x):
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


@case(
    small={"rows": 256, "columns": 512},
    real={"rows": 2048, "columns": 4096},
    shapes=rows_of(),
    golden=softmax_rows,
)
@nki.jit
def softmax(x):
    """The three passes, by functions of the language."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(rows // P):
        tile = nl.load(x[i * P : (i + 1) * P, :])
        top = nl.max(tile, axis=1, keepdims=True)
        power = nl.exp(tile - top)
        total = nl.sum(power, axis=1, keepdims=True)
        nl.store(out[i * P : (i + 1) * P, :], value=power / total)
    return out


def group_norm(x, gain, shift):
    flat = x.reshape(*gain.shape, -1)
    mean, var = flat.mean((1, 2), keepdims=True), flat.var((1, 2), keepdims=True)
    normed = (flat - mean) / np.sqrt(var + 1e-5)
    return (normed * gain[:, :, None] + shift[:, :, None]).reshape(x.shape)


@case(
    small={"groups": 128, "channels": 4, "pixels": 64},
    tight={"groups": 128, "channels": 16, "pixels": 1024},
    real={"groups": 256, "channels": 16, "pixels": 1024},
    shapes=lambda groups, channels, pixels: {
        "x": ((groups, channels * pixels), F32),
        "gain": ((groups, channels), F32),
        "shift": ((groups, channels), F32),
    },
    golden=group_norm,
    lacks=("sbuf", "sbuf"),
)
@nki.jit
def groupnorm(x, gain, shift):
    """A group of channels on each partition; the affine part channel by channel."""
    groups, size = x.shape
    channels = gain.shape[1]
    pixels = size // channels
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(P)[:, None]
    i_f = nl.arange(pixels)[None, :]
    for g in nl.affine_range(groups // P):
        tile = nl.load(x[g * P : (g + 1) * P, :])
        gains = nl.load(gain[g * P : (g + 1) * P, :])
        shifts = nl.load(shift[g * P : (g + 1) * P, :])
        mean = nl.sum(tile, axis=1, keepdims=True) / size
        centred = nl.subtract(tile, mean)
        var = nl.sum(nl.square(centred), axis=1, keepdims=True) / size
        scale = nl.rsqrt(var + 1e-5)
        normed = nl.multiply(centred, scale)
        result = nl.ndarray((nl.par_dim(P), size), dtype=x.dtype, buffer=nl.sbuf)
        for c in nl.affine_range(channels):
            result[i_p, c * pixels + i_f] = nisa.tensor_scalar(
                normed[i_p, c * pixels + i_f],
                op0=np.multiply,
                operand0=gains[i_p, c],
                op1=np.add,
                operand1=shifts[i_p, c],
            )
        nl.store(out[g * P : (g + 1) * P, :], value=result)
    return out


def entropy(logits, labels):
    top = logits.max(1, keepdims=True)
    logsum = np.log(np.exp(logits - top).sum(1, keepdims=True)) + top
    return logsum - np.take_along_axis(logits, labels, axis=1)


@case(
    small={"tokens": 128, "vocabulary": 1024},
    tight={"tokens": 128, "vocabulary": 12288},
    real={"tokens": 1024, "vocabulary": 12288},
    shapes=lambda tokens, vocabulary: {
        "logits": ((tokens, vocabulary), F32),
        "labels": ((tokens, 1), np.int32),
    },
    golden=entropy,
    fill=lambda rng, tokens, vocabulary: {"labels": rng.integers(0, vocabulary, (tokens, 1))},
    lacks=("sbuf", "sbuf"),
)
@nki.jit
def cross_entropy(logits, labels):
    """The label's logit is picked by a mask over the whole vocabulary."""
    tokens, vocabulary = logits.shape
    loss = nl.ndarray((tokens, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    i_p, i_v = nl.mgrid[0:P, 0:vocabulary]
    for t in nl.affine_range(tokens // P):
        tile = nl.load(logits[t * P : (t + 1) * P, :])
        label = nl.load(labels[t * P : (t + 1) * P, :], dtype=nl.float32)
        top = nl.max(tile, axis=1, keepdims=True)
        power = nisa.activation(np.exp, tile, bias=nl.negative(top), scale=1.0)
        total = nl.sum(power, axis=1, keepdims=True)
        columns = nisa.iota(0 * i_p + i_v, dtype=nl.float32)
        hit = nisa.tensor_scalar(columns, op0=np.equal, operand0=label)
        picked = nl.sum(nl.multiply(hit, tile), axis=1, keepdims=True)
        nl.store(loss[t * P : (t + 1) * P, :], value=nl.log(total) + top - picked)
    return loss


@case(
    small={"rows": 256, "columns": 512},
    real={"rows": 4096, "columns": 2048},
    shapes=rows_of(),
    golden=lambda x: (x.sum(0, keepdims=True), x.var(1, keepdims=True)),
)
@nki.jit
def sums_and_variances(x):
    """Sums of columns by a product with ones, variances of rows by VectorE."""
    rows, columns = x.shape
    sums = nl.ndarray((1, columns), dtype=nl.float32, buffer=nl.shared_hbm)
    variances = nl.ndarray((rows, 1), dtype=nl.float32, buffer=nl.shared_hbm)
    total = nl.zeros((nl.par_dim(1), columns), dtype=nl.float32, buffer=nl.sbuf)
    for i in nl.affine_range(rows // P):
        tile = nl.load(x[i * P : (i + 1) * P, :])
        nl.store(variances[i * P : (i + 1) * P, :], value=nl.var(tile, axis=1))
        for c in nl.affine_range(columns // 512):
            ones = nl.ones((P, 1), dtype=x.dtype, buffer=nl.sbuf)
            part = nisa.nc_matmul(ones, tile[0:P, c * 512 : (c + 1) * 512])
            total[0:1, c * 512 : (c + 1) * 512] += part
    nl.store(sums, value=total)
    return sums, variances
