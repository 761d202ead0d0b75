"""A gate, ``x * silu(g)``, in four steps from a first kernel to two cores: the tutorial's."""

import nki
import nki.language as nl
import numpy as np

P = nl.tile_size.pmax


@nki.jit
def first(x, g):
    """The product of x and silu(g), both [rows, columns], in tiles of 128 x 512."""
    rows, columns = x.shape
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(0, rows, P):
        for column in range(0, columns, 512):
            place = (nl.ds(row, P), nl.ds(column, 512))
            tile = nl.load(x[place])
            gate = nl.load(g[place])
            nl.store(out[place], nl.multiply(tile, nl.silu(gate)))
    return out


@nki.jit
def wide(x, g):
    """The same with whole rows in a tile: fewer and larger transfers."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    for row in range(0, x.shape[0], P):
        place = nl.ds(row, P)
        tile = nl.load(x[place])
        gate = nl.load(g[place])
        nl.store(out[place], nl.multiply(tile, nl.silu(gate)))
    return out


def run(x, g, out, rows, ahead=2):
    """Gate tiles of rows, with the loads of `ahead` more under way before one is stored."""
    places = [nl.ds(row, P) for row in rows]
    loaded = [(nl.load(x[place]), nl.load(g[place])) for place in places[:ahead]]
    for i, place in enumerate(places):
        if i + ahead < len(places):
            later = places[i + ahead]
            loaded.append((nl.load(x[later]), nl.load(g[later])))
        tile, gate = loaded[i]
        nl.store(out[place], nl.multiply(tile, nl.silu(gate)))


@nki.jit
def pipelined(x, g):
    """The same, loading ahead: no transfer waits in its queue behind a store that is not ready."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    run(x, g, out, range(0, x.shape[0], P))
    return out


@nki.jit
def two_cores(x, g):
    """The same on the two cores of ``two_cores[2]``: each takes every other tile."""
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    cores = nl.num_programs(axes=0) if nl.program_ndim() != 0 else 1
    core = nl.program_id(axis=0) if cores > 1 else 0
    run(x, g, out, range(core * P, x.shape[0], cores * P))
    return out


def inputs(rows=1024, columns=4096, dtype=nl.bfloat16, seed=0):
    """Arguments of the kernels of this file."""
    rng = np.random.default_rng(seed)
    x, g = rng.standard_normal((2, rows, columns), dtype=np.float32)
    return {"x": x.astype(dtype), "g": g.astype(dtype)}


def golden(x, g):
    """The gate in float64."""
    x, g = x.astype(np.float64), g.astype(np.float64)
    return x * g / (1 + np.exp(-g))
