"""The kernel that the hosts run: one product of the array. `trn3 record` wrote matmul.json from it."""

import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def matmul(lhsT, rhs):
    """The product of lhsT [128, 128], transposed, and rhs [128, 512], both bfloat16, in float32."""
    shape = (lhsT.shape[1], rhs.shape[1])
    product = nl.ndarray(shape, dtype=nl.float32, buffer=nl.shared_hbm, name="product")
    stationary, moving = nl.load(lhsT), nl.load(rhs)
    sums = nl.ndarray(shape, dtype=nl.float32, buffer=nl.psum)
    nisa.nc_matmul(sums, stationary, moving)
    tile = nl.ndarray(shape, dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(tile, sums)
    nisa.dma_copy(product, tile)
    return product


def inputs(seed=0):
    """Arguments of :func:`matmul`."""
    rng = np.random.default_rng(seed)
    shapes = {"lhsT": (128, 128), "rhs": (128, 512)}
    return {
        name: rng.standard_normal(shape, dtype=np.float32).astype(nl.bfloat16)
        for name, shape in shapes.items()
    }
