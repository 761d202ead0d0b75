"""Kernels: what decorators make, how they are launched, what an error leaves behind, schedules."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.core import get, put, run
from support.launched import X, identity, output
from trn3 import nki
from trn3.nki.ranks.context import core, slot

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
    for circle in ([("first", "third"), ("third", "first")], [("second", "second")]):
        with pytest.raises(ValueError, match=r"wait for each other: (first|second) for"):
            nki.jit(chain).with_schedule(circle)()
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
