"""The module tree, its names, element types and their helpers, as kernels import them."""

from __future__ import annotations

import importlib
import sys
import typing
from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import trn3.nki
import trn3.nki.language as nl
from support.core import run
from support.operators import OPERATORS
from trn3.nki.values import neuron_dtypes as dt

MODULES = (
    "nki", "nki.language", "nki.isa", "nki.isa.constants", "nki.collectives", "nki.typing",
    "nki.dtype", "nki.tensor", "nki.experimental", "nki.compiler", "nki.compiler.frontend",
    "nki.compiler.ncc_driver", "nki.compiler.kernel_builder", "neuronxcc", "neuronxcc.nki",
    "neuronxcc.nki.language", "neuronxcc.nki.isa", "neuronxcc.nki.typing",
    "neuronxcc.nki.compiler", "neuronxcc.nki.collectives", "neuronxcc.starfish.support.util",
    "neuronxcc.starfish.support.dtype", "neuron_dtypes", "nki_cpu_simulator.nki",
    "nki_cpu_simulator.nki.builtin", "nki_cpu_simulator.nki.compiler",
    "nki_cpu_simulator.nki.isa", "nki_cpu_simulator.nki.isa.constants",
    "nki.language.constants", "neuronxcc.nki.language.constants",
    "nki_cpu_simulator.nki.language", "nki_cpu_simulator.nki.language.dtypes",
    "nki_cpu_simulator.nki.tensor", "nki_cpu_simulator.nki.typing",
)  # fmt: skip
LANGUAGE = [
    "bool_",
    "int8",
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
    "float16",
    "float32",
    "bfloat16",
    "tfloat32",
    "float8_e4m3",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e8m0fnu",
    "float8_e4m3fn_x4",
    "float8_e5m2_x4",
    "float4_e2m1fn_x4",
    "bool",
    "sbuf",
    "psum",
    "hbm",
    "private_hbm",
    "shared_hbm",
    "MemoryRegion",
    "is_hbm",
    "is_on_chip",
    "is_psum",
    "is_sbuf",
    "NKIObject",
    "NkiTensor",
    "tile_size",
    "ndarray",
    "zeros",
    "ones",
    "full",
    "zeros_like",
    "empty_like",
    "rand",
    "random_seed",
    "shared_constant",
    "shared_identity_matrix",
    "load",
    "load_transpose2d",
    "store",
    "transpose",
    "matmul",
    "broadcast_to",
    "expand_dims",
    "gather_flattened",
    "where",
    *OPERATORS,
    "sum",
    "max",
    "min",
    "mean",
    "prod",
    "var",
    "all",
    "softmax",
    "rms_norm",
    "dropout",
    "ds",
    "affine_range",
    "sequential_range",
    "static_range",
    "dynamic_range",
    "fori_loop",
    "while_loop",
    "no_reorder",
    "program_id",
    "num_programs",
    "program_ndim",
    "device_print",
    "range",
    "fp32",
    "tensor",
    "par_dim",
    "nc",
    "spmd_dim",
    "static_cast",
]
TYPES = [name for name in LANGUAGE[:18] if name != "tfloat32"]
PACKED = {"float8_e4m3fn_x4": 4, "float8_e5m2_x4": 4, "float4_e2m1fn_x4": 2}


@pytest.fixture
def installed() -> Iterator[None]:
    trn3.nki.install()
    yield
    trn3.nki.uninstall()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", MODULES)
def test_module_is_found_and_is_an_attribute_of_its_parent(name: str) -> None:
    module = importlib.import_module(name)
    parent, _, child = name.rpartition(".")
    if parent:
        assert getattr(importlib.import_module(parent), child) is module is sys.modules[name]
    names: dict[str, Any] = {}
    exec(f"import {name}\nfound = {name}", names)
    assert names["found"] is module


@pytest.mark.usefixtures("installed")
def test_plain_import_reaches_everything() -> None:
    names: dict[str, Any] = {}
    exec("import nki", names)
    nki = names["nki"]
    for name in [
        "jit",
        "simulate",
        "cpu_simulate",
        "dtype",
        "Kernel",
        "tensor",
        "isa",
        "language",
        "collectives",
        "typing",
        "experimental",
        "compiler",
        "baremetal",
        "benchmark",
        "profile",
        "simulate_kernel",
        "trace",
    ]:
        assert hasattr(nki, name), name
    assert nki.tensor.NkiTensor is nki.language.NkiTensor
    assert nki.dtype.float8_e4m3 is nki.language.float8_e4m3
    assert nki.experimental.while_loop is nki.language.while_loop


@pytest.mark.parametrize("name", LANGUAGE)
def test_language_has_name(name: str) -> None:
    assert hasattr(nl, name)


def test_constants_are_the_same_objects() -> None:
    from trn3.nki import isa
    from trn3.nki.isa import constants

    for name in [
        "dge_mode",
        "oob_mode",
        "matmul_perf_mode",
        "reduce_cmd",
        "engine",
        "nc_version",
        "dma_engine",
    ]:
        assert getattr(constants, name) is getattr(isa, name)
    for name in ["vector", "scalar", "gpsimd", "tensor", "unknown"]:
        assert getattr(isa, f"{name}_engine") is getattr(isa.engine, name)
    assert [int(isa.nc_version[f"gen{n}"]) for n in (2, 3, 4)] == [2, 3, 4]


def test_odd_names() -> None:
    assert nl.range is range
    assert nl.fp32.min == np.finfo(np.float32).min
    assert type(nl.tile_size).__name__ == "_TileSize"
    assert nl.bool is nl.bool_


@pytest.mark.parametrize(
    "annotation",
    [nl.ndarray, nl.tensor, trn3.nki.dtype, trn3.nki.tensor, trn3.nki.typing.tensor, nl.NkiTensor,
     trn3.nki.typing.tensor[128, 512], trn3.nki.collectives.ReplicaGroup],
)  # fmt: skip
def test_annotations_survive_typing(annotation: Any) -> None:
    assert typing.Optional[annotation] is not None  # noqa: UP045 as kernels write it
    assert typing.Union[annotation, tuple[int, int], None] is not None  # noqa: UP007
    assert (annotation | None) is not None


@pytest.mark.parametrize("name", TYPES)
def test_element_type_is_numpys_and_a_name(name: str) -> None:
    dtype = getattr(nl, name)
    numpy = np.zeros(2, dtype).dtype
    text = name.rstrip("_")
    assert str(dtype) == f"{dtype}" == dtype.name == text
    assert dtype == numpy
    assert numpy == dtype
    assert hash(dtype) == hash(numpy)
    assert {dtype: 1}[numpy] == {numpy: 1}[dtype] == 1
    assert dtype == text
    assert text == dtype
    assert dtype.itemsize == numpy.itemsize

    def kernel() -> bool:
        tensor = nl.ndarray((2, 2), dtype)
        return tensor.dtype is dtype and getattr(nl, str(tensor.dtype).split(".")[-1]) is dtype

    assert run(kernel)


def test_older_names_of_element_types() -> None:
    assert nl.float8_e4m3 == "float8e4"
    assert nl.float8_e5m2 in ("float8e4", "float8e5")
    assert np.issubdtype(nl.float32, np.floating)
    assert np.issubdtype(nl.int32, np.integer)
    assert ml_dtypes.finfo(nl.bfloat16).max > 1e38  # type: ignore[no-untyped-call]
    assert nl.tfloat32 != nl.float32


@pytest.mark.parametrize("name", PACKED)
def test_static_cast_packs_and_unpacks(name: str) -> None:
    packed = getattr(dt, name)
    size = PACKED[name]
    x = np.array([[0.5, 1, -2, 4] * 2], np.float32)
    words = np.dtype(f"u{size}")
    assert dt.sizeinbytes(packed) == packed.itemsize == size
    assert dt.is_float_type(packed)
    assert isinstance(hash(packed), int)
    for wanted in (packed, getattr(nl, name)):
        cast = dt.static_cast(x, wanted)
        assert cast.shape == (1, 2)
        assert cast.view(words).shape == (1, 2)
        assert np.array_equal(dt.static_cast(cast, np.float32), x)
        assert dt.static_cast(cast, dt.bfloat16).shape == (1, 8)
    low = dt.static_cast(np.array([[1, 0, 0, 0]], np.float32), packed).view(words)
    assert 0 < low[0, 0] < 256


def test_helpers_know_every_type() -> None:
    assert len({getattr(dt, name) for name in PACKED}) == 3
    for name in ["bfloat16", "float8_e4m3", "float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu"]:
        assert getattr(dt, name) is getattr(ml_dtypes, name)
        assert dt.is_float_type(getattr(dt, name))
    floats = (np.float32, np.float16, nl.float8_e5m2, "float32", np.float64)
    assert all(map(dt.is_float_type, floats))
    assert not any(map(dt.is_float_type, (np.int32, nl.uint8, bool, np.int64)))
    given = (np.int64, np.float32, nl.bfloat16, "float8_e4m3", bool)
    assert [dt.sizeinbytes(one) for one in given] == [8, 4, 2, 1, 1]
    assert dt.finfo(dt.bfloat16).max > 1e38


TOKENS: list[tuple[Any, Any]] = [
    (np.add, np.add), (np.subtract, np.subtract), (np.multiply, np.multiply),
    (np.maximum, np.maximum), (np.minimum, np.minimum), (np.max, np.maximum),
    (np.min, np.minimum), (nl.max, np.maximum), (nl.min, np.minimum), (np.power, np.power),
    (np.greater, np.greater), (np.equal, np.equal),
]  # fmt: skip


@pytest.mark.parametrize(("token", "function"), TOKENS)
def test_functions_of_numpy_are_operators(token: Any, function: Any) -> None:
    from support.core import get, put
    from trn3.nki import isa

    a = np.array([[1, 2], [3, 4]], np.float32)
    b = np.array([[4, 2], [1, 3]], np.float32)

    def kernel() -> Any:
        out = nl.ndarray((2, 2), nl.float32)
        isa.tensor_tensor(out, put(a), put(b), token)
        return get(out)

    assert np.array_equal(run(kernel), function(a, b).astype(np.float32))
