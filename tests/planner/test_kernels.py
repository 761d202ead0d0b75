"""Times of products on the simulated core, in plans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import trn3
from trn3.planner import kernels


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRN3_CACHE", str(tmp_path))
    return tmp_path


def test_time_is_above_the_roofline_and_near_it_for_large_products() -> None:
    m, k, n = 512, 4096, 4096
    seconds = kernels.time_product(m, k, n)
    peak = 128 * 128 * 2 * 2.4e9
    assert 1.0 < seconds * peak / (2 * m * k * n) < 1.3


def test_small_shapes_take_no_longer_than_large_ones() -> None:
    times = [kernels.time_product(64, 1024, n) for n in (256, 512, 1024, 4096, 8192, 65536)]
    assert times == sorted(times)
    assert kernels.time_product(1, 128, 512) <= kernels.time_product(100, 128, 512)


def test_times_are_kept_on_disk(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = kernels.time_product(128, 256, 512)
    (file,) = cache.iterdir()
    assert first in json.loads(file.read_text("utf-8")).values()
    monkeypatch.setattr(kernels, "_memory", {})
    monkeypatch.setattr(kernels, "_run", None)  # a second run would fail
    assert kernels.time_product(128, 256, 512) == first


@pytest.mark.parametrize("text", ["", "{", "[]", '{"trn3:128x256x512:bf16": "fast"}'])
def test_broken_caches_are_timed_anew(
    cache: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    kernels.cache_file().write_text(text, "utf-8")
    monkeypatch.setattr(kernels, "_memory", {})
    assert kernels.time_product(128, 256, 512) > 0


def test_plans_take_measured_products_and_say_so() -> None:
    roofline = trn3.plan("llama-3-8b", "gen2", tp=4, batch=8, context=4000)
    machine = trn3.plan("llama-3-8b", "gen2", tp=4, batch=8, context=4000, times="machine")
    assert machine.decode.by_resource["measured kernels"] > 0
    assert machine.tpot > roofline.tpot
    assert any("simulated trn3 core" in text for text in machine.assumptions)
    assert any(text.startswith("roofline for attention") for text in machine.assumptions)
    assert any("times of operations: roofline" in text for text in roofline.assumptions)
    assert machine.at(batch=16).decode.by_resource["measured kernels"] > 0


def test_machine_times_need_a_trainium() -> None:
    with pytest.raises(ValueError, match="b300"):
        trn3.plan("llama-3-8b", "gb300_nvl72", tp=1, batch=1, context=100, times="machine")


@pytest.mark.parametrize(
    ("arguments", "word"), [((0, 1, 1), "m is 0"), ((1, 1, 1, "mxfp4"), "mxfp4")]
)
def test_wrong_products_are_refused(arguments: tuple[int, int, int], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        kernels.time_product(*arguments)
