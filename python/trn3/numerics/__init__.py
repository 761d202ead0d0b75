"""The arithmetic of Trainium3, bit for bit.

Arrays in and out are NumPy's, of NumPy's and `ml_dtypes` types. Inputs may have any strides and any
byte order, and are never modified; results are fresh, C-contiguous, native arrays, or the `out`
that was given. An `out` must have the result's shape and dtype and be C-contiguous, aligned and
writable; for an operation that works element by element it may be exactly the input, and any other
overlap is refused.

Result bits never depend on the number of threads, the SIMD level, the machine or the floating-point
environment of the caller. Subnormals are honoured everywhere, never flushed (a model choice). NaN
results are canonical and positive. The interpreter lock is released during the work, and Ctrl-C
stops it; an `out` then holds unspecified values.

A wrong or unsupported dtype is a `TypeError`; a wrong shape, axis, pattern, option or value is a
`ValueError`. Rules of this project where the hardware is undocumented are called *model choices* in
the notes of each function.
"""

from trn3._trn3 import (
    MXArray,
    SparseArray,
    Xorwow,
    activation,
    cast,
    compress,
    exp,
    matmul,
    matmul_mx,
    matmul_sparse,
    prune,
    quantize_mx,
    tfloat32,
)
from trn3.markup import mimebundle as _mimebundle


def _table(array: MXArray) -> object:
    from trn3.markup import fields
    from trn3.text import kibibytes

    rows = {
        "shape": " x ".join(f"{length:,}" for length in array.shape),
        "elements": array.dtype,
        "scales": f"{array.scales.dtype}, one for 32 along axis {array.axis}",
        "size": kibibytes(array.nbytes),
    }
    return fields("MXArray", rows)


# The compiled class has what notebooks ask for from here.
MXArray.__rich__ = _table  # type: ignore[attr-defined]
MXArray._repr_mimebundle_ = _mimebundle  # type: ignore[attr-defined]

__all__ = [
    "MXArray",
    "SparseArray",
    "Xorwow",
    "activation",
    "cast",
    "compress",
    "exp",
    "matmul",
    "matmul_mx",
    "matmul_sparse",
    "prune",
    "quantize_mx",
    "tfloat32",
]

#: Examples of compiled functions, which `doctest` does not look for by itself.
__test__ = {
    function.__name__: function
    for function in (
        activation, cast, compress, exp, matmul, matmul_mx, matmul_sparse, prune, quantize_mx,
    )
}  # fmt: skip
