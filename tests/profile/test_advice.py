"""Advice: ten kernels as they are and as they are told to be, and what it is of other runs."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.advice_kernels import ADVISED, AdvisedKernel
from trn3 import nki
from trn3.profile import BOUNDS, Profile
from trn3.profile.summary import summary

KEYS = {"gain", "line", "instruction", "cause", "text", "change"}


def flat(result: Any) -> list[bytes]:
    results = result if isinstance(result, tuple) else (result,)
    return [np.asarray(each).tobytes() for each in results]


def named(kernel: AdvisedKernel, change: str) -> dict[str, Any]:
    """Return the arguments that a change names."""
    match = re.search(kernel.found, change)
    assert match, change
    groups = match.groupdict()
    if "every" in groups:
        return {"every": 2 if groups["every"] else 1}
    return {name: int(value) if value.isdigit() else value for name, value in groups.items()}


@pytest.mark.parametrize("name", [name for name, kernel in ADVISED.items() if kernel.after])
def test_a_change_gains_what_was_promised(name: str) -> None:
    kernel = ADVISED[name]
    result, profile = nki.profile(kernel.before, **kernel.arguments())
    found = [each for each in profile.advice if each["cause"] == kernel.cause]
    assert found, profile.advice
    each = found[0]
    more = named(kernel, each["change"])
    changed, faster = nki.profile(kernel.after, **kernel.arguments(), **more)
    assert flat(changed) == flat(result)
    assert each["gain"] == pytest.approx(profile.latency_us / faster.latency_us, rel=0.1)
    assert faster.latency_us < profile.latency_us / 1.02
    assert set(each) == KEYS
    assert each["text"].startswith(f"{each['gain']:.2f}x: ")
    assert each["text"].endswith(each["change"])
    file, line = each["line"].rsplit(":", 1)
    assert Path(file).name == "advice_kernels.py"
    assert profile.data.sites[profile.data.instructions.site[each["instruction"]]][1] == int(line)


@pytest.mark.parametrize("name", [name for name, kernel in ADVISED.items() if not kernel.after])
def test_nothing_is_said_of_what_has_nothing_in_its_way(name: str) -> None:
    kernel = ADVISED[name]
    _, profile = nki.profile(kernel.before, **kernel.arguments())
    assert (profile.advice, profile.advice_note) == ([], "nothing above 2 %")


def test_there_is_a_kernel_of_every_what_if() -> None:
    causes = [kernel.cause for kernel in ADVISED.values()]
    assert (len(causes), causes.count(None), len(set(causes))) == (10, 2, 9)


@pytest.fixture(scope="module")
def refilled() -> Profile:
    kernel = ADVISED["buffers"]
    return nki.profile(kernel.before, **kernel.arguments())[1]


def test_the_largest_gains_come_first_and_stand_in_the_file(
    refilled: Profile, tmp_path: Path
) -> None:
    gains = [each["gain"] for each in refilled.advice]
    assert gains == sorted(gains, reverse=True)
    assert 1 <= len(gains) <= 5
    assert min(gains) >= 1.02
    refilled.to_json(tmp_path / "profile.json")
    figures = json.loads((tmp_path / "profile.json").read_text())["figures"]
    assert figures["advice"] == refilled.advice
    assert figures["advice_note"] == ""
    again = Profile.from_json(tmp_path / "profile.json")
    assert (again.advice, again.figures()) == (refilled.advice, refilled.figures())
    document = refilled.to_dict()
    del document["data"]["advice"], document["data"]["instructions"]["ready_ps"]
    del document["data"]["instructions"]["bound"]
    old = Profile.from_dict(document)
    assert old.advice == []
    assert "cannot be timed anew" in old.advice_note
    assert old.latency_us == refilled.latency_us


def test_the_speed_of_light_is_the_busiest_engine(refilled: Profile) -> None:
    light = refilled.speed_of_light
    assert light is not None
    busiest = max(refilled.engines(), key=lambda total: total.busy_us)
    assert (light["engine"], light["latency_us"]) == (busiest.engine, busiest.busy_us)
    share = f"{100 * busiest.busy_share:.0f} %"
    assert light["text"] == f"{busiest.busy_us:.1f} us if nothing waited; you are at {share}"


def test_it_is_printed(refilled: Profile) -> None:
    from rich.console import Console

    console = Console(width=100, record=True, file=io.StringIO())
    console.print(summary(refilled))
    text = " ".join(console.export_text().split())
    assert f"Speed of light: {refilled.speed_of_light['text']}." in text  # type: ignore[index]
    assert refilled.advice[0]["text"] in text


def test_the_table_says_when_operands_were_there_and_what_bound(refilled: Profile) -> None:
    table, rows = refilled.table("Instruction"), refilled.data.instructions
    assert set(table["trn3_bound_by"]) <= set(BOUNDS)
    assert list(table["trn3_ready_ts"]) == [ready // 1000 for ready in rows.ready_ps.tolist()]
    assert (rows.ready_ps[rows.engine != 5] <= rows.start_ps[rows.engine != 5]).all()
    loads = [place for place, cause in enumerate(table["trn3_bound_by"]) if cause == "buffer reuse"]
    assert len(loads) >= 15


@pytest.mark.parametrize(
    "options", [{"values": False}, {"compile": "nki"}, {"compile": "neuronx-cc"}]
)
def test_every_kind_of_run_has_advice_or_says_why_not(options: dict[str, Any]) -> None:
    kernel = ADVISED["buffers"]
    profile = nki.profile(kernel.before, **kernel.arguments(), **options)[1]
    assert profile.advice or profile.advice_note == "nothing above 2 %"
    if "values" in options:
        assert profile.advice[0]["cause"] == "buffer reuse"


def test_cores_of_a_logical_core_have_their_own() -> None:
    kernel = ADVISED["buffers"]
    profile = nki.profile(kernel.before[2], **kernel.arguments())[1]
    assert [core.advice[0]["cause"] for core in profile.cores] == ["buffer reuse"] * 2
    last = max(profile.cores, key=lambda core: core.latency_us)
    assert profile.advice == last.advice
