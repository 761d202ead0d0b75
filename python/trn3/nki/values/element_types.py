"""The element types of NKI, and the many spellings that kernels use for them."""

from __future__ import annotations

import sys
from typing import Any, Final

import ml_dtypes
import numpy as np

from trn3.nki.values.suggestions import or_nearest

__all__ = [
    "ALL",
    "DType",
    "bfloat16",
    "bool_",
    "canonicalise",
    "canonicalise_array",
    "float4_e2m1fn_x4",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e4m3fn_x4",
    "float8_e5m2",
    "float8_e5m2_x4",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "fp32",
    "int8",
    "int16",
    "int32",
    "tfloat32",
    "uint8",
    "uint16",
    "uint32",
]


class DType:
    """An element type: a NumPy dtype to NumPy, a name to kernels.

    ``str`` gives the name, and methods of strings that leave it unchanged are the name's:
    ``"float8" in dtype``, ``dtype.startswith("float")``. A type equals its name, the NumPy dtype
    that arrays of it have, and the scalar types and framework types of the same meaning. Its hash
    is the NumPy dtype's, so both find one entry of a dict; a name in a string does not (**choice**:
    one hash cannot be both; ``names[str(dtype)]`` finds it). `tfloat32` is stored as float32 and
    equals nothing but itself and its name.

    Attributes
    ----------
    name : str
        As in `nki.language`.
    itemsize : int
        Bytes of one element; of a packed type, of four.
    dtype, np_dtype : numpy.dtype
        What NumPy stores arrays of it as. Packed types are records with one field of their name.
    is_float : bool
        Whether it is a floating-point type, packed ones and block scales included.
    is_integer : bool
        Whether it is an integer type, ``bool`` included.
    is_packed : bool
        Whether an element holds four values.

    Examples
    --------
    >>> import numpy as np
    >>> import trn3.nki.language as nl
    >>> np.zeros((2, 3), nl.bfloat16).dtype == nl.bfloat16
    True
    >>> str(nl.float8_e4m3fn_x4), nl.float8_e4m3fn_x4.itemsize
    ('float8_e4m3fn_x4', 4)
    >>> {nl.float32: "wide"}[np.dtype("float32")], "float8" in nl.float8_e4m3
    ('wide', True)
    """

    __slots__ = ("_hash", "dtype", "is_float", "is_integer", "is_packed", "itemsize", "name")

    name: Final[str]
    dtype: Final[np.dtype[Any]]
    itemsize: Final[int]
    is_float: Final[bool]
    is_integer: Final[bool]
    is_packed: Final[bool]

    def __init__(self, name: str, dtype: Any) -> None:
        self.name = name
        self.dtype = np.dtype(dtype)
        self.itemsize = self.dtype.itemsize
        self.is_packed = name.endswith("_x4")
        self.is_integer = self.dtype.kind in "iub"
        self.is_float = not self.is_integer
        # NumPy takes tfloat32 for float32 when it compares; another hash keeps them apart in dicts.
        self._hash = hash(name) if name == "tfloat32" else hash(self.dtype)

    @property
    def np_dtype(self) -> np.dtype[Any]:
        """What NumPy stores arrays of it as."""
        return self.dtype

    def __eq__(self, other: object) -> bool:
        if type(other) is DType:
            return self is other
        if isinstance(other, type) and other in (bool, int, float):
            return False  # kernels branch on Python's types; they are no element types here
        return self is _find(other)

    def __hash__(self) -> int:
        return self._hash

    def __contains__(self, part: str) -> bool:
        return part in self.name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"nki.language.{self.name}"

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)

    def startswith(self, *prefix: Any) -> bool:
        """Return whether the name starts so, as `str.startswith`."""
        return self.name.startswith(*prefix)

    def endswith(self, *suffix: Any) -> bool:
        """Return whether the name ends so, as `str.endswith`."""
        return self.name.endswith(*suffix)

    def __reduce__(self) -> tuple[Any, ...]:
        return canonicalise, (self.name,)


def _packed(name: str, storage: str) -> DType:
    return DType(name, [(name, storage)])


bool_ = DType("bool", np.bool_)
int8 = DType("int8", np.int8)
int16 = DType("int16", np.int16)
int32 = DType("int32", np.int32)
uint8 = DType("uint8", np.uint8)
uint16 = DType("uint16", np.uint16)
uint32 = DType("uint32", np.uint32)
float16 = DType("float16", np.float16)
float32 = DType("float32", np.float32)
bfloat16 = DType("bfloat16", ml_dtypes.bfloat16)
tfloat32 = DType("tfloat32", np.float32)
float8_e4m3 = DType("float8_e4m3", ml_dtypes.float8_e4m3)
float8_e4m3fn = DType("float8_e4m3fn", ml_dtypes.float8_e4m3fn)
float8_e5m2 = DType("float8_e5m2", ml_dtypes.float8_e5m2)
float8_e8m0fnu = DType("float8_e8m0fnu", ml_dtypes.float8_e8m0fnu)
float8_e4m3fn_x4 = _packed("float8_e4m3fn_x4", "<u4")
float8_e5m2_x4 = _packed("float8_e5m2_x4", "<u4")
float4_e2m1fn_x4 = _packed("float4_e2m1fn_x4", "<u2")

#: Every element type.
ALL: Final[tuple[DType, ...]] = (
    bool_, int8, int16, int32, uint8, uint16, uint32, float16, float32, bfloat16, tfloat32,
    float8_e4m3, float8_e4m3fn, float8_e5m2, float8_e8m0fnu,
    float8_e4m3fn_x4, float8_e5m2_x4, float4_e2m1fn_x4,
)  # fmt: skip


class fp32:
    """Limits of float32, as older kernels spell them."""

    min: Final = -3.4028234663852886e38
    max: Final = 3.4028234663852886e38


_NAMES: Final[dict[str, DType]] = {dtype.name: dtype for dtype in ALL} | {
    "bool_": bool_,
    "float8e4": float8_e4m3,
    "float8e5": float8_e5m2,
    "fp32": float32,
    "fp16": float16,
    "bf16": bfloat16,
}

_BY_NUMPY: Final[dict[np.dtype[Any], DType]] = {
    dtype.dtype: dtype for dtype in ALL if dtype is not tfloat32
}
_BUILTIN: Final[dict[object, DType]] = {bool: bool_, int: int32, float: float32}
# Filled as spellings are met, so that a kernel pays for each once.
_known: dict[object, DType] = {}


def _find(spelling: Any) -> DType | None:
    """Return the element type that a spelling means, or None."""
    if isinstance(spelling, str):
        return _NAMES.get(spelling.rpartition(".")[2])
    if spelling is None:
        return None  # NumPy takes it for float64
    kind = type(spelling)
    if isinstance(spelling, np.dtype):
        return _of_numpy(spelling)
    module = kind.__module__
    if module == "torch" or module.startswith("torch."):
        # torch.float8_e4m3fn and so on: the names agree. An array is no type.
        return _NAMES.get(str(spelling).rpartition(".")[2]) if kind.__name__ == "dtype" else None
    if isinstance(spelling, type):
        if spelling.__module__ not in ("numpy", "ml_dtypes", "builtins"):
            attribute = getattr(spelling, "dtype", None)
            return _of_numpy(attribute) if isinstance(attribute, np.dtype) else None
        if spelling in (object, np.generic):
            return None
    elif hasattr(spelling, "shape") or not isinstance(getattr(spelling, "dtype", None), np.dtype):
        return None
    try:
        return _of_numpy(np.dtype(spelling))
    except TypeError:
        return None


def _of_numpy(dtype: np.dtype[Any]) -> DType | None:
    found = _BY_NUMPY.get(dtype)
    if found is not None:
        return found
    if dtype.names is not None and len(dtype.names) == 1:
        # A record of one field that is named after a packed type, however its bytes are spelled.
        packed = _NAMES.get(dtype.names[0])
        if packed is not None and packed.is_packed and packed.itemsize == dtype.itemsize:
            return packed
        return None
    return _BY_NUMPY.get(dtype.newbyteorder("="))


def canonicalise(spelling: Any, argument: str = "dtype") -> DType:
    """Return the element type that a spelling means.

    Parameters
    ----------
    spelling
        A `DType`, a NumPy dtype or scalar type, a type of ml_dtypes, torch or JAX, Python's
        ``bool``, ``int`` (int32) or ``float`` (float32), a name, or ``"float8e4"``, ``"float8e5"``.
        One-field records named after a packed type mean that type.
    argument
        Named in the error.

    Raises
    ------
    TypeError
        If it means none; 64-bit types do not exist on the hardware.

    Examples
    --------
    >>> import ml_dtypes
    >>> canonicalise("float8e4"), canonicalise(ml_dtypes.bfloat16)
    (nki.language.float8_e4m3, nki.language.bfloat16)
    """
    if type(spelling) is DType:
        return spelling
    # By identity of kind too: 1 == True, and np.float32 hashes like nothing else.
    try:
        found = _known.get((type(spelling), spelling))
        if found is not None:
            return found
    except TypeError:
        found = None
    found = _BUILTIN.get(spelling) if isinstance(spelling, type) else None
    found = found or _find(spelling)
    if found is None:
        allowed = ", ".join(dtype.name for dtype in ALL)
        hint = or_nearest(spelling, _NAMES) if isinstance(spelling, str) else ""
        message = f"{argument} is {spelling!r}, which no engine has{hint}; allowed: {allowed}"
        raise TypeError(message)
    _known[type(spelling), spelling] = found
    return found


def canonicalise_array(dtype: np.dtype[Any], argument: str) -> DType:
    """Return the element type of an array argument.

    Raises
    ------
    TypeError
        If the hardware has none; the text says what to convert 64-bit arrays to.
    """
    found = _of_numpy(dtype)
    if found is None:
        advice = {"f": "float32", "i": "int32", "u": "uint32"}.get(dtype.kind)
        hint = f"convert it, for example with .astype(np.{advice})" if advice else "convert it"
        allowed = ", ".join(known.name for known in ALL)
        message = f"{argument} has dtype {dtype}, which no engine has; {hint}; allowed: {allowed}"
        raise TypeError(message)
    return found


def torch_dtype(dtype: DType) -> Any:
    """Return torch's type of the same meaning.

    Raises
    ------
    TypeError
        If torch has none: packed types.
    """
    torch = sys.modules["torch"]
    found = getattr(torch, "float32" if dtype is tfloat32 else dtype.name, None)
    if found is None:
        message = f"torch has no dtype for {dtype.name}; return it viewed as an integer type"
        raise TypeError(message)
    return found
