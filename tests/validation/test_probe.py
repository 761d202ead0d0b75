"""Probes: the folder runs as it is, its result is equal, and what is wrong with one is found."""

from __future__ import annotations

import base64
import json
import math
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trn3.validation import probe as probing, silicon

CHIP = "trn2"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that has been run, as its README says, where `nki` is trn3's."""
    path = tmp_path_factory.mktemp("made") / "probes"
    assert probing.write(path) == 40
    run = subprocess.run(
        [sys.executable, "-m", "trn3", "run", str(path / "run.py"), "--chip", CHIP],
        capture_output=True,
        text=True,
        check=False,
        env={key: value for key, value in os.environ.items() if not key.startswith("NEURON")},
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count(": done (") == 40, run.stdout
    return path


@pytest.fixture
def document(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return found


def checked(path: Path, document: Any) -> list[probing.ProbeOutcome]:
    path.write_text(json.dumps(document), encoding="utf-8")
    return list(probing.check(probing.read(path)))


def test_probes_know_nothing_of_trn3(folder: Path) -> None:
    for path in (folder / "probes").iterdir():
        text = path.read_text(encoding="utf-8")
        assert "trn3" not in text, path
        assert text.count("@nki.jit") == 1
    assert "import trn3" not in (folder / "run.py").read_text(encoding="utf-8")


def test_result_of_the_whole_folder_is_equal(document: dict[str, Any], tmp_path: Path) -> None:
    outcomes = checked(tmp_path / "result.json", document)
    assert [o.probe.id for o in outcomes] == [p.id for p in probing.probes()]
    assert [o for o in outcomes if o.verdict != "equal"] == []
    timed = [entry["clock"] for entry in document["probes"].values() if "clock" in entry]
    # The simulated clock; the host's would be that of the simulator.
    assert timed == ["device"] * 5


def test_tables_have_every_code_of_bfloat16(document: dict[str, Any]) -> None:
    tables = [name for name in document["probes"] if name.startswith("table-")]
    assert len(tables) == 8
    for name in tables:
        assert document["probes"][name]["outputs"][0]["shape"] == [128, 512]
    [probe] = [each for each in probing.probes() if each.id == "table-exp"]
    [output] = probing.expected(probe, CHIP).outputs
    # The code of 1 is the number 0x3F80.
    assert output.ravel()[0x3F80] == np.float32(math.e)


def flip(entry: dict[str, Any], index: int) -> None:
    """Change the lowest bit of one byte."""
    bits = bytearray(base64.b64decode(entry["bits"]))
    bits[index] ^= 1
    entry["bits"] = base64.b64encode(bytes(bits)).decode()


def test_one_flipped_bit_is_found_with_its_input(document: dict[str, Any], tmp_path: Path) -> None:
    flip(document["probes"]["table-exp"]["outputs"][0], 4 * 0x3F80)
    flip(document["probes"]["reduce-order-float32"]["outputs"][0], 4 * 7)
    found = {o.probe.id: o for o in checked(tmp_path / "r.json", document) if o.verdict != "equal"}
    assert found.keys() == {"table-exp", "reduce-order-float32"}
    place = "[31, 384]"
    assert found["table-exp"].detail == (
        f"1 of 65536; first at output{place}: 0x402df855, in trn3 0x402df854, of x{place} = 0x3f80"
    )
    assert found["reduce-order-float32"].detail.startswith("1 of 128; first at output[7, 0]: 0x")
    assert found["reduce-order-float32"].detail.endswith(", of x of shape [128, 1024]")


def test_times_far_off_differ(document: dict[str, Any], tmp_path: Path) -> None:
    times = document["probes"]["time-loads"]["nanoseconds"]
    document["probes"]["time-loads"]["clock"] = "host"
    times["64 bytes a partition"] *= 1.5
    [found] = [o for o in checked(tmp_path / "r.json", document) if o.verdict != "equal"]
    assert found.probe.id == "time-loads"
    assert "64 bytes a partition: 1278 ns, in trn3 852" in found.detail
    assert found.detail.endswith("; by the host's clock")


def test_a_probe_that_did_not_run_is_no_difference(
    document: dict[str, Any], tmp_path: Path
) -> None:
    document["probes"]["psum-width"] = {"source": "", "error": "no\nway"}
    [found] = [o for o in checked(tmp_path / "r.json", document) if o.verdict != "equal"]
    assert (found.verdict, found.detail) == ("not run", "there: no way")


def test_contribution_is_the_registers_own_form(document: dict[str, Any], tmp_path: Path) -> None:
    flip(document["probes"]["psum-width"]["outputs"][0], 0)
    document["machine"]["product"] = 'trn2.3xlarge "\u00e9\n\x1b[1m'
    path = tmp_path / "r.json"
    outcomes = checked(path, document)
    text = probing.contribution(probing.read(path), outcomes)
    text.encode("ascii")
    assert len(tomllib.loads(text)["claim"]) == 35
    claims = silicon.parse(text).claims
    assert {claim.chips for claim in claims} == {(CHIP,)}
    for claim in claims:
        assert claim.verdict == ("differs" if claim.probe == "psum-width" else "equal")
        assert silicon.compute(claim) == claim.verdict
    assert text.count("\n# time-") == 5


def test_write_refuses_a_folder_with_something_in_it(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x", encoding="utf-8")
    for path in (tmp_path, tmp_path / "mine"):
        with pytest.raises(probing.ProbeError, match="exists already"):
            probing.write(path)


OUTPUT = {"dtype": "float32", "shape": [1], "bits": "AAAAAA=="}
DOCUMENT: dict[str, Any] = {
    "format": "trn3-probe-result",
    "version": 1,
    "machine": {"chip": CHIP, "product": "", "system": "", "way": "numpy"},
    "versions": {},
    "probes": {},
}


def with_output(**changes: Any) -> dict[str, Any]:
    entry = {"source": "0", "outputs": [{**OUTPUT, **changes}]}
    return {**DOCUMENT, "probes": {"psum-width": entry}}


def with_times(times: Any) -> dict[str, Any]:
    return {
        **DOCUMENT,
        "probes": {"time-loads": {"source": "0", "nanoseconds": times, "clock": "host"}},
    }


HOSTILE: list[tuple[Callable[[], str], str]] = [
    (lambda: "", "Expecting value"),
    (lambda: "[1, 2", "Expecting"),
    (lambda: "[]", "the document is list, must be dict"),
    (lambda: "[" * 200_000, "recursion"),
    (lambda: '{"a": NaN}', "NaN is no number"),
    (lambda: '{"format": 1, "format": 2}', "a key comes twice"),
    (lambda: "1" * 10_000, "digits"),
    (lambda: json.dumps({**DOCUMENT, "format": "x"}), "format must be trn3-probe-result"),
    (lambda: json.dumps({**DOCUMENT, "version": 2}), "version must be 1"),
    (lambda: json.dumps({**DOCUMENT, "machine": []}), "document.machine is list, must be dict"),
    (lambda: json.dumps({**DOCUMENT, "machine": {"chip": "h100"}}), "machine.chip is 'h100'"),
    (lambda: json.dumps({**DOCUMENT, "versions": {"nki": 3}}), "a version is int, must be str"),
    (lambda: json.dumps({**DOCUMENT, "probes": {"x": 1}}), "probes.x is int, must be dict"),
    (lambda: json.dumps({**DOCUMENT, "probes": {"x": {}}}), "probes.x has no source"),
    (lambda: json.dumps(with_output(dtype="O")), "outputs.dtype is 'O'; allowed: float32"),
    (lambda: json.dumps(with_output(shape=[-1])), "shape must be up to eight lengths"),
    (lambda: json.dumps(with_output(shape=[1 << 40])), "shape must be up to eight lengths"),
    (lambda: json.dumps(with_output(shape=[True])), "shape must be up to eight lengths"),
    (lambda: json.dumps(with_output(shape=[1] * 9)), "shape must be up to eight lengths"),
    (lambda: json.dumps(with_output(shape=[2])), "bits has 4 bytes, not those of float32 [2]"),
    (lambda: json.dumps(with_output(bits="!!")), "bits is no base64"),
    (lambda: json.dumps(with_output(bits=[1])), "bits is list, must be str"),
    (lambda: json.dumps(with_times({"x": 0})), "nanoseconds.x must be a positive number"),
    (lambda: json.dumps(with_times({"x": True})), "nanoseconds.x must be a positive number"),
    (lambda: json.dumps(with_times({"x": "1"})), "nanoseconds.x must be a positive number"),
    (
        lambda: json.dumps(with_times({"x": 1.0})).replace('"host"', '"mine"'),
        "clock is 'mine'; allowed: device, host",
    ),
    (lambda: json.dumps(with_times({"x": 10**400})), "nanoseconds.x must be a positive number"),
]


@pytest.mark.parametrize(("text", "complaint"), HOSTILE)
def test_read_refuses_what_the_runner_does_not_write(
    text: Callable[[], str], complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "result.json"
    path.write_text(text(), encoding="utf-8")
    with pytest.raises(probing.ProbeError) as error:
        probing.read(path)
    assert complaint in str(error.value)
    assert "\n" not in str(error.value)


def test_check_refuses_other_probes_and_other_texts(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with pytest.raises(probing.ProbeError, match="there is no such probe"):
        checked(path, {**DOCUMENT, "probes": {"mine": {"source": "0", "outputs": []}}})
    with pytest.raises(probing.ProbeError, match="psum-width: ran another text"):
        checked(path, with_output())
    [width] = [each for each in probing.probes() if each.id == "psum-width"]
    form = with_output()
    form["probes"]["psum-width"]["source"] = width.digest
    with pytest.raises(probing.ProbeError, match=r"psum-width\.outputs are not"):
        checked(path, form)
    [loads] = [each for each in probing.probes() if each.id == "time-loads"]
    times = with_times({"x": 1.0})
    times["probes"]["time-loads"]["source"] = loads.digest
    with pytest.raises(probing.ProbeError, match=r"time-loads\.nanoseconds must have 64 bytes"):
        checked(path, times)


def test_a_file_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trn3.validation.probe.received.MAX_BYTES", 10)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(DOCUMENT), encoding="utf-8")
    with pytest.raises(probing.ProbeError, match="more than 10 bytes"):
        probing.read(path)
