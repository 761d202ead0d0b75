"""``trn3 nccom-test``: columns, sizes, checks, reports, refusals."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trn3 import collectives
from trn3.__main__ import main
from trn3.cli.nccom_test import parse_size

HEADINGS = ["size(B)", "count(elems)", "type", "time(us)", "algbw(GB/s)", "busbw(GB/s)"]


def test_table_has_the_columns_users_know(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "nccom-test -r 64 -b 1kb -e 1gb -f 4 allr --system trn2 --show-algorithm"
    assert main(arguments.split()) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == [*HEADINGS, "algorithm"]
    rows = [line.split() for line in lines[2:-1]]
    assert [int(row[0]) for row in rows] == [1024 * 4**k for k in range(11)]
    assert [row[6] for row in rows] == ["mesh"] * 6 + ["rdh"] * 2 + ["kangaring"] * 3
    assert lines[-1].startswith("Avg bus bandwidth:")


def test_json_has_costs_in_the_tool_s_units(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    arguments = (
        "nccom-test -b 1mb -e 1mb allr -d bf16 --show-algorithm --json --report-to-json-file"
    )
    assert main([*arguments.split(), str(report)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert json.loads(report.read_text()) == printed
    (row,) = printed["results"]
    cost = collectives.time("all_reduce", 1 << 20, "trn2", launch="host")
    assert [row[key] for key in HEADINGS[:3]] == [1 << 20, 1 << 19, "bf16"]
    assert row["time(us)"] == pytest.approx(cost.time * 1e6)
    assert row["algbw(GB/s)"] == pytest.approx(cost.algbw / 2**30)
    assert row["busbw(GB/s)"] == pytest.approx(cost.algbw / 2**30 * 2 * 63 / 64)
    assert printed["assumptions"]


@pytest.mark.parametrize("operation", ["allr", "allg", "redsct", "alltoall", "permute", "bcast"])
@pytest.mark.parametrize("datatype", ["uint8", "fp32", "bf16"])
def test_check_executes_on_data(
    operation: str, datatype: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = f"nccom-test -r 32 -b 512 -e 8kb -f 16 {operation} -d {datatype} -c --system gen2"
    assert main(arguments.split()) == 0
    rows = capsys.readouterr().out.splitlines()[2:-1]
    assert rows
    assert all(row.split()[6] == "ok" for row in rows)


def rows_of(capsys: pytest.CaptureFixture[str], arguments: str) -> list[dict[str, Any]]:
    assert main(["nccom-test", *arguments.split(), "--json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["results"]
    return found


@pytest.mark.parametrize("datatype", ["fp8", "fp8e3", "fp8e4", "fp8e5"])
@pytest.mark.parametrize("operation", ["allr", "redsct", "alltoallv"])
def test_fp8_is_checked_like_others(
    operation: str, datatype: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (row,) = rows_of(capsys, f"{operation} -r 16 -b 1kb -e 1kb -d {datatype} -c --system gen2")
    assert (row["check"], row["type"], row["count(elems)"]) == ("ok", datatype, 1024)


def test_iterations_of_a_simulation_take_one_time(capsys: pytest.CaptureFixture[str]) -> None:
    (few,) = rows_of(capsys, "allr -b 1kb -e 1kb -n 1 -w 0 --stats")
    (many,) = rows_of(capsys, "allr -b 1kb -e 1kb -n 100 -w 10 --stats")
    assert few == many
    assert {few[key] for key in ("min(us)", "p50(us)", "p99(us)")} == {few["time(us)"]}


def test_operations_follow_each_other_or_share_links(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = "allr,allg -b 256mb -e 256mb"
    alone = rows_of(capsys, arguments)
    assert [row["operation"] for row in alone] == ["all_reduce", "all_gather"]
    (reduced,) = rows_of(capsys, "allr -b 256mb -e 256mb")
    assert alone[0]["time(us)"] == reduced["time(us)"]
    together = rows_of(capsys, f"{arguments} --multistream")
    assert all(b["time(us)"] >= a["time(us)"] for a, b in zip(alone, together, strict=True))
    assert together[0]["time(us)"] > 1.2 * alone[0]["time(us)"]


def test_groups_run_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    groups = [list(range(first, first + 16)) for first in range(0, 64, 16)]
    file = tmp_path / "groups.json"
    file.write_text(json.dumps({"replica_groups": groups}))
    (row,) = rows_of(capsys, f"allr -b 1mb -e 1mb -c --replica-groups {file}")
    assert row["check"].startswith("ok")
    cost = collectives.time("all_reduce", 1 << 20, "trn2", groups, launch="host")
    assert row["time(us)"] == pytest.approx(cost.time * 1e6)
    (one,) = rows_of(capsys, "allr -r 16 -b 1mb -e 1mb")
    assert row["time(us)"] > one["time(us)"]


def test_the_host_takes_longer_to_start_than_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    host, program = (
        rows_of(capsys, f"allr -r 16 -b 4 -e 4 --launch {launch}")[0]["time(us)"]
        for launch in ("host", "program")
    )
    assert host > 8 * program
    # GPUs have no published start.
    arguments = "allr -r 4 -b 4 -e 4 --system h100 --launch"
    (host,), (program,) = (rows_of(capsys, f"{arguments} {of}") for of in ("host", "program"))
    assert host == program


# Rows of the vendor's page: those that constants were read off, and one that none was.
@pytest.mark.parametrize(
    ("arguments", "published"),
    [
        ("allr --system trn1 -N 2 -r 64 -d fp32 -b 16mb -e 16mb", 2138),
        ("allr --system trn1 -N 2 -r 64 -d fp32 -b 64mb -e 64mb", 3963),
        ("allr --system trn1 -N 2 -r 64 -d fp32 -b 256mb -e 256mb", 11954),
        ("allr --system trn1 -N 2 -r 64 -b 1gb -e 1gb", 41806),
        ("permute --system trn1 -r 8 -b 32mb -e 32mb", 894.24),
        ("allr --system trn2 -r 16 -d bf16 -b 1024kb -e 1024kb", 117.67),
        ("allr --system trn1 -r 2 -b 1kb -e 1kb", 58),
    ],
)
def test_published_calls_are_met(
    arguments: str, published: float, capsys: pytest.CaptureFixture[str]
) -> None:
    (row,) = rows_of(capsys, arguments)
    assert row["time(us)"] == pytest.approx(published, rel=0.2)


def test_nodes_are_joined_by_the_network(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "nccom-test",
                "-N",
                "2",
                "-b",
                "1gb",
                "-e",
                "1gb",
                "allr",
                "--show-algorithm",
                "--json",
            ]
        )
        == 0
    )
    two = json.loads(capsys.readouterr().out)
    assert two["ranks"] == 128
    assert two["results"][0]["algorithm"] == "hierarchical"


def test_sizes_grow_by_bytes_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nccom-test", "-b", "1kb", "-e", "4kb", "-i", "1kb", "allg", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["results"]
    assert [row["size(B)"] for row in rows] == [1024, 2048, 3072, 4096]
    assert parse_size("1.5mb") == 3 << 19


@pytest.mark.parametrize(
    ("arguments", "needle"),
    [
        ("allf", "the nearest is 'allr'"),
        ("allr -d fp9", "datatype is 'fp9'; allowed: uint8"),
        ("allr -r 65", "so 1 to 64"),
        ("allr -r 0", "-r is 0"),
        ("allr -b 2kb -e 1kb", "-e not below it"),
        ("allr -b 1zb", "size is '1zb'"),
        ("allr -f 2 -i 1kb", "-f and -i are both given"),
        ("allr -f 1", "-f must be above 1"),
        ("allr -b 1 -e 1gb -i 1", "more than 10,000 sizes"),
        ("allr --system trn9", "trn"),
        ("allr --algorithm kangoring", "kangaring"),
        ("allr --lnc 4", "lnc is 4"),
        ("allr -N 0", "0"),
        ("allr -n 0", "-n is 0"),
        ("allr -w -1", "-w is -1"),
        ("allr --launch kernel", "launch is 'kernel'; allowed: program, host"),
        ("allr,allf", "the nearest is 'allr'"),
        ("allr --replica-groups [0,1]", "needed: lists of ranks"),
        ("allr --replica-groups [[0],[0]]", "rank 0"),
        ("allr --replica-groups [[0,1]] -r 2", "-r and --replica-groups"),
        ("allr,allg --multistream -c", "data is checked alone"),
        ("allr --report-to-json-file /nowhere/at/all.json", "cannot be written"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    arguments: str, needle: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["nccom-test", *arguments.split()]) == 2
    captured = capsys.readouterr()
    assert needle in captured.err
    assert captured.err.count("\n") == 1
    assert not captured.out
