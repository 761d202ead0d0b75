"""``trn3 route``, ``trn3 bound`` and ``trn3 ls``: tables, JSON, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest


def test_route_shows_legs_relays_and_assumptions(run: Callable[..., Any]) -> None:
    out = run("route", "gen2", "0/3/1", "1/9/2", "--bytes", "1MiB").stdout
    assert "0/3/1 -> 1/9/2: 128 GB/s one way, 3.5 us, relays: 0/9/2" in out
    assert "rack/0" in out
    assert "1.049 MB: 11.69 us" in out
    assert "latency of level rack: 2 us (choice:" in out
    document = json.loads(run("route", "gen2", "0/3/1", "1/9/2", "--json").stdout)
    assert [leg["level"] for leg in document["legs"]] == ["rack", "cross-rack"]
    assert document["relays"] == ["0/9/2"]
    assert document["rate"] == 128e9
    same = json.loads(run("route", "trn2", "5", "1/1", "--json").stdout)
    assert (same["hops"], same["rate"]) == (0, None)
    assert "the same chip" in run("route", "trn2", "5", "5").stdout


def test_route_leads_around_faults(run: Callable[..., Any], refused: Callable[..., str]) -> None:
    out = run("route", "trn2", "0", "1", "--fail", "0/0-0/1").stdout
    assert "fault: link 0/0-0/1 failed" in out
    assert "4.5 us" in out
    alone = [f"--fail=0/2/0-{end}" for end in ("1/2/0", "rack/0", "server/0/2")]
    assert "no way leads from chip 0/0/0" in refused("route", "gen2", "0/0/0", "0/2/0", *alone)


def test_bound_names_what_binds(run: Callable[..., Any], tmp_path: Path) -> None:
    out = run("bound", "gen2", "--traffic", "alltoall").stdout
    assert "254.2 GB/s a chip one way" in out
    assert "binding: 144 bundles of cross-rack links" in out
    rack = run("bound", "gen2", "--group", "0", "--bytes", "234.881MB").stdout
    assert "334.1 GB/s a chip" in rack
    assert "time: 703 us" in rack
    document = json.loads(run("bound", "gen2", "--links", "headline", "--json").stdout)
    assert document["per_chip"] == pytest.approx(128e9 * 143 / 72 * 1280 / 704)
    assert document["binding"]["levels"] == ["cross-rack"]
    assert len(document["binding"]["links"]) == 144
    ring = json.loads(run("bound", "trn2", "--traffic", "ring", "--json").stdout)
    assert ring["per_chip"] > 0
    matrix = np.zeros((16, 16))
    matrix[0, 1] = 128e6
    np.save(tmp_path / "t.npy", matrix)
    np.savetxt(tmp_path / "t.csv", matrix, delimiter=",")
    for name in ("t.npy", "t.csv"):
        found = json.loads(run("bound", "trn2", "--traffic", tmp_path / name, "--json").stdout)
        assert found["time"] == pytest.approx(1e-3)


def test_bound_prices_faults(run: Callable[..., Any]) -> None:
    out = run("bound", "gen2", "--fail", "0/3/1-1/3/1").stdout
    assert "faults cost all-to-all: 1.02 x slower: 254.2 GB/s a chip before, 249.6" in out
    document = json.loads(run("bound", "gen2", "--fail", "rack/0:1", "--json").stdout)
    assert document["faults"] == ["1 of the links of switch rack/0 failed"]
    assert document["slowdown"]["factor"] >= 1


def test_ls_lists_devices(run: Callable[..., Any], tmp_path: Path) -> None:
    lines = run("ls", "trn2").stdout.splitlines()
    assert "64 logical cores at lnc=2" in lines[0]
    [first] = [line for line in lines if line.split()[:2] == ["0", "0/0"]]
    assert first.split() == ["0", "0/0", "8", "4", "96", "GiB", "1,", "3,", "4,", "12", "1"]
    drawing = tmp_path / "torus.svg"
    document = json.loads(run("ls", "gen2", "--lnc", "1", "--json").stdout)
    assert run("ls", "trn2", "--plot", drawing).code == 0
    assert drawing.read_text().startswith("<?xml")
    assert (document["lnc"], len(document["devices"])) == (1, 144)
    assert document["devices"][5]["connected"] == {"server/0/1": 4, "rack/0": 5, "1/1/1": 2}
    assert document["devices"][5]["logical_cores"] == 8


@pytest.mark.parametrize(
    ("arguments", "needle"),
    [
        (("route", "gen2", "0/3/1", "2/9/2"), "rack 0 to 1"),
        (("route", "gen3", "0", "1"), "nearest is 'gen2'"),
        (("route", "gen2", "0", "1", "--links", "best"), "docs, headline"),
        (("route", "gen2", "0", "1", "--bytes", "-4"), "positive size"),
        (("bound", "gen2", "--traffic", "some"), "alltoall, ring"),
        (("bound", "gen2", "--group", "3"), "no chip of trn3_gen2 matches"),
        (("bound", "gen2", "--group", "0/0/0"), "at least 2"),
        (("bound", "gen2", "--fail", "rack/7"), "a switch like server/0/0"),
        (("bound", "gen2", "--traffic", "none.npy"), "none.npy"),
        (("ls", "gen2", "--lnc", "4"), "allowed on trainium3: 1 or 2"),
        (("ls", "gen2", "--plot", "x.bmp"), ".png, .svg, .pdf"),
        (("ls", "none.toml"), "No such file"),
    ],
)
def test_refusals(refused: Callable[..., str], arguments: tuple[str, ...], needle: str) -> None:
    assert needle in refused(*arguments)


def test_wrong_files_are_refused(refused: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("1,2\n3\n")
    assert "t.csv: cannot be read as a matrix" in refused("bound", "trn2", "--traffic", path)
    np.save(tmp_path / "t.npy", np.ones((3, 3)))
    assert "(16, 16)" in refused("bound", "trn2", "--traffic", tmp_path / "t.npy")
    message = refused("bound", "trn2", "--traffic", tmp_path / "t.npy", "--group", "0")
    assert "leave --group and --bytes out" in message
    mine = tmp_path / "mine.toml"
    mine.write_text("[mine]\n[mine._fabric]\naxes = []\nlevels = []\n")
    assert "mine._fabric: has no axes" in refused("ls", mine)
