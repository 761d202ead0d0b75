# mypy: ignore-errors
"""Attention of one head, forward and backward, with scores and products in PSUM."""

import math

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

from plainlib.case import BF16, F32, case

P = 128
KEYS = 512
LOWEST = -30000.0


def head_shapes(dtype):
    def shapes(tokens, size):
        return {
            "q": ((size, tokens), dtype),
            "k": ((size, tokens), dtype),
            "v": ((tokens, size), dtype),
        }

    return shapes


def attend(q, k, v, causal=False):
    scores = q.T @ k / np.sqrt(q.shape[0])
    if causal:
        scores = np.where(np.tri(len(scores), dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True) @ v


@case(
    small={"tokens": 512, "size": 64},
    tight={"tokens": 1024, "size": 64},
    real={"tokens": 2048, "size": 128},
    shapes=head_shapes(BF16),
    golden=attend,
    tolerance=1e-2,
    lacks=("psum", "psum"),
)
@nki.jit
def attention_scores_in_psum(q, k, v):
    """Scores of all queries are made first; softmax and the second product follow in loops of their
    own.
    """
    size, tokens = q.shape
    out = nl.ndarray((tokens, size), dtype=q.dtype, buffer=nl.shared_hbm)
    scale = 1.0 / math.sqrt(size)
    queries = nl.multiply(nl.load(q), scale, dtype=q.dtype)
    keys = nl.load(k)
    scores = nl.zeros(
        (tokens // P, tokens // KEYS, nl.par_dim(P), KEYS), dtype=nl.float32, buffer=nl.psum
    )
    for i in nl.affine_range(tokens // P):
        for j in nl.affine_range(tokens // KEYS):
            scores[i, j] += nisa.nc_matmul(
                queries[0:size, i * P : (i + 1) * P], keys[0:size, j * KEYS : (j + 1) * KEYS]
            )
    for i in nl.affine_range(tokens // P):
        row = nl.ndarray((nl.par_dim(P), tokens), dtype=nl.float32, buffer=nl.sbuf)
        for j in nl.affine_range(tokens // KEYS):
            row[0:P, j * KEYS : (j + 1) * KEYS] = nl.copy(scores[i, j])
        top = nl.max(row, axis=1, keepdims=True, negate=True)
        power = nisa.activation(np.exp, row, bias=top, scale=1.0)
        total = nl.sum(power, axis=1, keepdims=True)
        weights = nl.multiply(power, nl.reciprocal(total), dtype=q.dtype)
        acc = nl.zeros((nl.par_dim(P), size), dtype=nl.float32, buffer=nl.psum)
        for j in nl.affine_range(tokens // P):
            turned = nl.copy(nisa.nc_transpose(weights[0:P, j * P : (j + 1) * P]), dtype=q.dtype)
            values = nl.load(v[j * P : (j + 1) * P, 0:size])
            acc[...] += nisa.nc_matmul(turned, values)
        nl.store(out[i * P : (i + 1) * P, 0:size], value=nl.copy(acc, dtype=q.dtype))
    return out


@case(
    small={"tokens": 512, "size": 64},
    real={"tokens": 1024, "size": 64},
    shapes=head_shapes(BF16),
    golden=lambda q, k, v: attend(q, k, v, causal=True),
    tolerance=1e-2,
)
@nki.jit
def attention_by_rows(q, k, v):
    """A row of scores at a time in SBUF, causal by a select over index expressions."""
    size, tokens = q.shape
    out = nl.ndarray((tokens, size), dtype=q.dtype, buffer=nl.shared_hbm)
    i_d, i_q = nl.mgrid[0:size, 0:P]
    i_p, i_f = nl.mgrid[0:P, 0:KEYS]
    i_tp, i_tf = nl.mgrid[0:P, 0:P]
    i_vp, i_vf = nl.mgrid[0:P, 0:size]
    v_sb = nl.ndarray((tokens // P, nl.par_dim(P), size), dtype=v.dtype, buffer=nl.sbuf)
    for j in nl.affine_range(tokens // P):
        v_sb[j, i_vp, i_vf] = nl.load(v[j * P + i_vp, i_vf])
    k_sb = nl.load(k)
    for i in nl.affine_range(tokens // P):
        q_sb = nl.load(q[i_d, i * P + i_q])
        q_scaled = nl.multiply(q_sb, size**-0.5, dtype=q.dtype)
        scores = nl.ndarray((nl.par_dim(P), tokens), dtype=nl.float32, buffer=nl.sbuf)
        for j in nl.affine_range(tokens // KEYS):
            qk = nl.zeros((nl.par_dim(P), KEYS), dtype=nl.float32, buffer=nl.psum)
            qk[...] += nisa.nc_matmul(q_scaled, k_sb[0:size, j * KEYS : (j + 1) * KEYS])
            scores[i_p, j * KEYS + i_f] = nisa.affine_select(
                pred=(i * P + i_p >= j * KEYS + i_f),
                on_true_tile=qk[i_p, i_f],
                on_false_value=LOWEST,
                dtype=np.float32,
            )
        top = nisa.tensor_reduce(np.max, scores, axis=(1,), dtype=np.float32, negate=True)
        total = nl.ndarray((nl.par_dim(P), 1), dtype=nl.float32, buffer=nl.sbuf)
        power = nisa.activation_reduce(
            np.exp,
            scores,
            bias=top,
            scale=1.0,
            reduce_op=np.add,
            reduce_res=total[...],
            dtype=q.dtype,
        )
        acc = nl.zeros((nl.par_dim(P), size), dtype=nl.float32, buffer=nl.psum)
        for j in nl.affine_range(tokens // P):
            turned = nl.copy(nisa.nc_transpose(power[i_tp, j * P + i_tf]), dtype=q.dtype)
            acc[i_vp, i_vf] += nisa.nc_matmul(turned, v_sb[j, i_vp, i_vf])
        result = nl.multiply(acc, nl.reciprocal(total), dtype=q.dtype)
        nl.store(out[i * P + i_vp, i_vf], value=result)
    return out


@case(
    small={"tokens": 512, "size": 64},
    real={"tokens": 2048, "size": 128},
    shapes=head_shapes(BF16),
    golden=attend,
    tolerance=1e-2,
)
@nki.jit
def flash_forward(q, k, v):
    """Running maxima and sums over tiles of 512 keys."""
    size, tokens = q.shape
    out = nl.ndarray((tokens, size), dtype=q.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(tokens // P):
        q_tile = nl.load(q[0:size, nl.ds(i * P, P)])
        q_tile = nl.multiply(q_tile, size**-0.5, dtype=q.dtype)
        o_buf = nl.zeros((nl.par_dim(P), size), dtype=nl.float32, buffer=nl.sbuf)
        l_buf = nl.zeros((nl.par_dim(P), 1), dtype=nl.float32, buffer=nl.sbuf)
        m_buf = nl.full((nl.par_dim(P), 1), LOWEST, dtype=nl.float32, buffer=nl.sbuf)
        for j in nl.sequential_range(tokens // KEYS):
            k_tile = nl.load(k[0:size, nl.ds(j * KEYS, KEYS)])
            qk = nisa.nc_matmul(q_tile, k_tile)
            top = nisa.tensor_reduce(np.max, qk, axis=(1,), dtype=np.float32)
            m_previous = nl.copy(m_buf)
            m_buf[...] = nl.maximum(m_previous, top)
            alpha = nisa.activation(np.exp, m_previous, bias=-1 * m_buf, scale=1.0)
            part = nl.ndarray((nl.par_dim(P), 1), dtype=nl.float32, buffer=nl.sbuf)
            p_tile = nisa.activation_reduce(
                np.exp,
                qk,
                bias=-1 * m_buf,
                scale=1.0,
                reduce_op=np.add,
                reduce_res=part[...],
                dtype=q.dtype,
            )
            pv = nl.zeros((nl.par_dim(P), size), dtype=nl.float32, buffer=nl.psum)
            for s in nl.affine_range(KEYS // P):
                turned = nl.copy(nisa.nc_transpose(p_tile[0:P, nl.ds(s * P, P)]), dtype=q.dtype)
                v_tile = nl.load(v[nl.ds(j * KEYS + s * P, P), 0:size])
                pv[...] += nisa.nc_matmul(turned, v_tile)
            o_buf[...] = nl.add(nl.multiply(o_buf, alpha), pv)
            l_buf[...] = nl.add(nl.multiply(l_buf, alpha), part)
        final = nl.multiply(o_buf, nl.reciprocal(l_buf), dtype=q.dtype)
        nl.store(out[nl.ds(i * P, P), 0:size], value=final)
    return out


def attend_backward(q, k, v, dy):
    """Arguments [size, tokens]; gradients likewise."""
    scale = 1 / np.sqrt(q.shape[0])
    scores = q.T @ k * scale
    weights = np.exp(scores - scores.max(1, keepdims=True))
    weights /= weights.sum(1, keepdims=True)
    dp = dy.T @ v
    ds = weights * (dp - (dp * weights).sum(1, keepdims=True)) * scale
    return (ds @ k.T).T, (ds.T @ q.T).T, (weights.T @ dy.T).T


def backward_fill(rng, tokens, size):
    """Rows' log-sum-exps and products are those of the forward pass: made by the test's golden."""
    made = {n: rng.standard_normal((size, tokens)).astype(BF16) for n in ("q", "k", "v", "dy")}
    q, k, v, dy = (made[n].astype(np.float64) for n in ("q", "k", "v", "dy"))
    scores = q.T @ k / np.sqrt(size)
    top = scores.max(1, keepdims=True)
    logsum = top + np.log(np.exp(scores - top).sum(1, keepdims=True))
    delta = ((np.exp(scores - logsum) @ v.T) * dy.T).sum(1, keepdims=True)
    return {**made, "logsum": logsum, "delta": delta}


@case(
    small={"tokens": 128, "size": 64},
    tight={"tokens": 512, "size": 64},
    real={"tokens": 1024, "size": 128},
    shapes=lambda tokens, size: {
        **{name: ((size, tokens), BF16) for name in ("q", "k", "v", "dy")},
        **{name: ((tokens, 1), F32) for name in ("logsum", "delta")},
    },
    golden=lambda q, k, v, dy, logsum, delta: attend_backward(q, k, v, dy),
    tolerance=3e-2,
    fill=backward_fill,
    lacks=("psum", "psum"),
)
@nki.jit
def flash_backward(q, k, v, dy, logsum, delta):
    """Keys outside, queries inside; gradients of queries are kept in PSUM until the end."""
    size, tokens = q.shape
    tiles = tokens // P
    dq, dk, dv = (nl.ndarray((size, tokens), dtype=q.dtype, buffer=nl.shared_hbm) for _ in range(3))
    scale = size**-0.5
    i_d, i_t = nl.mgrid[0:size, 0:P]
    i_p, i_f = nl.mgrid[0:P, 0:P]
    dq_psum = nl.zeros((tiles, nl.par_dim(size), P), dtype=nl.float32, buffer=nl.psum)
    for j in nl.affine_range(tiles):
        k_tile = nl.load(k[i_d, j * P + i_t])
        v_tile = nl.load(v[i_d, j * P + i_t])
        k_turned = nl.load_transpose2d(k[i_d, j * P + i_t])
        dk_psum = nl.zeros((nl.par_dim(size), P), dtype=nl.float32, buffer=nl.psum)
        dv_psum = nl.zeros((nl.par_dim(size), P), dtype=nl.float32, buffer=nl.psum)
        for i in nl.affine_range(tiles):
            q_scaled = nl.multiply(nl.load(q[i_d, i * P + i_t]), scale, dtype=q.dtype)
            dy_tile = nl.load(dy[i_d, i * P + i_t])
            neg = nl.load(logsum[i * P : (i + 1) * P, :]) * -1.0
            row = nl.load(delta[i * P : (i + 1) * P, :])
            qk = nisa.nc_matmul(q_scaled, k_tile)
            p = nisa.activation(np.exp, data=qk[i_p, i_f], bias=neg, scale=1.0, dtype=q.dtype)
            dy_turned = nl.copy(nisa.nc_transpose(dy_tile), dtype=q.dtype)
            dv_psum[i_d, i_t] += nisa.nc_matmul(dy_turned, p[i_p, i_f])
            dp = nisa.nc_matmul(dy_tile, v_tile)
            ds = nisa.scalar_tensor_tensor(
                data=dp[i_p, i_f],
                op0=np.subtract,
                operand0=row,
                op1=np.multiply,
                operand1=p[i_p, i_f],
                dtype=q.dtype,
            )
            q_turned = nl.copy(nisa.nc_transpose(q_scaled), dtype=q.dtype)
            dk_psum[i_d, i_t] += nisa.nc_matmul(q_turned, ds[i_p, i_f])
            ds_turned = nl.copy(nisa.nc_transpose(ds[i_p, i_f]), dtype=q.dtype)
            dq_psum[i, i_d, i_t] += nisa.nc_matmul(k_turned, ds_turned)
        nl.store(dk[i_d, j * P + i_t], value=nl.copy(dk_psum, dtype=q.dtype))
        nl.store(dv[i_d, j * P + i_t], value=nl.copy(dv_psum, dtype=q.dtype))
    for i in nl.affine_range(tiles):
        result = nl.multiply(dq_psum[i, i_d, i_t], scale, dtype=q.dtype)
        nl.store(dq[i_d, i * P + i_t], value=result)
    return dq, dk, dv


def decode(q, k_cache, v_cache, length):
    scores = q.T @ k_cache / np.sqrt(q.shape[0])
    scores = np.where(np.arange(k_cache.shape[1]) < length[0, 0], scores, -np.inf)
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True) @ v_cache


@case(
    small={"heads": 8, "size": 64, "tokens": 512},
    real={"heads": 16, "size": 128, "tokens": 8192},
    shapes=lambda heads, size, tokens: {
        "q": ((size, heads), BF16),
        "k_cache": ((size, tokens), BF16),
        "v_cache": ((tokens, size), BF16),
        "length": ((1, 1), np.int32),
    },
    golden=decode,
    tolerance=1e-2,
    fill=lambda rng, heads, size, tokens: {"length": np.array([[tokens - 100]])},
    lacks=("sbuf", None),
)
@nki.jit
def decode_attention(q, k_cache, v_cache, length):
    """One token's heads on partitions against a cache of which a part is filled."""
    size, heads = q.shape
    _, tokens = k_cache.shape
    out = nl.ndarray((heads, size), dtype=q.dtype, buffer=nl.shared_hbm)
    q_tile = nl.multiply(nl.load(q), size**-0.5, dtype=q.dtype)
    filled = nl.load(length, dtype=nl.float32).broadcast_to((heads, 1))
    scores = nl.ndarray((nl.par_dim(heads), tokens), dtype=nl.float32, buffer=nl.sbuf)
    for j in nl.affine_range(tokens // KEYS):
        k_tile = nl.load(k_cache[0:size, j * KEYS : (j + 1) * KEYS])
        scores[0:heads, j * KEYS : (j + 1) * KEYS] = nl.copy(nisa.nc_matmul(q_tile, k_tile))
    i_h, i_t = nl.mgrid[0:heads, 0:tokens]
    position = nisa.iota(0 * i_h + i_t, dtype=nl.float32)
    seen = nisa.tensor_scalar(position, op0=np.less, operand0=filled)
    masked = nl.where(seen, scores, LOWEST)
    weights = nl.softmax(masked, axis=1, dtype=q.dtype)
    acc = nl.zeros((nl.par_dim(heads), size), dtype=nl.float32, buffer=nl.psum)
    for j in nl.affine_range(tokens // P):
        turned = nl.copy(nisa.nc_transpose(weights[0:heads, j * P : (j + 1) * P]), dtype=q.dtype)
        v_tile = nl.load(v_cache[j * P : (j + 1) * P, 0:size])
        acc[...] += nisa.nc_matmul(turned, v_tile)
    nl.store(out, value=nl.copy(acc, dtype=q.dtype))
    return out


def grouped(q, k, v):
    each = len(q) // len(k)
    return np.stack([attend(q[head], k[head // each], v[head // each]) for head in range(len(q))])


@case(
    small={"heads": 2, "groups": 1, "tokens": 512, "size": 64},
    real={"heads": 8, "groups": 2, "tokens": 512, "size": 128},
    shapes=lambda heads, groups, tokens, size: {
        "q": ((heads, size, tokens), BF16),
        "k": ((groups, size, tokens), BF16),
        "v": ((groups, tokens, size), BF16),
    },
    golden=grouped,
    tolerance=2e-2,
)
@nki.jit
def grouped_attention(q, k, v):
    """Heads that share keys and values load them again, operators for everything else."""
    heads, size, tokens = q.shape
    each = heads // k.shape[0]
    out = nl.ndarray((heads, tokens, size), dtype=q.dtype, buffer=nl.shared_hbm)
    for group in nl.affine_range(k.shape[0]):
        for head in nl.affine_range(each):
            for i in nl.affine_range(tokens // P):
                q_tile = nl.load(q[group * each + head, :, i * P : (i + 1) * P]) * size**-0.5
                q_tile = nl.copy(q_tile, dtype=q.dtype)
                top = nl.full((P, 1), LOWEST, dtype=nl.float32)
                total = nl.zeros((P, 1), nl.float32)
                result = nl.zeros((P, size), nl.float32)
                for j in nl.sequential_range(tokens // KEYS):
                    k_tile = nl.load(k[group, :, nl.ds(j * KEYS, KEYS)])
                    scores = nl.matmul(q_tile, k_tile, transpose_x=True)
                    now = nl.maximum(top, nl.max(scores, axis=1, keepdims=True))
                    power = nl.exp(scores - now)
                    decay = nl.exp(top - now)
                    total[...] = total * decay + nl.sum(power, axis=1, keepdims=True)
                    rounded = nl.copy(power, dtype=q.dtype)
                    part = nl.zeros((P, size), nl.float32, buffer=nl.psum)
                    for t in nl.affine_range(KEYS // P):
                        turned = nisa.nc_transpose(rounded[:, t * P : (t + 1) * P])
                        v_tile = nl.load(v[group, nl.ds(j * KEYS + t * P, P), :])
                        part += nl.matmul(nl.copy(turned, dtype=q.dtype), v_tile, transpose_x=True)
                    result[...] = result * decay + part
                    top[...] = now
                here = (group * each + head, slice(i * P, (i + 1) * P), slice(0, size))
                nl.store(out[here], nl.divide(result, total, dtype=q.dtype))
    return out
