"""Arrays of torch and JAX go into kernels and come back as what they were."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import numpy as jnp

from trn3 import nki
from trn3.nki import isa as nisa, language as nl

try:
    import torch
except ModuleNotFoundError:
    torch = None  # type: ignore[assignment]

SHAPE = (16, 24)
#: Element types of the hardware under one name in NumPy, JAX and torch.
NAMES = (
    "bool",
    "int8",
    "int16",
    "int32",
    "uint8",
    "uint16",
    "uint32",
    "float16",
    "float32",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
)


class NumPyArrays:
    """What tests do with arrays, in NumPy."""

    kind = np.ndarray

    @staticmethod
    def make(values: np.ndarray, name: str) -> Any:
        return values.astype(_dtype(name))

    @staticmethod
    def values(array: Any) -> np.ndarray:
        return np.asarray(array).astype(np.float32)

    @staticmethod
    def dtype(name: str) -> Any:
        return _dtype(name)


class JaxArrays(NumPyArrays):
    """The same in JAX."""

    kind = jax.Array

    @staticmethod
    def make(values: np.ndarray, name: str) -> Any:
        return jnp.asarray(values.astype(_dtype(name)))

    @staticmethod
    def dtype(name: str) -> Any:
        return jnp.dtype(_dtype(name))


class TorchArrays(NumPyArrays):
    """The same in torch."""

    kind = torch.Tensor if torch is not None else None

    @staticmethod
    def make(values: np.ndarray, name: str) -> Any:
        return torch.from_numpy(values.astype(np.float32)).to(getattr(torch, name))

    @staticmethod
    def values(array: Any) -> np.ndarray:
        return array.to(torch.float32).numpy()

    @staticmethod
    def dtype(name: str) -> Any:
        return getattr(torch, name)


needs_torch = pytest.mark.skipif(torch is None, reason="torch is not installed")
LIBRARIES = [
    pytest.param(NumPyArrays, id="numpy"),
    pytest.param(JaxArrays, id="jax"),
    pytest.param(TorchArrays, id="torch", marks=needs_torch),
]
OTHERS = LIBRARIES[1:]


def _dtype(name: str) -> Any:
    return getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else np.dtype(name)


def small_numbers(name: str) -> np.ndarray:
    """Return whole numbers that every element type holds."""
    values = np.arange(np.prod(SHAPE)).reshape(SHAPE) % 5
    return values % 2 if name == "bool" else values


@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.dma_copy(dst=out, src=tile)
    return out


@nki.jit
def doubled_in_place(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(tile, tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=x, src=tile)
    return x


@nki.jit
def written_and_dropped(x):
    tile = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.sbuf)
    nisa.memset(tile, value=7.0)
    nisa.dma_copy(dst=x, src=tile)


@nki.jit
def added(x, y):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    one = nl.load(x)
    other = nl.load(y)
    nl.store(out, nl.add(one, other))
    return {"sum": out, "parts": (x, [y])}


@nki.jit
def cast_to(x, dtype):
    out = nl.ndarray(x.shape, dtype=dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, dtype=dtype, buffer=nl.sbuf)
    nisa.tensor_copy(tile, nl.load(x))
    nisa.dma_copy(dst=out, src=tile)
    return out


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", NAMES)
def test_copy_returns_the_library_type_and_values_it_got(library, name):
    if library is TorchArrays and not hasattr(torch, name):
        pytest.skip(f"torch has no {name}")
    array = library.make(small_numbers(name), name)
    result = copied(array)
    assert isinstance(result, library.kind)
    assert result.dtype == array.dtype
    np.testing.assert_array_equal(library.values(result), small_numbers(name))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("lnc", [1, 2])
def test_simulate_returns_what_a_launch_returns(library, lnc):
    array = library.make(small_numbers("bfloat16"), "bfloat16")
    result = nki.simulate(copied[lnc])(array)
    assert isinstance(result, library.kind)
    np.testing.assert_array_equal(library.values(result), library.values(array))


@needs_torch
@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16", "float8_e5m2"])
def test_torch_input_written_by_the_kernel_changes_in_place(name):
    array = TorchArrays.make(small_numbers(name), name)
    place = array.data_ptr()
    result = doubled_in_place(array)
    assert result is array
    assert array.data_ptr() == place
    np.testing.assert_array_equal(TorchArrays.values(array), 2 * small_numbers(name))


@needs_torch
def test_torch_view_written_by_the_kernel_changes_its_base():
    base = torch.zeros((4, *SHAPE))
    doubled_in_place(base[1:2].view(SHAPE).fill_(3.0))
    assert (base[1] == 6).all()
    assert (base[0] == 0).all()
    assert (base[2:] == 0).all()


@needs_torch
def test_torch_transposed_input_keeps_its_layout():
    base = torch.arange(24 * 16, dtype=torch.float32).reshape(24, 16)
    np.testing.assert_array_equal(copied(base.T).numpy(), base.T.numpy())


@needs_torch
def test_torch_parameter_that_needs_a_gradient_is_read():
    parameter = torch.nn.Parameter(torch.ones(SHAPE))
    assert (copied(parameter) == 1).all()


def test_jax_input_written_and_returned_keeps_the_caller_s_array():
    array = jnp.ones(SHAPE, jnp.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = doubled_in_place(array)
    assert (array == 1).all()
    assert (result == 2).all()


def test_jax_input_written_and_dropped_warns():
    array = jnp.ones(SHAPE, jnp.float32)
    with pytest.warns(UserWarning, match="x, a JAX array, which cannot change"):
        written_and_dropped(array)
    assert (array == 1).all()


@pytest.mark.parametrize("library", OTHERS)
def test_results_of_mixed_inputs_are_the_other_library_s(library):
    values = small_numbers("float32").astype(np.float32)
    result = added(library.make(values, "float32"), values)
    assert isinstance(result["sum"], library.kind)
    assert isinstance(result["parts"][0], library.kind)
    assert isinstance(result["parts"][1][0], np.ndarray)
    np.testing.assert_array_equal(library.values(result["sum"]), 2 * values)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["float32", "bfloat16", "int32", "float8_e5m2"])
def test_element_types_are_arguments(library, name):
    values = small_numbers("float32").astype(np.float32)
    result = cast_to(library.make(values, "float32"), library.dtype(name))
    assert str(result.dtype).removeprefix("torch.") == name
    np.testing.assert_array_equal(library.values(result), values)


def test_jax_scalar_types_are_element_types():
    result = cast_to(np.ones(SHAPE, np.float32), jnp.bfloat16)
    assert result.dtype == ml_dtypes.bfloat16


@dataclasses.dataclass(frozen=True)
class Weights:
    gate: Any
    shape: tuple[int, int] = SHAPE


@pytest.mark.parametrize("library", LIBRARIES)
def test_arrays_inside_a_dataclass_are_tensors_in_the_kernel(library):
    @nki.jit
    def through(weights):
        assert weights.gate.buffer in (nl.hbm, nl.shared_hbm, nl.private_hbm)
        return copied(weights.gate)

    array = library.make(small_numbers("float16"), "float16")
    result = through(Weights(array))
    assert isinstance(result, library.kind)
    np.testing.assert_array_equal(library.values(result), small_numbers("float16"))


@needs_torch
@pytest.mark.parametrize("name", ["float64", "int64", "complex64"])
def test_torch_types_the_hardware_lacks_are_refused_by_name(name):
    with pytest.raises(TypeError, match=rf"x.*{name}"):
        copied(torch.zeros(SHAPE, dtype=getattr(torch, name)))


@needs_torch
def test_torch_tensor_elsewhere_than_the_cpu_is_refused():
    with pytest.raises(ValueError, match=r"x lies on meta; allowed: CPU memory"):
        copied(torch.zeros(SHAPE, device="meta"))


@pytest.mark.parametrize("library", OTHERS)
def test_ranks_return_arrays_of_their_own_library(library):
    arrays = [library.make(small_numbers("float32") + rank, "float32") for rank in range(2)]
    results = nki.simulate_ranks(copied, [{"x": array} for array in arrays])
    for rank, result in enumerate(results):
        assert isinstance(result, library.kind)
        np.testing.assert_array_equal(
            library.values(result), small_numbers("float32").astype(np.float32) + rank
        )


@pytest.mark.parametrize("library", OTHERS)
def test_profile_returns_the_library_s_arrays(library):
    array = library.make(small_numbers("float32"), "float32")
    result, profile = nki.profile(copied, array)
    assert isinstance(result, library.kind)
    assert profile.latency_us > 0
