"""``make bench``: what was measured is kept when it is stopped."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import bench_report
from support.commands import ROOT

ROW = {
    "what": "cast", "threads": 1, "level": "avx2", "seconds": 1.0, "rate": 2e9, "unit": "B/s",
    "limit": "", "rounds": 3, "rivals": [{"label": "NumPy", "goal": 1.0, "seconds": 2, "ratio": 2}],
}  # fmt: skip
STOPPED = """
import sys
from pathlib import Path
sys.path[:0] = ["scripts", "benches"]
import bench
bench.ROOT = Path(sys.argv[1])
bench.BUILD = bench.ROOT / "build"
rows = sys.argv[2]
def run(part, number, arguments):
    (bench.BUILD / f"pass-{number}.jsonl").write_text(rows)
    raise KeyboardInterrupt
bench.run, bench.host.peaks, bench.host.copy_bandwidth = run, lambda *_: {}, lambda: 1.0
sys.argv[1:] = []
bench.main()
"""


def test_a_bench_that_is_stopped_keeps_its_rows(tmp_path: Path) -> None:
    for rows, said in (
        (f"{json.dumps(ROW)}\n" * 2, "2 rows were measured"),
        ("", "before anything"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", STOPPED, str(tmp_path), rows],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 130, done.stderr
        assert said in done.stdout
        assert done.stdout.endswith("docs/explanation/performance.md is left as it is.\n")
    assert "cast" in (tmp_path / "build" / "measured.txt").read_text()


def test_each_row_is_written_when_it_is_measured(tmp_path: Path) -> None:
    script = """
import sys
sys.path.insert(0, "benches")
from types import SimpleNamespace
from comparison import Comparison, Rival, Work
class Benchmark:
    enabled, extra_info = True, {}
    def pedantic(self, ours, setup, rounds, warmup_rounds):
        for _ in range(rounds):
            setup(), ours()
        self.stats = SimpleNamespace(stats=SimpleNamespace(data=[1.0] * rounds))
def row(name):
    rivals = [Rival("other", lambda: None, goal=1.0, seconds=2.0)]
    Comparison(Benchmark(), 1, "avx2")(name, lambda: None, rivals, Work(1.0, "B/s"))
row("first"), row("second")
"""
    rows = tmp_path / "rows.jsonl"
    subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=True, env={"TRN3_BENCH_ROWS": str(rows)}
    )
    assert [json.loads(line)["what"] for line in rows.read_text().splitlines()] == [
        "first",
        "second",
    ]


def test_a_table_replaces_that_of_its_own_cpu_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    first, begin, end = "CPU A", bench_report.BEGIN, bench_report.END
    text = ""
    page.write_text(f"before\n{begin.format(first)}\nold\n{end.format(first)}\nafter\n")
    row = bench_report.Row.from_json(ROW | {"limit": "fma", "share": 0.5}, "best level", "")
    limits = {"memory": 1.0, "fma_avx2": 2e9}
    for cpu, kept, gone in ((("CPU B"), "old", "none"), (first, "CPU B", "old")):
        monkeypatch.setattr(bench_report, "key", lambda cpu=cpu: cpu)
        bench_report.write_page(page, [row], limits)
        text = page.read_text()
        assert text.startswith("before\n")
        assert text.endswith("\nafter\n")
        assert text.count(begin.format(cpu)) == text.count(end.format(cpu)) == 1
        assert kept in text
        assert gone not in text
    assert "2 of 2 goals met" in text
    assert "| cast | 1 | 2e+09 B/s | 100% | its limit | 1.00 | >= 0.5 | met |" in text


def test_a_page_without_marks_is_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing")
    row = bench_report.Row.from_json(ROW, "best level", "")
    with pytest.raises(SystemExit, match="no mark"):
        bench_report.write_page(page, [row], {"memory": 1.0})
    assert page.read_text() == "nothing"


def test_a_row_of_several_threads_says_how_far_apart_the_cores_were() -> None:
    rows = [
        bench_report.Row.from_json(ROW | {"threads": threads} | more, "best level", "")
        for threads, more in ((1, {"handover": None}), (2, {"handover": 157.4}), (2, {}))
    ]
    assert [line[1] for line in bench_report.cells(rows, {})] == ["1", "2, 157 ns", "2"]
