"""``trn3 trace`` and ``trn3 export``."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml

from support.profiles import attention
from trn3.__main__ import main
from trn3.interchange import chakra


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    attention(3).to_json(path)
    return path


def test_convert_writes_a_trace_that_reads_back(profile: Path) -> None:
    assert main(["trace", "convert", str(profile), "--to", "chakra", "--rank", "2"]) == 0
    trace = chakra.read(profile.with_name("run.2.et"))
    assert trace == chakra.from_profile(attention(3), rank=2)


def test_convert_writes_a_table_of_every_instruction(profile: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    assert main(["trace", "convert", str(profile), "--to", "csv", "-o", str(out)]) == 0
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == len(attention(3).data.instructions)
    assert main(["trace", "convert", str(profile), "--to", "perfetto"]) == 0
    assert profile.with_suffix(".perfetto").stat().st_size > 100


def test_info_counts_nodes(profile: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["trace", "convert", str(profile), "--to", "chakra"])
    capsys.readouterr()
    assert main(["trace", "info", str(profile.with_name("run.0.et")), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["nodes"] == sum(each["nodes"] for each in document["types"].values())
    assert document["attributes"]["rank"] == "0"
    assert main(["trace", "info", str(profile.with_name("run.0.et"))]) == 0
    assert "COMP_NODE" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["info"], ["convert", "--to", "chakra"]])
def test_trace_refuses_what_is_none(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.et"
    path.write_bytes(b"\x7f{")
    assert main(["trace", command[0], str(path), *command[1:]]) == 2
    error = capsys.readouterr().err
    assert error.startswith("trn3: error: ")
    assert "wrong.et" in error


def test_export_prints_what_the_function_gives(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "astra-sim", "gen2"]) == 0
    captured = capsys.readouterr()
    assert yaml.safe_load(captured.out)["npus_count"] == [4, 18, 2]
    assert "note: one NPU is one chip" in captured.err


def test_export_writes_a_file(tmp_path: Path) -> None:
    path = tmp_path / "trn2.json"
    assert main(["export", "calculon", "trn2_ultraserver", "--out", str(path)]) == 0
    assert json.loads(path.read_text())["networks"][-2]["size"] == 64


def test_export_refuses_systems_without_a_fabric(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "llmcompass", "neuroncore_v4"]) == 2
    assert "no system that chips are joined in" in capsys.readouterr().err


@pytest.fixture
def job(tmp_path: Path) -> Path:
    nodes = (
        chakra.Node(0, "matmul", chakra.NodeType.COMP_NODE, duration_micros=10),
        chakra.Node(
            1,
            "sum",
            chakra.NodeType.COMM_COLL_NODE,
            data_deps=(0,),
            attributes=(chakra.Attribute("comm_type", 0), chakra.Attribute("comm_size", 64 << 20)),
        ),
    )
    chakra.write_ranks([chakra.Trace(nodes=nodes)] * 20, tmp_path / "job")
    return tmp_path / "job"


def test_replay_prints_what_binds(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "replay", str(job), "--system", "gen2", "--rows", "4"]) == 0
    out = capsys.readouterr().out
    assert "20 ranks on trn3_gen2: finish after" in out
    assert "binding link: " in out
    assert "and 16 more ranks" in out
    assert "- comm_size is one rank's input" in out


def test_replay_prints_json_and_writes_events(
    job: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = job.with_name("events.json")
    command = ["trace", "replay", str(job), "--system", "gen2", "--json"]
    assert main([*command, "--perfetto", str(events)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["finish_s"] == chakra.replay(job, "gen2").finish
    assert len(document["ranks"]) == 20
    assert json.loads(events.read_text())["traceEvents"]


def test_replay_refuses_what_does_not_fit(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "replay", str(job), "--system", "gen3"]) == 2
    assert "gen3" in capsys.readouterr().err
    job.with_name("job.1.et").unlink()
    assert main(["trace", "replay", str(job), "--system", "gen2"]) == 2
    assert "job.1.et is missing" in capsys.readouterr().err
    assert main(["trace", "replay", str(job.with_name("none")), "--system", "gen2"]) == 2
    assert "none" in capsys.readouterr().err
