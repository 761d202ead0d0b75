"""Scalars and kinds of dependency of NKI 0.7, and what went with it."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

from trn3 import nki
from trn3.nki import isa as nisa, language as nl

X = np.arange(64, dtype=np.float32).reshape(8, 8)


@nki.jit
def every_second(x: Any, count: Any) -> Any:
    out = nl.ndarray((4, 8), x.dtype, buffer=nl.shared_hbm)

    def body(i: Any) -> None:
        nisa.dma_copy(dst=out[nl.ds(i, 1)], src=x[nl.ds(i * 2 + 1, 1)])

    nl.fori_loop(0, nisa.scalar_load(count), body)
    return out


@pytest.mark.parametrize("version", ["0.6", "0.7"])
def test_scalars_bound_loops_and_address_rows(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRN3_NKI_VERSION", version)
    assert np.array_equal(every_second(X, np.array([[4]], np.int32)), X[1::2])


def test_scalar_is_a_scalar_offset() -> None:
    @nki.jit
    def row(x: Any, index: Any) -> Any:
        out = nl.ndarray((1, 8), x.dtype, buffer=nl.shared_hbm)
        at = 3 - nisa.scalar_load(index)
        nisa.dma_copy(dst=out, src=x.ap([[8, 1], [1, 8]], scalar_offset=at))
        return out

    assert np.array_equal(row(X, np.array([[1]], np.int32)), X[2:3])


def test_loop_index_follows_the_version(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[type] = []

    @nki.jit
    def kernel(x: Any) -> Any:
        nl.fori_loop(0, 1, lambda i: kinds.append(type(i)))
        nl.fori_loop(0, nisa.register_alloc(1), lambda i: kinds.append(type(i)))
        nl.fori_loop(0, nisa.NkiScalar(1), lambda i: kinds.append(type(i)))
        return x

    for version in ("0.6", "0.7"):
        monkeypatch.setenv("TRN3_NKI_VERSION", version)
        kernel(X)
    register, scalar = nisa.VirtualRegister, nisa.NkiScalar
    assert kinds == [register, register, scalar, scalar, register, scalar]


def test_scalars_wrap_at_32_bits() -> None:
    found: list[Any] = []

    @nki.jit
    def kernel(x: Any) -> Any:
        scalar = nisa.NkiScalar(100000)
        found.extend((scalar * scalar, nisa.NkiScalar(2**31 - 1) + 1, -scalar, +scalar))
        return x

    _, profile = nki.profile(kernel, X)
    assert [each.state for each in found] == [1410065408, -(2**31), -100000, 100000]
    assert repr(found[2]) == "NkiScalar(-100000)"
    assert len(profile.data.instructions.start_ps) == 4


def test_what_a_scalar_is_not() -> None:
    scalar = nisa.NkiScalar(3, dtype=nl.int32)
    assert scalar.dtype == nl.int32
    assert (scalar == 3).is_comparison
    with pytest.raises(TypeError, match="an NkiScalar has no value while a kernel is traced"):
        bool(scalar)
    with pytest.raises(TypeError, match="has no value while a kernel is compiled"):
        int(scalar)
    with pytest.raises(TypeError, match=r"NkiScalar dtype is int64; allowed: int32"):
        nisa.NkiScalar(3, dtype="int64")
    with pytest.raises(TypeError, match="unsupported operand"):
        scalar + 1.5  # type: ignore[operator]
    with pytest.raises(TypeError, match="arithmetic with the result of a comparison"):
        (scalar < 4) + 1


def test_dynamic_loops_are_gone_with_0_7(monkeypatch: pytest.MonkeyPatch) -> None:
    @nki.jit
    def ranged(x: Any) -> Any:
        for _ in nl.dynamic_range(2):
            pass
        return x

    @nki.jit
    def looped(x: Any) -> Any:
        register = nisa.register_alloc(1)
        while register:
            nisa.register_move(register, 0)
        return x

    @nki.jit
    def replaced(x: Any) -> Any:
        def body(register: Any) -> Any:
            nisa.register_move(register, 0)
            return register

        nl.while_loop(nisa.register_alloc(1), body)
        return x

    for kernel in (ranged, looped, replaced):
        assert np.array_equal(kernel(X), X)
    monkeypatch.setenv("TRN3_NKI_VERSION", "0.7")
    text = (
        "nki.language has no dynamic_range from NKI 0.7 on; write nl.fori_loop(start, stop, body)"
    )
    with pytest.raises(AttributeError, match=re.escape(text)):
        ranged(X)
    with pytest.raises(TypeError, match=re.escape("write nl.while_loop(register, body)")):
        looped(X)
    assert np.array_equal(replaced(X), X)


def ordered(kind: Any) -> nki.Kernel:
    @nki.jit
    def kernel(x: Any) -> Any:
        first = nl.ndarray((128, 2048), nl.float32, buffer=nl.sbuf)
        second = nl.ndarray((128, 8), nl.float32, buffer=nl.sbuf)
        long = nisa.memset(first, 1.0, engine=nisa.gpsimd_engine)
        options = {} if kind is None else {"kind": kind}
        nisa.memset(second, 2.0, engine=nisa.vector_engine).depends_on(long, **options)
        return x

    return kernel


def test_a_runtime_dependency_waits_and_a_scheduled_one_does_not() -> None:
    times = {
        kind: nki.profile(ordered(kind), X)[1].latency_us
        for kind in (None, nisa.dependency.runtime, nisa.dependency.schedule)
    }
    assert times[None] == times[nisa.dependency.runtime] > times[nisa.dependency.schedule]


def test_dependencies_are_checked() -> None:
    text = (
        "depends_on kind is 'runtime'; allowed: nisa.dependency.runtime, nisa.dependency.schedule"
    )
    with pytest.raises(TypeError, match=re.escape(text)):
        ordered("runtime")(X)
    with pytest.raises(TypeError, match=r"with_schedule kind is 1; allowed: nisa\.dependency"):
        ordered(None).with_schedule([("a", "b")], kind=1)  # type: ignore[arg-type]

    @nki.jit
    def backwards(x: Any) -> Any:
        tile = nl.ndarray((128, 8), nl.float32, buffer=nl.sbuf)
        first = nisa.memset(tile, 1.0)
        first.depends_on(nisa.memset(tile, 2.0), kind=nisa.dependency.schedule)
        return x

    with pytest.raises(ValueError, match="cannot depend on 1, which comes no earlier"):
        backwards(X)


def test_dependencies_without_a_kind_are_deprecated_with_0_7(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ordered(None)(X)
        monkeypatch.setenv("TRN3_NKI_VERSION", "0.7")
        ordered(nisa.dependency.runtime)(X)
    with pytest.warns(DeprecationWarning, match=r"depends_on without kind=; allowed: nisa\.depend"):
        ordered(None)(X)


def test_a_schedule_of_hints_keeps_the_time() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        first = nl.ndarray((128, 2048), nl.float32, buffer=nl.sbuf)
        second = nl.ndarray((128, 8), nl.float32, buffer=nl.sbuf)
        nisa.memset(first, 1.0, engine=nisa.gpsimd_engine, name="long")
        nisa.memset(second, 2.0, engine=nisa.vector_engine, name="short")
        return x

    def latency(one: nki.Kernel) -> float:
        return nki.profile(one, X)[1].latency_us

    edges = [("short", "long")]
    hinted = kernel.with_schedule(edges, kind=nisa.dependency.schedule)
    assert latency(kernel.with_schedule(edges, kind=nisa.dependency.runtime)) > latency(kernel)
    assert latency(hinted) == latency(kernel)


def test_axis_1_of_0_2_is_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(128 * 6, dtype=np.float32).reshape(128, 2, 3)

    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((128, 2), x.dtype, buffer=nl.shared_hbm)
        total = nl.ndarray((128, 2), x.dtype, buffer=nl.sbuf)
        nisa.tensor_reduce(total, nl.add, nl.load(x), axis=1)
        nl.store(out, total)
        return out

    monkeypatch.setenv("TRN3_NKI_VERSION", "0.2")
    assert np.array_equal(kernel(values), values.sum(axis=2))
    monkeypatch.setenv("TRN3_NKI_VERSION", "0.3")
    with pytest.raises(nisa.NkiValidationError):
        kernel(values)


def kept_for(make: Any, use: Any) -> tuple[nki.Kernel, nki.Kernel]:
    kept: list[Any] = []

    @nki.jit
    def maker(x: Any) -> Any:
        kept.append(make(x))
        return x

    @nki.jit
    def user(x: Any) -> Any:
        use(x, kept[0])
        return x

    return maker, user


def named_register(x: Any) -> Any:
    kept_row = nisa.register_alloc(3)
    nisa.register_move(kept_row, 2)
    return kept_row


def loop_register(x: Any) -> Any:
    first = []
    for kept_row in nl.dynamic_range(2):
        nl.load(x[nl.ds(kept_row, 1)])
        first = first or [kept_row]
    return first[0]


def loaded_scalar(x: Any) -> Any:
    kept_row = nisa.scalar_load(shared_index())
    nl.load(x[nl.ds(kept_row, 1)])
    return kept_row


def shared_index() -> Any:
    index = nl.ndarray((1, 1), nl.int32, buffer=nl.sbuf)
    nisa.memset(index, 1)
    return index


USES = {
    "offset": lambda x, row: nl.load(x[nl.ds(row, 1)]),
    "index": lambda x, row: nl.load(x[row]),
    "move": lambda x, row: nisa.register_move(nisa.register_alloc(), row),
    "store": lambda x, row: nisa.register_store(shared_index(), row),
    "bound": lambda x, row: nl.fori_loop(0, row, lambda i: None),
    "iota": lambda x, row: nisa.iota(
        nl.ndarray((1, 4), nl.int32, buffer=nl.sbuf), [[1, 4]], offset=row
    ),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("make", [named_register, loop_register, loaded_scalar])
def test_a_register_of_an_earlier_launch_is_refused_by_name_and_line(make: Any, use: Any) -> None:
    maker, user = kept_for(make, use)
    maker(X)
    text = "register `kept_row` was made in another launch, or on another core; registers end with"
    with pytest.raises(ValueError, match=re.escape(text)) as caught:
        user(X)
    said = "\n".join((str(caught.value), *getattr(caught.value, "__notes__", ())))
    assert re.search(rf"{re.escape(__file__)}:\d+", said)


def test_a_register_that_no_kernel_wrote_is_anybodys() -> None:
    constant = nisa.VirtualRegister(2)

    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((1, 8), x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x[nl.ds(constant, 1)]))
        return out

    for _ in range(2):
        assert np.array_equal(kernel(X), X[2:3])
