"""Forms of published legacy kernels: masks of what reductions keep, constants, specs, callbacks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trn3.nki
import trn3.nki.dialects.legacy as nki
import trn3.nki.dialects.legacy.compiler as ncc
import trn3.nki.dialects.legacy.isa as nisa
import trn3.nki.dialects.legacy.language as nl
import trn3.nki.dialects.legacy.typing as nt

X = np.random.default_rng(0).standard_normal((128, 8, 16)).astype(np.float32)
#: What the masks below leave of (partition, first free axis).
KEPT = np.zeros((128, 8), bool)
KEPT[:100, :6] = True

REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (nl.sum, np.sum),
    "max": (nl.max, np.max),
    "min": (nl.min, np.min),
    "mean": (nl.mean, np.mean),
    "var": (nl.var, np.var),
    "tensor_reduce": (lambda t, axis, mask: nisa.tensor_reduce(np.add, t, axis, mask=mask), np.sum),
}


@pytest.mark.parametrize("form", ["mgrid", "arange"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_masks_over_two_axes_of_a_reduced_view(name: str, form: str) -> None:
    ours, theirs = REDUCTIONS[name]

    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        if form == "mgrid":
            i_p, i_f = nl.mgrid[0:128, 0:8]
        else:
            i_p, i_f = nl.arange(128)[:, None], nl.arange(8)[None, :]
        inside = (i_p < 100) & (i_f < 6)
        reduced = nl.zeros((128, 8), dtype=x.dtype, buffer=nl.sbuf)
        result = ours(nl.load(x), axis=2, mask=inside)
        flat = result if len(result.shape) == 2 else result.reshape((128, 8))
        reduced[i_p, i_f] = nl.copy(flat, mask=inside)
        nl.store(out[i_p, i_f], value=reduced, mask=inside)
        return out

    got = kernel(X)
    np.testing.assert_allclose(got[KEPT], theirs(X, axis=2)[KEPT], rtol=1e-4, atol=1e-5)


def test_masks_over_a_last_axis_of_what_stays() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.shared_hbm)
        i_f = nl.arange(8)[None, :]
        total = nl.sum(nl.load(x), axis=[2], mask=i_f < 5)
        i_p, i_c = nl.mgrid[0:128, 0:5]
        nl.store(out[i_p, i_c], value=total[i_p, i_c])
        return out

    np.testing.assert_allclose(kernel(X)[:, :5], X[:, :5].sum(2), rtol=1e-4, atol=1e-5)


def test_masks_that_fit_neither_are_refused() -> None:
    @nki.jit
    def kernel(x: Any) -> Any:
        i_p, i_f = nl.mgrid[0:128, 0:9]
        nl.sum(nl.load(x), axis=2, mask=(i_p < 100) & (i_f < 6))
        return x

    with pytest.raises(ValueError, match=r"mask has shape \(128, 9, 1\); allowed: what broadcasts"):
        kernel(X)


def test_constants_of_the_language() -> None:
    from trn3.nki.dialects.legacy.language import constants

    assert [constants.sizeinbytes(each) for each in (nl.float32, nl.bfloat16, np.int8)] == [4, 2, 1]
    assert (constants.sbuf_min_align, constants.psum_min_align) == (1, 4)
    assert constants.pmax == 128
    assert nl.constants is constants
    with pytest.raises(AttributeError, match=r"nl\.tile_size has no 'sizeinbits'"):
        _ = constants.sizeinbits


@pytest.mark.parametrize("shape", [[128, 64], (128, 64)])
def test_specs_of_shape_and_type_time_a_kernel(shape: Any) -> None:
    def added(x: Any, y: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, value=nl.load(x) + nl.load(y))
        return out

    timed = nki.benchmark(warmup=1, iters=2)(added)
    timed(nt.tensor[shape, nl.bfloat16], nt.tensor[shape, nl.bfloat16])
    narrow = timed.benchmark_result.nc_latency.get_latency_percentile(50)
    timed(nt.tensor[shape, np.float32], nt.tensor[shape, np.float32])
    assert timed.benchmark_result.nc_latency.get_latency_percentile(50) > narrow > 0
    profiled = nki.profile(working_directory=".", save_neff_name="file.neff")(added)
    result = profiled(nt.tensor[shape, nl.bfloat16], nt.tensor[shape, nl.bfloat16])
    assert result.shape == (128, 64)
    assert profiled.benchmark_result.nc_latency.get_latency_percentile(50) == narrow


def test_benchmarked_latency_holds_the_start_of_the_kernel() -> None:
    def copied(x: Any) -> Any:
        out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
        nl.store(out, value=nl.load(x))
        return out

    x = np.zeros((128, 64), np.float32)
    timed = nki.benchmark(copied)
    timed(x)
    _, profile = trn3.nki.profile(copied, x, compile="neuronx-cc")
    expected = profile.latency_us + profile.overhead_us
    assert profile.overhead_us > 0
    assert timed.benchmark_result.nc_latency.get_latency_percentile(50) == expected


def test_allocation_callbacks_are_called_by_keyword() -> None:
    seen: list[Any] = []

    def psum_addr(bank_map: dict[int, int], idx: Any, pdim_size: int, fdim_size: int) -> Any:
        (i,) = idx
        seen.append((i, pdim_size, fdim_size))
        return bank_map[i], 0, 0

    def sbuf_addr(base: int, idx: Any, pdim_size: int, fdim_size: int) -> Any:
        (i,) = idx
        return 0, base + i * fdim_size

    def at(base: int) -> Any:
        return ncc.sbuf.alloc(functools.partial(sbuf_addr, base))

    @nki.jit
    def kernel(x: Any) -> Any:
        out = nl.ndarray((2, 32, 32), dtype=nl.float32, buffer=nl.shared_hbm)
        tiles = nl.ndarray((2, nl.par_dim(128), 32), dtype=x.dtype, buffer=at(1024))
        banks = functools.partial(psum_addr, bank_map={0: 3, 1: 5})
        psum = ncc.psum.alloc(banks)
        products = nl.ndarray((2, nl.par_dim(32), 32), dtype=nl.float32, buffer=psum)
        results = nl.ndarray((2, nl.par_dim(32), 32), dtype=nl.float32, buffer=at(8192))
        for i in nl.affine_range(2):
            tiles[i] = nl.load(x)
            products[i] = nisa.nc_matmul(tiles[i], tiles[i])
            results[i] = nl.copy(products[i])
            nl.store(out[i], value=results[i])
        return out

    x = X[:, 0, :16].repeat(2, axis=1)
    np.testing.assert_allclose(kernel(x), np.stack([x.T @ x] * 2), rtol=1e-4, atol=1e-4)
    assert seen == [(0, 32, 128), (1, 32, 128)]
