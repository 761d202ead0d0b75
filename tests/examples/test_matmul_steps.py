"""The five matmuls: each is faster than the one before, and the profile says why."""

from __future__ import annotations

import functools
import itertools

import pytest

from support.kernel_files import FOLDER, kernels_of
from trn3 import nki
from trn3.profile import Profile

ARCHES = ["trn2", "trn3"]
STEPS = ["tiled", "hoisted", "blocked_free", "blocked", "balanced"]


@functools.cache
def profile_of(step: str, arch: str) -> Profile:
    module = kernels_of("matmul")
    _, profile = nki.profile(
        getattr(module, step), arch=arch, values=False, **module.inputs(M=2048, K=2048, N=2048)
    )
    return profile


def tensor_waits(profile: Profile) -> dict[str, float]:
    (tensor,) = [total for total in profile.engines() if total.engine == "tensor"]
    return dict(tensor.waits)


@pytest.mark.parametrize("arch", ARCHES)
def test_each_step_is_faster_than_the_one_before(arch: str) -> None:
    times = [profile_of(step, arch).latency_us for step in STEPS]
    assert all(after < 0.95 * before for before, after in itertools.pairwise(times)), times


@pytest.mark.parametrize("arch", ARCHES)
def test_all_steps_do_the_same_product(arch: str) -> None:
    assert {profile_of(step, arch).macs for step in STEPS} == {2048**3}


@pytest.mark.parametrize("arch", ARCHES)
def test_each_step_waits_less_for_transfers(arch: str) -> None:
    waits = [tensor_waits(profile_of(step, arch)).get("dma", 0.0) for step in STEPS]
    assert waits == sorted(waits, reverse=True)
    assert waits[0] > 0.7 * profile_of("tiled", arch).latency_us
    assert waits[-1] < 0.15 * profile_of("balanced", arch).latency_us


@pytest.mark.parametrize("arch", ARCHES)
def test_the_verdict_goes_from_transfers_to_the_array(arch: str) -> None:
    first, last = (profile_of(step, arch).verdict() for step in ("tiled", "balanced"))
    assert "DMA" in first
    assert "ransfers are short" in first
    assert last.startswith("Bound by work: the tensor engine is busy")
    assert profile_of("balanced", arch).mfu > 0.85
    # The line named is the binding engine's own.
    lines = (FOLDER / "matmul.py").read_text().splitlines()
    named = [int(text.removesuffix(".").rpartition(":")[2]) for text in (first, last)]
    assert ["dma_copy" in lines[named[0] - 1], "nc_matmul" in lines[named[1] - 1]] == [True, True]


def test_a_step_reads_less_than_the_one_before() -> None:
    read = [profile_of(step, "trn3").hbm_read_bytes for step in STEPS]
    assert read[0] > read[1] > read[2] > read[3] >= read[4]
    # Each step's own tile sizes say how often it loads each operand.
    mebibyte = 2**20
    assert [bytes_read // mebibyte for bytes_read in read] == [160, 136, 72, 32, 32]


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("step", STEPS)
def test_dma_moves_no_more_than_it_can(step: str, arch: str) -> None:
    """Transfers of two queues overlap on an engine; what they share is its rate."""
    efficiency = profile_of(step, arch).dma_efficiency
    assert efficiency is not None
    assert 0.9 < efficiency <= 1
