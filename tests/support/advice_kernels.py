"""Kernels with one thing in the way each, and as they are once it is gone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from trn3 import nki
from trn3.nki import isa as nisa, language as nl

P = 128


def tile(columns: int, dtype: Any = nl.float32, buffer: Any = nl.sbuf) -> Any:
    return nl.ndarray((P, columns), dtype=dtype, buffer=buffer)


def output(shape: tuple[int, ...], dtype: Any) -> Any:
    return nl.ndarray(shape, dtype=dtype, buffer=nl.shared_hbm)


@nki.jit
def late_first(small, large):  # type: ignore[no-untyped-def]
    out, more = output(small.shape, small.dtype), output((P, 512), small.dtype)
    near, far = tile(512), tile(large.shape[1])
    nisa.dma_copy(dst=near, src=small)
    nisa.dma_copy(dst=far, src=large)
    total = tile(512)
    nisa.tensor_tensor(total, far[:, 0:512], far[:, 512:1024], op=nl.add)
    for _ in range(20):
        nisa.tensor_scalar(near, near, op0=nl.multiply, operand0=1.5)
    nisa.dma_copy(dst=out, src=near)
    nisa.dma_copy(dst=more, src=total)
    return out, more


@nki.jit
def late_last(small, large):  # type: ignore[no-untyped-def]
    out, more = output(small.shape, small.dtype), output((P, 512), small.dtype)
    near, far = tile(512), tile(large.shape[1])
    nisa.dma_copy(dst=near, src=small)
    nisa.dma_copy(dst=far, src=large)
    for _ in range(20):
        nisa.tensor_scalar(near, near, op0=nl.multiply, operand0=1.5)
    total = tile(512)
    nisa.tensor_tensor(total, far[:, 0:512], far[:, 512:1024], op=nl.add)
    nisa.dma_copy(dst=out, src=near)
    nisa.dma_copy(dst=more, src=total)
    return out, more


def refilled(x: Any, count: int) -> Any:
    out = output(x.shape, x.dtype)
    buffers = [tile(1024) for _ in range(count)]
    results = [tile(1024) for _ in range(4)]
    for i in range(x.shape[1] // 1024):
        here, result = nl.ds(i * 1024, 1024), results[i % 4]
        nisa.dma_copy(dst=buffers[i % count], src=x[:, here])
        nisa.tensor_scalar(result, buffers[i % count], op0=nl.multiply, operand0=0.5)
        nisa.dma_copy(dst=out[:, here], src=result)
    return out


@nki.jit
def one_buffer(x):  # type: ignore[no-untyped-def]
    return refilled(x, 1)


@nki.jit
def more_buffers(x, count):  # type: ignore[no-untyped-def]
    return refilled(x, count)


def loaded(x: Any, together: int) -> Any:
    out = output((P, 64), nl.float32)
    total, width = tile(64), 64 * together
    nisa.memset(total, 0.0)
    for i in range(x.shape[1] // width):
        part = tile(width, x.dtype)
        nisa.dma_copy(dst=part, src=x[:, nl.ds(i * width, width)])
        for j in range(together):
            nisa.tensor_tensor(total, total, part[:, nl.ds(j * 64, 64)], op=nl.add)
    nisa.dma_copy(dst=out, src=total)
    return out


@nki.jit
def short_loads(x):  # type: ignore[no-untyped-def]
    return loaded(x, 1)


@nki.jit
def long_loads(x, together):  # type: ignore[no-untyped-def]
    return loaded(x, together)


def queued(x: Any, every: int) -> Any:
    rows = x.shape[0] // 16
    out = output(x.shape, x.dtype)
    all_rows = nl.ndarray((16, rows, x.shape[1]), dtype=x.dtype, buffer=nl.sbuf)
    for i in range(rows):
        other = every and i % every == every - 1
        how: dict[str, Any] = (
            {"dge_mode": nisa.dge_mode.hwdge, "engine": nisa.scalar_engine} if other else {}
        )
        nisa.dma_copy(dst=all_rows[:, i, :], src=x[nl.ds(i * 16, 16), :], **how)
    for i in range(rows):
        nisa.dma_copy(
            dst=out[nl.ds(i * 16, 16), :], src=all_rows[:, i, :], dge_mode=nisa.dge_mode.hwdge
        )
    return out


@nki.jit
def one_queue(x):  # type: ignore[no-untyped-def]
    return queued(x, 0)


@nki.jit
def two_queues(x, every):  # type: ignore[no-untyped-def]
    return queued(x, every)


def scaled(x: Any, engine: Any) -> Any:
    out = output(x.shape, x.dtype)
    how = {} if engine is None else {"engine": engine}
    for i in range(x.shape[1] // 1024):
        part, double = tile(1024), tile(1024)
        nisa.dma_copy(dst=part, src=x[:, nl.ds(i * 1024, 1024)])
        nisa.tensor_tensor(part, part, part, op=nl.maximum, **how)
        nisa.tensor_tensor(double, part, part, op=nl.add, engine=nisa.vector_engine)
        nisa.tensor_tensor(double, double, double, op=nl.maximum, engine=nisa.vector_engine)
        nisa.dma_copy(dst=out[:, nl.ds(i * 1024, 1024)], src=double)
    return out


@nki.jit
def one_engine(x):  # type: ignore[no-untyped-def]
    return scaled(x, None)


@nki.jit
def another_engine(x, engine):  # type: ignore[no-untyped-def]
    return scaled(x, getattr(nisa, engine))


@nki.jit
def loads_again(x, weight):  # type: ignore[no-untyped-def]
    out = output(x.shape, x.dtype)
    for i in range(x.shape[1] // 2048):
        part, factor = tile(2048, x.dtype), tile(2048, x.dtype)
        nisa.dma_copy(dst=part, src=x[:, nl.ds(i * 2048, 2048)])
        nisa.dma_copy(dst=factor, src=weight)
        result = tile(2048, x.dtype)
        nisa.tensor_tensor(result, part, factor, op=nl.multiply)
        nisa.dma_copy(dst=out[:, nl.ds(i * 2048, 2048)], src=result)
    return out


@nki.jit
def loads_once(x, weight):  # type: ignore[no-untyped-def]
    out = output(x.shape, x.dtype)
    factor = tile(2048, x.dtype)
    for i in range(x.shape[1] // 2048):
        part = tile(2048, x.dtype)
        nisa.dma_copy(dst=part, src=x[:, nl.ds(i * 2048, 2048)])
        if i == 0:
            nisa.dma_copy(dst=factor, src=weight)
        result = tile(2048, x.dtype)
        nisa.tensor_tensor(result, part, factor, op=nl.multiply)
        nisa.dma_copy(dst=out[:, nl.ds(i * 2048, 2048)], src=result)
    return out


@nki.jit
def unread_squares(x):  # type: ignore[no-untyped-def]
    out = output(x.shape, x.dtype)
    for i in range(x.shape[1] // 512):
        part, squares, result = tile(512, x.dtype), tile(512), tile(512, x.dtype)
        nisa.dma_copy(dst=part, src=x[:, nl.ds(i * 512, 512)])
        nisa.tensor_tensor(squares, part, part, op=nl.multiply)
        nisa.tensor_scalar(result, part, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[:, nl.ds(i * 512, 512)], src=result)
    return out


@nki.jit
def without_squares(x):  # type: ignore[no-untyped-def]
    out = output(x.shape, x.dtype)
    for i in range(x.shape[1] // 512):
        part, result = tile(512, x.dtype), tile(512, x.dtype)
        nisa.dma_copy(dst=part, src=x[:, nl.ds(i * 512, 512)])
        nisa.tensor_scalar(result, part, op0=nl.multiply, operand0=2.0)
        nisa.dma_copy(dst=out[:, nl.ds(i * 512, 512)], src=result)
    return out


def product(stationary: Any, moving: Any, dtype: Any) -> Any:
    steps, columns = stationary.shape[0] // P, moving.shape[1]
    out = output((P, columns), nl.float32)
    sums = [tile(512, buffer=nl.psum) for _ in range(columns // 512)]
    for k in range(steps):
        rows = nl.ds(k * P, P)
        left = nl.ndarray((P, P), dtype=dtype, buffer=nl.sbuf)
        right = nl.ndarray((P, columns), dtype=dtype, buffer=nl.sbuf)
        nisa.dma_copy(dst=left, src=stationary[rows, :])
        nisa.dma_copy(dst=right, src=moving[rows, :])
        for n, total in enumerate(sums):
            nisa.nc_matmul(total, left, right[:, nl.ds(n * 512, 512)])
    for n, total in enumerate(sums):
        result = tile(512)
        nisa.tensor_copy(result, total)
        nisa.dma_copy(dst=out[:, nl.ds(n * 512, 512)], src=result)
    return out


@nki.jit
def wide_product(stationary, moving):  # type: ignore[no-untyped-def]
    return product(stationary, moving, nl.float32)


@nki.jit
def narrow_product(stationary, moving):  # type: ignore[no-untyped-def]
    return product(stationary, moving, nl.bfloat16)


@nki.jit
def one_tile(x):  # type: ignore[no-untyped-def]
    out = output(x.shape, x.dtype)
    part = tile(x.shape[1], x.dtype)
    nisa.dma_copy(dst=part, src=x)
    nisa.dma_copy(dst=out, src=part)
    return out


@nki.jit
def chain(x):  # type: ignore[no-untyped-def]
    out = output(x.shape, x.dtype)
    part = tile(x.shape[1], x.dtype)
    nisa.dma_copy(dst=part, src=x)
    for _ in range(12):
        nisa.tensor_tensor(part, part, part, op=nl.maximum, engine=nisa.gpsimd_engine)
    nisa.dma_copy(dst=out, src=part)
    return out


def numbers(*shape: int, dtype: Any = np.float32) -> Any:
    drawn = np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)
    return drawn.astype(dtype)


@dataclass(frozen=True)
class AdvisedKernel:
    """A kernel, its arguments, what is in its way, and what it is without.

    `found` is a pattern of the change that is advised: its groups are more arguments of the other
    kernel, by name.
    """

    before: Any
    arguments: Callable[[], dict[str, Any]]
    cause: str | None = None
    after: Any = None
    found: str = ""


HALF = ml_dtypes.bfloat16
ADVISED = {
    "out of order": AdvisedKernel(
        late_first,
        lambda: {"small": numbers(P, 512), "large": numbers(P, 16384)},
        "queue order",
        late_last,
        "first",
    ),
    "buffers": AdvisedKernel(
        one_buffer,
        lambda: {"x": numbers(P, 16384)},
        "buffer reuse",
        more_buffers,
        r"fill (?P<count>\d+) tiles in turn",
    ),
    "DMA floor": AdvisedKernel(
        short_loads,
        lambda: {"x": numbers(P, 4096, dtype=HALF)},
        "DMA floor",
        long_loads,
        r"load (?P<together>\d+) of them at once",
    ),
    "one more queue": AdvisedKernel(
        one_queue,
        lambda: {"x": numbers(1024, 64)},
        "DMA queue",
        two_queues,
        r"give (?:the|every (?P<every>second)) loads? .*scalar_engine",
    ),
    "engine": AdvisedKernel(
        one_engine,
        lambda: {"x": numbers(P, 8192)},
        "engine",
        another_engine,
        r"engine=nisa\.(?P<engine>\w+)",
    ),
    "repeated line": AdvisedKernel(
        loads_again,
        lambda: {"x": numbers(P, 16384, dtype=HALF), "weight": numbers(P, 2048, dtype=HALF)},
        "repeated work",
        loads_once,
        "once",
    ),
    "unread line": AdvisedKernel(
        unread_squares,
        lambda: {"x": numbers(P, 8192)},
        "unread result",
        without_squares,
        "leave out",
    ),
    "16 bits": AdvisedKernel(
        wide_product,
        lambda: {
            "stationary": numbers(512, P, dtype=HALF),
            "moving": numbers(512, 2048, dtype=HALF),
        },
        "wide operands",
        narrow_product,
        "bfloat16",
    ),
    "one tile": AdvisedKernel(one_tile, lambda: {"x": numbers(P, 2048)}),
    "chain": AdvisedKernel(chain, lambda: {"x": numbers(P, 2048)}),
}
