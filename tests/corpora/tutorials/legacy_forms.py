# mypy: ignore-errors
"""Small kernels of the legacy dialect, as tutorials write them."""

import ml_dtypes
import numpy as np

import trn3.nki.dialects.legacy as nki
import trn3.nki.dialects.legacy.isa as nisa
import trn3.nki.dialects.legacy.language as nl
from trn3.nki.dialects.legacy.language import par_dim

from support.tutorials import X3, X4, X5, H6, B16, B, I, X, Y, case, stored


I = np.abs(I)


@case(X + Y)
def a1(x, y):
    return stored(nl.load(x) + nl.load(y))


@case(X * Y - X / 2)
def a2(x, y):
    a, b = nl.load(x), nl.load(y)
    return stored(a * b - a / 2)


@case(-X + 1)
def a3(x, y):
    return stored(1 - nl.load(x))


@case(X**2)
def a4(x, y):
    return stored(nl.load(x) ** 2)


@case(np.where(X > 0, X, 0), tol=1e-5)
def a5(x, y):
    a = nl.load(x)
    return stored(nl.where(a > 0, a, 0.0))


@case((I % 7), (I,))
def a6(i):
    return stored(nl.load(i) % 7)


@case((I & 3) | 8, (I,))
def a7(i):
    a = nl.load(i)
    return stored((a & 3) | 8)


@case((I << 2) >> 1, (I,))
def a8(i):
    a = nl.load(i)
    return stored((a << 2) >> 1)


@case(X[:100, :50])
def m1(x, y):
    r = nl.ndarray((100, 50), dtype=x.dtype, buffer=nl.shared_hbm)
    i_p = nl.arange(128)[:, None]
    i_f = nl.arange(64)[None, :]
    a = nl.load(x[i_p, i_f], mask=(i_p < 100) & (i_f < 50))
    nl.store(r[i_p, i_f], value=a, mask=(i_p < 100) & (i_f < 50))
    return r


@case(X.reshape(2, 64, 64).sum(0))
def lr(x, y):
    r = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    acc = nl.zeros((64, 64), dtype=nl.float32, buffer=nl.sbuf)
    for k in nl.affine_range(2):
        acc += nl.load(x[k * 64 : (k + 1) * 64, :])
    nl.store(r, value=acc)
    return r


@case(X.reshape(2, 64, 64).sum(0))
def lr2(x, y):
    r = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    acc = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.sbuf)
    for k in nl.affine_range(2):
        acc[...] = nl.loop_reduce(
            nl.load(x[nl.ds(k * 64, 64), :]), op=np.add, loop_indices=[k], dtype=np.float32
        )
    nl.store(r, value=acc)
    return r


@case(X.T @ Y, tol=1e-3)
def mm(x, y):
    r = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    p = nl.zeros((64, 64), dtype=nl.float32, buffer=nl.psum)
    for k in nl.affine_range(2):
        p[...] += nisa.nc_matmul(nl.load(x[nl.ds(k * 64, 64), :]), nl.load(y[nl.ds(k * 64, 64), :]))
    nl.store(r, value=nl.copy(p, dtype=r.dtype))
    return r


@case(X.T @ Y, tol=1e-3)
def mm2(x, y):
    return stored(nl.matmul(nl.load(x), nl.load(y), transpose_x=True))


@case(X[:64] @ Y[:64], tol=1e-3)
def mm3(x, y):
    r = nl.ndarray((64, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(r, value=nl.matmul(nl.load(x[0:64]), nl.load(y[0:64])))
    return r


@case(X.T)
def tr(x, y):
    return stored(nl.transpose(nl.load(x)))


@case(X.T)
def tr2(x, y):
    return stored(nl.copy(nisa.nc_transpose(nl.load(x))))


@case(B * 2, (B,))
def blocks(b):
    r = nl.ndarray((4, 128, 64), dtype=b.dtype, buffer=nl.shared_hbm)
    s = nl.ndarray((4, par_dim(128), 64), dtype=b.dtype, buffer=nl.sbuf)
    for i in nl.affine_range(4):
        s[i] = nl.load(b[i])
    for i in nl.affine_range(4):
        nl.store(r[i], value=nl.multiply(s[i], 2.0))
    return r


@case(B * 2, (B,))
def blocks2(b):
    r = nl.ndarray((4, 128, 64), dtype=b.dtype, buffer=nl.shared_hbm)
    s = nl.ndarray((4, par_dim(128), 64), dtype=b.dtype, buffer=nl.sbuf)
    ip, jf = nl.mgrid[0:128, 0:64]
    for i in nl.affine_range(4):
        s[i, ip, jf] = nl.load(b[i, ip, jf])
        nl.store(r[i, ip, jf], value=s[i, ip, jf] * 2)
    return r


@case(X4.transpose(0, 2, 1, 3).reshape(128, 64), (X4,))
def idx4(x):
    r = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.load(x)
    p = nl.arange(128)[:, None, None, None]
    i = nl.arange(4)[None, :, None, None]
    j = nl.arange(2)[None, None, :, None]
    k = nl.arange(8)[None, None, None, :]
    c = nl.copy(a[p, j, i, k])
    nl.store(r[p, i * 16 + j * 8 + k], value=c)
    return r


@case(X.reshape(128, 32, 2).max(2))
def pool(x, y):
    a = nl.load(x)
    p = nl.arange(128)[:, None, None]
    i = nl.arange(32)[None, :, None]
    j = nl.arange(2)[None, None, :]
    return stored(nl.max(a[p, 2 * i + j], axis=[2]))


@case(X.reshape(128, 32, 2).mean(2), tol=1e-5)
def pool2(x, y):
    a = nl.load(x)
    g = nl.mgrid[0:128, 0:32, 0:2]
    return stored(nl.mean(a[g.p, 2 * g.x + g.y], axis=[2]))


@case(X[I[:, 0]], (X, I))
def ind(x, i):
    r = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    idx = nl.load(i[:, 0:1])
    ip = nl.arange(128)[:, None]
    jf = nl.arange(64)[None, :]
    nl.store(r[ip, jf], value=nl.load(x[idx[ip, 0], jf]))
    return r


@case(np.exp(X * 2 + Y[:, :1]), tol=1e-4)
def act(x, y):
    return stored(nisa.activation(op=nl.exp, data=nl.load(x), bias=nl.load(y[:, 0:1]), scale=2.0))


@case(np.exp(X).sum(1, keepdims=True), tol=1e-4)
def actr(x, y):
    s = nl.ndarray((par_dim(128), 1), dtype=nl.float32, buffer=nl.sbuf)
    nisa.activation_reduce(np.exp, nl.load(x), reduce_op=np.add, reduce_res=s)
    return stored(s)


@case(X.sum(1, keepdims=True), tol=1e-4)
def tred(x, y):
    return stored(
        nisa.tensor_reduce(np.add, nl.load(x), axis=(1,), keepdims=True, dtype=np.float32)
    )


@case((X - 1) * 2)
def ts(x, y):
    return stored(nisa.tensor_scalar(nl.load(x), np.subtract, 1.0, op1=np.multiply, operand1=2.0))


@case((1 - X) * 2)
def tsr(x, y):
    return stored(
        nisa.tensor_scalar(
            data=nl.load(x),
            op0=nl.subtract,
            operand0=1.0,
            reverse0=True,
            op1=nl.multiply,
            operand1=2.0,
            dtype=nl.float32,
        )
    )


@case(X * Y)
def tt(x, y):
    return stored(
        nisa.tensor_tensor(nl.load(x), nl.load(y), op=nl.multiply, engine=nisa.vector_engine)
    )


@case((X * 2 + Y).astype(ml_dtypes.bfloat16), tol=1e-2)
def stt(x, y):
    return stored(
        nisa.scalar_tensor_tensor(
            data=nl.load(x),
            op0=np.multiply,
            operand0=2.0,
            op1=np.add,
            operand1=nl.load(y),
            dtype=nl.bfloat16,
        )
    )


@case(np.cumsum(X, 1), tol=1e-4)
def sc(x, y):
    a = nl.load(x)
    return stored(
        nisa.tensor_tensor_scan(
            nl.ones((128, 64), dtype=nl.float32), a, initial=0, op0=np.multiply, op1=np.add
        )
    )


@case(np.where(np.arange(64)[None] <= np.arange(128)[:, None], X, -9984.0))
def aff(x, y):
    ip = nl.arange(128)[:, None]
    jf = nl.arange(64)[None, :]
    return stored(
        nisa.affine_select(pred=(ip >= jf), on_true_tile=nl.load(x), on_false_value=-9984.0)
    )


@case(np.arange(64)[None] + 100 * np.arange(128)[:, None])
def io(x, y):
    ip = nl.arange(128)[:, None]
    jf = nl.arange(64)[None, :]
    return stored(nisa.iota(ip * 100 + jf, dtype=nl.int32))


@case(np.full((128, 64), 3.0, np.float32))
def ms(x, y):
    return stored(nisa.memset((128, 64), 3.0, np.float32))


@case(1 / X, tol=1e-4)
def rc(x, y):
    return stored(nisa.reciprocal(nl.load(x)))


@case(np.stack([X.mean(1), X.var(1)], 1), tol=1e-4)
def bn(x, y):
    return stored(nisa.bn_aggr(nisa.bn_stats(nl.load(x))))


@case(np.sort(X, 1)[:, ::-1][:, :8])
def m8(x, y):
    return stored(nisa.max8(src=nl.load(x)))


@case(np.argsort(-X, 1, kind="stable")[:, :8].astype(np.uint32))
def f8(x, y):
    a = nl.load(x)
    return stored(nisa.nc_find_index8(data=a, vals=nisa.max8(src=a)))


@case(X)
def dc(x, y):
    r = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=r, src=x)
    return r


@case(np.repeat(X[:1], 128, 0))
def bc(x, y):
    return stored(nl.load(x[0:1]).broadcast_to((128, 64)))


@case(
    np.exp(X - X.max(1, keepdims=True)) / np.exp(X - X.max(1, keepdims=True)).sum(1, keepdims=True),
    tol=1e-4,
)
def sm(x, y):
    return stored(nl.softmax(nl.load(x), axis=[1]))


@case(X / np.sqrt((X**2).mean(1, keepdims=True) + 1e-5) * Y[:1], tol=1e-4)
def rms(x, y):
    a = nl.load(x)
    w = nl.load(y.reshape((128, 64))[0:1])
    sq = nl.square(a)
    s = nl.sum(sq, axis=[1])
    return stored(nl.multiply(a * nl.rsqrt(s / 64 + 1e-5), w.broadcast_to((128, 64))))


@case(X[:, ::-1][:, ::-1])
def slc(x, y):
    r = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.static_range(2):
        for j in nl.sequential_range(2):
            nl.store(
                r[i * 64 : (i + 1) * 64, j * 32 : (j + 1) * 32],
                nl.load(x[i * 64 : (i + 1) * 64, j * 32 : (j + 1) * 32]),
            )
    return r


@case(X.astype(ml_dtypes.bfloat16), tol=1e-2)
def dt(x, y):
    return stored(nl.load(x, dtype=nl.bfloat16))


@case(X[5:6])
def onerow(x, y):
    r = nl.ndarray((1, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(r, nl.load(x[5:6, :]))
    return r


@case(np.abs(X) * np.sign(X))
def un(x, y):
    a = nl.load(x)
    return stored(nl.abs(a) * nl.sign(a))


@case(X.sum(1))
def flat1(x, y):
    r = nl.ndarray((128,), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(r, nl.sum(nl.load(x), axis=1))
    return r


@case(X)
def upd(x, y):
    r = nl.ndarray((128, 64), dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.load(x)
    a *= 2
    a -= nl.load(x)
    a /= 1
    nl.store(r, a)
    return r


@case(X.sum(0, keepdims=True), tol=1e-3)
def pr(x, y):
    return stored(nisa.tensor_partition_reduce(np.add, nl.load(x)))


@case(X)
def cps(x, y):
    return stored(nisa.tensor_copy(nl.load(x), engine=nisa.scalar_engine, dtype=nl.float32))


@case(np.maximum(X, Y))
def mxx(x, y):
    return stored(nl.maximum(nl.load(x), nl.load(y), dtype=x.dtype, mask=None))


@case((X > Y))
def cmpb(x, y):
    return stored(nl.load(x) > nl.load(y), dtype=nl.uint8)


@case(np.zeros((128, 64)))
def emp(x, y):
    a = nl.load(x)
    z = nl.zeros_like(a)
    e = nl.empty_like(a)
    e[...] = z
    return stored(e)


@case(X)
def assertshape(x, y):
    return stored(nl.load(x).assert_shape((128, 64)))


@case(np.where(X > 0, X, Y))
def tcp(x, y):
    a = nl.load(x)
    d = nl.load(y)
    nisa.tensor_copy_predicated(src=a, dst=d, predicate=nl.greater(a, 0.0, dtype=nl.uint8))
    return stored(d)


@case(X[:, 0:32].reshape(128, 4, 8)[:, :, ::2].reshape(128, 16))
def st(x, y):
    a = nl.load(x)
    p = nl.arange(128)[:, None, None]
    i = nl.arange(4)[None, :, None]
    j = nl.arange(4)[None, None, :]
    c = nl.copy(a[p, i * 8 + j * 2])
    r = nl.ndarray((128, 16), dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(r[p, i * 4 + j], value=c)
    return r
