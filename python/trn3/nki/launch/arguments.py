"""What a kernel is given becomes tensors of its core; what it returns becomes arrays again."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trn3._trn3.machine import NeuronCore, NkiTensor, VirtualRegister
from trn3.nki.ranks.context import slot
from trn3.nki.typing import tensor as annotated_tensor
from trn3.nki.values import arrays
from trn3.nki.values.callers import warn_caller
from trn3.nki.values.element_types import DType, canonicalise
from trn3.nki.values.memory_regions import is_hbm, private_hbm
from trn3.nki.values.objects import NKIObject


class Input:
    """One array that the caller gave, and the tensor it became."""

    __slots__ = ("array", "dtype", "kind", "name", "tensor", "value")

    def __init__(
        self,
        name: str,
        value: Any,
        kind: arrays.Kind,
        array: NDArray[Any],
        dtype: DType,
        tensor: NkiTensor,
    ) -> None:
        self.name = name
        self.value = value
        self.kind = kind
        self.array = array
        self.dtype = dtype
        self.tensor = tensor

    @property
    def in_place(self) -> bool:
        """Whether the caller's memory can take what the kernel wrote."""
        return self.kind != "jax" and self.array.flags.writeable

    def is_whole(self, view: NkiTensor) -> bool:
        """Return whether a view shows all of the input as it came."""
        whole = self.tensor
        return view is whole or (
            view.storage_id == whole.storage_id
            and view.shape == whole.shape
            and view.strides == whole.strides
            and view.offset == whole.offset
            and view.dtype_name == whole.dtype_name
        )


class Arguments:
    """The arguments of one run; wrapped again for another core they are the same tensors.

    Parameters
    ----------
    core : NeuronCore
        Whose HBM arrays go to.
    buffer : int, optional
        Code of the memory that their tensors say they lie in.
    shared : bool, optional
        Whether several instances get them: objects with fields are then copied for each, since one
        that an instance writes to, as an allocator of addresses, is its own (**choice**).
    """

    __slots__ = ("_buffer", "_clones", "_core", "_inputs", "_objects", "_shared")

    def __init__(
        self, core: NeuronCore, buffer: int = private_hbm.code, *, shared: bool = False
    ) -> None:
        self._core = core
        self._buffer = buffer
        self._shared = shared
        self._clones: dict[int, Any] = {}  # of the instance at hand, by what they were made from
        self._inputs: dict[int, Input] = {}  # by storage
        # One array given twice is one tensor, so that writes through either show in both.
        self._objects: dict[int, NkiTensor] = {}

    def next_instance(self) -> None:
        """Forget the objects that the instance before was given."""
        self._clones.clear()

    def wrap(self, value: Any, name: str, expected: Any = None) -> Any:
        """Return what the kernel sees of an argument.

        Raises
        ------
        TypeError
            If an array has an element type that the hardware lacks.
        ValueError
            If an array is empty, or its shape is not what its annotation says.
        """
        kind = arrays.kind_of(value)
        if kind is not None:
            tensor = self._wrap_array(value, kind, name)
            if isinstance(expected, annotated_tensor):
                expected.check(name, tensor.shape)
            return tensor
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, (tuple, list)):
            items = [self.wrap(item, f"{name}[{i}]") for i, item in enumerate(value)]
            return _sequence_like(value, items)
        if isinstance(value, dict):
            return {key: self.wrap(item, f"{name}[{key!r}]") for key, item in value.items()}
        if _has_fields(value):
            return self._wrap_fields(value, name)
        return _element_type(value)

    def _wrap_fields(self, value: Any, name: str) -> Any:
        known = self._clones.get(id(value))
        if known is not None:
            return known
        if self._shared:
            # Kept before its fields are, which may lead back to it.
            value = self._clones.setdefault(id(value), copy.copy(value))
            for key, item in _fields_of(value).items():
                object.__setattr__(value, key, self.wrap(item, f"{name}.{key}"))
            return value
        return _with_fields(value, lambda key, item: self.wrap(item, f"{name}.{key}"))

    def _wrap_array(self, value: Any, kind: arrays.Kind, name: str) -> NkiTensor:
        known = self._objects.get(id(value))
        if known is not None:
            return known
        original = arrays.as_numpy(value, kind, name)
        array, dtype = arrays.checked(original, name)
        tensor = arrays.to_tensor(self._core, array, dtype, self._buffer, name)
        self._objects[id(value)] = tensor
        self._inputs[tensor.storage_id] = Input(name, value, kind, original, dtype, tensor)
        return tensor

    def storages(self) -> Iterator[tuple[int, bool]]:
        """Yield the storage of each array, and whether the kernel wrote to it."""
        for storage, entry in self._inputs.items():
            yield storage, self._core.written(entry.tensor)

    def contents(self) -> Iterator[NDArray[Any]]:
        """Yield each array as it came."""
        return (entry.array for entry in self._inputs.values())

    def updated(self) -> Iterator[tuple[int, str]]:
        """Yield identity and name of the caller's arrays that `update_callers` will change."""
        for entry in self._inputs.values():
            if self._core.written(entry.tensor) and entry.in_place:
                yield id(entry.value), entry.name

    def update_callers(self) -> None:
        """Write what the kernel wrote to its inputs into the caller's arrays."""
        for entry in self._inputs.values():
            if self._core.written(entry.tensor) and entry.in_place:
                fresh, _ = arrays.to_array(self._core, entry.tensor)
                entry.array[...] = fresh

    def unwrap(self, result: Any) -> Any:
        """Return a kernel's result with arrays in place of tensors.

        They are of the library that the arguments came from: torch if any did, else JAX if any
        did, else NumPy.

        Raises
        ------
        TypeError
            If a result is a register.
        ValueError
            If a result lies on chip.
        """
        returned: set[int] = set()
        plain = self._unwrap(result, "result", returned)
        for storage, entry in self._inputs.items():
            if entry.kind == "jax" and storage not in returned and self._core.written(entry.tensor):
                message = (
                    f"the kernel wrote to {entry.name}, a JAX array, which cannot change; "
                    "return it to see the new values"
                )
                warn_caller(message)
        return plain

    def _unwrap(self, value: Any, place: str, returned: set[int]) -> Any:
        if isinstance(value, NkiTensor):
            return self._unwrap_tensor(value, place, returned)
        if isinstance(value, (tuple, list)):
            items = [self._unwrap(item, f"{place}[{i}]", returned) for i, item in enumerate(value)]
            return _sequence_like(value, items)
        if isinstance(value, dict):
            return {
                key: self._unwrap(item, f"{place}[{key!r}]", returned)
                for key, item in value.items()
            }
        if _has_fields(value):
            return _with_fields(
                value, lambda key, item: self._unwrap(item, f"{place}.{key}", returned)
            )
        if isinstance(value, VirtualRegister):
            message = (
                f"{place} is a VirtualRegister; allowed: tensors in HBM. Store it to one first"
            )
            raise TypeError(message)
        return value

    def _unwrap_tensor(self, tensor: NkiTensor, place: str, returned: set[int]) -> Any:
        if not is_hbm(tensor):
            message = (
                f"{place}, `{tensor.name}`, lies in {tensor.buffer}; allowed: nl.shared_hbm. "
                "Store it to a tensor there first"
            )
            raise ValueError(message)
        entry = self._inputs.get(tensor.storage_id)
        returned.add(tensor.storage_id)
        if entry is None and tensor.buffer is private_hbm:
            running = slot.context
            if running is not None and running.watch is not None:
                running.watch.private_result(place, tensor)
            message = (
                f"{place}, `{tensor.name}`, lies in nl.private_hbm; compilers want nl.shared_hbm"
            )
            warn_caller(message)
        if entry is not None and entry.is_whole(tensor):
            if not self._core.written(tensor) or entry.in_place:
                return entry.value
            return self._array(tensor, entry.kind)
        return self._array(tensor, self._kind())

    def _array(self, tensor: NkiTensor, kind: arrays.Kind) -> Any:
        array, dtype = arrays.to_array(self._core, tensor)
        return arrays.from_numpy(array, kind, dtype)

    def _kind(self) -> arrays.Kind:
        kinds = {entry.kind for entry in self._inputs.values()}
        return "torch" if "torch" in kinds else "jax" if "jax" in kinds else "numpy"


def tensors_in(value: Any) -> Iterator[NkiTensor]:
    """Yield the tensors in what a kernel returns, in the order of their places."""
    if isinstance(value, NkiTensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item)
    elif _has_fields(value):
        for item in _fields_of(value).values():
            yield from tensors_in(item)


def named_tensors(result: Any) -> Iterator[tuple[str, NkiTensor]]:
    """Yield what a kernel returns with names: ``result``, or ``result[0]`` and so on."""
    for place, tensor in enumerate(tensors_in(result)):
        yield ("result" if isinstance(result, NkiTensor) else f"result[{place}]"), tensor


def _fields_of(item: Any) -> dict[str, Any]:
    fields: dict[str, Any] | None = getattr(item, "__dict__", None)
    if fields is None:
        fields = {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
    return fields


def _has_fields(value: Any) -> bool:
    return isinstance(value, NKIObject) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    )


def _with_fields(item: Any, convert: Callable[[str, Any], Any]) -> Any:
    """Return an object itself, or a copy where converting its fields changes any."""
    fields = _fields_of(item)
    converted = {key: convert(key, value) for key, value in fields.items()}
    changed = {key: value for key, value in converted.items() if value is not fields[key]}
    if not changed:
        return item
    clone = copy.copy(item)
    for key, value in changed.items():
        object.__setattr__(clone, key, value)  # frozen dataclasses too
    return clone


def _sequence_like(like: Any, items: list[Any]) -> Any:
    if isinstance(like, list):
        return items
    if hasattr(like, "_fields"):
        return type(like)(*items)  # a named tuple
    return tuple(items)


def _element_type(value: Any) -> Any:
    """Return the NKI type for another library's, and everything else as it is."""
    foreign = (
        isinstance(value, np.dtype)
        or (isinstance(value, type) and issubclass(value, np.generic))
        or (type(value).__module__ == "torch" and type(value).__name__ == "dtype")
        or _is_jax_scalar(value)
    )
    if not foreign:
        return value
    try:
        return canonicalise(value)
    except TypeError:
        return value


def _is_jax_scalar(value: Any) -> bool:
    return type(value).__module__.startswith("jax") and isinstance(
        getattr(value, "dtype", None), np.dtype
    )
