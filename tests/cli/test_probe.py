"""``trn3 probe`` and ``trn3 validate --silicon``: output, documents, exit codes."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from trn3.__main__ import main
from trn3.validation import probe as probing, silicon
from trn3.validation.imported import vendor_names
from trn3.validation.probe.kernels import runner


@pytest.fixture
def result(tmp_path: Path) -> Path:
    """Return a result of two probes, made by the runner's own functions."""
    entries: dict[str, Any] = {}
    for probe in probing.probes():
        if probe.id in {"psum-width", "psum-low-bits-bfloat16"}:
            outputs = probing.expected(probe, "trn3").outputs
            encoded = [runner().encode(array) for array in outputs]
            entries[probe.id] = {"source": probe.digest, "outputs": encoded}
    document = {
        "format": "trn3-probe-result",
        "version": 1,
        "machine": {"chip": "trn3", "product": "trn3.48xlarge"},
        "versions": {"nki": "0.7.0"},
        "probes": entries,
    }
    path = tmp_path / "result.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_probe_writes_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "probes"
    assert main(["probe", str(folder)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{folder}: 40 probes\n")
    assert said.splitlines()[-1].startswith("run: python ")
    assert len(list((folder / "probes").glob("*.py"))) == 40
    assert (folder / "README.md").read_text(encoding="utf-8").startswith("# Probes")
    assert main(["probe", str(folder)]) == 2
    assert "exists already; name a new or empty folder" in capsys.readouterr().err


def test_check_prints_verdicts_and_a_contribution(
    result: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", "--check", str(result)]) == 0
    out = capsys.readouterr().out
    assert "trn3: 2 equal, 0 differs, 0 not run (trn3.48xlarge, nki 0.7.0)" in out
    [_, second] = silicon.parse(out[out.index("[[claim]]") :]).claims
    assert (second.probe, second.verdict) == ("psum-width", "equal")


def test_check_writes_json_and_a_contribution(
    result: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = json.loads(result.read_text(encoding="utf-8"))
    [output] = changed["probes"]["psum-low-bits-bfloat16"]["outputs"]
    output["bits"] = "BAAA" + output["bits"][4:]
    result.write_text(json.dumps(changed), encoding="utf-8")
    entries = tmp_path / "entries.toml"
    arguments = ["probe", "--check", str(result), "--contribution", str(entries), "--json"]
    assert main(arguments) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["chip"] == "trn3"
    assert [row["verdict"] for row in document["probes"]] == ["differs", "equal"]
    assert "first at output[0, 0]" in document["probes"][0]["detail"]
    assert document["contribution"] == entries.read_text(encoding="utf-8")
    assert len(tomllib.loads(document["contribution"])["claim"]) == 2


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 100_000, b'{"format": 1}'])
def test_check_refuses_in_one_line(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(content)
    assert main(["probe", "--check", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"trn3: error: {path}: no result of probes: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [[], ["here", "--check", "x"], ["here", "--json"], ["here", "--contribution", "x"]]
)
def test_probe_refuses_what_does_not_go_together(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_check_refuses_a_file_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", "--check", str(tmp_path / "none.json")]) == 2
    assert "none.json" in capsys.readouterr().err


def test_silicon_prints_every_claim(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--silicon"]) == 0
    out = capsys.readouterr().out
    for claim in silicon.register().claims:
        assert claim.id in out
        assert claim.test in out
    assert "compiler, no verdict (trn2): four contributed sample kernels" in out


def test_silicon_json_has_verdicts_and_what_is_computed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["validate", "--silicon", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["compiler"]) == 2
    for claim in document["silicon"]:
        assert claim["computed"] == claim["verdict"]
    assert {claim["verdict"] for claim in document["silicon"]} == {"equal", "disputed"}


def test_silicon_exits_with_1_where_a_verdict_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(silicon, "compute", lambda claim: "differs")
    assert main(["validate", "--silicon"]) == 1
    assert "differs (stated otherwise)" in capsys.readouterr().out


def test_silicon_takes_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--silicon", "exp-*"]) == 2
    assert "--silicon shows the register" in capsys.readouterr().err


def test_the_runner_finds_the_vendors_nki_by_name() -> None:
    with vendor_names():
        import nki

        assert hasattr(nki, "benchmark")
