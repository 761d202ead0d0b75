"""What `ProfileData` takes, keeps and refuses, and that it survives JSON."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from support.checks import error
from support.profiles import attention, profile_data
from trn3.profile import Instructions, Profile, ProfileData


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return attention(3, findings=True).data.to_dict()


def test_from_dict_keeps_every_value(document: dict[str, Any]) -> None:
    assert ProfileData.from_dict(document).to_dict() == document


@given(profile_data())
def test_to_json_round_trip(data: ProfileData) -> None:
    text = json.dumps(Profile(data).to_dict(), allow_nan=False)
    again = Profile.from_dict(json.loads(text))
    assert again.data.to_dict() == data.to_dict()
    assert json.dumps(again.to_dict(), allow_nan=False) == text


def test_to_json_file_round_trip(tmp_path: Path) -> None:
    profile = attention(4, findings=True)
    profile.to_json(tmp_path / "profile.json")
    assert [path.name for path in tmp_path.iterdir()] == ["profile.json"]
    assert Profile.from_json(tmp_path / "profile.json").to_dict() == profile.to_dict()


def test_arrays_are_read_only_and_borrowed(document: dict[str, Any]) -> None:
    """The owner of the memory may still write to it; who reads a profile may not."""
    changed = copy.deepcopy(document)
    own = np.array(changed["instructions"]["start_ps"], np.uint64)
    changed["instructions"]["start_ps"] = own
    data = ProfileData.from_dict(changed)
    assert own.flags.writeable
    assert np.shares_memory(own, data.instructions.start_ps)
    with pytest.raises(ValueError, match="read-only"):
        data.instructions.start_ps[0] = 1
    assert data.instructions.engine.dtype == np.uint8


Change = Callable[[dict[str, Any]], None]


def put(*path: Any) -> Change:
    """Return what sets the entry at all but the last of `path` to its last."""

    def change(document: dict[str, Any]) -> None:
        inner: Any = document
        for step in path[:-2]:
            inner = inner[step]
        inner[path[-2]] = path[-1]

    return change


def drop(*path: Any) -> Change:
    def change(document: dict[str, Any]) -> None:
        inner: Any = document
        for step in path[:-1]:
            inner = inner[step]
        del inner[path[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (drop("kernel"), ValueError, ["profile", "lacks", "kernel"]),
        (put("more", 1), ValueError, ["profile", "unknown", "more"]),
        (drop("instructions", "macs"), ValueError, ["instructions", "lacks", "macs"]),
        (put("instructions", 3), TypeError, ["instructions", "int", "dict"]),
        (put("instructions", "engine", 0, 6), ValueError, ["instructions.engine[0]", "6"]),
        (put("instructions", "engine", 0, 256), ValueError, ["256", "uint8"]),
        (put("instructions", "cause", 0, 14), ValueError, ["instructions.cause[0]", "14"]),
        (put("instructions", "site", 0, 9), ValueError, ["instructions.site[0]", "9 sites"]),
        (put("instructions", "opcode", 0, 99), ValueError, ["opcodes", "99"]),
        (put("instructions", "label", 0, 99), ValueError, ["labels", "99"]),
        (put("instructions", "macs", 0, -1), ValueError, ["instructions.macs", "-1"]),
        (put("instructions", "macs", 0, 1.5), TypeError, ["instructions.macs", "float64"]),
        (put("instructions", "macs", 0, 1), ValueError, ["peak_macs_per_cycle[0]", "0"]),
        (drop("instructions", "macs", 0), ValueError, ["instructions.macs", "32", "33"]),
        (put("instructions", "macs", [[1]]), ValueError, ["instructions.macs", "(1, 1)"]),
        (put("instructions", "waited_on", 4, 4), ValueError, ["waited_on[4]", "earlier"]),
        (put("instructions", "slot_end_ps", 2, 1), ValueError, ["slot_end_ps[2]", "1 ps"]),
        (put("instructions", "wait_ps", 2, 10**9), ValueError, ["wait_ps[2]", "tensor", "idle"]),
        (
            put("instructions", "end_ps", 2, 2**52),
            ValueError,
            ["instructions.end_ps", "latency_ps"],
        ),
        (put("transfers", "instruction", 0, 33), ValueError, ["transfers.instruction[0]", "33"]),
        (put("transfers", "dma_engine", 0, 16), ValueError, ["transfers.dma_engine[0]", "16"]),
        (put("transfers", "end_ps", 0, 0), ValueError, ["transfers.end_ps[0]"]),
        (put("occupancy", "sbuf_peak_bytes", 1), ValueError, ["occupancy.sbuf_bytes"]),
        (put("occupancy", "psum_peak_bytes", 0.5), TypeError, ["psum_peak_bytes", "0.5"]),
        (put("occupancy", "time_ps", 0, 2**52), ValueError, ["occupancy.time_ps[1]"]),
        (put("critical", [33]), ValueError, ["critical", "33"]),
        (put("critical", [5, 0]), ValueError, ["critical"]),
        (put("latency_ps", -1), ValueError, ["latency_ps", "-1"]),
        (put("latency_ps", 2**53), ValueError, ["latency_ps"]),
        (put("overhead_ps", True), TypeError, ["overhead_ps", "True"]),
        (put("arch", "name", 3), TypeError, ["arch", "3"]),
        (drop("arch", "hbm_gbps"), TypeError, ["arch.hbm_gbps", "None"]),
        (put("arch", "hbm_gbps", 0), ValueError, ["arch.hbm_gbps", "0"]),
    ],
)
def test_contradictions_are_refused(
    document: dict[str, Any], change: Change, kind: type[Exception], words: list[str]
) -> None:
    wrong = copy.deepcopy(document)
    change(wrong)
    with error(kind, *words):
        ProfileData.from_dict(wrong)


def test_a_column_of_texts_is_refused(document: dict[str, Any]) -> None:
    with error(TypeError, "instructions.opcode", "uint16"):
        Instructions(**{**document["instructions"], "opcode": ["nc_matmul"] * 33})


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"format": "trn3-profile"}', '{"format": "x", "version": 1}']
)
def test_from_json_refuses_other_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"other\.json: no profile: "):
        Profile.from_json(path)


def test_from_json_names_the_wrong_entry(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    document = attention(1).to_dict()
    document["data"]["latency_ps"] = None
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError, match=r"p\.json: no profile: latency_ps is None"):
        Profile.from_json(path)
