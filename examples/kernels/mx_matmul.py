"""Products of MX operands: quantised on the device (MXFP8), or loaded as they were quantised offline (MXFP4).

The array takes four consecutive contraction elements a partition, so that one pass contracts 512 of them.
"""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np

TILE_K = 512
TILE_M = 128
TILE_N = 512


def _quads(x, k, columns, width):
    """512 rows of x [K, F] as [128, width * 4]: rows 4p .. 4p + 3 become neighbours on partition p."""
    tile = nl.ndarray((128, width, 4), dtype=x.dtype, buffer=nl.sbuf)
    block = x[nl.ds(k * TILE_K, TILE_K), columns].reshape_dim(0, (128, 4)).permute((0, 2, 1))
    nisa.dma_copy(dst=tile, src=block)
    return tile.reshape((128, width * 4))


@nki.jit
def mxfp8(lhsT, rhs):
    """``lhsT.T @ rhs`` for bfloat16 [K, M] and [K, N], both quantised to MXFP8 on VectorE; K a multiple of 512.

    The scales of both operands share one tile: rows 0-3 of each quadrant belong to the stationary operand, rows 4-7 to
    the moving one.
    """
    K, M = lhsT.shape
    _, N = rhs.shape
    out = nl.ndarray((M, N), dtype=nl.float32, buffer=nl.shared_hbm)
    for m in nl.affine_range(M // TILE_M):
        for n in nl.affine_range(N // TILE_N):
            acc = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.psum)
            for k in nl.sequential_range(K // TILE_K):
                left = _quads(lhsT, k, nl.ds(m * TILE_M, TILE_M), TILE_M)
                right = _quads(rhs, k, nl.ds(n * TILE_N, TILE_N), TILE_N)
                stationary = nl.ndarray((128, TILE_M), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
                moving = nl.ndarray((128, TILE_N), dtype=nl.float8_e4m3fn_x4, buffer=nl.sbuf)
                scales = nl.ndarray((128, TILE_N), dtype=nl.uint8, buffer=nl.sbuf)
                nisa.quantize_mx(dst=stationary, src=left, dst_scale=scales[0:, 0:TILE_M])
                nisa.quantize_mx(dst=moving, src=right, dst_scale=scales[4:, :])
                nisa.nc_matmul_mx(
                    acc,
                    stationary=stationary,
                    moving=moving,
                    stationary_scale=scales[0:, 0:TILE_M],
                    moving_scale=scales[4:, :],
                )
            result = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(result, acc)
            nisa.dma_copy(dst=out[nl.ds(m * TILE_M, TILE_M), nl.ds(n * TILE_N, TILE_N)], src=result)
    return out


@nki.jit
def mxfp4_weights(weights, weight_scales, x):
    """``W.T @ x``: W [K, M] as MXFP4 quantised offline, x bfloat16 [K, N] quantised to MXFP8 on VectorE.

    weights: [K / 4, M] uint16, four FP4 elements each; weight_scales: [K / 4, M] uint8 in quadrant rows, one [128, M]
    tile for each 512 of K.
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
                quads = _quads(x, k, nl.ds(n * TILE_N, TILE_N), TILE_N)
                nisa.quantize_mx(dst=moving, src=quads, dst_scale=moving_scale)
                nisa.nc_matmul_mx(
                    acc,
                    stationary=stationary.view(nl.float4_e2m1fn_x4),
                    moving=moving,
                    stationary_scale=stationary_scale,
                    moving_scale=moving_scale,
                )
            result = nl.ndarray((TILE_M, TILE_N), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_copy(result, acc)
            nisa.dma_copy(dst=out[columns, nl.ds(n * TILE_N, TILE_N)], src=result)
    return out


def mxfp8_inputs(M=128, K=1024, N=512, seed=0):
    """Arguments of :func:`mxfp8`."""
    rng = np.random.default_rng(seed)
    shapes = {"lhsT": (K, M), "rhs": (K, N)}
    return {name: rng.standard_normal(shape, dtype=np.float32).astype(nl.bfloat16) for name, shape in shapes.items()}


def mxfp4_weights_inputs(M=128, K=1024, N=512, seed=0):
    """Arguments of :func:`mxfp4_weights`, the weights quantised by :mod:`trn3.numerics`."""
    from trn3.numerics import quantize_mx

    arguments = mxfp8_inputs(M, K, N, seed)
    weight = arguments["lhsT"].astype(np.float32)
    tiles = [
        quantize_mx(weight[k : k + TILE_K], "float4_e2m1fn", axis=0).to_trn3_layout() for k in range(0, K, TILE_K)
    ]
    data, scales = (np.concatenate(parts) for parts in zip(*tiles, strict=True))
    return {"weights": data, "weight_scales": scales, "x": arguments["rhs"]}


def mxfp8_golden(lhsT, rhs):
    """The product of what quantisation leaves, in float64."""
    from trn3.numerics import quantize_mx

    left, right = (
        quantize_mx(x.astype(np.float32), "float8_e4m3fn", axis=0).dequantize().astype(np.float64) for x in (lhsT, rhs)
    )
    return left.T @ right


def mxfp4_weights_golden(weights, weight_scales, x):
    """The product of what quantisation leaves, in float64."""
    from trn3.numerics import MXArray, quantize_mx

    tiles = [
        MXArray.from_trn3_layout(weights[k : k + 128], weight_scales[k : k + 128], "float4_e2m1fn").dequantize()
        for k in range(0, len(weights), 128)
    ]
    right = quantize_mx(x.astype(np.float32), "float8_e4m3fn", axis=0).dequantize().astype(np.float64)
    return np.concatenate(tiles).astype(np.float64).T @ right
