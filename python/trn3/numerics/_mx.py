"""Microscaling: blocks of 32 elements that share a power-of-two scale."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import ml_dtypes
import numpy as np

from trn3 import _trn3
from trn3.numerics._xorwow import Xorwow, draws_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trn3.numerics._arguments import FormatLike, Rounding

BLOCK = 32
ELEMENT_TYPES = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float4_e2m1fn)
ScaleRule: TypeAlias = Literal["trn3", "ocp", "rceil"]


class MXArray:
    """An array quantized in blocks of 32 elements that share a power-of-two scale.

    `quantize_mx` makes one from numbers; the class methods `from_parts`, `from_x4` and
    `from_trn3_layout` make one of what another program wrote. The parts are not copied. Two such
    arrays are equal if their types, axes and all their bits are; they can be copied and pickled.

    Examples
    --------
    >>> import ml_dtypes
    >>> import numpy as np
    >>> from trn3.numerics import quantize_mx
    >>> x = np.linspace(-3, 3, 64, dtype=np.float32)
    >>> quantized = quantize_mx(x, ml_dtypes.float4_e2m1fn)
    >>> quantized
    MXArray(shape=(64,), dtype=float4_e2m1fn, axis=-1)
    >>> quantized.nbytes
    34
    >>> print(quantized.scales, quantized.dequantize()[:4])
    [0.5 0.5] [-3. -3. -3. -3.]
    """

    __slots__ = ("_axis", "_elements", "_scales")
    __hash__ = None  # type: ignore[assignment]

    _elements: NDArray[Any]
    _scales: NDArray[Any]
    _axis: int

    @property
    def elements(self) -> NDArray[Any]:
        """Codes of the elements: float8_e4m3fn, float8_e5m2 or float4_e2m1fn."""
        return self._elements

    @property
    def scales(self) -> NDArray[Any]:
        """Scales of the blocks: float8_e8m0fnu, the elements' shape with `axis` divided by 32."""
        return self._scales

    @property
    def axis(self) -> int:
        """The blocked axis, counted from the end: -1 is the last."""
        return self._axis

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self._elements.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the elements."""
        return self._elements.shape

    @property
    def nbytes(self) -> int:
        """Size in bytes with elements packed: half a byte for one of float4_e2m1fn."""
        elements = self._elements.size
        return (elements // 2 if self.dtype == ml_dtypes.float4_e2m1fn else elements) + (
            self._scales.size
        )

    def __repr__(self) -> str:
        return f"MXArray(shape={self.shape}, dtype={self.dtype}, axis={self.axis})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MXArray):
            return NotImplemented
        return (
            self.dtype == other.dtype
            and self.axis == other.axis
            and np.array_equal(self._elements.view(np.uint8), other._elements.view(np.uint8))
            and np.array_equal(self._scales.view(np.uint8), other._scales.view(np.uint8))
        )

    @classmethod
    def from_parts(cls, elements: NDArray[Any], scales: NDArray[Any], axis: int = -1) -> MXArray:
        """Make a quantized array of its elements and scales, without copying them.

        Parameters
        ----------
        elements : array, any shape with at least one axis
            float8_e4m3fn, float8_e5m2 or float4_e2m1fn.
        scales : array
            float8_e8m0fnu, or its bytes as uint8; the elements' shape with `axis` divided by 32.
        axis : int, optional
            The blocked axis, a multiple of 32 long.

        Returns
        -------
        MXArray

        Raises
        ------
        TypeError
            If `elements` or `scales` is no array of these types.
        ValueError
            If the shapes or the axis do not fit.

        Examples
        --------
        >>> import ml_dtypes
        >>> import numpy as np
        >>> from trn3.numerics import MXArray
        >>> ones = np.ones((2, 32), dtype=ml_dtypes.float8_e5m2)
        >>> array = MXArray.from_parts(ones, np.array([[128], [126]], dtype=np.uint8))
        >>> print(array.dequantize()[:, 0])
        [2.  0.5]
        """
        _check_type("elements", elements, ELEMENT_TYPES)
        _check_type("scales", scales, (ml_dtypes.float8_e8m0fnu, np.uint8))
        if elements.ndim == 0:
            raise ValueError("elements has shape (); it must have at least one axis")
        axis = _normal_axis(axis, elements.ndim)
        length = elements.shape[axis]
        if length % BLOCK:
            raise ValueError(
                f"elements has shape {elements.shape}; axis {axis} has length {length}, "
                f"which must be a multiple of {BLOCK}"
            )
        shape = tuple(
            size // BLOCK if index == axis else size
            for index, size in enumerate(elements.shape, -elements.ndim)
        )
        if scales.shape != shape:
            raise ValueError(f"scales has shape {scales.shape}; it must have shape {shape}")
        return cls._of(elements, scales.view(ml_dtypes.float8_e8m0fnu), axis)

    @classmethod
    def _of(cls, elements: NDArray[Any], scales: NDArray[Any], axis: int) -> MXArray:
        made = cls.__new__(cls)
        made._elements, made._scales, made._axis = elements, scales, axis
        return made

    def _parts(self) -> tuple[NDArray[Any], NDArray[Any], int]:
        return self._elements, self._scales, self._axis

    def dequantize(
        self, dtype: FormatLike = np.float32, *, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Return the numbers that the array stands for: element times scale.

        Parameters
        ----------
        dtype : dtype, optional
            float32, bfloat16 or float16.
        out : array, optional
            Where to write the result: this array's shape, `dtype`, C-contiguous.

        Returns
        -------
        array
            Of this array's shape and type `dtype`; `out` itself if it was given.

        Raises
        ------
        TypeError
            If `dtype` or the type of `out` is another.
        ValueError
            If `out` has another shape or layout, or shares memory with the parts.

        Notes
        -----
        Each product is exact in float32 unless it leaves float32's range and becomes infinite;
        bfloat16 and float16 results are rounded once, to nearest. Scale byte 255 gives NaN.

        Examples
        --------
        >>> import ml_dtypes
        >>> import numpy as np
        >>> from trn3.numerics import quantize_mx
        >>> x = np.arange(32, dtype=np.float32)
        >>> print(quantize_mx(x, ml_dtypes.float8_e4m3fn).dequantize()[14:20])
        [14. 15. 16. 16. 18. 20.]
        """
        return _trn3.dequantize_mx(self._parts(), dtype, out)

    def to_x4(self) -> NDArray[Any]:
        """Pack four elements a word, as the hardware's x4 types do.

        Returns
        -------
        array
            uint32 for fp8, uint16 for fp4; this array's shape with the last axis divided by 4.
            Element 0 of each four is in the low bits.

        Raises
        ------
        ValueError
            If the last axis is not a multiple of 4 long.

        Examples
        --------
        >>> import ml_dtypes
        >>> import numpy as np
        >>> from trn3.numerics import quantize_mx
        >>> x = np.arange(32, dtype=np.float32)
        >>> packed = quantize_mx(x, ml_dtypes.float4_e2m1fn).to_x4()
        >>> packed.dtype, hex(packed[-1])
        (dtype('uint16'), '0x7777')
        """
        return _trn3.pack_x4(self._elements)

    @classmethod
    def from_x4(
        cls, packed: NDArray[Any], scales: NDArray[Any], dtype: FormatLike, axis: int = -1
    ) -> MXArray:
        """Unpack what `to_x4` packed.

        Parameters
        ----------
        packed : array
            uint32 for fp8, uint16 for fp4.
        scales : array
            As for `from_parts`.
        dtype : dtype
            That of the elements: float8_e4m3fn, float8_e5m2 or float4_e2m1fn.
        axis : int, optional
            The blocked axis of the array, a multiple of 32 elements long.

        Returns
        -------
        MXArray
            With the shape of `packed`, the last axis multiplied by 4.

        Raises
        ------
        TypeError
            If `packed`, `scales` or `dtype` is of another type.
        ValueError
            If the shapes or the axis do not fit.

        Examples
        --------
        >>> import ml_dtypes
        >>> import numpy as np
        >>> from trn3.numerics import MXArray
        >>> words = np.full(8, 0x2222, dtype=np.uint16)
        >>> scales = np.array([127], dtype=np.uint8)
        >>> print(MXArray.from_x4(words, scales, ml_dtypes.float4_e2m1fn).elements[:4])
        [1 1 1 1]
        """
        return cls.from_parts(_trn3.unpack_x4(packed, dtype), scales, axis)

    def to_trn3_layout(self) -> tuple[NDArray[Any], NDArray[np.uint8]]:
        """Lay one tile of weights out as ``nc_matmul_mx`` reads it from SBUF.

        The array must be [K, F], blocked along axis 0, with K of 128, 256, 384 or 512: split a
        longer one first.

        Returns
        -------
        data : array, [K / 4, F]
            uint32 for fp8, uint16 for fp4: element k = 32 b + 4 i + j lies on partition 8 b + i,
            lane j, lane 0 in the low bits.
        scales : uint8 array, [K / 4, F]; [4, F] for K = 128
            The scales of block b in row 32 (b // 4) + b % 4; all other rows are 0.

        Raises
        ------
        ValueError
            If the array has another shape or axis.

        Examples
        --------
        >>> import ml_dtypes
        >>> import numpy as np
        >>> from trn3.numerics import quantize_mx
        >>> x = np.ones((256, 3), dtype=np.float32)
        >>> data, scales = quantize_mx(x, ml_dtypes.float8_e5m2, axis=0).to_trn3_layout()
        >>> data.shape, scales.shape, np.flatnonzero(scales[:, 0]).tolist()
        ((64, 3), (64, 3), [0, 1, 2, 3, 32, 33, 34, 35])
        """
        return _trn3.to_trn3_layout(self._parts())

    @classmethod
    def from_trn3_layout(
        cls, data: NDArray[Any], scales: NDArray[np.uint8], dtype: FormatLike
    ) -> MXArray:
        """Read a tile that `to_trn3_layout` laid out.

        Parameters
        ----------
        data : array, [K / 4, F]
            uint32 for fp8, uint16 for fp4; K is 128, 256, 384 or 512.
        scales : uint8 array, [K / 4, F]; [4, F] for K = 128
            Rows that hold no block's scales are not read. For K = 128 [32, F] is read too, as
            version 0.1.0 laid it out.
        dtype : dtype
            That of the elements: float8_e4m3fn, float8_e5m2 or float4_e2m1fn.

        Returns
        -------
        MXArray
            [K, F], blocked along axis 0.

        Raises
        ------
        TypeError
            If `data`, `scales` or `dtype` is of another type.
        ValueError
            If `data` or `scales` has another shape.

        Examples
        --------
        >>> import ml_dtypes
        >>> import numpy as np
        >>> from trn3.numerics import MXArray, quantize_mx
        >>> x = np.ones((128, 3), dtype=np.float32)
        >>> tile = quantize_mx(x, ml_dtypes.float8_e5m2, axis=0)
        >>> MXArray.from_trn3_layout(*tile.to_trn3_layout(), tile.dtype) == tile
        True
        """
        return cls._of(*_trn3.from_trn3_layout(data, scales, dtype), -2)


def quantize_mx(
    x: NDArray[Any],
    dtype: FormatLike,
    *,
    axis: int = -1,
    scale_rule: ScaleRule | None = None,
    rounding: Rounding = "nearest",
    rng: Xorwow | NDArray[np.uint32] | None = None,
    out: MXArray | None = None,
) -> MXArray:
    """Quantize an array in blocks of 32 elements that share a power-of-two scale.

    Parameters
    ----------
    x : array, any shape with at least one axis
        float32, bfloat16 or float16.
    dtype : dtype
        That of the elements: float8_e4m3fn, float8_e5m2 or float4_e2m1fn.
    axis : int, optional
        The axis to block, a multiple of 32 long.
    scale_rule : {"trn3", "ocp", "rceil"}, optional
        How the exponent E of a block's scale follows from its largest magnitude amax. With Emax
        the exponent of the largest finite element (8 for float8_e4m3fn, 15 for float8_e5m2, 2 for
        float4_e2m1fn):

        - ``"trn3"``: floor(log2 amax) - (Emax - 1). Nothing ever saturates. This is what the
          QuantizeMX instruction does since NKI 0.5, and the default for fp8.
        - ``"ocp"``: floor(log2 amax) - Emax. Clips. The sample rule of OCP MX 1.0 and QuantizeMX
          before NKI 0.5, and the default for float4_e2m1fn, which QuantizeMX does not write.
        - ``"rceil"``: the smallest E with amax <= largest finite element * 2**E.
    rounding : {"nearest", "zero", "stochastic"}, optional
        How elements are rounded, as in `cast`.
    rng : Xorwow, or uint32 array of x's shape, optional
        The draws, for ``rounding="stochastic"`` and only for it, as in `cast`.
    out : MXArray, optional
        Whose elements and scales to write: of x's shape, `dtype` and `axis`.

    Returns
    -------
    MXArray
        Of x's shape; `out` itself if it was given.

    Raises
    ------
    TypeError
        If `x`, `dtype` or `out` is of another type.
    ValueError
        If an option, the axis, its length, `rng` or `out` does not fit.

    Notes
    -----
    E is clamped to [-127, 127] and stored as the byte E + 127; an all-zero block has byte 0. An
    element is ``cast(x * 2**-E, dtype, rounding=rounding, overflow="saturate")``, the division
    exact.

    Model choice: a block with any NaN or infinity gets scale byte 255 and NaN elements (0 in
    float4_e2m1fn, which has no NaN), so that all of it dequantizes to NaN. The microxcaling library
    does the same. torchao marks the scale for NaN alone in its earlier releases, where a block with
    an infinity gets E = 128 - Emax and the infinity saturates. The golden code of AWS's kernels
    marks no scale at all: E = 128 - Emax for NaN and infinity alike, infinities saturate, and a NaN
    stays in its own element.

    Examples
    --------
    >>> import ml_dtypes
    >>> import numpy as np
    >>> from trn3.numerics import quantize_mx
    >>> x = np.arange(64, dtype=np.float32).reshape(2, 32)
    >>> quantized = quantize_mx(x, ml_dtypes.float8_e4m3fn)
    >>> print(quantized.scales[:, 0], quantized.elements[:, -1])
    [0.125 0.25] [256 256]
    >>> np.abs(quantized.dequantize() - x).max()
    np.float32(2.0)
    """
    if out is None:
        return MXArray._of(
            *_trn3.quantize_mx(x, dtype, axis, scale_rule, rounding, draws_of(rng), None)
        )
    if not isinstance(out, MXArray):
        raise TypeError(f"out is of type {type(out).__name__}; allowed: MXArray")
    _trn3.quantize_mx(x, dtype, axis, scale_rule, rounding, draws_of(rng), out._parts())
    return out


def _check_type(argument: str, array: Any, allowed: tuple[type[Any], ...]) -> None:
    if isinstance(array, np.ndarray) and array.dtype.type in allowed:
        return
    came = (
        f"has dtype {array.dtype}"
        if isinstance(array, np.ndarray)
        else f"is of type {type(array).__name__}"
    )
    names = ", ".join(np.dtype(one).name for one in allowed)
    raise TypeError(f"{argument} {came}; allowed: an array of {names}")


def _normal_axis(axis: Any, rank: int) -> int:
    """Return the axis counted from the end."""
    allowed = f"whole numbers from -{rank} to {rank - 1}"
    try:
        if isinstance(axis, bool | np.bool_):
            raise TypeError
        index = operator.index(axis)
    except TypeError:
        raise TypeError(f"axis is {axis!r}; allowed: {allowed}") from None
    if not -rank <= index < rank:
        raise ValueError(f"axis is {axis!r}; allowed: {allowed}")
    return index if index < 0 else index - rank
