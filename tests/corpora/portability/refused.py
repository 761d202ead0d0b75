# mypy: ignore-errors
"""Kernels with one breach a marked line: ``# P001`` names the rule that finds it there.

Nothing here runs; lines without a mark are what compilers accept.
"""

from dataclasses import dataclass
from enum import Enum

import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
from nki.language import divide


class Mode(Enum):
    FAST = 1


class Plain:
    def __init__(self, size):
        self.size = size if size is not None else 1  # P001


@dataclass
class Settings:
    size: int = 1


@dataclass
class Portable(nl.NKIObject):
    size: int = 1

    def doubled(self):
        return self.size if self is None else 2 * self.size  # P001


def helper(x, *, scale=1.0):  # P002
    return x if x is not None else scale  # P001


def never_called(x):
    return x is None


@nki.jit
def identities(x, y=None):
    if y is None:  # P001
        y = x
    if y == x:
        return x
    assert x is not y  # P001
    return helper(x)


@nki.jit
def lists(x, sizes=[1, 2], names=("a",)):  # P003
    return x


@nki.jit
def dictionaries(x):
    a = {0: x, "b": x}  # P004
    b = {(1, 2): x}  # P004
    c = {i: x for i in range(4)}  # P004
    d = {}
    for i in nl.affine_range(4):
        d[i] = x  # P004
        d[str(i)] = x
        d[f"{i}"] = x
    e = {nl.float32: x, Mode.FAST: x}
    tiles = [x, x]
    for i in range(2):
        tiles[i] = x
    return a, b, c, d, e


@nki.jit
def classes(x):
    a = Plain(1)  # P005
    b = Settings()  # P005
    c = Portable(2)
    d = Mode(1)

    class Inner:  # P005
        pass

    class Good(nl.NKIObject):
        pass

    if c.doubled() > 4:
        raise ValueError("no")
    return a, b, d, Inner, Good


@nki.jit
def slices(x):
    tiles = [[x, x], [x]]
    a = tiles[0][1][:, 0:4]
    b = x[0:4, :][0:2, 1]  # P006
    c = x[nl.ds(0, 4)][:, 1]  # P006
    d = x.shape[1:][0]
    e = tiles[0:1][0]
    return a, b, c, d, e


@nki.jit
def functions(x):
    f = lambda y: y  # P007
    try:  # P008
        g = f(x)
    except ValueError:
        g = x
    return g


def parts(count):
    for i in range(count):
        yield i  # P009


@nki.jit
def generators(x):
    total = 0
    for i in parts(3):
        total += i
    return x, sum(i for i in range(3))


@nki.jit
def registers(x, count):
    reg = nisa.register_alloc(4)
    a = int(reg)  # P010
    for i in range(reg):  # P011
        pass
    for i in nl.affine_range(reg):  # P011
        pass
    if reg:  # P012
        pass
    b = reg + 1  # P012
    for k in nl.dynamic_range(0, reg):
        nisa.dma_copy(dst=x, src=x.ap([[1, 1]], scalar_offset=k))
        c = k * 2  # P012
    while reg:
        nisa.register_move(reg, 0)
    size = int(count)
    rank = ncc.rank_id()
    if rank == 0:  # P012
        pass
    return a, b, c, size


@nki.jit
def bodies(x):
    def body(i):
        a = i + 1  # P012
        return None

    def other(i):
        return i + 1

    def asked(i):
        return i if isinstance(i, int) else 2 * i

    nl.fori_loop(0, 4, body)
    nl.fori_loop(0, 4, asked)
    return x, other(3)


@nki.jit
def either(x, count):
    for block in nl.dynamic_range(count):
        if isinstance(block, int):
            first = int(block) * 128
        else:
            first = block
    return first


@nki.jit
def calls(x):
    whole = nl.ndarray((128, 4), nl.int32, buffer=nl.sbuf)
    exact = nl.ndarray((128, 4), dtype=nl.float32, buffer=nl.sbuf)
    bank = nl.ndarray((128, 4), nl.float32, nl.psum)
    out = nl.ndarray((128, 4), nl.float32, buffer=nl.shared_hbm)
    nisa.memset(whole, 0.0)  # P013
    nisa.memset(whole[:, 0:2], value=1.5)  # P013
    nisa.memset(whole, value=0)
    nisa.memset(exact, 0.0)
    nisa.memset(exact, 0)
    nisa.dma_copy(dst=out, src=x, oob_mode=1)  # P014
    nisa.dma_copy(dst=out, src=x, oob_mode=nisa.oob_mode.skip)
    nisa.tensor_copy(exact, bank, dtype=nl.float32)  # P016
    nisa.tensor_copy(exact, bank)
    a = nl.divide(exact, exact)  # P018
    b = divide(exact, exact)  # P018
    nisa.tensor_tensor(exact, exact, exact, op=nl.mod)  # P018
    c = nl.power(exact, 2.0)  # P019
    d = nl.power(exact, exact)
    nl.store(out, bank)  # P020
    nl.store(out[:, 0:2], bank[:, 0:2])  # P020
    nl.store(out, nl.copy(bank))
    nl.store(out, value=nl.matmul(exact, exact, transpose_x=True))  # P020
    e = nl.matmul(exact, exact)  # P021
    f = nl.matmul(exact, exact, transpose_x=False)  # P021
    g = nl.zeros((128, 4), nl.float32, buffer="psum")  # P026
    nisa.nc_matmul_sparse(bank, exact, exact, exact)  # P025
    return out, a, b, c, d, e, f, g


@nki.jit
def private(x):
    kept = nl.ndarray(x.shape, x.dtype, buffer=nl.hbm)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=kept, src=x)
    nisa.dma_copy(dst=out, src=kept)
    if x.shape[0] > 1:
        return (
            out,
            kept,  # P015
        )
    return out


@nki.jit(platform_target="trn2")  # P017
def targeted(x):
    return x


@nki.jit
def ordered(x):
    with nl.no_reorder():
        for i in nl.static_range(4):
            pass
        for i in nl.dynamic_range(4):  # P022
            pass
        nl.fori_loop(0, 4, never_called_either)  # P022
        reg = nisa.register_alloc(4)
        while reg:  # P022
            nisa.register_move(reg, 0)
    for i in nl.dynamic_range(4):
        pass
    return x


def never_called_either(i):
    pass


@nki.jit
def mixed(x):
    a = nl.par_dim(128)  # P023
    b = nl.arange(4)  # P023
    c = nl.load(x, mask=None)  # P023
    return a, b, c
