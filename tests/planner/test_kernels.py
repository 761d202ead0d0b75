"""Times of products on the simulated core, in plans."""

from __future__ import annotations

from typing import Any

import pytest

import trn3
import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki
from trn3.planner import kernels


def test_time_is_above_the_roofline_and_near_it_for_large_products() -> None:
    m, k, n = 512, 4096, 4096
    seconds = kernels.time_product(m, k, n)
    peak = 128 * 128 * 2 * 2.4e9
    assert 1.0 < seconds * peak / (2 * m * k * n) < 1.3


def test_small_shapes_take_no_longer_than_large_ones() -> None:
    times = [kernels.time_product(64, 1024, n) for n in (256, 512, 1024, 4096, 8192, 65536)]
    assert times == sorted(times)
    assert kernels.time_product(1, 128, 512) <= kernels.time_product(100, 128, 512)


def product(size_m: int, size_k: int, size_n: int, dtype: Any) -> None:
    """Multiply activations ``[m, k]`` with weights ``[k, n]``; weights are read once."""
    lhs_t = nl.ndarray((size_k, size_m), dtype, buffer=nl.hbm)
    rhs = nl.ndarray((size_k, size_n), dtype, buffer=nl.hbm)
    out = nl.ndarray((size_m, size_n), dtype, buffer=nl.hbm)
    steps = range(size_k // 128)
    tile_m, tile_n = min(size_m, 128), min(size_n, 512)
    stationary = [nl.ndarray((128, size_m), dtype, buffer=nl.sbuf) for _ in steps]
    for k, tile in enumerate(stationary):
        nisa.dma_copy(dst=tile, src=lhs_t[nl.ds(k * 128, 128), nl.ds(0, size_m)])
    for start in range(0, size_n, 2048):
        width = min(2048, size_n - start)
        moving = [nl.ndarray((128, width), dtype, buffer=nl.sbuf) for _ in steps]
        for k, tile in enumerate(moving):
            nisa.dma_copy(dst=tile, src=rhs[nl.ds(k * 128, 128), nl.ds(start, width)])
        for m in range(0, size_m, tile_m):
            result = nl.ndarray((tile_m, width), dtype, buffer=nl.sbuf)
            for n in range(0, width, tile_n):
                total = nl.ndarray((tile_m, tile_n), nl.float32, buffer=nl.psum)
                columns = nl.ds(n, tile_n)
                for k in steps:
                    left = stationary[k][:, nl.ds(m, tile_m)]
                    nisa.nc_matmul(total, left, moving[k][:, columns], accumulate=k > 0)
                nisa.tensor_copy(result[:, columns], total, engine=nisa.vector_engine)
            nisa.dma_copy(dst=out[nl.ds(m, tile_m), nl.ds(start, width)], src=result)


@pytest.mark.parametrize("arch", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize(
    ("short", "dtype"), [("bf16", nl.bfloat16), ("fp16", nl.float16), ("fp32", nl.float32)]
)
def test_times_are_those_of_the_kernel_in_python(arch: str, short: str, dtype: Any) -> None:
    for shape in ((1, 128, 512), (100, 256, 300), (384, 640, 3072), (512, 1024, 4096)):
        _, profile = nki.profile(product, *shape, dtype, arch=arch, values=False)
        seconds = kernels.time_product(*shape, dtype=short, arch=arch)
        assert seconds == profile.latency_us * 1e-6, shape


def test_sizes_are_rounded_up_to_tiles_and_scaled_from_them() -> None:
    assert kernels.time_product(129, 1, 513) == kernels.time_product(256, 128, 1024)
    whole = kernels.time_product(512, 1024, 4096)
    half = kernels.time_product(512, 1024, 2048)
    assert kernels.time_product(512, 1024, 6144) == pytest.approx(2 * whole - half, rel=1e-12)


def test_plans_take_measured_products_and_say_so() -> None:
    roofline = trn3.plan("llama-3-8b", "gen2", tp=4, batch=8, context=4000)
    machine = trn3.plan("llama-3-8b", "gen2", tp=4, batch=8, context=4000, times="machine")
    assert machine.decode.by_resource["measured kernels"] > 0
    assert machine.tpot > roofline.tpot
    assert any("simulated trn3 core" in text for text in machine.assumptions)
    assert any(text.startswith("roofline for attention") for text in machine.assumptions)
    assert any("times of operations: roofline" in text for text in roofline.assumptions)
    assert machine.at(batch=16).decode.by_resource["measured kernels"] > 0
    found = trn3.plan("llama-3-8b", "gen2", objective="tpot", context=4000, times="machine")
    assert found.searched is not None
    assert found.decode.by_resource["measured kernels"] > 0
    (said,) = (text for text in found.at(batch=1).assumptions if "simulated trn3 core" in text)
    assert said.startswith("times of")


def test_other_times_are_refused() -> None:
    with pytest.raises(ValueError, match="times is 'guess'; allowed: 'roofline', 'machine'"):
        trn3.plan("llama-3-8b", "gen2", tp=1, times="guess")


def test_machine_times_need_a_trainium() -> None:
    with pytest.raises(ValueError, match="b300"):
        trn3.plan("llama-3-8b", "gb300_nvl72", tp=1, batch=1, context=100, times="machine")


@pytest.mark.parametrize(
    ("arguments", "word"), [((0, 1, 1), "m is 0"), ((1, 1, 1, "mxfp4"), "mxfp4")]
)
def test_wrong_products_are_refused(arguments: tuple[int, int, int], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        kernels.time_product(*arguments)
