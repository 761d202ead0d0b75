"""Structured sparsity: at most M nonzeros in each group of N along the contraction axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import ml_dtypes
import numpy as np

from trn3 import _trn3
from trn3.numerics._xorwow import Xorwow, draws_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trn3.numerics._arguments import FormatLike, Rounding

Pattern: TypeAlias = Literal["4:16", "4:12", "4:8", "2:8", "2:4", "1:4", "1:2"]


class SparseArray:
    """A matrix of which at most M in each group of N elements along one axis are not zero.

    `compress` makes one of a dense matrix that is as sparse as that, `prune` makes any matrix so;
    `from_tags` makes one of what the hardware stores. Two such arrays are equal if their types,
    patterns, axes and all their bits are; they can be copied and pickled.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3.numerics import compress
    >>> w = np.array([[0, 5, 0, 0, 6, 0, 0, 7]], dtype=np.float32).T
    >>> sparse = compress(w, "2:4")
    >>> sparse
    SparseArray(pattern='2:4', shape=(8, 1), dtype=float32, axis=-2)
    >>> print(sparse.values.T, sparse.indices.T)
    [[0. 5. 6. 7.]] [[0 1 0 3]]
    """

    __slots__ = ("_axis", "_indices", "_pattern", "_values")
    __hash__ = None  # type: ignore[assignment]

    _values: NDArray[Any]
    _indices: NDArray[np.uint8]
    _pattern: Pattern
    _axis: int

    @property
    def values(self) -> NDArray[Any]:
        """The stored values: the dense shape with `axis` scaled by M / N; 0 in unused slots."""
        return self._values

    @property
    def indices(self) -> NDArray[np.uint8]:
        """Where in its group each value stands; ascending and distinct in each group."""
        return self._indices

    @property
    def pattern(self) -> Pattern:
        """The pattern ``"M:N"``."""
        return self._pattern

    @property
    def axis(self) -> int:
        """The compressed axis, counted from the end: -1 is the last."""
        return self._axis

    @property
    def nbytes(self) -> int:
        """Size in bytes when packed: an index takes ceil(log2 N) bits, a float4_e2m1fn four."""
        group = int(self._pattern.split(":")[1])
        is_fp4 = self._values.dtype == ml_dtypes.float4_e2m1fn
        value_bits = 4 if is_fp4 else 8 * self._values.itemsize
        index_bits = (group - 1).bit_length()
        return sum(-(-self._values.size * bits // 8) for bits in (value_bits, index_bits))

    def __repr__(self) -> str:
        keep, group = map(int, self._pattern.split(":"))
        shape = list(self._values.shape)
        shape[self._axis] = shape[self._axis] // keep * group
        return (
            f"SparseArray(pattern={self._pattern!r}, shape={tuple(shape)}, "
            f"dtype={self._values.dtype}, axis={self._axis})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseArray):
            return NotImplemented
        bits = f"u{self._values.itemsize}"
        return (
            self._values.dtype == other._values.dtype
            and self._pattern == other._pattern
            and self._axis == other._axis
            and np.array_equal(self._values.view(bits), other._values.view(bits))
            and np.array_equal(self._indices, other._indices)
        )

    @classmethod
    def _of(
        cls, parts: tuple[NDArray[Any], NDArray[np.uint8], int], pattern: Pattern
    ) -> SparseArray:
        made = cls.__new__(cls)
        made._values, made._indices, made._axis = parts
        made._pattern = pattern
        return made

    def _parts(self) -> tuple[NDArray[Any], NDArray[np.uint8], str, int]:
        return self._values, self._indices, self._pattern, self._axis

    def to_dense(self) -> NDArray[Any]:
        """Return the dense matrix.

        Returns
        -------
        array
            Of the values' type: stored values at their places, +0 everywhere else.

        Examples
        --------
        >>> import numpy as np
        >>> from trn3.numerics import compress
        >>> w = np.array([[0, 5, 0, 0]], dtype=np.float32)
        >>> print(compress(w, "1:2", axis=-1).to_dense())
        [[0. 5. 0. 0.]]
        """
        return _trn3.sparse_to_dense(self._parts())

    def to_tags(self) -> NDArray[np.uint16]:
        """Return the indices as the hardware's tags.

        Returns
        -------
        uint16 array
            The values' shape with `axis` divided by 4, rounded up: four consecutive indices of
            4 bits in a word, the first in the low bits, zeros beyond the last.

        Examples
        --------
        >>> import numpy as np
        >>> from trn3.numerics import compress
        >>> w = np.zeros((16, 1), dtype=np.float32)
        >>> w[[1, 5, 6, 15]] = 1
        >>> hex(compress(w, "4:16").to_tags()[0, 0])
        '0xf651'
        """
        return _trn3.to_tags(self._parts())

    @classmethod
    def from_tags(
        cls,
        values: NDArray[Any],
        tags: NDArray[np.uint16],
        pattern: Pattern,
        axis: int = -2,
    ) -> SparseArray:
        """Make a sparse matrix of stored values and the hardware's tags.

        Parameters
        ----------
        values : array, two axes
            Any type that `compress` takes, copied; `axis` a multiple of M long.
        tags : uint16 array
            As `to_tags` returns them. The positions of a group may come in any order, and that of
            a value that is zero may be any below N.
        pattern : str
            As for `compress`.
        axis : int, optional
            The compressed axis.

        Returns
        -------
        SparseArray
            With the slots of each group in ascending order.

        Raises
        ------
        TypeError
            If `values` or `tags` is of another type.
        ValueError
            If a position is N or more, one comes twice with nonzero values, the pattern is unknown,
            or shapes or the axis do not fit.

        Examples
        --------
        >>> import numpy as np
        >>> from trn3.numerics import SparseArray
        >>> values = np.array([[1], [2]], dtype=np.float32)
        >>> tags = np.array([[0x03]], dtype=np.uint16)
        >>> print(SparseArray.from_tags(values, tags, "2:4").to_dense().T)
        [[2. 0. 0. 1.]]
        """
        return cls._of(_trn3.from_tags(values, tags, pattern, axis), pattern)


def compress(w: NDArray[Any], pattern: Pattern, *, axis: int = -2) -> SparseArray:
    """Compress a matrix that is sparse as a pattern asks.

    Parameters
    ----------
    w : array, two axes
        float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4 or
        float4_e2m1fn; `axis` a multiple of N long.
    pattern : {"4:16", "4:12", "4:8", "2:8", "2:4", "1:4", "1:2"}
        ``"M:N"``: at most M nonzeros in each group of N.
    axis : int, optional
        The axis to compress: the contraction axis of a right operand, -2, if not given.

    Returns
    -------
    SparseArray

    Raises
    ------
    TypeError
        If `w` is of another type.
    ValueError
        If a group holds more than M nonzeros (the message names the first one in C order), the
        pattern is unknown, or the shape or the axis does not fit.

    See Also
    --------
    prune : Makes any array as sparse as that.

    Notes
    -----
    NaN counts as nonzero and -0.0 as zero. Unused slots hold value 0.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3.numerics import compress
    >>> w = np.eye(4, dtype=np.float32)
    >>> print(compress(w, "1:4").values)
    [[1. 1. 1. 1.]]
    """
    return SparseArray._of(_trn3.compress(w, pattern, axis), pattern)


def prune(w: NDArray[Any], pattern: Pattern, *, axis: int = -2) -> NDArray[Any]:
    """Keep the M largest magnitudes of each group of N and set the others to zero.

    Parameters
    ----------
    w : array, any shape
        Any type that `compress` takes; `axis` a multiple of N long.
    pattern : {"4:16", "4:12", "4:8", "2:8", "2:4", "1:4", "1:2"}
        ``"M:N"``.
    axis : int, optional
        The axis that groups lie along.

    Returns
    -------
    array
        Of w's shape and type.

    Raises
    ------
    TypeError
        If `w` is of another type.
    ValueError
        If the pattern is unknown, or the shape or the axis does not fit.

    Notes
    -----
    Of equal magnitudes the one at the lower index is kept; NaN counts as largest.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3.numerics import prune
    >>> w = np.array([[1, -3, 2, 3]], dtype=np.float32)
    >>> print(prune(w, "2:4", axis=-1))
    [[ 0. -3.  0.  3.]]
    """
    return _trn3.prune(w, pattern, axis)


def matmul_sparse(
    a: NDArray[Any],
    w: SparseArray,
    *,
    c: NDArray[Any] | None = None,
    out_dtype: FormatLike = np.float32,
    rounding: Rounding = "nearest",
    rng: Xorwow | NDArray[np.uint32] | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Multiply by a sparse matrix as the 128-row systolic array does.

    Parameters
    ----------
    a : array, [..., M, K]
        A type that `matmul` takes.
    w : SparseArray, [K, N]
        Compressed along its first axis (-2), of a type that `matmul` takes beside a's.
    c, out_dtype, rounding, rng, out
        As in `matmul`.

    Returns
    -------
    array, [..., M, N]
        Of type `out_dtype`; `out` itself if it was given.

    Raises
    ------
    TypeError
        If `w` is no SparseArray, or another array or `out_dtype` is of another type.
    ValueError
        If `w` is compressed along another axis, or as in `matmul`.

    Notes
    -----
    As `matmul`, with tiles of 128 dense positions along K. A slot whose stored value is zero and
    every pruned place contribute nothing at all: infinity times such a zero is not NaN. So the
    result equals ``matmul(a, w.to_dense())`` for finite `a`, up to the sign of a zero.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3.numerics import compress, matmul_sparse
    >>> w = compress(np.eye(4, dtype=np.float32), "1:4")
    >>> a = np.array([[1, 2, 3, np.inf]], dtype=np.float32)
    >>> print(matmul_sparse(a, w))
    [[ 1.  2.  3. inf]]
    """
    if not isinstance(w, SparseArray):
        raise TypeError(f"w is of type {type(w).__name__}; allowed: SparseArray")
    if w.axis != -2:
        raise ValueError(
            f"w is compressed along axis 1 ({w.axis}); it must be its contraction axis, 0 (-2)"
        )
    return _trn3.matmul_sparse(a, w._parts(), (c, out_dtype, rounding, draws_of(rng), out))
