# mypy: ignore-errors
"""Small kernels with addresses known at run time, scalars, collectives and arguments of every kind."""

import ml_dtypes
import numpy as np

from trn3 import nki
import trn3.nki.collectives as ncc
import trn3.nki.isa as nisa
import trn3.nki.language as nl
import trn3.nki.typing as nt

from support.tutorials import X3, X, Y, case, stored

A = np.arange(60, dtype=np.float32).reshape(4, 3, 5)

i1 = lambda v: np.array([[v]], np.int32)


@case(A[2, 1:3], (A, i1(2)))
def so0(a, i):
    s = nl.load(i)
    d = nl.ndarray((2, 5), nl.float32)
    nisa.dma_copy(d, a.ap([[5, 2], [1, 5]], offset=5, scalar_offset=s))
    return stored(d)


@case(A[:, 2, 3:5], (A, i1(2)))
def so1(a, i):
    s = nl.load(i)
    d = nl.ndarray((4, 2), nl.float32)
    nisa.dma_copy(d, a.ap(pattern=[[15, 4], [1, 2]], offset=3, scalar_offset=s, indirect_dim=1))
    return stored(d)


@case(A[:, :, 4], (A, i1(4)))
def so2(a, i):
    s = nl.load(i)
    d = nl.ndarray((4, 3), nl.float32)
    nisa.dma_copy(d, a.ap(pattern=[[15, 4], [5, 3]], scalar_offset=s, indirect_dim=2))
    return stored(d)


@case(A[2], (A, i1(2)))
def selt(a, i):
    s = nl.load(i)
    d = nl.ndarray((3, 5), nl.float32)
    nisa.dma_copy(d, a[s])
    return stored(d)


@case(A[:, 2], (A, i1(2)))
def selt1(a, i):
    s = nl.load(i)
    d = nl.ndarray((4, 5), nl.float32)
    nisa.dma_copy(d, a[:, s])
    return stored(d)


@case(A[:, 1:3], (A, i1(1)))
def dst1(a, i):
    s = nl.load(i)
    d = nl.ndarray((4, 2, 5), nl.float32)
    nisa.dma_copy(d, a[:, nl.ds(s, 2)])
    return stored(d)


@case(X[:, 7:9], (X, i1(7)))
def sbdyn(x, i):
    s = nl.load(i)
    a = nl.load(x)
    d = nl.ndarray((128, 2), nl.float32)
    nisa.tensor_copy(d, a[:, nl.ds(s, 2)])
    return stored(d)


@case(X[:, 7:8], (X, i1(7)))
def sbsel(x, i):
    s = nl.load(i)
    a = nl.load(x)
    d = nl.ndarray((128, 1), nl.float32)
    nisa.tensor_copy(d, a.select(1, s))
    return stored(d)


@case(np.stack([X[0], 0 * X[0], X[2], 0 * X[0]]), (X, np.array([[0], [200], [2], [-1]], np.int32)))
def skip(x, i):
    s = nl.load(i)
    d = nl.zeros((4, 64), nl.float32)
    nisa.dma_copy(d, x.ap([[64, 4], [1, 64]], vector_offset=s), oob_mode=nisa.oob_mode.skip)
    return stored(d)


@case(
    np.stack([X[3], X[2], 0 * X[0], X[0]]), (X[:4].copy(), np.array([[3], [9], [1], [0]], np.int32))
)
def scat(x, i):
    s = nl.load(i)
    a = nl.load(x)
    r = nl.ndarray((4, 64), nl.float32, buffer=nl.shared_hbm)
    z = nl.zeros((4, 64), nl.float32)
    nisa.dma_copy(r, z)
    nisa.dma_copy(r.ap([[64, 4], [1, 64]], vector_offset=s), a, oob_mode=nisa.oob_mode.skip)
    return r


@case(X[0:32, 8:24])
def rng(x, y):
    return stored(nl.load(x[range(0, 32), slice(8, 24)]))


@case(X[0:32, 8:24])
def aff(x, y):
    return stored(nl.load(x[nl.affine_range(32), 8:24]))


@case(X)
def npint(x, y):
    d = nl.ndarray(
        shape=[np.int64(128), 64], dtype=x.dtype, buffer=nl.sbuf, name=None, address=None
    )
    nisa.dma_copy(d, x)
    return stored(d)


@case(np.array([[7]]))
def one(x, y):
    d = nl.ndarray([1], nl.int32, buffer=nl.sbuf)
    nisa.memset(d, 7)
    return stored(d, (1, 1))


@case(X)
def stps(x, y):
    p = nl.ndarray((128, 64), nl.float32, buffer=nl.psum)
    nisa.tensor_copy(p, nl.load(x))
    r = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    nl.store(r, p)
    return r


@case(X * 2)
def dictres(x, y):
    return (stored(nl.multiply(nl.load(x), 2.0)), {"b": (x,)})[0]


@case(X)
def tens(x: nl.tensor, y: nki.tensor):
    return stored(nl.load(x))


@case(X + 1)
def mut(x: nt.mutable_tensor, y):
    a = nl.load(x)
    nisa.tensor_scalar(a, a, nl.add, 1.0)
    nl.store(x, a)
    return x


@case(X.astype(np.int32).astype(np.float32))
def trc(x, y):
    return stored(nl.trunc(nl.load(x)))


@case(np.sin(X), tol=1e-4)
def sn(x, y):
    return stored(nl.sin(nl.load(x)))


@case(np.log(np.abs(X) + 1), tol=1e-4)
def lg(x, y):
    return stored(nl.log(nl.add(nl.abs(nl.load(x)), 1.0)))


@case(np.logical_and(X > 0, Y > 0))
def land(x, y):
    return stored(nl.logical_and(nl.greater(nl.load(x), 0.0), nl.greater(nl.load(y), 0.0)))


@case(1 - (X > 0))
def lnot(x, y):
    return stored(nl.logical_not(nl.greater(nl.load(x), 0.0)))


@case(np.where(np.abs(X) > np.abs(Y), X, Y))
def amax(x, y):
    return stored(nl.abs_max(nl.load(x), nl.load(y)))


@case(X / Y, tol=1e-3)
def dv(x, y):
    return stored(nl.divide(nl.load(x), nl.load(y)))


@case(np.mod(X, Y), tol=1e-2)
def md(x, y):
    return stored(nl.mod(nl.load(x), nl.load(y)))


@case(X.astype(np.float16))
def f16(x, y):
    return stored(nl.load(x, dtype=nl.float16))


@case(X > 0)
def boolout(x, y):
    return stored(nl.greater(nl.load(x), 0.0, dtype=nl.bool_))


@case(X[:, ::2] + X[:, 1::2])
def evenodd(x, y):
    a = nl.load(x)
    d = nl.ndarray((128, 32), nl.float32)
    nisa.tensor_tensor(d, a[:, ::2], a[:, 1::2], nl.add)
    return stored(d)


@case(X.reshape(128, 8, 8).sum(1), tol=1e-4)
def redmid(x, y):
    a = nl.load(x).reshape((128, 8, 8))
    d = nl.ndarray((128, 8), nl.float32)
    nisa.tensor_reduce(d, nl.add, a.permute((0, 2, 1)), axis=2)
    return stored(d)


@case(X.reshape(128, 8, 8).sum(1), tol=1e-4)
def redmid2(x, y):
    return stored(nl.sum(nl.load(x).reshape((128, 8, 8)), axis=1))


@case((X.T @ Y)[:32], tol=1e-3)
def tilepos(x, y):
    p = nl.ndarray((32, 64), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(p, nl.load(x)[:, 0:32], nl.load(y))
    return stored(nl.copy(p))


@case(X.T @ Y, tol=1e-3)
def acc(x, y):
    a, b = nl.load(x), nl.load(y)
    p = nl.zeros((64, 64), nl.float32, buffer=nl.psum)
    for k in range(4):
        nisa.nc_matmul(p, a[k * 32 : (k + 1) * 32], b[k * 32 : (k + 1) * 32])
    return stored(nl.copy(p))


@case(np.concatenate([X[:64]] * 2))
def partcopy(x, y):
    a = nl.load(x)
    d = nl.ndarray((128, 64), nl.float32)
    nisa.tensor_copy(d[0:64], a[0:64])
    nisa.dma_copy(d[64:128], a[0:64])
    return stored(d)


@case(X, launch=lambda f: nki.jit(f).with_schedule([("st", "ld")]))
def sched(x, y):
    a = nl.ndarray((128, 64), nl.float32)
    nisa.dma_copy(a, x, name="ld")
    r = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(r, a, name="st")
    return r


@case(X)
def dep(x, y):
    a = nl.ndarray((128, 64), nl.float32)
    i = nisa.dma_copy(a, x)
    r = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_copy(r, a).depends_on(i)
    return r


@case(np.full((1, 4), 5))
def regs(x, y):
    r = nisa.register_alloc()
    nisa.register_move(dst=r, src=5)
    d = nl.ndarray((1, 4), nl.int32)
    for k in range(4):
        nisa.register_store(d[:, k : k + 1], r)
    return stored(d)


@case(None)
def rankid(x, y):
    r = ncc.rank_id()
    d = nl.ndarray((1, 1), nl.int32)
    nisa.register_store(d, r)
    return stored(d)


@case(X)
def ag(x, y):
    r = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm, name="r")
    s = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm, name="s")
    nisa.dma_copy(s, x)
    ncc.all_gather(srcs=[s], dsts=[r], replica_group=ncc.ReplicaGroup([[0]]), collective_dim=0)
    return r


@case(X)
def ar(x, y):
    r = nl.ndarray((128, 64), x.dtype, buffer=nl.shared_hbm)
    ncc.all_reduce([x], [r], ncc.ReplicaGroup([[0]]), nl.add)
    return r


@case(np.repeat(X[:16, 3:4], 16, 1))
def ind(x, y):
    a = nl.load(x[0:16])
    idx = nl.full((16, 1), 3, nl.uint32)
    d = nl.ndarray((16, 16), nl.float32)
    nisa.tensor_copy(d, a.indirect(idx))
    return stored(d)


@case(X3.sum(1), (X3,), 1e-4)
def act_ranks(x):
    a = nl.load(x)
    d = nl.ndarray((128, 64), nl.float32)
    nisa.activation(d, nl.copy, a)
    s = nl.ndarray((128, 16), nl.float32)
    nisa.tensor_reduce(s, nl.add, d.reshape((128, 4, 16)).permute((0, 2, 1)), axis=[2])
    return stored(s)


@case(X3.reshape(128, 64) + 1, (X3,))
def rankdiff(x):
    a = nl.load(x)
    d = nl.ndarray((128, 64), nl.float32)
    nisa.tensor_scalar(d, a, nl.add, 1.0)
    return stored(d)


@case(X3.transpose(1, 0, 2)[2], (X3,))
def hb3(x):
    d = nl.ndarray((128, 16), nl.float32)
    nisa.dma_copy(d, x.permute((1, 0, 2))[2])
    return stored(d)


@case(X[::-1], (X,))
def pynative(x):
    r = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    [nisa.dma_copy(r[127 - i : 128 - i], x[i : i + 1]) for i in range(128)]
    return r


@case(np.float32(3) * X, (X, 3))
def pyarg(x, k):
    return stored(nl.multiply(nl.load(x), float(k)))


@case(X, (X, [1, 2], {"a": 2}, None, "s", (1, 2)))
def manyargs(x, l, d, n, s, tp):
    assert l == [1, 2] and d["a"] == 2 and n is None and s == "s"
    return stored(nl.load(x))


@case(X * X, (X, nl.multiply))
def opsarg(x, op):
    a = nl.load(x)
    nisa.tensor_tensor(a, a, a, op)
    return stored(a)


@case(X.astype(ml_dtypes.bfloat16), (X, nl.bfloat16))
def dtarg(x, dt):
    return stored(nl.load(x, dtype=dt))


@case(X, (X,))
def kwonly(x, *, k=2):
    return stored(nl.load(x))


@case(X[:1], (X,))
def minrow(x):
    return stored(nl.load(x[0]), (1, 64))


@case(X[3, 4].reshape(1, 1), (X,))
def scal(x):
    return stored(nl.load(x[3:4, 4:5]))


@case(X[3:5, 4:6], (X,))
def pdyn(x):
    r = nl.ndarray((2, 2), x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(r, x[nl.ds(3, 2), nl.ds(4, 2)])
    return r


@case(X * 0, (X,))
def memz(x):
    d = nl.ndarray((128, 64), nl.float32)
    nisa.memset(d[:, 0:32], 0)
    nisa.memset(dst=d[:, 32:], value=0.0)
    return stored(d)
