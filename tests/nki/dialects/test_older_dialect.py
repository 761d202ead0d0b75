"""NKI 0.2 under the modern names: explicit destinations, strings, numbers, runners of devices."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trn3.nki.collectives as ncc
import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki
from trn3.nki.launch.profiling import BenchmarkKernel

X = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)


def _on_tile(body: Callable[[Any, Any], None], **options: Any) -> Any:
    """Return what a body makes of a tile of `X` in a destination of zeros."""

    @nki.jit(platform_target="trn2", debug_kernel=True, show_compiler_tb=True, **options)
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer="shared_hbm")
        tile = nl.ndarray(x.shape, dtype=x.dtype, buffer="sbuf")
        result = nl.zeros(shape=(nl.par_dim(128), 64), dtype="float32", buffer="sbuf")
        nisa.dma_copy(dst=tile, src=x)
        body(result, tile)
        nisa.dma_copy(dst=out, src=result)
        return out

    return kernel(X)


def test_buffers_are_strings() -> None:
    def body(dst: Any, tile: Any) -> None:
        product = nl.ndarray((64, 64), nl.float32, buffer="psum")
        nisa.nc_matmul(dst=product, stationary=tile, moving=tile)
        nisa.tensor_copy(dst=dst[0:64], src=product, dtype=nl.float32)

    got = _on_tile(body)
    np.testing.assert_allclose(got[:64], X.T @ X, rtol=1e-4, atol=1e-4)
    assert not got[64:].any()


def test_the_tile_decides_the_type_of_a_copy() -> None:
    got = _on_tile(lambda dst, tile: nisa.tensor_copy(dst=dst, src=tile, dtype=nl.bfloat16))
    np.testing.assert_array_equal(got, X)


@pytest.mark.parametrize("engine", [0, 2, 3, 5, "vector", nisa.vector_engine])
def test_engines_are_numbers(engine: Any) -> None:
    assert np.array_equal(_on_tile(lambda dst, x: nisa.tensor_copy(dst, x, engine=engine)), X)


def test_commands_and_modes_are_numbers() -> None:
    def body(dst: Any, tile: Any) -> None:
        total = nl.ndarray((128, 1), nl.float32)
        nisa.activation(
            dst=dst, op=np.exp, data=tile, reduce_op=np.add, reduce_res=total, reduce_cmd=3
        )
        nisa.dma_copy(dst=dst[:, 0:1], src=total, dge_mode=0, oob_mode=0)

    np.testing.assert_allclose(_on_tile(body)[:, 0], np.exp(X).sum(1), rtol=1e-4)


def test_copies_that_add() -> None:
    def body(dst: Any, tile: Any) -> None:
        nisa.dma_copy(dst=dst, src=tile, dst_rmw_op=nl.add, unique_indices=True)
        nisa.dma_copy(dst=dst, src=tile, dst_rmw_op=np.add)

    np.testing.assert_allclose(_on_tile(body), 2 * X, rtol=1e-6)


def test_dynamic_copies_have_names_of_their_own() -> None:
    def body(dst: Any, tile: Any) -> None:
        place = nl.ndarray((1, 1), nl.int32)
        nisa.memset(place, value=8)
        part = tile.ap([[64, 128], [1, 16]], scalar_offset=place, indirect_dim=1)
        nisa.tensor_copy_dynamic_src(dst=dst[:, 0:16], src=part)
        whole = dst.ap([[64, 128], [1, 16]], offset=16, scalar_offset=place, indirect_dim=1)
        nisa.tensor_copy_dynamic_dst(dst=whole, src=tile[:, 0:16])

    got = _on_tile(body)
    assert np.array_equal(got[:, :16], X[:, 8:24])
    assert np.array_equal(got[:, 24:40], X[:, :16])


def test_registers_take_immediates() -> None:
    def body(dst: Any, tile: Any) -> None:
        register = nisa.register_alloc()
        nisa.register_move(dst=register, imm=3)
        count = nisa.register_alloc(0)
        nisa.register_move(count, register)
        for _ in nl.dynamic_range(count):
            nisa.tensor_tensor(dst, dst, tile, op=nl.add)

    np.testing.assert_allclose(_on_tile(body), 3 * X, rtol=1e-5)


def test_fills_are_converted_where_they_fit() -> None:
    def body(dst: Any, tile: Any) -> None:
        numbers = nl.ndarray((128, 64), nl.int32)
        nisa.memset(numbers, 2.0)
        nisa.memset(dst, value=1)
        nisa.tensor_tensor(dst=dst, data1=numbers, data2=dst, op=np.add)

    assert (_on_tile(body) == 3).all()


def test_transfers_between_cores_name_their_engine_by_truth() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        mine, other = (nl.ndarray((64, 64), x.dtype, buffer=nl.sbuf) for _ in range(2))
        core = nl.program_id(0)
        nisa.dma_copy(dst=mine, src=x[core * 64 : core * 64 + 64])
        for engine in (True, False):
            nisa.sendrecv(
                src=mine, dst=other, send_to_rank=1 - core, recv_from_rank=1 - core, pipe_id=0,
                use_gpsimd_dma=engine,
            )  # fmt: skip
        nisa.dma_copy(dst=out[core * 64 : core * 64 + 64], src=other)
        return out

    assert np.array_equal(kernel[2](X), np.concatenate([X[64:], X[:64]]))


def test_collectives_take_channels() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        one = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="one")
        other = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm, name="other")
        nisa.dma_copy(dst=one, src=x)
        groups = ncc.ReplicaGroup([[0]])
        ncc.all_reduce([one], [other], replica_group=groups, op=nl.add, num_channels=2)
        return other

    assert np.array_equal(kernel(X), X)


def _copied(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


@pytest.mark.parametrize(
    "decorate",
    [
        nki.baremetal, nki.baremetal(), nki.baremetal(platform_target="trn2"), nki.trace,
        nki.baremetal(save_neff_name="a.neff", additional_compile_opt="-O1"), nki.jit(mode="trace"),
        nki.benchmark, nki.benchmark(), nki.benchmark(warmup=2, iters=3, save_trace_name="a.ntff"),
        nki.profile, nki.profile(working_directory="out", save_neff_name="a.neff"),
        nki.profile(profile_nth=2), nki.jit(mode="simulation"),
    ],
)  # fmt: skip
def test_runners_of_devices_are_simulated(decorate: Any) -> None:
    kernel = decorate(_copied)
    assert np.array_equal(kernel(X), X)
    assert np.array_equal(nki.simulate_kernel(kernel, X), X)
    assert kernel.__name__ == "_copied"
    if isinstance(kernel, BenchmarkKernel):
        latency = kernel.benchmark_result
        assert latency is not None
        assert latency.nc_latency.get_latency_percentile(50) > 0


def test_profile_still_runs_kernels() -> None:
    result, report = nki.profile(_copied, X)
    assert np.array_equal(result, X)
    assert report.latency_us > 0

    @nki.jit
    def nothing() -> Any:
        return nl.zeros((2, 2), nl.float32, buffer=nl.shared_hbm)

    result, report = nki.profile(nothing)
    assert not result.any()


def test_simulate_kernel_takes_functions_and_cores() -> None:
    assert np.array_equal(nki.simulate_kernel(_copied, X), X)
    assert np.array_equal(nki.simulate_kernel(nki.jit(_copied)[2], X), X)
    assert nki.FrameworkKernel is nki.Kernel


def test_static_cast_is_that_of_the_host() -> None:
    dtypes = importlib.import_module("trn3.nki.values.neuron_dtypes")
    assert nl.static_cast is dtypes.static_cast


@pytest.mark.parametrize("name", ["arange", "mgrid", "loop_reduce", "atomic_rmw", "all_reduce"])
def test_names_of_the_legacy_language_say_where_they_are(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"no {name}: it is of NKI 0.1.*allowed here"):
        getattr(nl, name)
