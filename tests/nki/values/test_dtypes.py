"""Element types: what NumPy, dicts and kernels may do with them."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.language as nl
from trn3.nki.values.element_types import ALL, DType, canonicalise, canonicalise_array, fp32

PLAIN: dict[str, Any] = {
    "bool": np.bool_,
    "int8": np.int8,
    "int16": np.int16,
    "int32": np.int32,
    "uint8": np.uint8,
    "uint16": np.uint16,
    "uint32": np.uint32,
    "float16": np.float16,
    "float32": np.float32,
    "bfloat16": ml_dtypes.bfloat16,
    "float8_e4m3": ml_dtypes.float8_e4m3,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e8m0fnu": ml_dtypes.float8_e8m0fnu,
}
SIZES = {"float8_e4m3fn_x4": 4, "float8_e5m2_x4": 4, "float4_e2m1fn_x4": 2}


@pytest.mark.parametrize("name", PLAIN)
def test_dtype_equals_every_spelling(name: str) -> None:
    dtype, scalar = getattr(nl, name), PLAIN[name]
    array = np.zeros(3, scalar)
    assert dtype == array.dtype
    assert array.dtype == dtype
    assert dtype == scalar
    assert dtype == name
    assert str(dtype) == name
    assert f"{dtype}" == name
    assert dtype != "float64"
    assert not dtype != array.dtype  # noqa: SIM202 both operators are meant
    assert canonicalise(scalar) is dtype
    assert canonicalise(name) is dtype
    assert canonicalise(array.dtype) is dtype


@pytest.mark.parametrize("name", PLAIN)
def test_dtype_serves_numpy(name: str) -> None:
    dtype = getattr(nl, name)
    assert np.zeros((2, 3), dtype).dtype == PLAIN[name]
    assert np.ones(4, np.float32).astype(dtype).dtype == PLAIN[name]
    assert np.dtype(dtype) == np.dtype(PLAIN[name])
    assert np.issubdtype(dtype, np.generic)
    assert np.issubdtype(dtype, np.integer) == (np.dtype(PLAIN[name]).kind in "iu")


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_dtype_is_a_dict_key_beside_numpys(dtype: DType) -> None:
    assert {dtype: 1}[dtype] == 1
    if dtype is nl.tfloat32:
        assert np.dtype(np.float32) not in {dtype: 1}
        assert dtype not in {nl.float32: 1, np.dtype(np.float32): 2}
        return
    array = np.zeros(1, dtype)
    keys: list[Any] = [dtype, array.dtype]
    assert {keys[0]: 1}[keys[1]] == 1
    assert {keys[1]: 1}[keys[0]] == 1
    assert len({dtype, array.dtype}) == 1


def test_dtype_answers_what_its_name_does() -> None:
    assert "float8" in nl.float8_e5m2
    assert "float8" not in nl.bfloat16
    assert nl.float8_e4m3.startswith(("float8", "float4"))
    assert nl.float4_e2m1fn_x4.endswith("_x4")


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_dtype_has_one_spelling(dtype: DType) -> None:
    assert getattr(nl, str(dtype).rpartition(".")[2]) is dtype
    assert canonicalise(str(dtype)) is dtype
    assert copy.deepcopy(dtype) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype


def test_dtypes_are_pairwise_distinct() -> None:
    for one in ALL:
        for other in ALL:
            assert (one == other) is (one is other)


@pytest.mark.parametrize("name", SIZES)
def test_packed_dtype_is_a_one_field_record(name: str) -> None:
    dtype = getattr(nl, name)
    array = np.zeros((2, 2), dtype)
    assert array.itemsize == dtype.itemsize == SIZES[name]
    assert array.dtype == dtype
    record = np.dtype([(name, f"<u{SIZES[name]}")])
    assert canonicalise(record) is dtype
    assert array.view(f"u{SIZES[name]}").shape == (2, 2)
    assert dtype != np.dtype(f"u{SIZES[name]}")


def test_tfloat32_is_float32_to_numpy_alone() -> None:
    assert np.zeros(1, nl.tfloat32).dtype == np.float32
    assert nl.tfloat32 != nl.float32
    assert nl.tfloat32 != np.dtype(np.float32)
    assert canonicalise(np.float32) is nl.float32


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        (bool, "bool"),
        (int, "int32"),
        (float, "float32"),
        ("float8e4", "float8_e4m3"),
        ("float8e5", "float8_e5m2"),
        ("bool_", "bool"),
        ("nki.language.bfloat16", "bfloat16"),
        (np.dtype(">f4"), "float32"),
    ],
)
def test_canonicalise_understands_older_spellings(spelling: Any, name: str) -> None:
    assert canonicalise(spelling) is getattr(nl, name)


@pytest.mark.parametrize(
    "spelling", ["float64", np.float64, np.int64, "complex64", None, 1, 3.5, object, [], "x4"]
)
def test_canonicalise_refuses_what_no_engine_has(spelling: Any) -> None:
    with pytest.raises(TypeError, match=r"dtype is .*allowed: bool, int8"):
        canonicalise(spelling)


def test_canonicalise_array_says_what_to_convert_to() -> None:
    with pytest.raises(TypeError, match=r"x has dtype float64.*astype\(np.float32\)"):
        canonicalise_array(np.dtype(np.float64), "x")
    with pytest.raises(TypeError, match=r"x has dtype int64.*astype\(np.int32\)"):
        canonicalise_array(np.dtype(np.int64), "x")


def test_fp32_limits() -> None:
    assert fp32.min == float(np.finfo(np.float32).min)
    assert fp32.max == float(np.finfo(np.float32).max)


def test_torch_and_jax_types_are_understood() -> None:
    torch = pytest.importorskip("torch")
    assert nl.bfloat16 == torch.bfloat16
    assert canonicalise(torch.float8_e4m3fn) is nl.float8_e4m3fn
    assert canonicalise(torch.bool) is nl.bool_
