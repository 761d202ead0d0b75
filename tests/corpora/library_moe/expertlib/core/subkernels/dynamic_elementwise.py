"""Tiles whose number is known at run time alone."""

import nki
import nki.isa as nisa
import nki.language as nl


def _add_tile(a, b, out, row, n):
    P = nl.tile_size.pmax
    lhs = nl.ndarray((P, n), dtype=a.dtype, buffer=nl.sbuf)
    rhs = nl.ndarray((P, n), dtype=b.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=lhs, src=a.ap([[n, P], [1, n]], scalar_offset=row, indirect_dim=0))
    nisa.dma_copy(dst=rhs, src=b.ap([[n, P], [1, n]], scalar_offset=row, indirect_dim=0))
    nisa.tensor_tensor(dst=lhs, data1=lhs, data2=rhs, op=nl.add)
    nisa.dma_copy(dst=out.ap([[n, P], [1, n]], scalar_offset=row, indirect_dim=0), src=lhs)


@nki.jit
def dynamic_elementwise_add(a: nl.ndarray, b: nl.ndarray, num_m_tiles: nl.ndarray):
    """a + b in the first tiles of 128 rows; the rest stays zero. A tile counts rows."""
    m, n = a.shape
    out = nl.ndarray((m, n), dtype=a.dtype, buffer=nl.shared_hbm)
    clear = nl.ndarray((128, n), dtype=a.dtype, buffer=nl.sbuf)
    nisa.memset(clear, value=0.0)
    for i in nl.affine_range(m // 128):
        nisa.dma_copy(out[nl.ds(i * 128, 128)], clear)
    count = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.dma_copy(dst=count, src=num_m_tiles)
    stop = nisa.register_alloc(count)
    row = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    nisa.memset(dst=row, value=0)
    for _ in nl.dynamic_range(0, stop):
        _add_tile(a, b, out, row, n)
        nisa.tensor_scalar(dst=row, data=row, op0=nl.add, operand0=128)
    return out


@nki.jit
def dynamic_elementwise_add_while(a: nl.ndarray, b: nl.ndarray, num_m_tiles: nl.ndarray):
    """The same, in place on a, from the last tile down, by a register that ends at zero."""
    m, n = a.shape
    count = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf, name="count")
    nisa.dma_copy(count, num_m_tiles)
    reg = nisa.register_alloc()
    nisa.register_load(src=count, dst=reg)
    row = nl.ndarray((1, 1), dtype=nl.int32, buffer=nl.sbuf)
    while reg:
        nisa.tensor_scalar(count, count, nl.subtract, 1)
        nisa.tensor_scalar(row, count, nl.multiply, 128)
        _add_tile(a, b, a, row, n)
        nisa.register_load(reg, count)
    return a


@nki.jit
def dynamic_elementwise_add_register(a: nl.ndarray, b: nl.ndarray, num_m_tiles: nl.ndarray):
    """The same with the loop's register as the offset, over a tensor of tiles."""
    m, n = a.shape
    P = nl.tile_size.pmax
    out = nl.zeros((m, n), dtype=a.dtype, buffer=nl.shared_hbm)
    tiles = [each.reshape((m // P, P, n)) for each in (a, b, out)]
    stop = nisa.register_alloc()
    nisa.register_load(stop, num_m_tiles)

    def body(i):
        lhs = nl.ndarray((P, n), dtype=a.dtype, buffer=nl.sbuf)
        rhs = nl.ndarray((P, n), dtype=a.dtype, buffer=nl.sbuf)
        nisa.dma_copy(lhs, tiles[0].select(0, i))
        nisa.dma_copy(rhs, tiles[1][i])
        nisa.tensor_tensor(lhs, lhs, rhs, nl.add, engine=nisa.gpsimd_engine)
        nisa.dma_copy(tiles[2].ap([[n, P], [1, n]], scalar_offset=i), lhs)

    nl.fori_loop(0, stop, body)
    return out
