"""Arrays of NumPy, torch and JAX into tensors of a core, and back."""

from __future__ import annotations

import os
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trn3._trn3.machine import NeuronCore, NkiTensor
from trn3.nki.values.element_types import (
    DType,
    bfloat16,
    bool_,
    canonicalise,
    canonicalise_array,
    torch_dtype,
)

#: Which library an array belongs to.
Kind: TypeAlias = Literal["numpy", "torch", "jax"]

_NARROW: Final = {"f": np.float32, "i": np.int32, "u": np.uint32}
_WIDE: Final = 8


def kind_of(value: Any) -> Kind | None:
    """Return which library's array a value is, or None if it is none."""
    if isinstance(value, np.ndarray):
        return "numpy"
    module = type(value).__module__
    if module.startswith("torch") and hasattr(value, "detach") and hasattr(value, "numpy"):
        return "torch"
    if (
        module.startswith(("jax", "jaxlib"))
        and hasattr(value, "__array__")
        and hasattr(value, "at")
    ):
        return "jax"
    return None


def as_numpy(value: Any, kind: Kind, argument: str) -> NDArray[Any]:
    """Return an array as NumPy's, sharing memory where the libraries allow it.

    Raises
    ------
    TypeError
        If its element type is none of the hardware's, or it has a mask.
    ValueError
        If a torch tensor does not lie in CPU memory.
    """
    if kind == "numpy":
        if isinstance(value, np.ma.MaskedArray):
            message = f"{argument} is a masked array, and tensors have no mask; fill it first"
            raise TypeError(message)
        return value  # type: ignore[no-any-return]
    if kind == "jax":
        return np.asarray(value)
    import torch

    if value.device.type != "cpu":
        message = f"{argument} lies on {value.device}; allowed: CPU memory, as .cpu() gives it"
        raise ValueError(message)
    value = value.detach()
    try:
        return value.numpy()  # type: ignore[no-any-return]
    except TypeError:
        # NumPy has no such type; the bits go through an integer type of the same size.
        dtype = canonicalise(value.dtype, f"{argument} dtype")
    integer = torch.int16 if dtype is bfloat16 else torch.uint8
    return value.view(integer).numpy().view(dtype.dtype)  # type: ignore[no-any-return]


def from_numpy(array: NDArray[Any], kind: Kind, dtype: DType) -> Any:
    """Return a fresh NumPy array as an array of another library."""
    if kind == "numpy":
        return array
    if kind == "jax":
        import jax.numpy as jnp

        return jnp.asarray(array)
    import torch

    if array.dtype.kind in "fiub" and array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    wanted = torch_dtype(dtype)
    integer = np.int16 if array.dtype.itemsize == 2 else np.uint8
    return torch.from_numpy(array.view(integer)).view(wanted)


def element_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the elements as bytes, in C order, without a copy where they lie so already."""
    contiguous = np.ascontiguousarray(array)
    return contiguous.reshape(-1).view(np.uint8)


def checked(array: NDArray[Any], argument: str) -> tuple[NDArray[Any], DType]:
    """Return an array in native byte order, and its element type.

    ``TRN3_NKI_NARROW64=1`` lets 64-bit arrays pass, converted to 32 bits.

    Raises
    ------
    TypeError
        If the hardware has no such element type.
    ValueError
        If the array has no axis or no element.
    """
    if array.ndim == 0 or array.size == 0:
        message = f"{argument} has shape {array.shape}; allowed: one axis or more, no length of 0"
        raise ValueError(message)
    narrow = _NARROW.get(array.dtype.kind) if array.dtype.itemsize == _WIDE else None
    if narrow is not None and os.environ.get("TRN3_NKI_NARROW64") == "1":
        array = array.astype(narrow)
    dtype = canonicalise_array(array.dtype, argument)
    if array.dtype != dtype.dtype:
        array = array.astype(dtype.dtype) if not dtype.is_packed else array.view(dtype.dtype)
    return array, dtype


def to_tensor(
    core: NeuronCore, array: NDArray[Any], dtype: DType, buffer: int, name: str
) -> NkiTensor:
    """Return an HBM tensor of the array's values.

    Runs that keep time only get the values of integers, which addresses may depend on.
    """
    known = core.values or dtype.is_integer
    content = element_bytes(array) if known else None
    return core.input(content, array.shape, dtype.name, buffer, name)


def to_array(core: NeuronCore, tensor: NkiTensor) -> tuple[NDArray[Any], DType]:
    """Return a fresh array of a tensor's elements, and their element type."""
    dtype = canonicalise(tensor.dtype_name)
    flat = core.read(tensor)
    if dtype is bool_:
        flat = (flat != 0).view(np.uint8)
    return flat.view(dtype.dtype).reshape(tensor.shape), dtype
