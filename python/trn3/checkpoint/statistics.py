"""What quantization did to a tensor, gathered piece by piece in bounded memory.

All sums are float64. With x an input value and q what its element and scale stand for:

signal-to-quantization-noise ratio (SQNR)
    10 log10(sum x^2 / sum (x - q)^2), in decibels; infinite if no value changed.
relative error
    abs(x - q) / abs(x), over the nonzero x that were not flushed (a flushed one has 1 by
    definition, and is counted on its own).
saturated
    values beyond the largest that their block can hold, abs(x) > largest element * scale: clipped.
flushed
    nonzero values that became zero.
nonfinite
    values in blocks that hold a NaN or an infinity. Such a block becomes NaN as a whole; its values
    count here and nowhere else.
"""

from __future__ import annotations

import functools
import math
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from trn3.checkpoint.formats import BLOCK
from trn3.numerics import MXArray

# Errors beside the largest magnitude of their block: no rounding of these formats moves a value by
# half of that. An odd number of bins puts zero in the middle of one.
HISTOGRAM_LIMIT = 0.5
HISTOGRAM_BINS = 2001
FP4 = np.dtype(ml_dtypes.float4_e2m1fn)


def _sum_of_squares(x: NDArray[np.float64]) -> float:
    # Not a dot product: the threads of a BLAS would spin beside those of quantize_mx afterwards.
    return float(np.einsum("i,i->", x.ravel(), x.ravel()))


@functools.cache
def _values_of_codes(dtype: np.dtype[Any]) -> NDArray[np.float64]:
    codes = np.arange(16 if dtype == FP4 else 256, dtype=np.uint8)
    return codes.view(dtype).astype(np.float64)


@dataclass(slots=True)
class ErrorStatistics:
    """Sums over the values seen so far; add pieces with `update`, tensors with `merge`.

    >>> import ml_dtypes
    >>> from trn3.numerics import quantize_mx
    >>> x = np.linspace(1, 2, 32, dtype=np.float32)
    >>> statistics = ErrorStatistics()
    >>> statistics.update(x, quantize_mx(x, ml_dtypes.float8_e4m3fn), largest=448.0)
    >>> statistics.num_values, statistics.num_saturated, statistics.num_flushed
    (32, 0, 0)
    >>> statistics.max_relative_error <= 1 / 16
    True
    """

    num_values: int = 0
    num_saturated: int = 0
    num_flushed: int = 0
    num_nonfinite: int = 0
    signal: float = 0.0
    noise: float = 0.0
    max_relative_error: float = 0.0
    histogram: NDArray[np.int64] | None = field(default=None, repr=False)

    @property
    def sqnr_db(self) -> float:
        """The ratio of signal to noise in decibels; infinite without noise, NaN without values."""
        if self.noise == 0:
            return math.inf if self.num_values > self.num_nonfinite else math.nan
        return 10 * math.log10(self.signal / self.noise)

    def update(
        self, x: NDArray[Any], quantized: MXArray, *, largest: float, with_histogram: bool = False
    ) -> None:
        """Add a piece.

        Parameters
        ----------
        x
            What was quantized: float32, bfloat16 or float16.
        quantized
            The result, of x's shape.
        largest
            The largest finite element of its dtype.
        with_histogram
            Whether to count errors, as parts of the largest magnitude of their block, too.
        """
        axis = quantized.axis % x.ndim
        outer = math.prod(x.shape[:axis])
        blocks = (outer, x.shape[axis] // BLOCK, BLOCK, math.prod(x.shape[axis + 1 :]))
        values = x.astype(np.float64).reshape(blocks)
        codes = quantized.elements.view(np.uint8).reshape(blocks)
        scales = quantized.scales.astype(np.float64).reshape(outer, blocks[1], 1, blocks[3])
        # In float64, where no product overflows: rounding up near float32's largest value would.
        # Every code is in the table, so clipping changes none; it is faster than checking.
        error = np.take(_values_of_codes(quantized.elements.dtype), codes, mode="clip")
        error *= scales
        error -= values
        is_nonfinite = np.isnan(scales)
        if is_nonfinite.any():
            self.num_nonfinite += BLOCK * int(np.count_nonzero(is_nonfinite))
            values = np.where(is_nonfinite, 0.0, values)
            error = np.where(is_nonfinite, 0.0, error)
            scales = np.where(is_nonfinite, 1.0, scales)
        self.num_values += x.size
        self.signal += _sum_of_squares(values)
        self.noise += _sum_of_squares(error)
        np.abs(values, out=values)
        if with_histogram:
            self._count(error, values.max(axis=2, keepdims=True))
        np.abs(error, out=error)
        self.num_saturated += int(np.count_nonzero(values > largest * scales))
        # The codes of both zeros, in all formats: nothing left but the sign.
        is_zero = codes & np.uint8(7 if quantized.elements.dtype == FP4 else 127) == 0
        self.num_flushed += int(np.count_nonzero(is_zero & (values != 0)))
        # Division is slow, and only a value that beats the largest ratio so far needs it.
        is_larger = error > self.max_relative_error * values
        is_larger &= ~is_zero
        if is_larger.any():
            ratio = float((error[is_larger] / values[is_larger]).max())
            self.max_relative_error = max(self.max_relative_error, ratio)

    def merge(self, other: ErrorStatistics) -> None:
        """Add what another has gathered."""
        self.num_values += other.num_values
        self.num_saturated += other.num_saturated
        self.num_flushed += other.num_flushed
        self.num_nonfinite += other.num_nonfinite
        self.signal += other.signal
        self.noise += other.noise
        self.max_relative_error = max(self.max_relative_error, other.max_relative_error)
        if other.histogram is not None:
            mine = 0 if self.histogram is None else self.histogram
            self.histogram = mine + other.histogram

    def _count(self, error: NDArray[np.float64], block_largest: NDArray[np.float64]) -> None:
        ratio = error / np.where(block_largest == 0, 1.0, block_largest)
        bins = np.rint(ratio * ((HISTOGRAM_BINS - 1) / (2 * HISTOGRAM_LIMIT)))
        bins += HISTOGRAM_BINS // 2
        np.clip(bins, 0, HISTOGRAM_BINS - 1, out=bins)
        counts = np.bincount(bins.astype(np.intp).ravel(), minlength=HISTOGRAM_BINS)
        self.histogram = counts if self.histogram is None else self.histogram + counts


class Gatherer:
    """Gathers statistics on threads of its own, several pieces at a time.

    They cost more than the quantization they describe. Pieces are added up in the order in which
    they came, so that the sums never depend on the number of threads.
    """

    def __init__(self, num_threads: int) -> None:
        self._pool = ThreadPoolExecutor(num_threads)
        self._limit = 2 * num_threads
        self._pending: deque[tuple[ErrorStatistics, ErrorStatistics, Future[None]]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def add(
        self,
        total: ErrorStatistics,
        x: NDArray[Any],
        quantized: MXArray,
        *,
        largest: float,
        with_histogram: bool,
    ) -> None:
        """Add a piece to `total`, now or later; the arrays must not change after this call."""
        # What is known of the largest ratio spares the piece divisions.
        piece = ErrorStatistics(max_relative_error=total.max_relative_error)
        future = self._pool.submit(
            piece.update, x, quantized, largest=largest, with_histogram=with_histogram
        )
        self._pending.append((total, piece, future))
        if len(self._pending) > self._limit:
            self._merge_oldest()

    def finish(self) -> None:
        """Add what is still pending."""
        while self._pending:
            self._merge_oldest()

    def _merge_oldest(self) -> None:
        total, piece, future = self._pending.popleft()
        future.result()
        total.merge(piece)
