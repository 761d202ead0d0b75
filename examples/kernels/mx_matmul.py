"""Products of MX operands: quantised on the device (MXFP8), or loaded as they were quantised
offline (MXFP4).

The array takes four consecutive contraction elements a partition, so that one pass contracts 512 of
them.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TILE_K = 512
TILE_M = 128
TILE_N = 512
BLOCK_M = 512


def _quads(x, k, columns):
    """512 rows of x [K, F] as [128, F, 4]: partition p holds rows 4p to 4p + 3, which a view makes
    neighbours.
    """
    tile = nl.ndarray((128, 4, columns.size), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[nl.ds(k * TILE_K, TILE_K), columns].reshape_dim(0, (128, 4)))
    return tile.permute((0, 2, 1))


def _store(out, acc, m, n):
    result = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(result, acc, engine=nisa.scalar_engine)
    nisa.dma_copy(dst=out[nl.ds(m * TILE_M, TILE_M), nl.ds(n * TILE_N, TILE_N)], src=result)


@nki.jit
def mxfp8(lhsT, rhs):
    """``lhsT.T @ rhs`` for bfloat16 [K, M] and [K, N], both quantised to MXFP8 on VectorE; K a
    multiple of 512.

    The scales of both operands share one tile: rows 0-3 of each quadrant belong to the stationary
    operand, rows 4-7 to the moving one. What is quantised for a block of k serves four tiles of
    results: VectorE is the slower engine here.
    """
    K, M = lhsT.shape
    _, N = rhs.shape
    block_m = min(BLOCK_M, M)
    out = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // block_m):
        for n in nl.affine_range(N // TILE_N):
            accs = [
                nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
                for _ in range(block_m // TILE_M)
            ]
            for k in nl.sequential_range(K // TILE_K):
                stationary = nl.ndarray((128, block_m), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
                moving = nl.ndarray((128, TILE_N), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
                scales = nl.ndarray((128, TILE_N), dtype=nl.uint8, buffer=nl.sbuf)
                left, right = scales[0:, 0:block_m], scales[4:, :]
                nisa.quantize_mx(
                    dst=stationary, src=_quads(lhsT, k, nl.ds(m * block_m, block_m)), dst_scale=left
                )
                nisa.quantize_mx(
                    dst=moving, src=_quads(rhs, k, nl.ds(n * TILE_N, TILE_N)), dst_scale=right
                )
                for tile_m, acc in enumerate(accs):
                    columns = nl.ds(tile_m * TILE_M, TILE_M)
                    nisa.nc_matmul_mx(
                        acc,
                        stationary=stationary[:, columns],
                        moving=moving,
                        stationary_scale=left[:, columns],
                        moving_scale=right,
                    )
            for tile_m, acc in enumerate(accs):
                _store(out, acc, m * len(accs) + tile_m, n)
    return out


@nki.jit
def mxfp4_weights(weights, weight_scales, x):
    """``W.T @ x``: W [K, M] as MXFP4 quantised offline, x bfloat16 [K, N] quantised to MXFP8 on
    VectorE.

    weights: [K / 4, M] uint16, four FP4 elements each; weight_scales: [K / 4, M] uint8 in quadrant
    rows, one [128, M] tile for each 512 of K.
    """
    rows, M = weights.shape
    _, N = x.shape
    out = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // TILE_M):
        columns = nl.ds(m * TILE_M, TILE_M)
        for n in nl.affine_range(N // TILE_N):
            acc = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
            for k in nl.sequential_range(rows // 128):
                part = nl.ds(k * 128, 128)
                stationary = nl.ndarray((128, TILE_M), dtype=nl.uint16, buffer=nl.sbuf)
                stationary_scale = nl.ndarray((128, TILE_M), dtype=nl.uint8, buffer=nl.sbuf)
                nisa.dma_copy(dst=stationary, src=weights[part, columns])
                nisa.dma_copy(dst=stationary_scale, src=weight_scales[part, columns])
                moving = nl.ndarray((128, TILE_N), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
                moving_scale = nl.ndarray((128, TILE_N), dtype=nl.uint8, buffer=nl.sbuf)
                nisa.quantize_mx(
                    dst=moving, src=_quads(x, k, nl.ds(n * TILE_N, TILE_N)), dst_scale=moving_scale
                )
                nisa.nc_matmul_mx(
                    acc,
                    stationary=stationary.view(nl.float4_e2m1fn_x4),
                    moving=moving,
                    stationary_scale=stationary_scale,
                    moving_scale=moving_scale,
                )
            _store(out, acc, m, n)
    return out


def mxfp8_inputs(M=128, K=1024, N=512, seed=0):
    """Arguments of :func:`mxfp8`."""
    rng = np.random.default_rng(seed)
    shapes = {"lhsT": (K, M), "rhs": (K, N)}
    return {
        name: rng.standard_normal(shape, dtype=np.float32).astype(nl.bfloat16)
        for name, shape in shapes.items()
    }


def mxfp4_weights_inputs(M=128, K=1024, N=512, seed=0):
    """Arguments of :func:`mxfp4_weights`, the weights quantised by :mod:`trn3.numerics`."""
    from trn3.numerics import quantize_mx

    arguments = mxfp8_inputs(M, K, N, seed)
    weight = arguments["lhsT"].astype(np.float32)
    tiles = [
        quantize_mx(weight[k : k + TILE_K], "float4_e2m1fn", axis=0).to_trn3_layout()
        for k in range(0, K, TILE_K)
    ]
    data, scales = (np.concatenate(parts) for parts in zip(*tiles, strict=True))
    return {"weights": data, "weight_scales": scales, "x": arguments["rhs"]}


def mxfp8_golden(lhsT, rhs):
    """The product of what quantisation leaves, in float64."""
    from trn3.numerics import quantize_mx

    left, right = (
        quantize_mx(x.astype(np.float32), "float8_e4m3fn", axis=0).dequantize().astype(np.float64)
        for x in (lhsT, rhs)
    )
    return left.T @ right


def mxfp4_weights_golden(weights, weight_scales, x):
    """The product of what quantisation leaves, in float64."""
    from trn3.numerics import MXArray, quantize_mx

    tiles = [
        MXArray.from_trn3_layout(
            weights[k : k + 128], weight_scales[k : k + 128], "float4_e2m1fn"
        ).dequantize()
        for k in range(0, len(weights), 128)
    ]
    right = (
        quantize_mx(x.astype(np.float32), "float8_e4m3fn", axis=0).dequantize().astype(np.float64)
    )
    return np.concatenate(tiles).astype(np.float64).T @ right
