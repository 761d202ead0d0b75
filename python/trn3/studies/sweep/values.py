"""Values as plain JSON that reads back to the same values, and that can run no code.

JSON itself has None, booleans, integers, texts, lists and finite floats (whose shortest decimal
form reads back to the same bits). All else is an object with the key ``$`` that names its kind:
floats that are not finite, complex numbers, bytes, tuples, dictionaries with keys other than texts,
NumPy scalars and arrays, and instances of classes which the caller named. Decoding looks such a
class up among those the caller named; no name in a file is ever imported.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np

#: What the json module writes and reads.
Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None

SUPPORTED = (
    "None, bool, int, float, complex, str, bytes, list, tuple, dict, NumPy scalars and arrays, and "
    "the dataclasses, named tuples and enumerations given as value_types"
)
KIND = "$"
_EXTENSION_DTYPES = {
    name: np.dtype(getattr(ml_dtypes, name))
    for name in dir(ml_dtypes)
    if name.startswith(("bfloat", "float", "int", "uint"))
}


class UnsupportedValueError(TypeError):
    """A value, or something in it, has no plain form."""


class ValueCodec:
    """Turns values into JSON and back.

    Parameters
    ----------
    value_types
        Dataclasses, named tuples and enumerations that may occur. A dataclass is made again by
        calling it with its fields, which runs its ``__post_init__``.

    Raises
    ------
    TypeError
        If one of them is no such class.
    ValueError
        If two of them have one name.

    Examples
    --------
    >>> codec = ValueCodec()
    >>> codec.encode((1, 0.5, float("inf")))
    {'$': 'tuple', 'items': [1, 0.5, {'$': 'float', 'value': 'inf'}]}
    >>> codec.decode(codec.encode({"limits": (1, 2), 3: "three"}))
    {'limits': (1, 2), 3: 'three'}
    """

    def __init__(self, value_types: Iterable[type] = ()) -> None:
        self._types: dict[str, type] = {}
        for kind in value_types:
            if not _class_kind(kind):
                message = (
                    f"value_types has {kind!r}, must hold dataclasses, named tuples and "
                    "enumerations (the classes, not instances)"
                )
                raise TypeError(message)
            name = class_name(kind)
            if self._types.setdefault(name, kind) is not kind:
                message = f"value_types has two classes of the name {name}"
                raise ValueError(message)

    def encode(self, value: object, place: str = "value") -> Json:
        """Return the plain form; `place` is how errors call the value.

        Raises
        ------
        UnsupportedValueError
            If the value, or something in it, has none; it says where and of what type.
        """
        kind = type(value)
        # Exactly these types: a subclass would come back as what it derives from.
        if value is None or (isinstance(value, bool | int | str) and kind in (bool, int, str)):
            return value
        if isinstance(value, float) and kind is float:
            return value if math.isfinite(value) else {KIND: "float", "value": repr(value)}
        if isinstance(value, list) and kind is list:
            return self._encode_items(value, place)
        if isinstance(value, dict) and kind is dict:
            return self._encode_dict(value, place)
        if isinstance(value, np.generic | np.ndarray):
            return _encode_array(value, place)
        if isinstance(value, tuple) and kind is tuple:
            return {KIND: "tuple", "items": self._encode_items(value, place)}
        if isinstance(value, complex) and kind is complex:
            return {KIND: "complex", "real": repr(value.real), "imag": repr(value.imag)}
        if isinstance(value, bytes) and kind is bytes:
            return {KIND: "bytes", "base64": base64.b64encode(value).decode("ascii")}
        if self._types.get(class_name(kind)) is kind:
            return self._encode_object(value, place)
        raise UnsupportedValueError(_refusal(value, place))

    def decode(self, plain: Json) -> Any:
        """Return the value of a plain form.

        Raises
        ------
        ValueError
            If it is none that `encode` makes with these `value_types`.
        """
        if isinstance(plain, list):
            return [self.decode(item) for item in plain]
        if not isinstance(plain, dict):
            return plain
        if KIND not in plain:
            return {key: self.decode(item) for key, item in plain.items()}
        kind = plain[KIND]
        decoder = _DECODERS.get(kind) if isinstance(kind, str) else None
        if decoder is None:
            message = f"a value of the unknown kind {kind!r}"
            raise ValueError(message)
        try:
            return decoder(self, plain)
        except (KeyError, TypeError, AttributeError) as error:
            message = f"a value of kind {kind!r} that cannot be read: {error!r}"
            raise ValueError(message) from error

    def _encode_items(self, value: Iterable[object], place: str) -> list[Json]:
        return [self.encode(item, f"{place}[{at}]") for at, item in enumerate(value)]

    def _encode_dict(self, value: Mapping[Any, object], place: str) -> Json:
        if all(type(key) is str for key in value) and KIND not in value:
            return {key: self.encode(item, f"{place}[{key!r}]") for key, item in value.items()}
        items: list[Json] = [
            [self.encode(key, f"a key of {place}"), self.encode(item, f"{place}[{key!r}]")]
            for key, item in value.items()
        ]
        return {KIND: "dict", "items": items}

    def _encode_object(self, value: Any, place: str) -> Json:
        kind: type = type(value)
        name = class_name(kind)
        if isinstance(value, Enum):
            return {KIND: "enum", "class": name, "name": value.name}
        if isinstance(value, tuple):
            items = self._encode_items(value, place)
            return {KIND: "namedtuple", "class": name, "items": items}
        fields: dict[str, Json] = {
            field.name: self.encode(getattr(value, field.name), f"{place}.{field.name}")
            for field in dataclasses.fields(value)
            if field.init
        }
        return {KIND: "dataclass", "class": name, "fields": fields}

    def class_of(self, name: object, expected: str) -> type[Any]:
        """Return the class of a name among `value_types`."""
        found = self._types.get(name) if isinstance(name, str) else None
        if found is None or _class_kind(found) != expected:
            known = ", ".join(sorted(self._types)) or "none"
            message = (
                f"a {expected} {name}, which is not among value_types ({known}); add that class"
            )
            raise ValueError(message)
        return found


def class_name(kind: type) -> str:
    """Return ``module.qualified_name``."""
    return f"{kind.__module__}.{kind.__qualname__}"


def _class_kind(kind: object) -> str | None:
    if not isinstance(kind, type):
        return None
    if dataclasses.is_dataclass(kind):
        return "dataclass"
    if issubclass(kind, Enum):
        return "enum"
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return "namedtuple"
    return None


def _refusal(value: object, place: str) -> str:
    kind = type(value)
    message = f"{place} is of type {class_name(kind)}, which a checkpoint cannot hold"
    if _class_kind(kind):
        return f"{message} until you name it: value_types=[{kind.__name__}]"
    return f"{message}. It holds {SUPPORTED}; return those, or convert with a function around yours"


def _encode_array(value: np.generic | np.ndarray[Any, Any], place: str) -> Json:
    array = np.asarray(value)
    dtype = array.dtype
    if dtype.hasobject or dtype.fields is not None:
        message = f"{place} is a NumPy array of dtype {dtype}, which a checkpoint cannot hold"
        raise UnsupportedValueError(f"{message}; plain numbers, times and texts it can")
    name = dtype.name if dtype.name in _EXTENSION_DTYPES else dtype.newbyteorder("<").str
    if dtype.byteorder == ">" or (dtype.byteorder == "=" and sys.byteorder == "big"):
        array = array.astype(dtype.newbyteorder("<"))
    form: dict[str, Json] = {
        KIND: "array" if isinstance(value, np.ndarray) else "scalar",
        "dtype": name,
        "base64": base64.b64encode(array.tobytes()).decode("ascii"),
    }
    if isinstance(value, np.ndarray):
        form["shape"] = list(array.shape)
    return form


def _decode_array(_: ValueCodec, plain: Mapping[str, Any]) -> Any:
    name = plain["dtype"]
    dtype = _EXTENSION_DTYPES.get(name) or np.dtype(str(name))
    if dtype.hasobject or dtype.fields is not None:
        message = f"an array of dtype {dtype}"
        raise ValueError(message)
    shape = tuple(plain["shape"]) if plain[KIND] == "array" else ()
    data = base64.b64decode(plain["base64"], validate=True)
    is_shape = all(isinstance(side, int) and side >= 0 for side in shape)
    if not is_shape or math.prod(shape) * dtype.itemsize != len(data):
        message = f"an array of {len(data)} bytes, shape {shape} and dtype {dtype}"
        raise ValueError(message)
    # A copy, which unlike a view of the bytes may be written to.
    array: np.ndarray[Any, Any] = np.zeros(shape, dtype)
    if data:
        array[...] = np.ndarray(shape, dtype, data)
    return array if plain[KIND] == "array" else array[()]


def _decode_dataclass(codec: ValueCodec, plain: Mapping[str, Any]) -> Any:
    kind = codec.class_of(plain["class"], "dataclass")
    fields = {name: codec.decode(item) for name, item in plain["fields"].items()}
    expected = {field.name for field in dataclasses.fields(kind) if field.init}
    if set(fields) != expected:
        message = f"a {plain['class']} with fields {sorted(fields)}; now it has {sorted(expected)}"
        raise ValueError(message)
    return kind(**fields)


_DECODERS: dict[str, Callable[[ValueCodec, Mapping[str, Any]], Any]] = {
    "float": lambda codec, plain: float(plain["value"]),
    "complex": lambda codec, plain: complex(float(plain["real"]), float(plain["imag"])),
    "bytes": lambda codec, plain: base64.b64decode(plain["base64"], validate=True),
    "tuple": lambda codec, plain: tuple(codec.decode(item) for item in plain["items"]),
    "dict": lambda codec, plain: {
        codec.decode(key): codec.decode(item) for key, item in plain["items"]
    },
    "array": _decode_array,
    "scalar": _decode_array,
    "dataclass": _decode_dataclass,
    "namedtuple": lambda codec, plain: codec.class_of(plain["class"], "namedtuple")(
        *(codec.decode(item) for item in plain["items"])
    ),
    "enum": lambda codec, plain: codec.class_of(plain["class"], "enum")[plain["name"]],
}


_ENCODER = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def json_text(plain: Json) -> str:
    """Return the one line of JSON that a plain form is stored and fingerprinted as."""
    return _ENCODER.encode(plain)
