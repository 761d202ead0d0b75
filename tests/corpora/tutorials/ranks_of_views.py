# mypy: ignore-errors
"""Small kernels over tiles of two to six axes, and the ways in which kernels are made and launched."""

import dataclasses
import enum
from typing import Optional

import ml_dtypes
import numpy as np

from trn3 import nki
import trn3.nki.isa as nisa
import trn3.nki.language as nl
import trn3.nki.typing as nt

from support.tutorials import X3, X4, X5, H6, B16, B, I, X, Y, case, stored


@case(X5 * 2 + X5[:, :1, 0, 0, 0:1].reshape(64, 1, 1, 1, 1), (X5,))
def ts5(x):
    a = nl.load(x)
    nisa.tensor_scalar(a, a, nl.multiply, 2.0)
    return stored(nl.add(a, nl.broadcast_to(nl.load(x[:, 0:1, 0:1, 0:1, 0:1]), (64, 2, 3, 4, 5))))


@case(np.exp(X5), (X5,), 1e-4)
def act5(x):
    a = nl.load(x)
    nisa.activation(a, nl.exp, a)
    return stored(a)


@case(X5.sum((3, 4)), (X5,), 1e-4)
def red5(x):
    a = nl.load(x)
    d = nl.ndarray((64, 2, 3), nl.float32)
    nisa.tensor_reduce(d, nl.add, a, (3, 4))
    return stored(d)


@case(X5.sum((1, 3)), (X5,), 1e-4)
def red5b(x):
    return stored(nl.sum(nl.load(x), (1, 3)))


@case(X5.transpose(0, 4, 3, 2, 1), (X5,))
def perm5(x):
    return stored(nl.copy(nl.load(x).permute((0, 4, 3, 2, 1))))


@case(X5.transpose(0, 4, 3, 2, 1), (X5,))
def perm5args(x):
    return stored(nl.copy(nl.load(x).permute(0, 4, 3, 2, 1)))


@case(H6.reshape(6, 2 * 4 * 3 * 5), (H6,))
def hbm6(x):
    return stored(nl.load(x.flatten_dims(0, 1).reshape((6, 120))))


@case(H6[1].transpose(3, 0, 1, 2, 4).reshape(3, -1), (H6,))
def hbm6p(x):
    d = nl.ndarray((3, 3, 2, 4, 5), nl.float32)
    nisa.dma_copy(dst=d, src=x[1].permute((3, 0, 1, 2, 4)))
    return stored(d, (3, 3, 2, 4, 5))


@case(X3.reshape(128, 64).T @ X3.reshape(128, 64), (X3,), 1e-3)
def mm3d(x):
    a = nl.load(x)
    p = nl.ndarray((64, 4, 16), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(p, a, a)
    return stored(nl.copy(p), (64, 4, 16))


@case(X3.reshape(128, 64).T, (X3,))
def tr3d(x):
    a = nl.load(x)
    p = nl.ndarray((64, 128), nl.float32, buffer=nl.psum)
    nisa.nc_transpose(p, a)
    return stored(nl.copy(p))


@case(
    np.exp(X3 - X3.max(2, keepdims=True))
    / np.exp(X3 - X3.max(2, keepdims=True)).sum(2, keepdims=True),
    (X3,),
    1e-4,
)
def sm3(x):
    return stored(nl.softmax(nl.load(x), axis=2))


@case(
    np.exp(X3 - X3.max((1, 2), keepdims=True))
    / np.exp(X3 - X3.max((1, 2), keepdims=True)).sum((1, 2), keepdims=True),
    (X3,),
    1e-4,
)
def sm32(x):
    return stored(nl.softmax(nl.load(x), axis=(1, 2)))


@case(X3.mean((1, 2)).reshape(128, 1), (X3,))
def mean3(x):
    return stored(nl.mean(nl.load(x), axis=(1, 2)))


@case(X3.var((1, 2)).reshape(128, 1, 1), (X3,), 1e-4)
def var3(x):
    return stored(nl.var(nl.load(x), axis=(1, 2)))


@case(X3.var(2), (X3,), 1e-4)
def var31(x):
    return stored(nl.var(nl.load(x), axis=2))


@case(X3[:, 1], (X3,))
def mid(x):
    return stored(nl.load(x[:, 1]))


@case(X3[:, 1:3, ::4], (X3,))
def midstep(x):
    return stored(nl.load(x[:, 1:3, ::4]))


@case(X3[3], (X3,))
def first(x):
    return stored(nl.load(x[3]))


@case(X3[-1], (X3,))
def last(x):
    return stored(nl.load(x[-1]))


@case(X3[..., 5], (X3,))
def ell(x):
    return stored(nl.load(x[..., 5]))


@case(B16.T, (B16,))
def trbf(x):
    return stored(nl.copy(nl.transpose(nl.load(x))))


@case((B16.astype(np.float32).T @ B16.astype(np.float32)), (B16,), 1e-2)
def mmbf(x):
    return stored(nl.matmul(nl.load(x), nl.load(x), transpose_x=True))


@case(X[:, :1] * Y)
def bcol(x, y):
    return stored(nl.multiply(nl.load(x[:, 0:1]), nl.load(y)))


@case((X3 * X3[:, :1, :]), (X3,))
def bmid(x):
    a = nl.load(x)
    return stored(nl.multiply(a, a[:, 0:1, :]))


@case(X3 + X3[:, :, :1], (X3,))
def bl(x):
    a = nl.load(x)
    d = nl.ndarray((128, 4, 16), nl.float32)
    nisa.tensor_tensor(d, a, a[:, :, 0:1].broadcast(2, 16), nl.add)
    return stored(d)


@case(X + Y)
def strtok(x, y):
    d = nl.ndarray((128, 64), nl.float32)
    nisa.tensor_tensor(dst=d, data1=nl.load(x), data2=nl.load(y), op=np.add)
    return stored(d)


@case(X)
def neg_axis(x, y):
    s = nl.sum(nl.load(x), axis=-1)
    assert s.shape == (128, 1)
    return x


@case(X.sum(1, keepdims=True), tol=1e-4)
def allpos(x, y):
    return stored(nl.sum(nl.load(x), 1, nl.float32, True))


@case(((X > 0).all(1, keepdims=True)).astype(np.float32))
def alls(x, y):
    return stored(nl.all(nl.greater(nl.load(x), 0.0), axis=1))


class TutorialMode(enum.Enum):
    A = 1
    B = 2


@dataclasses.dataclass
class TutorialConfig(nl.NKIObject):
    k: float
    mode: TutorialMode = TutorialMode.A
    bias: Optional[nl.ndarray] = None


@case(X * 3, (X, TutorialConfig(3.0)))
def cfg(x, c):
    a = nl.load(x)
    if c.mode == TutorialMode.A and not c.bias:
        nisa.tensor_scalar(a, a, nl.multiply, c.k)
    return stored(a)


@case(X, (X,))
def dt(x):
    assert (
        str(x.dtype) == "float32" and x.dtype == nl.float32 and x.buffer in (nl.hbm, nl.shared_hbm)
    )
    assert isinstance(x, nl.ndarray)
    return stored(nl.load(x))


@nki.jit
def inner(x):
    return nl.multiply(x, 2.0)


@case(X * 2, (X,))
def nested(x):
    return stored(inner(nl.load(x)))


@case(X * 2, (X,))
def tup(x):
    a = nl.load(x)
    r = (stored(nl.multiply(a, 2.0)), stored(a))
    return r[0]


@case(X, launch=lambda f: nki.jit(f)[2])
def lnc2(x, y):
    r = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
    i = nl.program_id(axis=0)
    n = nl.num_programs(axes=0)
    h = 128 // n
    nl.store(r[nl.ds(i * h, h)], nl.load(x[i * h : (i + 1) * h]))
    nisa.core_barrier(r, (0, 1))
    return r


@case(np.concatenate([X[64:], X[:64]]), launch=lambda f: nki.jit(f)[(2,)])
def srv(x, y):
    r = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
    i = nl.program_id(0)
    a = nl.load(x[nl.ds(i * 64, 64)])
    b = nl.ndarray((64, 64), nl.float32)
    nisa.sendrecv(src=a, dst=b, send_to_rank=1 - i, recv_from_rank=1 - i, pipe_id=0)
    nl.store(r[nl.ds(i * 64, 64)], b)
    return r


@case(X, launch=lambda f: nki.simulate(nki.jit(f)))
def simu(x, y):
    return stored(nl.load(x))


@case(X, launch=lambda f: nki.jit(mode="trace", debug_kernel=True)(f))
def modes(x, y):
    return stored(nl.load(x))


@case(X, launch=lambda f: nki.jit()(f))
def parens(x, y):
    return stored(nl.load(x))


@case(B16.astype(np.float32), (B16,))
def typed(x: nt.tensor):
    return stored(nl.load(x, dtype=nl.float32))


@case(X)
def addr(x, y):
    a = nl.ndarray((128, 64), nl.float32, buffer=nl.sbuf, name="a", address=(0, 1024))
    nisa.dma_copy(a, x)
    p = nl.ndarray((128, 64), nl.float32, nl.psum, address=(0, 2048))
    nisa.tensor_copy(p, a)
    return stored(nl.copy(p))


@case(X)
def lists(x, y):
    tiles = [[nl.load(x[nl.ds(i * 32, 32), nl.ds(j * 32, 32)]) for j in range(2)] for i in range(4)]
    r = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
    for i in range(4):
        for j in range(2):
            nisa.dma_copy(r[i * 32 : i * 32 + 32, j * 32 : j * 32 + 32], tiles[i][j])
    return r


@case(np.concatenate([X, Y], 1))
def cat(x, y):
    d = nl.ndarray((128, 128), nl.float32)
    nisa.tensor_copy(d[:, 0:64], nl.load(x))
    nisa.activation(d[:, 64:128], op=nl.copy, data=nl.load(y))
    return stored(d)


@case(np.where(X > 0, 1, 0).astype(np.float32))
def cmpd(x, y):
    r = nl.greater(nl.load(x), 0)
    assert r.dtype == nl.float32
    return stored(r)


@case(np.minimum(np.maximum(X, -1), 1))
def clamp(x, y):
    a = nl.load(x)
    nisa.tensor_scalar(a, a, op0=nl.maximum, operand0=-1.0, op1=nl.minimum, operand1=1.0)
    return stored(a)


@case(
    X.reshape(128, 2, 32)[:, ::-1].reshape(128, 64)
    * np.tile(np.array([-1] * 32 + [1] * 32), (128, 1))
)
def rope(x, y):
    a = nl.load(x)
    d = nl.ndarray((128, 64), nl.float32)
    nisa.tensor_scalar(d[:, 0:32], a[:, 32:64], nl.multiply, -1.0)
    nisa.tensor_copy(d[:, 32:64], a[:, 0:32])
    return stored(d)


@case(X.reshape(64, 2, 8, 8).transpose(0, 2, 1, 3).reshape(64, -1)[:, :], (X,))
def hre(x):
    return stored(
        nl.load(x.reshape((64, 2, 8, 8)).rearrange(("a", "b", "c", "d"), ("a", "c", "b", "d"))),
        (64, 8, 2, 8),
    )


@case(X, (X,))
def inplace(x):
    a = nl.load(x)
    return stored(a.view(dtype=nl.int32).view(nl.float32))


@case(np.arange(64).reshape(1, 64) + np.zeros((128, 1)))
def iota2(x, y):
    d = nl.ndarray((128, 8, 8), nl.int32)
    nisa.iota(dst=d, pattern=[[8, 8], [1, 8]], offset=0, channel_multiplier=0)
    return stored(d, (128, 8, 8))


@case(X.max(1, keepdims=True))
def nx(x, y):
    a = nl.load(x)
    m = nl.max(a, axis=[1], keepdims=True)
    return stored(m)


@case(X * Y + 1)
def twostep(x, y):
    p = nl.multiply(nl.load(x), nl.load(y))
    return stored(nl.add(1.0, p))


@case((X.T @ Y).astype(ml_dtypes.bfloat16), tol=3e-2)
def psumbf(x, y):
    p = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(p, nl.load(x), nl.load(y))
    d = nl.ndarray((64, 64), nl.bfloat16)
    nisa.tensor_copy(dst=d, src=p, engine=nisa.engine.vector)
    return stored(d)


@case(np.repeat(X, 2, 0)[:128], (X,))
def hbc(x):
    d = nl.ndarray((128, 64), nl.float32)
    nisa.dma_copy(d, x.ap([[64, 64], [0, 2], [1, 64]]))
    return stored(d)


@case(np.broadcast_to(X[3], (128, 64)), (X,))
def hbc2(x):
    d = nl.ndarray((128, 64), nl.float32)
    nisa.dma_copy(d, x[3:4].broadcast(0, 128))
    return stored(d)
