"""Tensors of torch as arrays of graphs, and back; which types graphs hold them in."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

from trn3.graph.writing import TensorType
from trn3.torch.groups import is_initialised

__all__ = ["HELD", "INT32", "array_of", "held_type", "numpy_dtype", "tensor_of"]

# Names of element types in graphs. Whole numbers of 64 bits are held in 32.
HELD: dict[torch.dtype, str] = {
    torch.bool: "bool",
    torch.uint8: "uint8",
    torch.uint16: "uint16",
    torch.uint32: "uint32",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float8_e4m3fn: "float8_e4m3fn",
    torch.float8_e5m2: "float8_e5m2",
}
INT32 = np.iinfo(np.int32)
# NumPy has no such types: their bits go through whole numbers.
_BITS = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of NumPy or ml_dtypes that an element type of graphs is.

    Examples
    --------
    >>> numpy_dtype("bfloat16").itemsize
    2
    """
    return np.dtype(getattr(ml_dtypes, name, name))


def held_type(tensor: Any) -> TensorType | None:
    """Return how graphs hold a tensor; None for element types that they do not have.

    Examples
    --------
    >>> str(held_type(torch.zeros(2, 3, dtype=torch.int64)))
    'int32[2, 3]'
    """
    dtype = HELD.get(tensor.dtype)
    return None if dtype is None else TensorType(dtype, tuple(int(size) for size in tensor.shape))


def array_of(tensor: Any, name: str = "a tensor") -> NDArray[Any]:
    """Return the elements as graphs hold them, sharing memory where they are held as they are.

    Raises
    ------
    ValueError
        If a whole number of 64 bits does not fit 32.

    Examples
    --------
    >>> array_of(torch.tensor([1, 2])).dtype
    dtype('int32')
    """
    tensor = tensor.detach()
    if tensor.device.type != "cpu":
        message = f"{name} lies on {tensor.device}; allowed: CPU memory, as .cpu() gives it"
        raise ValueError(message)
    if is_initialised() and tensor.untyped_storage().resizable():
        # FSDP frees gathered parameters by their storage, which NumPy would hold at its size.
        tensor = tensor.clone()
    if tensor.dtype in _BITS:
        bits, dtype = _BITS[tensor.dtype]
        return tensor.contiguous().view(bits).numpy().view(dtype)  # type: ignore[no-any-return]
    array: NDArray[Any] = tensor.resolve_neg().numpy()
    if array.dtype != np.int64:
        return array
    if array.size and not (INT32.min <= array.min() and array.max() <= INT32.max):
        message = f"{name} has the whole number {array.flat[np.abs(array).argmax()]}; allowed: "
        raise ValueError(f"{message}those of 32 bits, which int64 is held in")
    return array.astype(np.int32)


def tensor_of(array: NDArray[Any], like: Any) -> Any:
    """Return an array of a graph as the tensor that torch expects: its type, shape and strides.

    Examples
    --------
    >>> tensor_of(np.array([1, 2], np.int32), torch.zeros(2, dtype=torch.int64))
    tensor([1, 2])
    """
    if like.dtype in _BITS:
        bits, _ = _BITS[like.dtype]
        unsigned = array.view(np.int16 if array.itemsize == 2 else np.uint8)
        made = torch.from_numpy(unsigned).view(bits).view(like.dtype)
    else:
        made = torch.from_numpy(array).to(like.dtype)
    strides = tuple(int(stride) for stride in like.stride())
    if made.numel() == 0 or made.stride() == strides:
        return made
    if any(stride == 0 for stride in strides):  # an expanded one: its elements are all the same
        return made
    laid = torch.empty_strided(tuple(made.shape), strides, dtype=made.dtype)
    return laid.copy_(made)
