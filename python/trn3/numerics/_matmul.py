"""Matrix products as the systolic array computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trn3 import _trn3
from trn3.numerics._mx import MXArray
from trn3.numerics._xorwow import Xorwow, draws_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trn3.numerics._arguments import FormatLike, Rounding


def matmul(
    a: NDArray[Any],
    b: NDArray[Any],
    *,
    c: NDArray[Any] | None = None,
    out_dtype: FormatLike = np.float32,
    rounding: Rounding = "nearest",
    rng: Xorwow | NDArray[np.uint32] | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Multiply matrices as the 128-row systolic array does.

    Parameters
    ----------
    a : array, [..., M, K]
        bfloat16, float16, float32, float8_e4m3fn, float8_e5m2, float8_e4m3 or float8_e3m4.
    b : array, [..., K, N]
        Likewise, in any pair, but float32 (that of `tfloat32` values too) only with float32. Batch
        axes broadcast as NumPy's.
    c : float32 or bfloat16 array, [..., M, N], optional
        What the accumulator starts from; of exactly the result's shape.
    out_dtype : dtype, optional
        float32 or bfloat16.
    rounding : {"nearest", "zero", "stochastic"}, optional
        How a bfloat16 accumulator is rounded after every tile, as in `cast`; a float32 one never
        is.
    rng : Xorwow, or uint32 array, [tiles, ..., M, N], optional
        The draws, for ``rounding="stochastic"`` and only for it: one for each output element of
        each tile. Generators give those of the whole block as they do in `cast`.
    out : array, [..., M, N], optional
        Where to write the result: of `out_dtype`, C-contiguous, in memory of its own.

    Returns
    -------
    array, [..., M, N]
        Of type `out_dtype`; `out` itself if it was given.

    Raises
    ------
    TypeError
        If an array or `out_dtype` is of another type, or float32 meets another type.
    ValueError
        If shapes do not fit, an option is unknown or goes with bfloat16 results only, `rng` is
        missing with stochastic rounding or present without it, or `out` overlaps an input.

    Notes
    -----
    K is cut into tiles of 128, in ascending order, the last one shorter. In a tile each output
    element is one chain, k ascending: ``s = 0; s = fma(a[k], b[k], s)``, one rounding to float32
    (nearest, ties to even) a step. The tile's result is added to the accumulator in float32; the
    accumulator starts as the first tile's result, or as `c` plus that. A bfloat16 accumulator is
    rounded after every tile, as PSUM holds it. For K = 0 the result is zeros, or `c` rounded to
    nearest once.

    Model choices: for float32 inputs the step is the true fused multiply-add; a tile's result joins
    the accumulator after its chain, not at its start; subnormals are kept.

    Examples
    --------
    >>> import ml_dtypes
    >>> import numpy as np
    >>> from trn3.numerics import matmul
    >>> a = np.arange(6, dtype=np.float32).reshape(2, 3).astype(ml_dtypes.bfloat16)
    >>> b = np.ones((3, 2), dtype=ml_dtypes.float8_e5m2)
    >>> print(matmul(a, b))
    [[ 3.  3.]
     [12. 12.]]
    >>> print(matmul(a, b, c=np.full((2, 2), 0.5, np.float32), out_dtype=ml_dtypes.bfloat16))
    [[3.5 3.5]
     [12.5 12.5]]
    """
    return _trn3.matmul(a, b, (c, out_dtype, rounding, draws_of(rng), out))


def matmul_mx(
    a: MXArray,
    b: MXArray,
    *,
    c: NDArray[Any] | None = None,
    out_dtype: FormatLike = np.float32,
    rounding: Rounding = "nearest",
    rng: Xorwow | NDArray[np.uint32] | None = None,
    out: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Multiply quantized matrices as the systolic array does at four elements a row.

    Parameters
    ----------
    a : MXArray, [..., M, K]
        Blocked along its last axis (-1).
    b : MXArray, [..., K, N]
        Blocked along its second-last axis (-2), of any element type.
    c, out_dtype, rounding, rng, out
        As in `matmul`.

    Returns
    -------
    array, [..., M, N]
        Of type `out_dtype`; `out` itself if it was given.

    Raises
    ------
    TypeError
        If `a` or `b` is no MXArray, or another array or `out_dtype` is of another type.
    ValueError
        If an operand is blocked along another axis, or as in `matmul`.

    Notes
    -----
    As `matmul`, with tiles of 512 along K and each factor the exact product of element and scale.
    Factors beyond float32 follow its arithmetic (infinity); scale byte 255 gives NaN.

    Model choice: the four products of one processing element are four consecutive k of the chain.

    Examples
    --------
    >>> import ml_dtypes
    >>> import numpy as np
    >>> from trn3.numerics import matmul_mx, quantize_mx
    >>> x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)
    >>> a = quantize_mx(x, ml_dtypes.float8_e4m3fn)
    >>> b = quantize_mx(x.T, ml_dtypes.float8_e5m2, axis=-2)
    >>> print(matmul_mx(a, b))  # that of x itself is 22.01
    [[21.472656]]
    """
    for name, operand, axis in (("a", a, -1), ("b", b, -2)):
        if not isinstance(operand, MXArray):
            raise TypeError(f"{name} is of type {type(operand).__name__}; allowed: MXArray")
        rank = len(operand.shape)
        if operand.axis != axis and rank >= 2:
            raise ValueError(
                f"{name} is blocked along axis {operand.axis + rank} ({operand.axis}); "
                f"it must be its contraction axis, {axis + rank} ({axis})"
            )
    return _trn3.matmul_mx(a._parts(), b._parts(), (c, out_dtype, rounding, draws_of(rng), out))
