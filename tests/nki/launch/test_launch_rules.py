"""Kernels: brackets, arguments, results, schedules."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import typing
import warnings
from typing import Any

import numpy as np
import pytest

import trn3.nki.isa as nisa
import trn3.nki.language as nl
import trn3.nki.typing as nt
from trn3 import nki
from trn3.nki.collectives import ReplicaGroup
from trn3.nki.values import neuron_dtypes as dt

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def copied(x: Any) -> Any:
    """Copy an array."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(out, x)
    return out


def written(x: Any) -> Any:
    tile = nl.ndarray(x.shape, x.dtype)
    nisa.memset(tile, value=7.0)
    nisa.dma_copy(x, tile)
    return x


def test_jit_in_every_form() -> None:
    options = {"mode": "trace", "debug_kernel": True, "experimental_flags": "x", "unknown": 3}
    for kernel in (nki.jit(copied), nki.jit(**options)(copied), nki.jit(platform_target="trn2")):
        made = kernel if isinstance(kernel, nki.Kernel) else kernel(copied)
        assert np.array_equal(made(X), X)
        assert (made.__name__, made.__doc__) == ("copied", "Copy an array.")
        assert list(inspect.signature(made).parameters) == ["x"]
        assert "nl.ndarray" in inspect.getsource(made)


@pytest.mark.parametrize("brackets", [1, 2, (1,), (2,), np.int64(2)])
def test_brackets(brackets: Any) -> None:
    axes: list[int] = []

    @nki.jit
    def kernel(x: Any) -> Any:
        axes.append(nl.program_ndim())
        return copied(x)

    assert np.array_equal(kernel[brackets](X), X)
    assert set(axes) == {1}
    with pytest.raises(ValueError, match="at most 2"):
        kernel[3](X)


@pytest.mark.parametrize(
    ("outer", "inner"), [(None, None), (None, 1), (1, None), (1, 1), (2, None), (2, 2)]
)
def test_kernels_inside_run_on_the_cores_there_are(outer: Any, inner: Any) -> None:
    seen: list[int] = []
    sub = nki.jit(lambda x: (seen.append(nl.num_programs()), x.shape)[1])

    @nki.jit
    def kernel(x: Any) -> Any:
        assert (sub[inner] if inner else sub)(x) == (2, 3)
        return x

    (kernel[outer] if outer else kernel)(X.copy())
    assert seen == [outer or 1] * (outer or 1)


class Mode(enum.Enum):
    FAST = 1


@dataclasses.dataclass
class Config(nl.NKIObject):
    weight: Any
    rows: int = 3
    mode: Mode = Mode.FAST


@dataclasses.dataclass(frozen=True)
class Frozen(nl.NKIObject):
    weight: Any = None
    dtype: Any = nl.bfloat16


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    weight: Any


class Pair(typing.NamedTuple):
    weight: Any
    count: int


def test_arguments_of_every_kind() -> None:
    @nki.jit
    def kernel(x: Any, config: Any, frozen: Any, slotted: Any, pair: Any, nested: Any, **rest: Any):
        for tensor in (
            x, config.weight, frozen.weight, slotted.weight, pair.weight, nested["a"][0],
            nested["b"].weight,
        ):  # fmt: skip
            assert isinstance(tensor, nl.ndarray)
            assert tensor.buffer in (nl.hbm, nl.shared_hbm, nl.private_hbm)
        assert (config.rows, config.mode, pair.count) == (3, Mode.FAST, 4)
        assert isinstance(hash(config), int)
        assert type(pair) is Pair
        assert rest == {
            "none": None, "text": "s", "flag": True, "shape": (1, (2, 3)), "mode": Mode.FAST,
            "dtype": nl.float16, "group": rest["group"],
        }  # fmt: skip
        assert isinstance(rest["group"], ReplicaGroup)
        return x

    def y() -> Any:
        return X.copy()

    result = kernel(
        X, Config(y()), Frozen(y()), Slotted(y()), Pair(y(), 4), {"a": (y(),), "b": Config(y())},
        none=None, text="s", flag=True, shape=(1, (2, 3)), mode=Mode.FAST,
        dtype=np.dtype("float16"), group=ReplicaGroup([[0]]),
    )  # fmt: skip
    assert result is X
    assert len({Frozen(), Frozen()}) == 1
    assert dataclasses.replace(Frozen(), dtype=nl.float32).dtype is nl.float32


def test_aliased_and_read_only_inputs() -> None:
    @nki.jit
    def kernel(x: Any, cache: Any) -> Any:
        return written(cache)

    cache = np.zeros((2, 3), np.float32)
    kernel(**{"x": X, "cache.must_alias_input": cache})
    assert (cache == 7).all()
    fixed = X.copy()
    fixed.flags.writeable = False
    assert (nki.jit(written)(fixed) == 7).all()
    assert np.array_equal(fixed, X)
    strided = np.zeros((6, 6), np.float32)
    nki.jit(written)(strided[::2, ::3])
    assert strided.sum() == 7 * 6
    twice = np.zeros((2, 3), np.float32)
    assert (nki.jit(lambda a, b: (written(a), b)[1])(twice, twice) == 7).all()


def test_results_keep_their_structure() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        a = copied(x)
        return {"a": a, "b": (a[:, 1:3], [a.permute((1, 0)), {"c": x}]), "n": None, "i": 3}

    result = kernel(X)
    assert np.array_equal(result["a"], X)
    assert np.array_equal(result["b"][0], X[:, 1:3])
    assert np.array_equal(result["b"][1][0], X.T)
    assert result["b"][1][1]["c"] is X
    assert (result["n"], result["i"]) == (None, 3)
    packed = dt.static_cast(np.array([[1, 2, -0.5, 4]], np.float32), dt.float4_e2m1fn_x4)
    again = nki.jit(copied)(packed)
    assert again.dtype == packed.dtype
    assert again.tobytes() == packed.tobytes()
    assert nki.jit(copied)(X > 2).dtype == np.bool_


def test_arrays_without_a_type_of_the_hardware_are_named() -> None:
    for dtype in (np.float64, np.int64, np.complex64):
        with pytest.raises(TypeError, match=r"^x has dtype"):
            nki.jit(copied)(X.astype(dtype))
    for array in (np.zeros(()), np.zeros((0, 3))):
        with pytest.raises(ValueError, match=r"^x has shape"):
            nki.jit(copied)(array.astype(np.float32))

    def annotated(x: nt.tensor[2, 4]) -> Any:  # type: ignore[valid-type]
        return x

    with pytest.raises(ValueError, match="x has shape"):
        nki.jit(annotated)(X)


def test_lnc_of_the_runtime_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = nki.jit(copied)
    for configured, brackets, expected in (("1", 2, 1), ("2", 1, 1), ("2", 2, 0)):
        monkeypatch.setenv("NEURON_LOGICAL_NC_CONFIG", configured)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            kernel[brackets](X)
        assert len(caught) == expected


def memsets(*names: str) -> None:
    for name in names:
        nisa.memset(nl.ndarray((2, 2), nl.float32), value=0.0, name=name)


def scheduled(body: Any, edges: Any) -> None:
    def kernel(x: Any) -> Any:
        body()
        return x

    nki.jit(kernel).with_schedule(edges)(X)


def test_schedule_joins_instructions_of_one_loop_body() -> None:
    def nested() -> None:
        for _ in nl.dynamic_range(2):
            for _ in nl.dynamic_range(2):
                memsets("a", "b")

    def called() -> None:
        nl.fori_loop(0, 2, lambda _: memsets("a", "b"))

    for body in (nested, called, lambda: memsets("a", "b")):
        scheduled(body, [("b", "a"), ("b", ["a"])])
        scheduled(body, [("a", "b")])


def test_schedule_across_dynamic_loops_is_refused() -> None:
    def into() -> None:
        memsets("a")
        nl.fori_loop(0, 2, lambda _: memsets("b"))

    def out() -> None:
        for _ in nl.dynamic_range(2):
            memsets("a")
        memsets("b")

    def stop(_: Any) -> Any:
        memsets("a")
        return nisa.register_alloc(0)

    def repeated() -> None:
        nl.while_loop(nisa.register_alloc(1), stop)
        memsets("b")

    for body in (into, out, repeated):
        with pytest.raises(ValueError, match="b wait for a, which stands in another dynamic loop"):
            scheduled(body, [("b", "a")])
    with pytest.raises(ValueError, match="names zz"):
        scheduled(into, [("b", "zz")])
