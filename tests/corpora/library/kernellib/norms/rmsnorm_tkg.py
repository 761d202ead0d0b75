"""Normalisation of few tokens whose hidden dimension lies on partitions, for the kernels that follow."""

from typing import Any, Optional, Tuple

import nki
import nki.isa as nisa
import nki.language as nl

from ..core.utils.allocator import SbufManager, create_auto_alloc_manager
from ..core.utils.common_types import NormType
from ..core.utils.kernel_assert import kernel_assert
from ..core.utils.kernel_helpers import (
    get_verified_program_sharding_info,
    is_hbm_buffer,
)
from ..core.utils.tensor_view import TensorView


def _ones(sbm: SbufManager, value: float, dtype):
    ones = sbm.alloc_heap((nl.tile_size.pmax, nl.tile_size.pmax), dtype, name="ones")
    nisa.memset(ones, value=value)
    return ones


def _sum_over_partitions(dst, data, ones, bank: int):
    """Put the sum over all partitions on all of them, by a product with ones."""
    acc = nl.ndarray((128, dst.shape[1]), nl.float32, buffer=nl.psum, address=(0, bank * 2048))
    n = data.shape[1]
    for h1 in range(n):
        nisa.nc_matmul(dst=acc, stationary=ones, moving=data[:, h1, :], accumulate=h1 != 0)
    nisa.tensor_copy(dst=dst, src=acc, engine=nisa.scalar_engine)


def norm_tkg(
    input: nl.ndarray,
    gamma: Optional[nl.ndarray],
    beta: Optional[nl.ndarray],
    output: nl.ndarray,
    norm_type: NormType,
    eps: float,
    sbm: SbufManager,
    h_actual: Optional[int] = None,
):
    """Normalise [B, S, H] in HBM, or [128, H/128, B*S] in SBUF, into [128, H/128, B*S] in SBUF."""
    P = nl.tile_size.pmax
    H0, H1, BxS = output.shape
    H = H0 * H1
    h_actual = h_actual if h_actual is not None else H
    kernel_assert(H0 == P, f"output has {H0} partitions")
    sbm.open_scope("norm")
    if isinstance(input, TensorView) or is_hbm_buffer(input):
        flat = input if isinstance(input, TensorView) else TensorView(input.reshape((BxS, H)))
        tile = sbm.alloc_stack((P, H1, BxS), dtype=input.dtype, name="x")
        # Element h of a token lies on partition h // H1, column h % H1.
        view = flat.rearrange(("s", ("p", "c")), ("p", "c", "s"), {"p": P}).get_view()
        nisa.dma_copy(dst=tile, src=view)
    else:
        tile = input
    ones = _ones(sbm, 1.0 / h_actual, nl.float32)
    x = sbm.alloc_stack((P, H1, BxS), nl.float32, name="x_f32")
    if norm_type == NormType.LAYER_NORM:
        wide = sbm.alloc_stack((P, H1, BxS), nl.float32, name="wide")
        nisa.tensor_copy(wide, tile)
        mean = sbm.alloc_stack((P, BxS), nl.float32, name="mean")
        _sum_over_partitions(mean, wide, ones, bank=0)
        nisa.tensor_tensor(
            dst=x,
            data1=wide,
            data2=mean.ap([[BxS, P], [0, H1], [1, BxS]]),
            op=nl.subtract,
        )
    else:
        nisa.tensor_copy(dst=x, src=tile)
    square = sbm.alloc_stack((P, H1, BxS), nl.float32, name="square")
    nisa.activation(dst=square, op=nl.square, data=x)
    var = sbm.alloc_stack((P, BxS), nl.float32, name="var")
    _sum_over_partitions(var, square, ones, bank=1)
    rstd = sbm.alloc_stack((P, BxS), nl.float32, name="rstd")
    eps_tile = sbm.alloc_stack((P, 1), nl.float32, name="eps")
    nisa.memset(eps_tile, value=eps)
    nisa.activation(rstd, op=nl.rsqrt, data=var, bias=eps_tile)
    nisa.tensor_tensor(
        x, x, TensorView(rstd).expand_dim(1).broadcast(1, H1).get_view(), nl.multiply
    )
    if gamma is None:
        nisa.tensor_copy(output, x)
    else:
        g = sbm.alloc_stack((P, H1), nl.float32, name="gamma")
        nisa.dma_copy(dst=g, src=gamma.reshape((P, H1)))
        target = output if beta is None else x
        nisa.tensor_tensor(target, x, g.ap([[H1, P], [1, H1], [0, BxS]]), nl.multiply)
        if beta is not None:
            b = sbm.alloc_stack((P, H1), nl.float32, name="beta")
            nisa.dma_copy(dst=b, src=beta.reshape((P, H1)))
            nisa.tensor_tensor(
                dst=output,
                data1=x,
                data2=b.expand_dim(2).broadcast(2, BxS),
                op=nl.add,
                engine=nisa.gpsimd_engine,
            )
    sbm.pop_heap()
    sbm.close_scope()
    return output


@nki.jit
def rmsnorm_tkg(
    input: nl.ndarray,
    gamma: nl.ndarray,
    beta: Optional[nl.ndarray] = None,
    eps: float = 1e-6,
    hidden_actual: Optional[int] = None,
    norm_type: NormType = NormType.RMS_NORM,
    sbm: Optional[SbufManager] = None,
    single_core_forced: bool = False,
):
    """[B, S, H] -> [128, H/128, B*S] in HBM; each core does half of the tokens, and sends it."""
    B, S, H = input.shape
    P = nl.tile_size.pmax
    kernel_assert(H % P == 0, f"{H} is no multiple of {P}")
    _, n_prgs, prg_id = get_verified_program_sharding_info("rmsnorm_tkg", (0, 1), 2)
    BxS, H1 = B * S, H // P
    split = n_prgs == 2 and BxS % 2 == 0 and not single_core_forced
    mine = BxS // 2 if split else BxS
    if sbm is None:
        sbm = create_auto_alloc_manager()
    result = sbm.alloc_stack((P, H1, BxS), dtype=input.dtype, name="norm_out")
    if split:
        own = sbm.alloc_stack((P, H1, mine), dtype=input.dtype, name="own")
        norm_tkg(
            TensorView(input.reshape((BxS, H))).slice(0, prg_id * mine, (prg_id + 1) * mine),
            gamma,
            beta,
            own,
            norm_type,
            eps,
            sbm,
            hidden_actual,
        )
        nisa.tensor_copy(result[:, :, nl.ds(prg_id * mine, mine)], own)
        peer = 1 - prg_id
        # Both halves lie in one tile.
        nisa.sendrecv(
            src=result[:, :, nl.ds(prg_id * mine, mine)],
            dst=result[:, :, nl.ds(peer * mine, mine)],
            send_to_rank=peer,
            recv_from_rank=peer,
            pipe_id=0,
        )
    else:
        norm_tkg(input, gamma, beta, result, norm_type, eps, sbm, hidden_actual)
    out = nl.ndarray((P, H1, BxS), dtype=input.dtype, buffer=nl.shared_hbm)
    half = P // n_prgs
    rows = nl.ds(prg_id * half, half)
    nisa.dma_copy(dst=out[rows], src=result[rows])
    return out
