"""The page on bottlenecks: its figures are those of its kernels."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trn3.cli import kernel_file
from trn3.machine import arch
from trn3.nki import lint

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "find-the-bottleneck.md").read_text()
FIRST, PROGRAM, SHARED = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "rows.py"
    path.write_text(f"{FIRST}\n\n{SHARED}")
    return path


def test_the_program_finds_the_same(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = kernel_file.import_file(file)
    exec(compile(PROGRAM, "program.py", "exec"), vars(module))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(row[0], row[-1]) for row in rows] == [
        ("trn3", "vector"),
        ("fast", "vector"),
        ("trn3:hbm_gbps=9800", "vector"),
    ]


def test_both_kernels_are_right_and_portable(file: Path) -> None:
    module: Any = kernel_file.import_file(file)
    arguments = module.inputs(rows=256, columns=512)
    wanted = module.golden(**arguments)
    for kernel in (module.normalise, module.shared):
        result = kernel(**arguments).astype(np.float64)
        assert np.abs(result - wanted).max() <= 2**-7 * np.abs(wanted).max()
        assert lint(kernel) == ()


def test_the_least_time_is_that_of_the_figures() -> None:
    spec = arch("trn3")
    rate = spec["dma_engines"] * spec["dma_engine_bytes_per_ns"]
    total = 2 * 2048 * 4096 * 2
    assert f"{total / 1e6:.1f} MB" in PAGE
    assert f"engines move {rate:.0f} GB/s: {total / rate / 1e3:.0f} us" in PAGE


def test_the_figures_to_change_exist() -> None:
    table = re.search(r"\| if the verdict names .*?\n\n", PAGE, re.DOTALL)
    assert table is not None
    names = set(re.findall(r"`(\w+)`", table[0]))
    assert len(names) > 8
    assert names <= set(arch("trn3").entries)
