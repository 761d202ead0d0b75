"""Allocators, decorators and annotations of the legacy dialect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import trn3.nki.dialects.legacy as nki
import trn3.nki.dialects.legacy.compiler as ncc
import trn3.nki.dialects.legacy.language as nl
import trn3.nki.dialects.legacy.typing as nt


def _run(body: Any) -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        body()
        return x

    kernel(np.zeros((1, 1), np.float32))


@pytest.mark.parametrize(
    ("allocator", "places"),
    [
        (ncc.sbuf.mod_alloc(base_addr=64, num_free_tiles=(2,)), [(0, 64), (0, 144), (0, 64)]),
        (ncc.sbuf.mod_alloc(base_partition=0, num_par_tiles=(3,)), [(0, 0), (32, 0), (64, 0)]),
        (ncc.sbuf.alloc(lambda b, p, size: (0, b[0] * size)), [(0, 0), (0, 80), (0, 160)]),
        (ncc.psum.mod_alloc(base_bank=1, num_bank_tiles=(2,)), [(0, 2048), (0, 4096), (0, 2048)]),
        (ncc.psum.alloc(lambda b, p, size: (b[0], 0, 0)), [(0, 0), (0, 2048), (0, 4096)]),
    ],
)
def test_allocators_give_addresses(allocator: Any, places: list[tuple[int, int]]) -> None:
    def body() -> None:
        blocks = nl.ndarray((3, nl.par_dim(32), 20), nl.float32, buffer=allocator)
        got = [allocator.address((i,), (3,), 32, 80) for i in range(3)]
        assert got == places
        for i in range(3):
            start = blocks[i].view.place
            assert start is not None

    _run(body)


def test_allocators_refuse_what_means_no_place() -> None:
    def wrong_axes() -> None:
        buffer = ncc.sbuf.mod_alloc(num_free_tiles=(2, 2))
        nl.zeros((3, nl.par_dim(32), 4), nl.float32, buffer=buffer)

    def wrong_result() -> None:
        buffer = ncc.psum.alloc(lambda b, p, size: (0, 0))
        nl.zeros((nl.par_dim(32), 4), nl.float32, buffer=buffer)

    with pytest.raises(ValueError, match="one number for each of the 1 block axes"):
        _run(wrong_axes)
    with pytest.raises(ValueError, match=r"\(bank, partition, byte\)"):
        _run(wrong_result)
    with pytest.raises(TypeError, match="no banks"):
        ncc.sbuf.mod_alloc(num_bank_tiles=(2,))
    with pytest.raises(TypeError, match="allowed: a function"):
        ncc.sbuf.alloc(3)  # type: ignore[arg-type]


def test_decorators_change_nothing() -> None:
    @ncc.skip_middle_end_transformations
    @ncc.enable_stack_allocator(log_level=20)
    @ncc.force_auto_alloc
    @nki.jit(mode="baremetal", debug_kernel=True)
    def kernel(x: nt.tensor[2, 2]) -> Any:
        with ncc.allocation_scope(), ncc.multi_buffer(factor=2), ncc.no_reorder():
            tile = nl.load(x, dtype=nl.float32).assert_shape((2, 2))
        out = nl.ndarray((2, 2), nl.float32, buffer=ncc.sbuf.auto_alloc())
        out[...] = tile
        nl.store(x, out * 2)
        return x

    assert (kernel(np.ones((2, 2), np.float32)) == 2).all()
    with pytest.raises(ValueError, match="annotation allows"):
        kernel(np.ones((2, 3), np.float32))


def test_kernels_call_kernels() -> None:
    @nki.jit
    def inner(tile: Any) -> Any:
        return tile + 1.0

    @nki.jit
    def outer(x: Any) -> Any:
        nl.store(x, inner(nl.load(x)))
        return x

    assert (outer(np.ones((2, 2), np.float32)) == 2).all()


def test_on_chip_results_are_refused() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        return nl.load(x)

    with pytest.raises(ValueError, match=r"allowed: nl.shared_hbm"):
        kernel(np.ones((2, 2), np.float32))


def test_benchmark_percentiles_are_checked() -> None:
    @nki.benchmark
    def kernel(x: Any) -> Any:
        nl.store(x, nl.load(x))
        return x

    kernel(np.ones((2, 2), np.float32))
    with pytest.raises(ValueError, match="from 0 to 100"):
        kernel.benchmark_result.nc_latency.get_latency_percentile(101)
