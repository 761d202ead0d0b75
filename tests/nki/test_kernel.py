"""Kernels: what goes in, what comes out, what an error leaves behind."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import trn3.nki.isa as nisa
import trn3.nki.language as nl
import trn3.nki.typing as nt
from support.core import get, put, run
from trn3 import nki
from trn3.nki.ranks.context import core, slot
from trn3.nki.values.element_types import ALL, DType

TENSOR: Any = nl.ndarray  # a function to type checkers
X = np.arange(12, dtype=np.float32).reshape(3, 4)


def identity(x: Any) -> Any:
    return x


def overwrite(x: Any, value: float = 9.0) -> Any:
    """Write to an HBM tensor without DMA."""
    from trn3.machine.core import NeuronCore  # noqa: F401

    dtype = x.dtype.dtype
    core().write_bytes(x, np.full(x.shape, value, dtype).reshape(-1).view(np.uint8))
    return x


# --- decorating -------------------------------------------------------------------------------


def documented(x: Any, scale: float = 1.0, *, flag: bool = False) -> Any:
    """Say something."""
    return x


@pytest.mark.parametrize(
    "decorate",
    [
        nki.jit,
        nki.jit(),
        nki.jit(mode="trace", debug_kernel=True, experimental_flags="x", show_compiler_tb=1),
        lambda f: nki.jit(f, additional_compile_opt="-O1"),
        lambda f: nki.jit(nki.jit(f)),
    ],
)
def test_jit_keeps_the_function_as_it_was(decorate: Callable[..., nki.Kernel]) -> None:
    kernel = decorate(documented)
    assert isinstance(kernel, nki.Kernel)
    assert kernel.__name__ == "documented"
    assert kernel.__doc__ == "Say something."
    assert kernel.__wrapped__ is documented
    assert inspect.signature(kernel) == inspect.signature(documented)
    assert "Say something." in inspect.getsource(kernel.__wrapped__)
    assert kernel(X).tolist() == X.tolist()
    assert "documented" in repr(kernel)


def test_jit_refuses_an_unknown_platform_target() -> None:
    with pytest.raises(ValueError, match=r"platform_target is 'trn9'; allowed: trn1, inf2"):
        nki.jit(platform_target="trn9")(identity)


def test_jit_works_on_methods() -> None:
    class Owner:
        factor = 3

        @nki.jit
        def kernel(self, x: Any) -> Any:
            return self.factor, x

    assert Owner().kernel(X)[0] == 3


def test_kernel_called_by_a_kernel_is_the_plain_function() -> None:
    inner = nki.jit(lambda x: (nl.program_ndim(), x))

    @nki.jit
    def outer(x: Any) -> Any:
        depth, same = inner(x)
        subscripted = inner[1](x)[0]
        simulated = nki.simulate(inner)(x)[0]
        assert same is x
        return depth, subscripted, simulated

    assert outer[1](X) == (1, 1, 1)
    assert outer(X) == (0, 0, 0)


def test_simulate_takes_kernels_and_functions() -> None:
    for kernel in (identity, nki.jit(identity), nki.jit(identity)[1]):
        assert nki.simulate(kernel)(X).tolist() == X.tolist()
        assert nki.cpu_simulate(kernel)[1](x=X).tolist() == X.tolist()
    wrong: Any = 3
    with pytest.raises(TypeError, match="kernel is of type int"):
        nki.simulate(wrong)


# --- launching --------------------------------------------------------------------------------


@pytest.mark.parametrize("lnc", [None, 1, (1,)])
def test_program_queries_follow_the_launch(lnc: Any) -> None:
    @nki.jit
    def kernel() -> Any:
        return nl.program_ndim(), nl.program_id(0), nl.num_programs(axes=0), nl.num_programs(None)

    assert (kernel if lnc is None else kernel[lnc])() == (0 if lnc is None else 1, 0, 1, 1)


@pytest.mark.parametrize(
    ("lnc", "target"),
    [(3, "trn3"), (2, "trn1"), (nl.nc(4), "trn2"), ((nl.nc(2), nl.nc(2)), "trn2")],
)
def test_more_cores_than_a_logical_core_has_are_refused(lnc: Any, target: str) -> None:
    kernel = nki.jit(platform_target=target)(identity)[lnc]
    with pytest.raises(ValueError, match=rf"identity\[.*\].* of {target} has at most [12] cores"):
        kernel(X)


@pytest.mark.parametrize("lnc", [0, -1, "2", 1.0, ()])
def test_brackets_take_numbers_of_cores_alone(lnc: Any) -> None:
    with pytest.raises(TypeError, match="allowed in brackets"):
        nki.jit(identity)[lnc]


def test_target_is_read_at_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    @nki.jit
    def kernel() -> Any:
        return nisa.get_nc_version()

    pinned = nki.jit(kernel, platform_target="trn1")
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    monkeypatch.delenv("NKI_NC_VERSION", raising=False)
    assert kernel() is nisa.nc_version.gen4
    monkeypatch.setenv("NKI_NC_VERSION", "2")
    assert kernel() is nisa.nc_version.gen2
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn2")
    assert kernel() is nisa.nc_version.gen3
    assert pinned() is nisa.nc_version.gen2
    assert nisa.get_nc_version() is nisa.nc_version.gen3
    monkeypatch.setenv("NEURON_PLATFORM_TARGET_OVERRIDE", "trn7")
    with pytest.raises(ValueError, match="NEURON_PLATFORM_TARGET_OVERRIDE is 'trn7'"):
        kernel()


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


def output(value: float, shape: tuple[int, ...] = (2, 2), dtype: Any = nl.float32) -> Any:
    out = nl.ndarray(shape, dtype, buffer=nl.shared_hbm)
    return overwrite(out, value)


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


# --- errors -----------------------------------------------------------------------------------


def test_errors_leave_no_state_behind() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        assert x.shape == (1, 1), "[NCC_INKI016] Kernel validation exception: shape"

    with pytest.raises(
        AssertionError, match=r"^\[NCC_INKI016\] Kernel validation exception: shape"
    ):
        kernel(X)
    assert slot.context is None
    assert slot.core is None
    with pytest.raises(RuntimeError, match="no kernel runs on this thread"):
        nl.ndarray((1, 1), nl.float32)


def test_machine_errors_name_the_kernels_line() -> None:
    def kernel(x: Any) -> Any:
        nisa.memset(x, 1.0)

    line = inspect.getsourcelines(kernel)[1] + 1
    with pytest.raises(nisa.NkiValidationError, match=rf"test_kernel.py:{line}: memset dst"):
        nki.jit(kernel)(X)


def test_other_errors_carry_the_line_as_a_note() -> None:
    def kernel(x: Any) -> Any:
        return x[5]

    line = inspect.getsourcelines(kernel)[1] + 1
    with pytest.raises(IndexError, match="index 5 exceed dimension size of 3") as caught:
        nki.jit(kernel)(X)
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", []))
    assert f"test_kernel.py:{line}" in text


def test_one_kernel_takes_other_shapes_at_the_next_call() -> None:
    kernel = nki.jit(lambda x: x[0:1])
    for shape in ((3, 4), (5, 2), (1, 1), (2, 3, 4)):
        array: NDArray[np.float32] = np.ones(shape, np.float32)
        assert kernel(array).shape == (1, *shape[1:])


def test_kernels_run_on_threads_of_their_own() -> None:
    import threading

    found: list[Any] = []

    def work(value: float) -> None:
        found.append(nki.jit(lambda: output(value))()[0, 0])

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0.0, 1.0, 2.0, 3.0]


def test_values_are_those_of_the_host() -> None:
    assert run(lambda: get(put(X)).tolist()) == X.tolist()


# --- schedules and profiles -------------------------------------------------------------------


def chain() -> None:
    for i, name in enumerate(("first", "second", "third")):
        tile = nl.ndarray((128, 512), nl.float32, name=f"tile{i}")
        engine = nisa.gpsimd_engine if i == 0 else nisa.vector_engine
        nisa.memset(tile, 0.0, engine=engine, name=name)


def test_with_schedule_orders_instructions_in_time() -> None:
    free = nki.profile(chain)[1].data.instructions
    kernel = nki.jit(chain).with_schedule([("third", ["first"]), ("second", "first")])
    held = nki.profile(kernel)[1].data.instructions
    assert free.start_ps[1] < free.end_ps[0]
    assert held.start_ps[1] >= held.end_ps[0]
    assert held.start_ps[2] >= held.end_ps[0]


def test_with_schedule_refuses_what_no_instruction_is_called() -> None:
    kernel = nki.jit(chain).with_schedule([("third", ["nowhere", "second"]), ("none", "first")])
    with pytest.raises(ValueError, match="with_schedule names none, nowhere"):
        kernel()
    wrong: Any = [("a",)]
    with pytest.raises(TypeError, match="with_schedule edge is"):
        nki.jit(chain).with_schedule(wrong)


def test_profile_returns_result_and_figures() -> None:
    def kernel(x: Any, value: float) -> Any:
        chain()
        return x, value

    result, profile = nki.profile(kernel, X, value=3.0)
    assert result[0] is X
    assert result[1] == 3.0
    assert profile.data.kernel == "kernel"
    assert list(profile.data.opcodes) == ["memset"]
    assert profile.latency_us > 0
    names = {site[2] for site in profile.data.sites}
    assert "chain" in names


def test_profile_without_values_returns_none_and_keeps_the_time() -> None:
    def kernel(x: Any, index: Any) -> Any:
        tile = nl.ndarray((128, 512), nl.float32)
        nisa.memset(tile, 1.0)
        nisa.tensor_copy(tile[:, 0:256], tile[:, 256:512])
        assert not core().is_initialised(x)
        assert core().is_initialised(index)
        return x

    index = np.zeros((4,), np.int32)
    result, profile = nki.profile(kernel, X, index, values=False)
    assert result is None

    def with_values(x: Any, index: Any) -> Any:
        tile = nl.ndarray((128, 512), nl.float32)
        nisa.memset(tile, 1.0)
        nisa.tensor_copy(tile[:, 0:256], tile[:, 256:512])

    assert profile.latency_us == nki.profile(with_values, X, index)[1].latency_us


def test_profile_on_another_machine() -> None:
    times = {arch: nki.profile(chain, arch=arch)[1].latency_us for arch in ("trn2", "gen4")}
    assert times["trn2"] != times["gen4"]
    with pytest.raises(ValueError, match="arch is 'trn5'"):
        nki.profile(chain, arch="trn5")


def test_strict_refuses_reads_before_writes() -> None:
    def kernel() -> None:
        one, other = (nl.ndarray((4, 4), nl.float32) for _ in range(2))
        nisa.tensor_copy(one, other)

    _, profile = nki.profile(kernel)
    assert profile.data.findings
    from trn3.machine import UninitializedReadError

    with pytest.raises(UninitializedReadError, match=r"test_kernel.py"):
        nki.profile(kernel, strict=True)
