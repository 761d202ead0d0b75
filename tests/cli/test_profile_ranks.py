"""``trn3 profile --ranks``: several ranks in one report, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.pages import Page
from trn3.profile import Profile

Refused = Callable[..., str]
Run = Callable[..., Any]
KERNELS = """\
import nki
import nki.collectives as ncc
import nki.isa as nisa
import nki.language as nl
import numpy as np


@nki.jit
def late(x, group, rounds):
    \"\"\"Work for so many rounds, and gather the rows of all ranks.\"\"\"
    mine = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    rows = nl.ndarray((len(group[0]) * x.shape[0], x.shape[1]), x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    for _ in range(rounds):
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=mine, src=tile)
    ncc.all_gather([mine], [rows], group, collective_dim=0)
    return rows


def late_inputs(rank, ranks, size=64):
    lists = [list(range(ranks))] if ranks < 4 else [[0, 1], [2, 3]]
    x = np.full((128, size), rank, np.float32)
    return {"x": x, "group": ncc.ReplicaGroup(lists), "rounds": 1 + 4 * rank}


def late_golden(x):
    return x


@nki.jit
def halves(x, group):
    \"\"\"Let each core of a rank bring its half.\"\"\"
    half = x.shape[0] // nl.num_programs(0)
    own = slice(nl.program_id(0) * half, (nl.program_id(0) + 1) * half)
    mine = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    rows = nl.ndarray((len(group[0]) * x.shape[0], x.shape[1]), x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray((half, x.shape[1]), x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[own])
    nisa.dma_copy(dst=mine[own], src=tile)
    nisa.core_barrier(mine, (0, 1))
    ncc.all_gather([mine], [rows], group, collective_dim=0)
    return rows


def halves_inputs(ranks, seed):
    x = np.random.default_rng(seed).standard_normal((128, 64)).astype(np.float32)
    return {"x": x, "group": ncc.ReplicaGroup([list(range(ranks))])}


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
    nisa.dma_copy(dst=out, src=tile)
    return out
"""


@pytest.fixture(autouse=True)
def _without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes the most time, and is looked at elsewhere."""
    monkeypatch.setattr("trn3.pictures.find_spec", lambda name: None)


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return path


def opcodes(layout: dict[str, Any], report: Page, meeting: list[dict[str, int]]) -> set[str]:
    """Return the names of what met."""
    rows = [report.table(each["run"], "instructions")["opcode"][each["row"]] for each in meeting]
    return {layout["opcodes"][row] for row in rows}


@pytest.mark.parametrize("options", [(), ("--timing-only",), ("--compile", "neuronx-cc")])
def test_ranks_stand_in_one_report(
    run: Run, kernels: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    out = tmp_path / "run"
    result = run("profile", f"{kernels}:late", "--ranks", 3, "--out", out, *options)
    assert result.code == 0
    assert "Rank 2" in result.stdout
    assert ("not held against the golden" in result.stdout) == ("--timing-only" not in options)
    assert f"wrote {out / 'report.html'}" in result.stdout
    profiles = [Profile.from_json(out / f"rank{rank}" / "profile.json") for rank in range(3)]
    report = Page((out / "report.html").read_text("utf-8"))
    layout = report.json("trn3-report")
    main = [each for each in layout["runs"] if each["is_main"]]
    assert [each["rank"] for each in main] == [0, 1, 2]
    assert [each["latency_ps"] for each in main] == [each.data.latency_ps for each in profiles]
    beside = [each["rank"] for each in layout["runs"] if not each["is_main"]]
    assert beside == ([0, 1, 2] if "--compile" in options else [])
    [meeting] = layout["meetings"]
    assert [each["run"] for each in meeting] == [0, 1, 2]
    assert opcodes(layout, report, meeting) == {"all_gather"}
    # All begin when the last of them is ready.
    columns = [report.table(each["run"], "instructions") for each in meeting]
    at = [each["row"] for each in meeting]
    starts = {int(table["start"][row]) for table, row in zip(columns, at, strict=True)}
    ready = [int(table["ready"][row]) for table, row in zip(columns, at, strict=True)]
    assert len(starts) == 1
    assert ready == sorted(ready)
    assert ready[2] <= starts.pop()
    bounds = [layout["bounds"][table["bound"][row]] for table, row in zip(columns, at, strict=True)]
    assert bounds[:2] == ["meeting", "meeting"]
    before = (out / "report.html").read_bytes()
    assert run("report", out).code == 0
    assert (out / "report.html").read_bytes() == before


def test_lists_of_ranks_meet_apart(run: Run, kernels: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run("profile", f"{kernels}:late", "--ranks", 4, "--out", out).code == 0
    layout = Page((out / "report.html").read_text("utf-8")).json("trn3-report")
    assert [[each["run"] for each in meeting] for meeting in layout["meetings"]] == [[0, 1], [2, 3]]


def test_ranks_of_two_cores(run: Run, kernels: Path, tmp_path: Path) -> None:
    """The barrier is of each rank's cores; the collective is of all."""
    out = tmp_path / "run"
    assert run("profile", f"{kernels}:halves[2]", "--ranks", 2, "--out", out).code == 0
    report = Page((out / "report.html").read_text("utf-8"))
    layout = report.json("trn3-report")
    seats = [(each["rank"], each["core"]) for each in layout["runs"]]
    assert seats == [(0, 0), (0, 1), (1, 0), (1, 1)]
    found = {
        (tuple(each["run"] for each in meeting), *opcodes(layout, report, meeting))
        for meeting in layout["meetings"]
    }
    assert found == {
        ((0, 1), "core_barrier"),
        ((2, 3), "core_barrier"),
        ((0, 1, 2, 3), "all_gather"),
    }
    # No line of the command's own stands where the kernel's should.
    assert [Path(each["name"]).name for each in layout["files"]] == ["", "kernels.py"]
    rows = [value for value in report.values("data-run") if value is not None]
    assert {"0", "1", "2", "3"} <= set(rows)


def test_json_has_the_figures_of_each_rank(run: Run, kernels: Path) -> None:
    result = run("profile", f"{kernels}:late", "--ranks", 2, "--json")
    document = json.loads(result.stdout)
    assert document["latency_us"] == document["ranks"][0]["latency_us"]
    assert [each["kernel"] for each in document["ranks"]] == ["late", "late"]
    assert document["check"] is None
    junit = run("profile", f"{kernels}:late", "--ranks", 2, "--format", "github")
    assert junit.code == 0
    assert junit.stdout.count("verdict") <= 1


def test_arrays_of_ranks_differ_and_come_again(run: Run, kernels: Path, tmp_path: Path) -> None:
    options = ("--ranks", 2, "--shape", "x=128x64", "--seed", 3)
    found = [run("profile", f"{kernels}:doubled", *options, "--json") for _ in range(2)]
    first, second = (json.loads(each.stdout)["ranks"] for each in found)
    assert first == second
    assert len(first) == 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--system", "trn2"), "--system needs --ranks"),
        (("--ranks-per-chip", 2), "--ranks-per-chip needs --ranks"),
        (("--ranks", 0), "--ranks"),
        (("--ranks", 2, "--system", "nowhere"), "nowhere"),
        (("--ranks", 1000, "--system", "trn2"), "ranks"),
    ],
)
def test_what_ranks_cannot_be_is_refused(
    refused: Refused, kernels: Path, options: tuple[object, ...], said: str
) -> None:
    assert said in refused("profile", f"{kernels}:doubled", "--shape", "x=128x64", *options)


def test_a_folder_that_cannot_be_written_is_not_left(
    run: Run, kernels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("trn3.report.writing.write_bytes", full)
    out = tmp_path / "run"
    result = run("profile", f"{kernels}:late", "--ranks", 2, "--out", out)
    assert result.code == 2
    assert not out.exists()
