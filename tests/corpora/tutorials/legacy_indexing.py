# mypy: ignore-errors
"""Small kernels of the legacy dialect with index expressions, masks, blocks, grids and allocators."""

import functools

import ml_dtypes
import numpy as np

import trn3.nki.dialects.legacy as nki
import trn3.nki.dialects.legacy.compiler as ncc
import trn3.nki.dialects.legacy.isa as nisa
import trn3.nki.dialects.legacy.language as nl
import trn3.nki.dialects.legacy.typing as nt
from trn3.nki.dialects.legacy.language import par_dim

from support.tutorials import B, X, Y, case, stored

R = np.random.default_rng(2)
X3 = R.standard_normal((128, 8, 16)).astype(np.float32)
BIG = R.standard_normal((300, 70)).astype(np.float32)
IMG = R.standard_normal((32, 12, 12)).astype(np.float32)
I = R.integers(0, 128, (128, 64)).astype(np.int32)
# Rows that several indexes pick hold the last of them.
SCATTERED = np.zeros_like(X)
for row, place in enumerate(I[:, 0]):
    SCATTERED[place] = X[row]


@case(BIG * 2, (BIG,))
def tiledmask(x):
    r = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    ip = nl.arange(128)[:, None]
    jf = nl.arange(64)[None, :]
    for i in nl.affine_range(3):
        for j in nl.affine_range(2):
            m = (i * 128 + ip < 300) & (j * 64 + jf < 70)
            a = nl.load(x[i * 128 + ip, j * 64 + jf], mask=m)
            nl.store(r[i * 128 + ip, j * 64 + jf], value=nl.multiply(a, 2, mask=m), mask=m)
    return r


@case(BIG.sum(1, keepdims=True), (BIG,), 1e-4)
def tiledred(x):
    r = nl.ndarray((300, 1), dtype=x.dtype, buffer=nl.shared_hbm)
    ip, jf = nl.mgrid[0:128, 0:70]
    op = nl.arange(128)[:, None]
    of = nl.arange(1)[None, :]
    for i in nl.affine_range(3):
        a = nl.load(x[i * 128 + ip, jf], mask=(i * 128 + ip < 300))
        s = nl.sum(a, axis=[1], keepdims=True, mask=(i * 128 + ip < 300))
        nl.store(r[i * 128 + op, of], value=s, mask=(i * 128 + op < 300))
    return r


@case(IMG.reshape(32, 4, 3, 4, 3).max((2, 4)), (IMG,))
def maxpool(x):
    r = nl.ndarray((32, 4, 4), dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.load(x)
    g = nl.mgrid[0:32, 0:4, 0:4, 0:3, 0:3]
    m = nl.max(a[g.p, 3 * g.x + g.z, 3 * g.y + g.w], axis=[3, 4])
    nl.store(r, value=m)
    return r


@case(IMG.reshape(32, 4, 3, 4, 3).mean((2, 4)), (IMG,))
def avgpool(x):
    r = nl.ndarray((32, 4, 4), dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.load(x)
    i0 = nl.arange(32)[:, None, None, None, None]
    i1 = nl.arange(4)[None, :, None, None, None]
    i2 = nl.arange(4)[None, None, :, None, None]
    i3 = nl.arange(3)[None, None, None, :, None]
    i4 = nl.arange(3)[None, None, None, None, :]
    m = nl.sum(a[i0, 3 * i1 + i3, 3 * i2 + i4], axis=[3, 4]) / 9
    nl.store(r, value=m)
    return r


@case(
    np.stack([IMG[:, i : i + 10, j : j + 10] for i in range(3) for j in range(3)]).sum(0),
    (IMG,),
    1e-4,
)
def stencil(x):
    r = nl.ndarray((32, 10, 10), dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.load(x)
    acc = nl.zeros((32, 10, 10), dtype=x.dtype)
    p = nl.arange(32)[:, None, None]
    h = nl.arange(10)[None, :, None]
    w = nl.arange(10)[None, None, :]
    for i in nl.static_range(3):
        for j in nl.static_range(3):
            acc[p, h, w] += a[p, h + i, w + j]
    nl.store(r, value=acc)
    return r


@case(np.pad(IMG, ((0, 0), (1, 1), (1, 1))), (IMG,))
def pad(x):
    r = nl.ndarray((32, 14, 14), dtype=x.dtype, buffer=nl.shared_hbm)
    z = nl.zeros((32, 14, 14), dtype=x.dtype, buffer=nl.sbuf)
    p = nl.arange(32)[:, None, None]
    h = nl.arange(12)[None, :, None]
    w = nl.arange(12)[None, None, :]
    z[p, h + 1, w + 1] = nl.load(x)
    nl.store(r, z)
    return r


@case(IMG[:, 1::2, ::3], (IMG,))
def strided(x):
    r = nl.ndarray((32, 6, 4), dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.arange(32)[:, None, None]
    h = nl.arange(6)[None, :, None]
    w = nl.arange(4)[None, None, :]
    nl.store(r[p, h, w], value=nl.load(x[p, 2 * h + 1, 3 * w]))
    return r


@case(np.tril(X[:64]))
def tril(x, y):
    a = nl.load(x[0:64])
    ip = nl.arange(64)[:, None]
    jf = nl.arange(64)[None, :]
    z = nl.zeros((64, 64), dtype=x.dtype)
    z[ip, jf] = nl.copy(a[ip, jf], mask=(ip >= jf))
    return stored(z)


@case(np.where(X > 0, X, -1))
def whmask(x, y):
    a = nl.load(x)
    return stored(nl.where(a > 0, a, -1.0))


@case(X[I[:, 0]], (X, I))
def gload(x, i):
    idx = nl.load(i[:, 0])
    jf = nl.arange(64)[None, :]
    return stored(nl.load(x[idx, jf]))


@case(SCATTERED, (X, I[:, :1].copy()))
def gstore(x, i):
    r = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    z = nl.zeros((128, 64), dtype=x.dtype)
    nl.store(r, z)
    idx = nl.load(i)
    ip = nl.arange(128)[:, None]
    jf = nl.arange(64)[None, :]
    nl.store(r[idx[ip, 0], jf], value=nl.load(x))
    return r


@case(B[2], (B, np.array([[2]], np.int32)))
def dynb(b, i):
    idx = nl.load(i)
    ip = nl.arange(128)[:, None]
    jf = nl.arange(64)[None, :]
    return stored(nl.load(b[idx, ip, jf]))


@case(X * 4, launch=lambda f: nki.jit(mode="simulation")(f))
def simm(x, y):
    return stored(nl.load(x) * 4)


@case(X * 4, launch=lambda f: nki.baremetal(f))
def bare(x, y):
    return stored(nl.load(x) * 4)


@case(X * 4, launch=lambda f: functools.partial(nki.simulate_kernel, f))
def simk(x, y):
    return stored(nl.load(x) * 4)


@case(X * 4, launch=lambda f: nki.jit(f)[4, 2])
def grid(x, y):
    r = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    i = nl.program_id(0)
    j = nl.program_id(1)
    ip = nl.arange(32)[:, None]
    jf = nl.arange(32)[None, :]
    nl.store(r[i * 32 + ip, j * 32 + jf], value=nl.load(x[i * 32 + ip, j * 32 + jf]) * 4)
    return r


@case(X * 4, launch=lambda f: nki.jit(f)[nl.spmd_dim(2, nl.nc(2)), 2])
def gridnc(x, y):
    r = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    i = nl.program_id(0)
    j = nl.program_id(1)
    nl.store(
        r[i * 32 : (i + 1) * 32, j * 32 : (j + 1) * 32],
        value=nl.load(x[i * 32 : (i + 1) * 32, j * 32 : (j + 1) * 32]) * 4,
    )
    return r


@case(X.dot(Y[:64].T), tol=1e-3)
def mmaffine(x, y):
    a = nl.load_transpose2d(x)
    b = nl.load_transpose2d(y[0:64, :])
    return stored(nl.copy(nisa.nc_matmul(a, b)))


@case(X.T @ Y, tol=1e-3)
def mmidx(x, y):
    a, b = nl.load(x), nl.load(y)
    k = nl.arange(128)[:, None]
    m = nl.arange(64)[None, :]
    p = nl.ndarray((par_dim(64), 64), dtype=nl.float32, buffer=nl.psum)
    p[...] = nisa.nc_matmul(a[k, m], b[k, m])
    return stored(nl.copy(p))


@case(X.T @ Y, tol=1e-3)
def mmblocks(x, y):
    a = nl.ndarray((4, par_dim(32), 64), dtype=x.dtype, buffer=nl.sbuf)
    b = nl.ndarray((4, par_dim(32), 64), dtype=x.dtype, buffer=nl.sbuf)
    p = nl.zeros((64, 64), nl.float32, buffer=nl.psum)
    for k in nl.affine_range(4):
        a[k] = nl.load(x[k * 32 : (k + 1) * 32])
        b[k] = nl.load(y[k * 32 : (k + 1) * 32])
    for k in nl.affine_range(4):
        p += nl.matmul(a[k], b[k], transpose_x=True)
    return stored(nl.copy(p, dtype=nl.float32))


@case(np.exp(X3 - X3.max((1, 2), keepdims=True)).sum((1, 2)).reshape(128, 1), (X3,), 1e-4)
def actred(x):
    a = nl.load(x)
    m = nl.max(a, axis=[1, 2])
    n = nl.multiply(m, -1.0)
    s = nl.ndarray((par_dim(128), 1), dtype=nl.float32)
    nisa.activation_reduce(np.exp, a.reshape((128, 128)), bias=n, reduce_op=np.add, reduce_res=s)
    return stored(s)


@case(np.maximum.accumulate(X, 1))
def scanmax(x, y):
    a = nl.load(x)
    return stored(nisa.tensor_tensor_scan(a, a, initial=-1e30, op0=np.maximum, op1=np.maximum))


@case(X - X.mean(1, keepdims=True), tol=1e-4)
def center(x, y):
    a = nl.load(x)
    m = nl.mean(a, axis=1, keepdims=True)
    return stored(nl.subtract(a, m))


@case((X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 1e-5), tol=1e-3)
def ln(x, y):
    a = nl.load(x)
    st = nisa.bn_aggr(nisa.bn_stats(a))
    mean = st[:, 0:1]
    var = st[:, 1:2]
    return stored(
        nisa.tensor_scalar(a, np.subtract, mean, op1=np.multiply, operand1=nl.rsqrt(var + 1e-5))
    )


@case((X > 0) & (Y > 0))
def landm(x, y):
    a, b = nl.load(x) > 0, nl.load(y) > 0
    return stored(nl.logical_and(a, b), dtype=nl.uint8)


@case(~(I), (I,))
def binv(i):
    return stored(~nl.load(i))


@case(X.astype(np.int32), (X,))
def cast(x):
    return stored(nl.trunc(nl.load(x)), dtype=nl.int32)


@case(X.astype(np.float16))
def cst(x, y):
    return stored(nl.copy(nl.load(x), dtype=nl.float16))


@case(X * 2)
def inplace(x, y):
    a = nl.load(x)
    a[...] = a + a
    return stored(a)


@case(X + Y)
def dmaacc(x, y):
    r = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=r, src=x)
    nisa.dma_copy(dst=r, src=y, dst_rmw_op=np.add)
    return r


@case(X[:, :32] * 3)
def kwb(x, y):
    a = nl.load(x[:, nl.ds(0, 32)])
    b = nl.full((128, 32), fill_value=3.0, dtype=nl.float32)
    return stored(nl.multiply(a, b))


@case(X.T.reshape(2, 32, 128)[1])
def nctm(x, y):
    a = nl.load(x)
    jf = nl.arange(32)[None, :]
    ip = nl.arange(128)[:, None]
    return stored(nl.copy(nisa.nc_transpose(a[ip, 32 + jf])))


@case(X, (X,))
def typed(x: nt.tensor):
    return stored(nl.load(x))


@case(X + 1, (X,))
def mut(x: nt.mutable_tensor):
    nl.store(x, nl.load(x) + 1)
    return x


@case(np.stack([X, Y]).sum(0))
def loopred(x, y):
    acc = nl.zeros((128, 64), dtype=nl.float32)
    for s in (x, y):
        acc[...] = nl.add(acc, nl.load(s))
    return stored(acc)


@case(X.sum(0, keepdims=True), tol=1e-3)
def colsum(x, y):
    ones = nl.ones((128, 1), dtype=nl.float32)
    return stored(nl.copy(nisa.nc_matmul(ones, nl.load(x))))


@case(X[:, ::-1])
def rev(x, y):
    a = nl.load(x)
    jf = nl.arange(64)[None, :]
    ip = nl.arange(128)[:, None]
    r = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(r[ip, jf], value=a[ip, 63 - jf])
    return r


@case(np.repeat(X[:, :4], 16, 1))
def rep(x, y):
    a = nl.load(x)
    ip = nl.arange(128)[:, None, None]
    i = nl.arange(4)[None, :, None]
    j = nl.arange(16)[None, None, :]
    r = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(r[ip, i * 16 + j], value=nl.copy(a[ip, i + 0 * j]))
    return r


@case(X[:, np.arange(64) // 2])
def half(x, y):
    a = nl.load(x)
    ip = nl.arange(128)[:, None]
    jf = nl.arange(64)[None, :]
    return stored(nl.copy(a[ip, jf // 2]))


@case(np.add.reduce(X.reshape(128, 4, 16), 1))
def negax(x, y):
    a = nl.load(x)
    ip = nl.arange(128)[:, None, None]
    i = nl.arange(16)[None, :, None]
    j = nl.arange(4)[None, None, :]
    return stored(nl.sum(a[ip, j * 16 + i], axis=-1))


@case(X, (X,))
def sbufalloc(x):
    a = nl.ndarray((par_dim(128), 64), dtype=x.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=0))
    a[...] = nl.load(x)
    return stored(a)


@case(B.sum(0), (B,))
def modalloc(b):
    a = nl.ndarray(
        (4, par_dim(128), 64),
        dtype=b.dtype,
        buffer=ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(2,)),
    )
    acc = nl.ndarray((par_dim(128), 64), dtype=b.dtype, buffer=ncc.sbuf.mod_alloc(base_addr=4096))
    acc[...] = nisa.memset((128, 64), 0.0, np.float32)
    for i in nl.sequential_range(4):
        a[i] = nl.load(b[i])
        acc[...] = nisa.tensor_tensor(acc, a[i], op=np.add)
    return stored(acc)


@case(X.astype(np.float32) * np.float32(0.5))
def sclact(x, y):
    return stored(nisa.activation(np.copy, nl.load(x), scale=0.5))


@case(None)
def rand(x, y):
    nl.random_seed(3)
    return stored(nl.rand((128, 64)))


@case(np.where(np.arange(64) < 10, X, 0))
def maskload(x, y):
    ip, jf = nl.mgrid[0:128, 0:64]
    z = nl.zeros((128, 64), dtype=x.dtype)
    z[ip, jf] = nl.load(x[ip, jf], mask=jf < 10)
    return stored(z)


@case(X * X)
def sqop(x, y):
    return stored(nisa.activation(op=nl.square, data=nl.load(x), dtype=nl.float32))


@case(X * 2)
def imul(x, y):
    a = nl.load(x)
    ip, jf = nl.mgrid[0:128, 0:64]
    a[ip, jf] *= 2
    return stored(a)


@case(None)
def dprint(x, y):
    nl.device_print("a", nl.load(x[0:1, 0:2]))
    return x
