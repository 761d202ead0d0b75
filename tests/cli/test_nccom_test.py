"""``trn3 nccom-test``: columns, sizes, checks, reports, refusals."""

from __future__ import annotations

import json
from pathlib import Path

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
    cost = collectives.time("all_reduce", 1 << 20, "trn2")
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
