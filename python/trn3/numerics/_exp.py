"""The fast exponent unit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from trn3 import _trn3

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from trn3.numerics._arguments import FormatLike


@overload
def exp(
    x: NDArray[Any],
    *,
    bias: float | NDArray[Any] = 0.0,
    out_dtype: FormatLike | None = None,
    accumulate: Literal[False] = False,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]: ...
@overload
def exp(
    x: NDArray[Any],
    *,
    bias: float | NDArray[Any] = 0.0,
    out_dtype: FormatLike | None = None,
    accumulate: Literal[True],
    out: NDArray[Any] | None = None,
) -> tuple[NDArray[Any], NDArray[np.float32]]: ...
@overload
def exp(
    x: NDArray[Any],
    *,
    bias: float | NDArray[Any] = 0.0,
    out_dtype: FormatLike | None = None,
    accumulate: bool,
    out: NDArray[Any] | None = None,
) -> NDArray[Any] | tuple[NDArray[Any], NDArray[np.float32]]: ...
def exp(
    x: NDArray[Any],
    *,
    bias: float | NDArray[Any] = 0.0,
    out_dtype: FormatLike | None = None,
    accumulate: bool = False,
    out: NDArray[Any] | None = None,
) -> NDArray[Any] | tuple[NDArray[Any], NDArray[np.float32]]:
    """Compute e to the power of every element less a bias, and row sums if asked.

    Parameters
    ----------
    x : array, any shape
        float32, bfloat16 or float16.
    bias : float or array, optional
        What to subtract, in float32: a number (rounded to float32), or a float32, bfloat16 or
        float16 array that broadcasts to ``x.shape[:-1]``, one value for each row; a last axis of
        length 1, as ``keepdims=True`` leaves it, may remain.
    out_dtype : dtype, optional
        float32, bfloat16 or float16; that of `x` if not given.
    accumulate : bool, optional
        Whether to return the sums of the rows as well.
    out : array, optional
        Where to write the values: x's shape, `out_dtype`, C-contiguous. It may be exactly `x`.

    Returns
    -------
    values : array
        x's shape, of type `out_dtype`; `out` itself if it was given.
    sums : float32 array, shape ``x.shape[:-1]``
        With ``accumulate=True`` only: the values of each row, as rounded to `out_dtype`, added in
        float32 in ascending order along the last axis.

    Raises
    ------
    TypeError
        If `x`, `bias`, `out_dtype` or `out` is of another type.
    ValueError
        If `bias` does not broadcast to the rows, `out` does not fit or overlaps an input in any
        other way, or sums of an array without axes are asked for.

    Notes
    -----
    float32 results are within 1 ulp of the true value for every float32 input, subnormal results
    included. From 16 bits to 16 bits every result is correctly rounded; from float32 to 16 bits it
    is the float32 result, cast. exp(-inf) is 0, exp(inf) is inf, and NaN stays NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from trn3.numerics import exp
    >>> x = np.array([[1.0, 0.0, -1.0], [5.0, 5.0, 5.0]], dtype=np.float32)
    >>> values, sums = exp(x, bias=x.max(axis=-1), accumulate=True)
    >>> print(values, sums)
    [[1.         0.36787945 0.13533528]
     [1.         1.         1.        ]] [1.5032147 3.       ]
    """
    return _trn3.exp(x, bias, out_dtype, accumulate, out)
