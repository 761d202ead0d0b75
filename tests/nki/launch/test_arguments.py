"""Kernels: what goes in, what comes out, what is written in place."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
import trn3.nki.typing as nt
from support.launched import X, identity, output, overwrite
from trn3 import nki
from trn3.nki.values.element_types import ALL, DType

TENSOR: Any = nl.ndarray  # a function to type checkers

# --- arguments --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_arrays_of_every_element_type_pass_unchanged(dtype: DType) -> None:
    raw = np.random.default_rng(1).integers(0, 256, (3, 8 * dtype.itemsize), np.uint8)
    if dtype is nl.bool_:
        raw &= 1
    array = raw.view(dtype.dtype)

    @nki.jit
    def kernel(x: Any) -> Any:
        assert x.dtype == array.dtype
        assert x.shape == array.shape
        assert x.buffer in (nl.hbm, nl.shared_hbm, nl.private_hbm)
        assert isinstance(x, TENSOR)
        return x[:, 0:5]

    result = kernel(array)
    assert result.dtype == array.dtype
    assert result.tobytes() == array[:, 0:5].tobytes()


@pytest.mark.parametrize("order", ["C", "F", "strided", "swapped"])
def test_arrays_of_any_layout_are_taken_in_c_order(order: str) -> None:
    array = {
        "C": X,
        "F": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=1)[:, ::2],
        "swapped": X.astype(">f4"),
    }[order]
    assert nki.jit(lambda x: x[1:3])(array).tolist() == X[1:3].tolist()


class Color(enum.Enum):
    RED = 1


class Pair(NamedTuple):
    one: Any
    other: Any


@dataclass(frozen=True)
class Config:
    weight: Any
    size: int = 2


class Options(nl.NKIObject):
    bias: Any
    inner: Any


def test_plain_arguments_pass_unchanged() -> None:
    def helper() -> int:
        return 5

    given = (1, 2.5, True, None, "text", Color.RED, helper, np.float32(3), slice(1, 2), {1, 2})

    @nki.jit
    def kernel(*args: Any, **kwargs: Any) -> Any:
        assert all(got is sent for got, sent in zip(args, given, strict=True))
        return kwargs

    assert kernel(*given, a=Color.RED, b=[1, (2, 3)]) == {"a": Color.RED, "b": [1, (2, 3)]}


def test_arrays_inside_containers_become_tensors() -> None:
    @nki.jit
    def kernel(items: Any, table: Any, config: Any, options: Any, pair: Any) -> Any:
        found = [items[0], items[1][0], table["x"], config.weight, options.inner.weight, pair.one]
        assert all(isinstance(item, nl.NkiTensor) for item in found)
        assert (config.size, options.bias, pair.other) == (2, 0.5, 7)
        names = [item.name for item in found]
        return found, names

    config = Config(X + 3)
    options = Options(0.5, Config(X + 4))
    found, names = kernel([X, (X + 1,)], {"x": X + 2}, config, options=options, pair=Pair(X + 5, 7))
    assert [int(array[0, 0]) for array in found] == [0, 1, 2, 3, 4, 5]
    assert names == [
        "items[0]", "items[1][0]", "table['x']", "config.weight", "options.inner.weight", "pair[0]"
    ]  # fmt: skip
    assert isinstance(config.weight, np.ndarray)


def test_element_types_as_values_become_nkis() -> None:
    @nki.jit
    def kernel(*types: Any) -> Any:
        return types

    given = (np.float32, ml_dtypes.bfloat16, np.dtype(np.int8), nl.uint8, np.float64, int)
    assert kernel(*given) == (nl.float32, nl.bfloat16, nl.int8, nl.uint8, np.float64, int)
    assert all(isinstance(item, DType) for item in kernel(*given)[:4])


@pytest.mark.parametrize(
    ("array", "error", "text"),
    [
        (X.astype(np.float64), TypeError, "x has dtype float64.*astype"),
        (np.arange(3), TypeError, "x has dtype int64"),
        (X.astype(np.complex64), TypeError, "x has dtype complex64"),
        (np.array(["a"]), TypeError, "x has dtype <U1"),
        (np.float32(1) * np.ones(()), ValueError, r"x has shape \(\)"),
        (np.zeros((0, 4), np.float32), ValueError, r"x has shape \(0, 4\)"),
    ],
)
def test_arrays_without_a_place_on_the_core_are_refused(array: Any, error: Any, text: str) -> None:
    if array.ndim == 0:
        array = np.asarray(array)
    with pytest.raises(error, match=text):
        nki.jit(identity)(array)


def test_64_bit_arrays_are_narrowed_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRN3_NKI_NARROW64", "1")
    assert nki.jit(lambda x: x[0:1])(X.astype(np.float64)).dtype == np.float32
    assert nki.jit(lambda x: x[0:1])(np.arange(3)).dtype == np.int32


@pytest.mark.parametrize(
    "annotation",
    [nt.tensor[3, 4], "nt.tensor[3, 4]", "nt.tensor['n', 4] | None", nt.tensor["n", 4]],
)
def test_annotations_demand_shapes(annotation: Any) -> None:
    def kernel(x: Any, y: Any) -> Any:
        return x

    kernel.__annotations__ = {"x": annotation, "y": "Unknown[1]", "return": "nt.tensor[9, 9]"}
    assert nki.jit(kernel)(X, X[:2]).shape == (3, 4)
    with pytest.raises(ValueError, match=r"x has shape \(3, 2\); its annotation allows \(.*, 4\)"):
        nki.jit(kernel)(X[:, :2], y=X)


def test_one_array_given_twice_is_one_tensor() -> None:
    @nki.jit
    def kernel(x: Any, y: Any) -> Any:
        assert x is y
        return None

    assert kernel(X, X) is None


# --- results ----------------------------------------------------------------------------------


def test_structure_of_results_is_mirrored() -> None:
    @nki.jit
    def kernel() -> Any:
        return output(1), [output(2), None], {"k": (output(3), 4, "s")}, Pair(output(5), 6)

    one, two, three, pair = kernel()
    assert one.tolist() == [[1, 1], [1, 1]]
    assert isinstance(two, list)
    assert two[1] is None
    assert three["k"][0][0, 0] == 3
    assert three["k"][1:] == (4, "s")
    assert isinstance(pair, Pair)
    assert pair.one[0, 0] == 5


def test_fields_of_results_come_back_as_arrays() -> None:
    @nki.jit
    def kernel() -> Any:
        return Config(output(2), 3), Options(bias=None, inner=[output(4)])

    config, options = kernel()
    assert config.weight.tolist() == [[2, 2], [2, 2]]
    assert (config.size, options.bias) == (3, None)
    assert options.inner[0][0, 0] == 4


def test_views_come_back_in_their_own_shape() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        return x[1], x.permute((1, 0)), x.reshape((2, 6)), x.view(nl.uint16), x[:, 1:4:2]

    row, turned, shaped, bits, stepped = kernel(X)
    np.testing.assert_array_equal(row, X[1])
    np.testing.assert_array_equal(turned, X.T)
    np.testing.assert_array_equal(shaped, X.reshape(2, 6))
    np.testing.assert_array_equal(bits, X.view(np.uint16))
    np.testing.assert_array_equal(stepped, X[:, 1:4:2])


def test_bool_results_stay_bool() -> None:
    result = nki.jit(lambda: output(1, dtype=nl.bool_))()
    assert result.dtype == np.bool_
    assert result.all()


def test_results_on_chip_are_refused() -> None:
    @nki.jit
    def kernel() -> Any:
        return nl.ndarray((2, 2), nl.float32, name="tile")

    with pytest.raises(
        ValueError, match=r"result, `tile`, lies in MemoryRegion.sbuf; allowed: nl.sh"
    ):
        kernel()
    with pytest.raises(TypeError, match=r"result\[0\] is a VirtualRegister"):
        nki.jit(lambda: (nisa.VirtualRegister(1),))()


def test_results_in_private_memory_warn() -> None:
    @nki.jit
    def kernel() -> Any:
        return overwrite(nl.ndarray((1, 1), nl.float32, buffer=nl.private_hbm, name="own"))

    with pytest.warns(UserWarning, match="result, `own`, lies in nl.private_hbm"):
        assert kernel().tolist() == [[9.0]]


@pytest.mark.parametrize(
    "launch",
    [
        lambda kernel: kernel(),
        lambda kernel: nki.profile(kernel)[0],
        lambda kernel: nki.simulate_ranks(kernel, [()]),
        lambda kernel: nki.spmd(kernel, 1)([()]),
    ],
)
def test_a_warning_of_a_launch_names_the_callers_line(launch: Callable[[nki.Kernel], Any]) -> None:
    """However deep in trn3 the launch is, and however deep in the result what it warns of."""

    @nki.jit
    def kernel() -> Any:
        out = nl.ndarray((1, 1), nl.float32, buffer=nl.private_hbm, name="own")
        return {"results": [overwrite(out)]}

    with pytest.warns(UserWarning, match="`own`, lies in nl.private_hbm") as seen:
        launch(kernel)
    code = launch.__code__
    assert [(each.filename, each.lineno) for each in seen] == [
        (code.co_filename, code.co_firstlineno)
    ]


def test_results_that_nothing_was_written_to_are_nan() -> None:
    result = nki.jit(lambda: nl.ndarray((2,), nl.float32, buffer=nl.shared_hbm))()
    assert np.isnan(result).all()


# --- in place ---------------------------------------------------------------------------------


def written(x: Any) -> Any:
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.memset(tile, 9.0)
    nisa.dma_copy(x, tile)
    return x


@pytest.mark.parametrize("kind", ["C", "F", "strided", "swapped"])
def test_writes_show_in_the_callers_array(kind: str) -> None:
    backing = np.repeat(X, 2, axis=1)
    array = {
        "C": X.copy(),
        "F": np.asfortranarray(X.copy()),
        "strided": backing[:, ::2],
        "swapped": X.astype(">f4"),
    }[kind]
    result = nki.jit(written)(array)
    assert result is array
    assert (array == 9).all()
    if kind == "strided":
        np.testing.assert_array_equal(backing[:, 1::2], X)


def test_writes_to_a_read_only_array_show_in_the_result_alone() -> None:
    array = X.copy()
    array.flags.writeable = False
    result = nki.jit(written)(array)
    assert (result == 9).all()
    np.testing.assert_array_equal(array, X)


def test_unwritten_inputs_are_returned_as_they_are() -> None:
    assert nki.jit(identity)(X) is X


def test_the_harness_suffix_is_stripped() -> None:
    array = X.copy()
    nki.jit(written)(**{"x.must_alias_input": array})
    assert (array == 9).all()


def test_a_failing_kernel_leaves_arrays_alone() -> None:
    array = X.copy()

    @nki.jit
    def kernel(x: Any) -> Any:
        written(x)
        raise KeyError(x.shape)

    with pytest.raises(KeyError):
        kernel(array)
    np.testing.assert_array_equal(array, X)
