# mypy: ignore-errors
"""Small kernels of `nki.isa` and of views, as tutorials write them: by keyword and by position."""

import ml_dtypes
import numpy as np

from trn3 import nki
import trn3.nki.isa as nisa
import trn3.nki.language as nl
import trn3.nki.typing as nt

from support.tutorials import X3, X4, X5, H6, B16, B, I, X, Y, case, stored


@case(X + Y)
def tt_pos(x, y):
    a, b = nl.load(x), nl.load(y)
    d = nl.ndarray((128, 64), nl.float32)
    nisa.tensor_tensor(d, a, b, nl.add, nisa.vector_engine, "n")
    return stored(d)


@case((X + 3) * 2)
def tsc_pos(x, y):
    a = nl.load(x)
    nisa.tensor_scalar(a, a, nl.add, 3.0, False, nl.multiply, 2.0, False)
    return stored(a)


@case((3 - X) * Y[:, :1])
def tsc_kw(x, y):
    a = nl.load(x)
    b = nl.load(y)
    nisa.tensor_scalar(
        dst=a,
        data=a,
        op0=nl.subtract,
        operand0=3.0,
        reverse0=True,
        op1=nl.multiply,
        operand1=b[:, 0:1],
        engine=nisa.engine.vector,
        name="q",
    )
    return stored(a)


@case((X * 2) + Y)
def stt_pos(x, y):
    a, b = nl.load(x), nl.load(y)
    d = nl.ndarray((128, 64), nl.float32)
    nisa.scalar_tensor_tensor(d, a, nl.multiply, 2.0, nl.add, b)
    return stored(d)


@case(np.exp(X * 0.5 + Y[:, :1]), tol=1e-4)
def act_kw(x, y):
    a, b = nl.load(x), nl.load(y)
    d = nl.ndarray((128, 64), nl.float32)
    nisa.activation(dst=d, op=nl.exp, data=a, bias=b[:, 0:1], scale=0.5)
    return stored(d)


@case(np.exp(X).sum(1, keepdims=True), tol=1e-4)
def act_red(x, y):
    a = nl.load(x)
    d = nl.ndarray((128, 64), nl.float32)
    s = nl.ndarray((128, 1), nl.float32)
    nisa.activation(
        d, nl.exp, a, reduce_op=nl.add, reduce_res=s, reduce_cmd=nisa.reduce_cmd.reset_reduce
    )
    return stored(s)


@case(np.exp(X).sum(1, keepdims=True), tol=1e-4)
def actred_kw(x, y):
    a = nl.load(x)
    d = nl.ndarray((128, 64), nl.float32)
    s = nl.ndarray((128, 1), nl.float32)
    nisa.activation_reduce(dst=d, op=nl.exp, data=a, reduce_op=nl.add, reduce_res=s)
    return stored(s)


@case(X4.sum((2, 3)), (X4,))
def tr_kw(x):
    a = nl.load(x)
    d = nl.ndarray((128, 2), nl.float32)
    nisa.tensor_reduce(dst=d, op=nl.add, data=a, axis=(2, 3))
    return stored(d)


@case(-X4.max(3), (X4,))
def tr_neg(x):
    a = nl.load(x)
    d = nl.ndarray((128, 2, 4), nl.float32)
    nisa.tensor_reduce(d, nl.maximum, a, [3], True)
    return stored(d)


@case(X4.sum(2, keepdims=True), (X4,))
def tr_mid(x):
    a = nl.load(x)
    d = nl.ndarray((128, 2, 1, 8), nl.float32)
    nisa.tensor_reduce(d, nl.add, a.permute((0, 1, 3, 2)), 3)
    return stored(d)


@case(X.T @ Y, tol=1e-3)
def mm3(x, y):
    a, b = nl.load(x), nl.load(y)
    p = nl.ndarray((64, 64), nl.float32, buffer=nl.psum)
    nisa.nc_matmul(p, a[0:64], b[0:64])
    nisa.nc_matmul(dst=p, stationary=a[64:128], moving=b[64:128], accumulate=True)
    return stored(nl.copy(p))


@case(X.T)
def nct(x, y):
    a = nl.load(x)
    p = nl.ndarray((64, 128), nl.float32, buffer=nl.psum)
    nisa.nc_transpose(p, a)
    d = nl.ndarray((64, 128), nl.float32)
    nisa.tensor_copy(d, p, nisa.scalar_engine)
    return stored(d)


@case(X[:32, :32].T)
def nctv(x, y):
    a = nl.load(x[0:32, 0:32])
    d = nl.ndarray((32, 32), nl.float32)
    nisa.nc_transpose(dst=d, data=a, engine=nisa.vector_engine)
    return stored(d)


@case(np.arange(64)[None] + np.arange(128)[:, None] * 64)
def iot(x, y):
    d = nl.ndarray((128, 64), nl.int32)
    nisa.iota(d, [[1, 64]], 0, 64)
    return stored(d)


@case(np.where(np.arange(64)[None] <= np.arange(128)[:, None], X, -9999.0))
def aff(x, y):
    a = nl.load(x)
    d = nl.ndarray((128, 64), nl.float32)
    nisa.affine_select(
        dst=d,
        pattern=[[-1, 64]],
        offset=0,
        channel_multiplier=1,
        on_true_tile=a,
        on_false_value=-9999.0,
        cmp_op=nl.greater_equal,
    )
    return stored(d)


@case(np.cumsum(X, 1), tol=1e-4)
def scan(x, y):
    a = nl.load(x)
    o = nl.ones((128, 64), nl.float32)
    d = nl.ndarray((128, 64), nl.float32)
    nisa.tensor_tensor_scan(d, o, a, 0.0, nl.multiply, nl.add)
    return stored(d)


@case(np.sort(X, 1)[:, ::-1][:, :8])
def m8(x, y):
    a = nl.load(x)
    d = nl.ndarray((128, 8), nl.float32)
    nisa.max8(dst=d, src=a)
    return stored(d)


@case(np.argsort(-X, 1, kind="stable")[:, :8].astype(np.uint32))
def fi8(x, y):
    a = nl.load(x)
    v = nl.ndarray((128, 8), nl.float32)
    nisa.max8(v, a)
    i = nl.ndarray((128, 8), nl.uint32)
    nisa.nc_find_index8(i, a, v)
    return stored(i)


@case(np.where(X > 0, X, Y))
def tcp(x, y):
    a = nl.load(x)
    d = nl.load(y)
    p = nl.greater(a, 0.0, dtype=nl.uint8)
    nisa.tensor_copy_predicated(dst=d, src=a, predicate=p)
    return stored(d)


@case(np.stack([X.mean(1), X.var(1)], 1), tol=1e-4)
def bn(x, y):
    a = nl.load(x)
    s = nl.ndarray((128, 6), nl.float32)
    nisa.bn_stats(dst=s, data=a)
    d = nl.ndarray((128, 2), nl.float32)
    nisa.bn_aggr(dst=d, data=s)
    return stored(d)


@case(X.sum(0, keepdims=True), tol=1e-3)
def tpr(x, y):
    a = nl.load(x)
    d = nl.ndarray((1, 64), nl.float32)
    nisa.tensor_partition_reduce(dst=d, op=nl.add, data=a)
    return stored(d)


@case(1 / X, tol=1e-4)
def rec(x, y):
    a = nl.load(x)
    d = nl.ndarray((128, 64), nl.float32)
    nisa.reciprocal(dst=d, data=a)
    return stored(d)


@case(X[:, ::-1][:, ::-1].reshape(128, 4, 16)[:, :, ::2].reshape(128, 32))
def apk(x, y):
    a = nl.load(x)
    d = nl.ndarray((128, 32), nl.float32)
    nisa.tensor_copy(d, a.ap(pattern=[[64, 128], [16, 4], [2, 8]], offset=0))
    return stored(d)


@case(X.T)
def dmat(x, y):
    d = nl.ndarray((64, 128), nl.float32)
    nisa.dma_transpose(dst=d, src=x)
    return stored(d)


@case(X + Y, tol=1e-4)
def dmac(x, y):
    o = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_compute(o, [x, y], nl.add)
    return o


@case(X + Y, tol=1e-4)
def dmac2(x, y):
    o = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    nisa.dma_compute(dst=o, srcs=[x, y], scales=[1.0, 1.0], reduce_op=nl.add)
    return o


@case(X[np.abs(I[:, 0]) % 128], (X, (np.abs(I[:, :1]) % 128).astype(np.int32)))
def gath(x, i):
    idx = nl.load(i)
    d = nl.ndarray((128, 64), nl.float32)
    nisa.dma_copy(
        dst=d,
        src=x.ap(pattern=[[64, 128], [1, 64]], offset=0, vector_offset=idx),
        oob_mode=nisa.oob_mode.error,
    )
    return stored(d)


@case(X[np.abs(I[:, 0]) % 128], (X, (np.abs(I[:, :1]) % 128).astype(np.int32)))
def vsel(x, i):
    idx = nl.load(i)
    d = nl.ndarray((128, 64), nl.float32)
    nisa.dma_copy(d, x.vector_select(0, idx))
    return stored(d)


@case(X[7:8], (X, np.array([[7]], np.int32)))
def dsel(x, i):
    idx = nl.load(i)
    d = nl.ndarray((1, 64), nl.float32)
    nisa.dma_copy(d, x.select(0, idx))
    return stored(d)


@case(X[7:9], (X, np.array([[7]], np.int32)))
def dds(x, i):
    idx = nl.load(i)
    d = nl.ndarray((2, 64), nl.float32)
    nisa.dma_copy(d, x[nl.ds(start=idx, size=2)])
    return stored(d)


@case(X.reshape(128, 4, 16).transpose(0, 2, 1))
def rear(x, y):
    a = nl.load(x)
    return stored(nl.copy(a.rearrange(("p", ("a", "b")), ("p", "b", "a"), {"a": 4})))


@case(X.reshape(128, 4, 16))
def rdim(x, y):
    return stored(nl.load(x).reshape_dim(dim=1, shape=(4, -1)))


@case(X.reshape(128, 64))
def flat(x, y):
    return stored(nl.load(x).reshape_dim(1, (4, 16)).flatten_dims(1, 2))


@case(X[:, 4:20:4])
def slc(x, y):
    return stored(nl.load(x).slice(dim=1, start=4, end=20, step=4))


@case(X.view(np.uint32))
def vw(x, y):
    return stored(nl.load(x).view(nl.uint32))


@case(np.broadcast_to(X[:, None, :], (128, 3, 64)))
def brd(x, y):
    return stored(nl.copy(nl.load(x).expand_dim(1).broadcast(dim=1, size=3)))


@case(X)
def sqz(x, y):
    return stored(nl.load(x).expand_dim(dim=1).squeeze_dim(dim=1))


@case(X.reshape(64, 128), (X,))
def rsh_hbm(x):
    return stored(nl.load(x.reshape((64, 128))))


@case(X.T.copy().reshape(64, 128))
def perm_hbm(x, y):
    return stored(nl.load(x.permute((1, 0))))


@case(X)
def setit(x, y):
    o = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    a = nl.load(x)
    b = nl.ndarray((128, 64), nl.float32)
    b[:, 0:32] = a[:, 0:32]
    b[:, 32:64] = a[:, 32:64]
    o[...] = b
    return o


@case(X[:, :16] * 2)
def regw(x, y):
    a = nl.load(x[:, 0:16])
    r = nisa.register_alloc(2)
    while r:
        t1 = nl.ndarray((1, 1), nl.int32)
        nisa.register_store(t1, r)
        nisa.tensor_scalar(t1, t1, nl.subtract, 2)
        nisa.register_load(r, t1)
        nisa.tensor_scalar(a, a, nl.multiply, 2.0)
    return stored(a)


@case(X * 8)
def whl(x, y):
    a = nl.load(x)

    def body(r):
        nisa.tensor_scalar(a, a, nl.multiply, 2.0)
        t1 = nl.ndarray((1, 1), nl.int32)
        nisa.register_store(t1, r)
        nisa.tensor_scalar(t1, t1, nl.subtract, 1)
        n = nisa.register_alloc()
        nisa.register_load(n, t1)
        return n

    nl.while_loop(nisa.register_alloc(3), body)
    return stored(a)


@case(None)
def dev(x, y):
    nl.device_print("x", nl.load(x[0:1, 0:2]))
    return x


@case(None)
def rnd(x, y):
    nl.random_seed(nl.full((1, 1), 3, nl.int32))
    return stored(nl.rand((128, 16), nl.float32))


@case(None)
def drp(x, y):
    return stored(nl.dropout(nl.load(x), rate=0.5))


@case(np.repeat(X[5:6], 32, 0))
def shuf(x, y):
    a = nl.load(x[0:32])
    d = nl.ndarray((32, 64), nl.float32)
    nisa.nc_stream_shuffle(dst=d, src=a, shuffle_mask=[5] * 32)
    return stored(d)


@case(np.where((np.arange(64)[None] >= 3) & (np.arange(64)[None] < 20), X, -3.4028235e38))
def rsel(x, y):
    a = nl.load(x)
    d = nl.ndarray((128, 64), nl.float32)
    lo = nl.full((128, 1), 3.0, nl.float32)
    hi = nl.full((128, 1), 20.0, nl.float32)
    r = nl.ndarray((128, 1), nl.float32)
    nisa.range_select(
        dst=d,
        on_true_tile=a,
        comp_op0=nl.greater_equal,
        comp_op1=nl.less,
        bound0=lo,
        bound1=hi,
        reduce_cmd=nisa.reduce_cmd.reset_reduce,
        reduce_res=r,
        reduce_op=nl.maximum,
    )
    return stored(d)


@case(np.cumsum(X, 1), tol=1e-4)
def tsc(x, y):
    a = nl.load(x)
    d = nl.ndarray((128, 64), nl.float32)
    nisa.tensor_scalar_cumulative(
        dst=d, src=a, op0=nl.add, op1=nl.add, imm0=0.0, reduce_cmd=nisa.reduce_cmd.reset_reduce
    )
    return stored(d)


@case((X + 1).sum(1, keepdims=True), tol=1e-4)
def tsr(x, y):
    a = nl.load(x)
    d = nl.ndarray((128, 64), nl.float32)
    s = nl.ndarray((128, 1), nl.float32)
    nisa.tensor_scalar_reduce(
        dst=d, data=a, op0=nl.add, operand0=1.0, reduce_op=nl.add, reduce_res=s
    )
    return stored(s)


@case(X + 1)
def tsr_opt(x, y):
    a = nl.load(x)
    d = nl.ndarray((128, 64), nl.float32)
    nisa.tensor_scalar_reduce(d, a, nl.add, 1.0, nl.add)
    return stored(d)


@case(X)
def hint(x, y):
    with nl.no_reorder():
        return stored(nl.load(x))


@case(X)
def annotated(x: nt.tensor[128, 64], y: "nl.NkiTensor") -> "nl.NkiTensor":
    return stored(nl.load(x))


@case(X.astype(ml_dtypes.float8_e4m3))
def f8(x, y):
    return stored(nl.copy(nl.load(x), dtype=nl.float8_e4m3))


@case(np.exp(np.minimum(X - 1, 5)), tol=1e-3)
def expo(x, y):
    a = nl.load(x)
    d = nl.ndarray((128, 64), nl.float32)
    nisa.exponential(dst=d, src=a, max_value=1.0)
    return stored(d)


@case(np.tanh((X * 2) + 1), tol=1e-4)
def act2(x, y):
    a = nl.load(x)
    d = nl.ndarray((128, 64), nl.float32)
    nisa.activate2(dst=d, op=nl.tanh, data=a, op0=nl.multiply, imm0=2.0, op1=nl.add, imm1=1.0)
    return stored(d)
