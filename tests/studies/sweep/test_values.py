"""What checkpoints store reads back as the same value, and nothing else can be read."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as npst

from support import sweeps as functions
from support.checks import error
from trn3.studies.sweep.values import UnsupportedValueError, ValueCodec, json_text

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.complex_numbers()
    | st.text()
    | st.binary()
    | npst.arrays(
        npst.scalar_dtypes() | npst.unicode_string_dtypes(endianness="="),
        npst.array_shapes(min_dims=0, min_side=0, max_side=3),
    )
)
KEYS = st.text(max_size=3) | st.integers() | st.tuples(st.integers(), st.text(max_size=2))
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(KEYS | st.just("$"), inner, max_size=3)
    ),
    max_leaves=8,
)


def same(one: Any, other: Any) -> bool:
    """Compare types and bits, element by element."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray | np.generic):
        little = one.dtype.newbyteorder("=")
        if other.dtype.newbyteorder("=") != little or one.shape != other.shape:
            return False
        return bool(one.astype(little).tobytes() == other.astype(little).tobytes())
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, complex):
        return repr(one.real) == repr(other.real) and repr(one.imag) == repr(other.imag)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    return bool(one == other)


@given(VALUES)
def test_values_read_back_the_same(value: Any) -> None:
    codec = ValueCodec()
    text = json_text(codec.encode(value))
    assert "\n" not in text
    assert same(value, codec.decode(json.loads(text)))


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"])
def test_narrow_formats_read_back_the_same(name: str) -> None:
    array = np.arange(1, 7).astype(getattr(ml_dtypes, name)).reshape(2, 3).T
    codec = ValueCodec()
    for value in (array, array[0, 0]):
        assert same(value, codec.decode(json.loads(json_text(codec.encode(value)))))


def test_arrays_read_back_may_be_written() -> None:
    codec = ValueCodec()
    array = codec.decode(codec.encode(np.zeros(3)))
    array[0] = 1


@pytest.mark.parametrize(
    ("value", "place", "kind"),
    [
        ({"a": [1, {2}]}, "value['a'][1]", "set"),
        (object(), "value", "object"),
        (functions.Colour.RED, "value", "Colour"),
        (functions.Pair(1.0, 2.0), "value", "Pair"),
        (np.array([object()]), "value", "object"),
        (np.zeros(2, "i4,f4"), "value", "dtype"),
        ((1, lambda: 0), "value[1]", "function"),
        (functions.square, "value", "function"),
    ],
)
def test_encode_refuses_what_would_not_come_back(value: Any, place: str, kind: str) -> None:
    with pytest.raises(UnsupportedValueError) as raised:
        ValueCodec().encode(value)
    assert str(raised.value).startswith(f"{place} is")
    assert kind in str(raised.value)


@pytest.mark.parametrize(
    "plain",
    [
        {"$": "pickle", "base64": "gASVAAAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOULg=="},
        {"$": "dataclass", "class": "subprocess.Popen", "fields": {"args": "true"}},
        {"$": "dataclass", "class": "support.sweeps.Pair", "fields": {}},
        {"$": "namedtuple", "class": "support.sweeps.Pair", "items": [1, 2, 3]},
        {"$": "enum", "class": "support.sweeps.Colour", "name": "__class__"},
        {"$": "array", "dtype": "O", "shape": [1], "base64": "AAAAAAAAAAA="},
        {"$": "array", "dtype": "<f8", "shape": [2], "base64": "AAAAAAAAAAA="},
        {"$": "array", "dtype": "<f8", "shape": [-1], "base64": "AAAAAAAAAAA="},
        {"$": "array", "dtype": "<f8", "shape": [10**12], "base64": ""},
        {"$": "array", "dtype": "nonsense", "shape": [], "base64": ""},
        {"$": "scalar", "dtype": "<f8", "base64": "not base64"},
        {"$": "float"},
        {"$": "dict", "items": [[[], 1]]},
        {"$": 3},
        {"$": None, "a": 1},
        {"$": ["tuple"]},
    ],
)
def test_decode_refuses_what_encode_does_not_make(plain: Any) -> None:
    codec = ValueCodec([functions.Pair, functions.Colour])
    with pytest.raises(ValueError, match=r"."):
        codec.decode(plain)


def test_classes_of_one_name_are_refused() -> None:
    def make() -> type:
        @dataclass(frozen=True)
        class Local:
            x: int

        return Local

    with error(ValueError, "two classes", "Local"):
        ValueCodec([make(), make()])


def test_dataclass_that_has_changed_is_told() -> None:
    codec = ValueCodec([functions.Inner])
    plain: Any = {"$": "dataclass", "class": "support.sweeps.Inner", "fields": {"bits": 1}}
    with error(ValueError, "fields", "bits", "pair"):
        codec.decode(plain)


def test_infinite_floats_have_a_form_that_json_has() -> None:
    text = json_text(ValueCodec().encode([math.inf, -math.inf, math.nan, -0.0]))
    assert "Infinity" not in text
    assert "NaN" not in text
    assert text.endswith("-0.0]")
