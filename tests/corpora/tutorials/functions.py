# mypy: ignore-errors
"""Small kernels of `nki.language`, as tutorials write them: by keyword and by position."""

import ml_dtypes
import numpy as np

from trn3 import nki
import trn3.nki.isa as nisa
import trn3.nki.language as nl

from support.tutorials import X3, X4, X5, H6, B16, B, I, X, Y, case, stored


@case(X + Y)
def add_kw(x, y):
    return stored(nl.add(x=nl.load(src=x), y=nl.load(src=y, dtype=nl.float32), dtype=nl.float32))


@case((X + Y).astype(ml_dtypes.bfloat16))
def add_dtype(x, y):
    return stored(nl.add(nl.load(x), nl.load(y), nl.bfloat16))


@case(X - 2)
def sub_s(x, y):
    return stored(nl.subtract(nl.load(x), 2.0))


@case(2 - X)
def rsub_s(x, y):
    return stored(nl.subtract(2.0, nl.load(x)))


@case(X * Y)
def mul_psum(x, y):
    p = nl.ndarray((128, 64), nl.float32, buffer=nl.psum)
    nisa.tensor_copy(p, nl.load(x))
    return stored(nl.multiply(p, nl.load(y)))


@case(np.maximum(X, Y))
def mx(x, y):
    return stored(nl.maximum(nl.load(x), y=nl.load(y)))


@case(np.sum(X4, axis=(2, 3)), (X4,))
def sum_two(x):
    return stored(nl.sum(nl.load(x), axis=(2, 3)))


@case(np.sum(X4, axis=(1, 3)), (X4,))
def sum_apart(x):
    return stored(nl.sum(nl.load(x), axis=(1, 3)))


@case(np.sum(X4, axis=(1, 3), keepdims=True), (X4,))
def sum_keep(x):
    return stored(nl.sum(x=nl.load(x), axis=[1, 3], keepdims=True))


@case(np.max(X4, axis=-1), (X4,))
def max_neg(x):
    return stored(nl.max(nl.load(x), axis=-1))


@case(np.min(X4, axis=(-2, -1)), (X4,))
def min_neg2(x):
    return stored(nl.min(nl.load(x), axis=(-2, -1)))


@case(X4.mean(axis=(1, 2, 3)).reshape(128, 1), (X4,))
def mean_all(x):
    return stored(nl.mean(nl.load(x), axis=[1, 2, 3]))


@case(X.var(axis=1, keepdims=True), tol=1e-4)
def var1(x, y):
    return stored(nl.var(nl.load(x), axis=1))


@case(np.prod(X[:, :4], axis=1, keepdims=True), tol=1e-4)
def prod1(x, y):
    return stored(nl.prod(nl.load(x[:, 0:4]), axis=1))


@case(
    np.exp(X - X.max(1, keepdims=True)) / np.exp(X - X.max(1, keepdims=True)).sum(1, keepdims=True),
    tol=1e-4,
)
def softm(x, y):
    return stored(nl.softmax(x=nl.load(x), axis=1))


@case(
    np.exp(X - X.max(1, keepdims=True)) / np.exp(X - X.max(1, keepdims=True)).sum(1, keepdims=True),
    tol=1e-4,
)
def softm_def(x, y):
    return stored(nl.softmax(nl.load(x)))


@case(X / np.sqrt((X**2).mean(1, keepdims=True) + 1e-6) * Y[:1], tol=1e-4)
def rms(x, y):
    w = nl.broadcast_to(nl.load(y[0:1]), shape=(128, 64))
    return stored(nl.rms_norm(nl.load(x), w, axis=1, n=64, epsilon=1e-6))


@case(X.T @ Y, tol=1e-3)
def mm_t(x, y):
    return stored(nl.copy(nl.matmul(nl.load(x), nl.load(y), transpose_x=True)))


@case(X[:64] @ Y[:64], tol=1e-3)
def mm_n(x, y):
    return stored(nl.copy(nl.matmul(x=nl.load(x[0:64]), y=nl.load(y[0:64]))))


@case(X.T)
def transp(x, y):
    return stored(nl.copy(nl.transpose(nl.load(x))))


@case(X[:64].T)
def lt2d(x, y):
    return stored(nl.load_transpose2d(src=x[0:64, :]))


@case(np.where(X > 0, X, Y))
def wh(x, y):
    a = nl.load(x)
    return stored(nl.where(condition=nl.greater(a, 0.0), x=a, y=nl.load(y)))


@case(np.repeat(X[:1], 128, 0))
def bc(x, y):
    return stored(nl.broadcast_to(nl.load(x[0:1]), (128, 64)))


@case(X[:, :1] + np.zeros((128, 64)))
def bc_free(x, y):
    return stored(nl.broadcast_to(nl.load(x[:, 0:1]), (128, 64)))


@case(X[:, None, :])
def exp_d(x, y):
    return stored(nl.expand_dims(nl.load(x), axis=1))


@case(np.take_along_axis(X, np.abs(I) % 64, 1), (X, (np.abs(I) % 64).astype(np.uint32)))
def gat(x, i):
    return stored(nl.gather_flattened(data=nl.load(x), indices=nl.load(i)))


@case((I & 15), (I,))
def band(i):
    return stored(nl.bitwise_and(nl.load(i), 15))


@case((I.astype(np.uint32) >> np.uint32(3)), (I.astype(np.uint32),))
def rsh(i):
    return stored(nl.right_shift(nl.load(i), 3))


@case(~I, (I,))
def inv(i):
    return stored(nl.invert(nl.load(i)))


@case(np.abs(I), (I,))
def absi(i):
    return stored(nl.abs(nl.load(i)))


@case(np.floor(X))
def fl(x, y):
    return stored(nl.floor(nl.load(x)))


@case(np.tanh(X), tol=1e-4)
def th(x, y):
    return stored(nl.tanh(x=nl.load(x)))


@case(1 / np.sqrt(np.abs(X) + 1), tol=1e-4)
def rs(x, y):
    return stored(nl.rsqrt(nl.add(nl.abs(nl.load(x)), 1.0)))


@case((X > Y).astype(np.uint8))
def gt(x, y):
    return stored(nl.greater(nl.load(x), nl.load(y), dtype=nl.uint8))


@case(np.power(np.abs(X), 2.0), tol=1e-4)
def pw(x, y):
    return stored(nl.power(nl.abs(nl.load(x)), 2.0))


@case(np.full((128, 8), 3.5, np.float32))
def fullk(x, y):
    return stored(nl.full(shape=(128, 8), fill_value=3.5, dtype=nl.float32, buffer=nl.sbuf))


@case(np.zeros((128, 64), np.float32))
def zl(x, y):
    return stored(nl.zeros_like(nl.load(x)))


@case(np.eye(16, dtype=np.float32))
def ident(x, y):
    a = nl.shared_identity_matrix(n=16, dtype=nl.float32)
    return stored(a)


@case(np.arange(12, dtype=np.float32).reshape(3, 4))
def sconst(x, y):
    c = nl.shared_constant(np.arange(12, dtype=np.float32).reshape(3, 4))
    return stored(nl.load(c))


@case(X)
def loops(x, y):
    o = nl.ndarray((128, 64), nl.float32, buffer=nl.shared_hbm)
    for i in nl.affine_range(4):
        for j in nl.sequential_range(0, 64, 16):
            nl.store(o[nl.ds(i * 32, 32), j : j + 16], nl.load(x[nl.ds(i * 32, 32), nl.ds(j, 16)]))
    return o


@case(X[::2])
def step(x, y):
    return stored(nl.load(x[::2, :]))


@case(X[:, 3])
def col(x, y):
    o = nl.ndarray((128,), nl.float32, buffer=nl.shared_hbm)
    nl.store(o, nl.load(x[:, 3]))
    return o


@case(X[5])
def row(x, y):
    o = nl.ndarray((64,), nl.float32, buffer=nl.shared_hbm)
    nl.store(o, nl.load(x[5]))
    return o
