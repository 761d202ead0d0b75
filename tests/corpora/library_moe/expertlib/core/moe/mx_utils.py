"""Scaled 8- and 4-bit operands."""

from typing import Any

import nki
import nki.isa as nisa
import nki.language as nl

from ..utils.common_types import sizeinbytes
from ..utils.kernel_assert import kernel_assert
from ..utils.tensor_view import TensorView

P = nl.tile_size.pmax
ALLOWED_X4 = (nl.float8_e4m3fn_x4, nl.float8_e5m2_x4, nl.float4_e2m1fn_x4)


class MXTile(nl.NKIObject):
    """Packed values and the scales of their groups."""

    data: nl.ndarray
    scale: nl.ndarray
    dtype: Any

    def slice(self, tile, first, size):
        """Columns of one tile of the contraction."""
        return MXTile(
            data=self.data[:, tile, nl.ds(first, size)],
            scale=self.scale[:, tile, nl.ds(first, size)],
            dtype=self.dtype,
        )


def as_x4(tensor, dtype):
    """The same bytes as packed elements, whatever integers carry them."""
    kernel_assert(dtype in ALLOWED_X4, f"{dtype} is not packed")
    if str(tensor.dtype) in [str(x4) for x4 in ALLOWED_X4]:
        return tensor
    return tensor.view(dtype)


def load_scales(src, rows, dst, at=0):
    """Scales [rows, F] in HBM to the first rows of each quadrant of dst [128, F]."""
    width = 1
    for extent in src.shape[1:]:
        width *= extent
    flat = src.reshape((rows, width))
    per = rows // 4
    for q in range(4):
        nisa.dma_copy(
            dst=dst[nl.ds(q * 32 + at, per)],
            src=flat[nl.ds(q * per, per), :],
        )


def quantize_columns(src, dtype=nl.float8_e4m3fn_x4, scale_buffer=None, at=0):
    """Quantise [128, tiles, F * 4] into tiles of packed values and their scales."""
    parts, tiles, wide = src.shape
    data = nl.ndarray((parts, tiles, wide // 4), dtype=dtype, buffer=nl.sbuf)
    if scale_buffer is None:
        scale_buffer = nl.ndarray((parts, tiles, wide // 4), dtype=nl.uint8, buffer=nl.sbuf)
        nisa.memset(scale_buffer, value=0)
    for t in nl.affine_range(tiles):
        nisa.quantize_mx(dst=data[:, t, :], src=src[:, t, :], dst_scale=scale_buffer[at:, t, :])
    return MXTile(data=data, scale=scale_buffer[at:], dtype=dtype)


@nki.jit
def mxfp_load_kernel(weights, scales, x, x4_dtype: nki.dtype = nl.float4_e2m1fn_x4):
    """x.T @ (weights * 2 ** (scales - 127)): packed weights [128, F] as unsigned integers, scales
    [16, F], x [128, 4 * N] of bfloat16, quantised here.
    """
    kernel_assert(sizeinbytes(x4_dtype) in (2, 4), "16 or 32 bits")
    packed = as_x4(weights, x4_dtype)
    rows, width = packed.shape
    n = x.shape[1] // 4
    w_sb = nl.ndarray((P, width), dtype=x4_dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=w_sb, src=TensorView(packed).get_view())
    w_scale = nl.ndarray((P, width), dtype=nl.uint8, buffer=nl.sbuf)
    nisa.memset(dst=w_scale, value=0, engine=nisa.vector_engine)
    load_scales(scales, 16, w_scale)
    x_sb = nl.ndarray((P, 1, 4 * n), dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=x_sb, src=x)
    xq = quantize_columns(x_sb)
    out = nl.ndarray((n, width), dtype=nl.float32, buffer=nl.shared_hbm)
    out_scale = nl.ndarray((16, n), dtype=nl.uint8, buffer=nl.shared_hbm)
    out_data = nl.ndarray((P, n), dtype=nl.float8_e4m3fn_x4, buffer=nl.shared_hbm)
    psum = nl.ndarray((n, width), dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul_mx(
        dst=psum,
        stationary=xq.data[:, 0, :],
        moving=w_sb,
        stationary_scale=xq.scale[:, 0],
        moving_scale=w_scale,
    )
    result = nl.ndarray((n, width), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=result, src=psum)
    nisa.dma_copy(dst=out, src=result)
    nisa.dma_copy(dst=out_data, src=xq.data[:, 0, :])
    for q in range(4):
        nisa.dma_copy(dst=out_scale[q * 4 : q * 4 + 4], src=xq.scale[q * 32 : q * 32 + 4, 0, :])
    return out, out_data, out_scale
