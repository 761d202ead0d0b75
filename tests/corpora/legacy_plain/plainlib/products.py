# mypy: ignore-errors
"""Products of matrices, with tiles and blocks as kernels of the time have them."""

import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import numpy as np

from plainlib.case import BF16, F32, case

P = 128
N = 512


def product_shapes(dtype):
    def shapes(m, k, n):
        return {"lhsT": ((k, m), dtype), "rhs": ((k, n), dtype)}

    return shapes


def product(lhsT, rhs):
    return lhsT.T @ rhs


@case(
    small={"m": 128, "k": 256, "n": 1024},
    tight={"m": 128, "k": 128, "n": 5120},
    real={"m": 512, "k": 1024, "n": 8192},
    shapes=product_shapes(BF16),
    golden=product,
    tolerance=5e-3,
    lacks=("psum", "psum"),
)
@nki.jit
def matmul_row_in_psum(lhsT, rhs):
    """k runs outside of n: a whole row of results waits in PSUM."""
    K, M = lhsT.shape
    _, n_cols = rhs.shape
    result = nl.ndarray((M, n_cols), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    n_tiles = n_cols // N
    i_k, i_m = nl.mgrid[0:P, 0:P]
    i_kn, i_n = nl.mgrid[0:P, 0:N]
    for m in nl.affine_range(M // P):
        acc = nl.zeros((n_tiles, nl.par_dim(P), N), dtype=nl.float32, buffer=nl.psum)
        for k in nl.affine_range(K // P):
            lhs_tile = nl.load(lhsT[k * P + i_k, m * P + i_m])
            for n in nl.affine_range(n_tiles):
                rhs_tile = nl.load(rhs[k * P + i_kn, n * N + i_n])
                acc[n] += nisa.nc_matmul(lhs_tile, rhs_tile)
        for n in nl.affine_range(n_tiles):
            out_tile = nl.copy(acc[n], dtype=result.dtype)
            nl.store(result[m * P + i_kn, n * N + i_n], value=out_tile)
    return result


@case(
    small={"m": 256, "k": 256, "n": 1024},
    tight={"m": 384, "k": 128, "n": 2048},
    real={"m": 512, "k": 2048, "n": 2048},
    shapes=product_shapes(BF16),
    golden=product,
    tolerance=5e-3,
    lacks=("psum", "psum"),
)
@nki.jit
def matmul_all_in_psum(lhsT, rhs):
    """All tiles of the result are made first, and written out in a second nest of loops."""
    K, M = lhsT.shape
    _, n_cols = rhs.shape
    result = nl.ndarray((M, n_cols), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    acc = nl.zeros((M // P, n_cols // N, nl.par_dim(P), N), dtype=nl.float32, buffer=nl.psum)
    for m in nl.affine_range(M // P):
        for n in nl.affine_range(n_cols // N):
            for k in nl.affine_range(K // P):
                lhs_tile = nl.load(lhsT[k * P : (k + 1) * P, m * P : (m + 1) * P])
                rhs_tile = nl.load(rhs[k * P : (k + 1) * P, n * N : (n + 1) * N])
                acc[m, n] += nl.matmul(lhs_tile, rhs_tile, transpose_x=True)
    for m in nl.affine_range(M // P):
        for n in nl.affine_range(n_cols // N):
            out_tile = nl.copy(acc[m, n], dtype=result.dtype)
            nl.store(result[m * P : (m + 1) * P, n * N : (n + 1) * N], value=out_tile)
    return result


@case(
    small={"m": 256, "k": 256, "n": 512},
    real={"m": 2048, "k": 1024, "n": 2048},
    shapes=product_shapes(BF16),
    golden=product,
    tolerance=5e-3,
)
@nki.jit
def matmul_blocks(lhsT, rhs):
    """Blocks of two by one tiles; operands of a block are arrays of tiles."""
    K, M = lhsT.shape
    _, n_cols = rhs.shape
    result = nl.ndarray((M, n_cols), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    i_l = nl.mgrid[0:P, 0 : 2 * P]
    i_r = nl.mgrid[0:P, 0:N]
    for m in nl.affine_range(M // (2 * P)):
        lhs_tiles = nl.ndarray((K // P, nl.par_dim(P), 2 * P), dtype=lhsT.dtype, buffer=nl.sbuf)
        for k in nl.affine_range(K // P):
            lhs_tiles[k, i_l.p, i_l.x] = nl.load(lhsT[k * P + i_l.p, m * 2 * P + i_l.x])
        for n in nl.affine_range(n_cols // N):
            rhs_tiles = nl.ndarray((K // P, nl.par_dim(P), N), dtype=rhs.dtype, buffer=nl.sbuf)
            for k in nl.affine_range(K // P):
                rhs_tiles[k, i_r.p, i_r.x] = nl.load(rhs[k * P + i_r.p, n * N + i_r.x])
            for bm in nl.affine_range(2):
                acc = nl.zeros((nl.par_dim(P), N), dtype=nl.float32, buffer=nl.psum)
                for k in nl.affine_range(K // P):
                    acc[...] += nisa.nc_matmul(
                        lhs_tiles[k, 0:P, bm * P : (bm + 1) * P], rhs_tiles[k]
                    )
                out_tile = nl.copy(acc, dtype=result.dtype)
                nl.store(result[(2 * m + bm) * P + i_r.p, n * N + i_r.x], value=out_tile)
    return result


@case(
    small={"m": 256, "k": 256, "n": 512},
    tight={"m": 512, "k": 8192, "n": 512},
    real={"m": 1024, "k": 4096, "n": 1024},
    shapes=product_shapes(F32),
    golden=product,
    lacks=("sbuf", "sbuf"),
)
@nki.jit
def matmul_whole_operands(lhsT, rhs):
    """Both operands are brought in whole before the first product."""
    K, M = lhsT.shape
    _, n_cols = rhs.shape
    result = nl.ndarray((M, n_cols), dtype=lhsT.dtype, buffer=nl.shared_hbm)
    lhs_sb = nl.ndarray((K // P, nl.par_dim(P), M), dtype=lhsT.dtype, buffer=nl.sbuf)
    rhs_sb = nl.ndarray((K // P, nl.par_dim(P), n_cols), dtype=rhs.dtype, buffer=nl.sbuf)
    for k in nl.affine_range(K // P):
        lhs_sb[k] = nl.load(lhsT[k * P : (k + 1) * P, :])
        rhs_sb[k] = nl.load(rhs[k * P : (k + 1) * P, :])
    for m in nl.affine_range(M // P):
        for n in nl.affine_range(n_cols // N):
            acc = nl.zeros((P, N), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // P):
                acc += nisa.nc_matmul(
                    lhs_sb[k, 0:P, m * P : (m + 1) * P], rhs_sb[k, 0:P, n * N : (n + 1) * N]
                )
            nl.store(
                result[m * P : (m + 1) * P, n * N : (n + 1) * N],
                value=nl.copy(acc, dtype=result.dtype),
            )
    return result


@case(
    small={"batch": 2, "tokens": 128, "size": 64},
    real={"batch": 16, "tokens": 512, "size": 64},
    shapes=lambda batch, tokens, size: {
        "a": ((batch, size, tokens), BF16),
        "b": ((batch, size, tokens), BF16),
    },
    golden=lambda a, b: a.swapaxes(1, 2) @ b,
    tolerance=5e-3,
)
@nki.jit
def batched_matmul(a, b):
    """The batch is a loop outside of everything."""
    batch, size, tokens = a.shape
    result = nl.ndarray((batch, tokens, tokens), dtype=a.dtype, buffer=nl.shared_hbm)
    i_a = nl.mgrid[0:size, 0:P]
    i_b = nl.mgrid[0:size, 0:tokens]
    i_o = nl.mgrid[0:P, 0:tokens]
    for bi in nl.affine_range(batch):
        b_tile = nl.load(b[bi, i_b.p, i_b.x])
        for t in nl.affine_range(tokens // P):
            a_tile = nl.load(a[bi, i_a.p, t * P + i_a.x])
            res = nl.matmul(a_tile, b_tile, transpose_x=True)
            nl.store(result[bi, t * P + i_o.p, i_o.x], value=nl.copy(res, dtype=a.dtype))
    return result


@case(
    small={"m": 128, "k": 256, "n": 512},
    real={"m": 1024, "k": 2048, "n": 1024},
    shapes=lambda m, k, n: {"lhs": ((m, k), F32), "rhs": ((k, n), F32)},
    golden=lambda lhs, rhs: lhs @ rhs,
)
@nki.jit
def matmul_transposing(lhs, rhs):
    """The left side comes with rows on partitions and is turned on the way."""
    M, K = lhs.shape
    _, n_cols = rhs.shape
    result = nl.ndarray((M, n_cols), dtype=lhs.dtype, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // P):
        lhs_row = nl.load(lhs[m * P : (m + 1) * P, 0:K])
        lhs_t = nl.ndarray((K // P, nl.par_dim(P), P), dtype=lhs.dtype, buffer=nl.sbuf)
        for k in nl.affine_range(K // P):
            lhs_t[k] = nl.copy(nisa.nc_transpose(lhs_row[0:P, k * P : (k + 1) * P]))
        for n in nl.affine_range(n_cols // N):
            acc = nl.zeros((nl.par_dim(P), N), nl.float32, buffer=nl.psum)
            for k in nl.affine_range(K // P):
                rhs_tile = nl.load(rhs[k * P : (k + 1) * P, n * N : (n + 1) * N])
                acc[...] += nisa.nc_matmul(lhs_t[k], rhs_tile)
            nl.store(result[m * P : (m + 1) * P, n * N : (n + 1) * N], value=nl.copy(acc))
    return result


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@case(
    small={"tokens": 128, "hidden": 256, "inter": 512},
    tight={"tokens": 128, "hidden": 128, "inter": 3072},
    real={"tokens": 256, "hidden": 2048, "inter": 4096},
    shapes=lambda tokens, hidden, inter: {
        "x": ((tokens, hidden), BF16),
        "gate": ((hidden, inter), BF16),
        "up": ((hidden, inter), BF16),
        "down": ((inter, hidden), BF16),
    },
    golden=lambda x, gate, up, down: (x @ gate * sigmoid(x @ gate) * (x @ up)) @ down,
    tolerance=1e-2,
    fill=lambda rng, tokens, hidden, inter: {
        "gate": rng.standard_normal((hidden, inter)) / hidden**0.5,
        "up": rng.standard_normal((hidden, inter)) / hidden**0.5,
        "down": rng.standard_normal((inter, hidden)) / inter**0.5,
    },
    lacks=("psum", "psum"),
)
@nki.jit
def mlp_silu_gate(x, gate, up, down):
    """Gate and up of all columns stand in PSUM together, then silu, product and projection."""
    tokens, hidden = x.shape
    _, inter = gate.shape
    result = nl.ndarray((tokens, hidden), dtype=x.dtype, buffer=nl.shared_hbm)
    width = min(N, hidden)
    for t in nl.affine_range(tokens // P):
        x_t = nl.ndarray((hidden // P, nl.par_dim(P), P), dtype=x.dtype, buffer=nl.sbuf)
        for k in nl.affine_range(hidden // P):
            x_t[k] = nl.load_transpose2d(x[t * P : (t + 1) * P, k * P : (k + 1) * P])
        gate_psum = nl.zeros((inter // N, nl.par_dim(P), N), dtype=nl.float32, buffer=nl.psum)
        up_psum = nl.zeros((inter // N, nl.par_dim(P), N), dtype=nl.float32, buffer=nl.psum)
        for n in nl.affine_range(inter // N):
            for k in nl.affine_range(hidden // P):
                gate_tile = nl.load(gate[k * P : (k + 1) * P, n * N : (n + 1) * N])
                up_tile = nl.load(up[k * P : (k + 1) * P, n * N : (n + 1) * N])
                gate_psum[n] += nisa.nc_matmul(x_t[k], gate_tile)
                up_psum[n] += nisa.nc_matmul(x_t[k], up_tile)
        act = nl.ndarray((nl.par_dim(P), inter), dtype=x.dtype, buffer=nl.sbuf)
        for n in nl.affine_range(inter // N):
            gated = nl.silu(gate_psum[n])
            act[0:P, n * N : (n + 1) * N] = nl.multiply(gated, up_psum[n], dtype=x.dtype)
        act_t = nl.ndarray((inter // P, nl.par_dim(P), P), dtype=x.dtype, buffer=nl.sbuf)
        for k in nl.affine_range(inter // P):
            act_t[k] = nl.copy(nisa.nc_transpose(act[0:P, k * P : (k + 1) * P]), dtype=x.dtype)
        for n in nl.affine_range(hidden // width):
            acc = nl.zeros((nl.par_dim(P), width), dtype=nl.float32, buffer=nl.psum)
            for k in nl.affine_range(inter // P):
                down_tile = nl.load(down[k * P : (k + 1) * P, n * width : (n + 1) * width])
                acc[...] += nisa.nc_matmul(act_t[k], down_tile)
            nl.store(
                result[t * P : (t + 1) * P, n * width : (n + 1) * width],
                value=nl.copy(acc, dtype=x.dtype),
            )
    return result


def rms_then_product(x, gain, weight):
    return x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6) * gain @ weight


@case(
    small={"tokens": 128, "hidden": 256, "out": 384},
    real={"tokens": 1024, "hidden": 2048, "out": 512},
    shapes=lambda tokens, hidden, out: {
        "x": ((tokens, hidden), BF16),
        "gain": ((1, hidden), BF16),
        "weight": ((hidden, out), BF16),
    },
    golden=rms_then_product,
    tolerance=1e-2,
)
@nki.jit
def rmsnorm_qkv(x, gain, weight):
    """A norm and the projection behind it in one kernel; weights are brought in first."""
    tokens, hidden = x.shape
    _, out = weight.shape
    result = nl.ndarray((tokens, out), dtype=x.dtype, buffer=nl.shared_hbm)
    weights = nl.ndarray((hidden // P, nl.par_dim(P), out), dtype=weight.dtype, buffer=nl.sbuf)
    for k in nl.affine_range(hidden // P):
        weights[k] = nl.load(weight[k * P : (k + 1) * P, 0:out])
    gain_row = nl.load(gain)
    for t in nl.affine_range(tokens // P):
        x_tile = nl.load(x[t * P : (t + 1) * P, 0:hidden])
        square = nl.square(x_tile, dtype=nl.float32)
        total = nl.sum(square, axis=[1])
        scale = nl.rsqrt(total / hidden + 1e-6)
        normed = nl.multiply(x_tile, scale, dtype=nl.float32)
        normed = nl.multiply(normed, gain_row.broadcast_to((P, hidden)), dtype=x.dtype)
        acc = nl.zeros((nl.par_dim(P), out), dtype=nl.float32, buffer=nl.psum)
        for k in nl.affine_range(hidden // P):
            turned = nl.copy(nisa.nc_transpose(normed[0:P, k * P : (k + 1) * P]), dtype=x.dtype)
            acc[...] += nisa.nc_matmul(turned, weights[k])
        nl.store(result[t * P : (t + 1) * P, 0:out], value=nl.copy(acc, dtype=x.dtype))
    return result
