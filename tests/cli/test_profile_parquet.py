"""``trn3 profile --parquet``: tables of Neuron Explorer in a folder, or one line of why not."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

pytest.importorskip("pyarrow", reason="the extra `parquet` is not installed")

Refused = Callable[..., str]
Run = Callable[..., Any]
KERNELS = Path(__file__).resolve().parents[2] / "examples" / "kernels"
COMMAND = ("profile", f"{KERNELS / 'flash_attention.py'}:forward", "--shape", "tokens=128")


def test_tables_are_written_beside_the_rest(run: Run, tmp_path: Path) -> None:
    from pyarrow import parquet

    tables, out = tmp_path / "tables", tmp_path / "run"
    outcome = run(*COMMAND, "--timing-only", "--json", "--parquet", tables, "--out", out)
    assert outcome.code == 0
    figures = json.loads(outcome.stdout)
    assert {Path(file).parent for file in figures["files"]} == {tables, out}
    written = {file.name for file in tables.iterdir()}
    assert {"Instruction.parquet", "DmaPacket.parquet", "StackFrame.parquet"} <= written
    (summary,) = parquet.read_table(tables / "Summary.parquet").to_pylist()
    assert summary["trn3_latency_ps"] == round(1e6 * figures["latency_us"])
    assert summary["hbm_read_bytes"] == figures["hbm_read_bytes"]
    # Again into the same folder, and said in words.
    outcome = run(*COMMAND, "--timing-only", "--parquet", tables)
    assert outcome.code == 0
    assert f"wrote {tables / 'Instruction.parquet'}" in outcome.stdout.splitlines()
    assert {file.name for file in tables.iterdir()} == written


def test_what_cannot_be_written_is_refused(refused: Refused, tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("precious")
    assert refused(*COMMAND, "--parquet", taken) == f"{taken}: exists and is no folder"
    deep = tmp_path / "no" / "tables"
    assert refused(*COMMAND, "--parquet", deep) == f"{deep}: there is no folder {deep.parent}"


def test_a_full_disk_leaves_nothing(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def full(path: Path, mode: str = "r", *given: Any, **named: Any) -> IO[Any]:
        if path.suffix == ".parquet":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return opened(path, mode, *given, **named)

    monkeypatch.setattr(Path, "open", full)
    line = refused(*COMMAND, "--parquet", tmp_path / "tables")
    assert line.endswith("Instruction.parquet: No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_it_needs_pyarrow(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is said before the kernel runs."""
    monkeypatch.setattr("trn3.cli.profile.find_spec", lambda name: None)
    line = refused("profile", "absent.py:kernel", "--parquet", tmp_path / "tables")
    assert line == "--parquet needs pyarrow: pip install 'trn3[parquet]'"
    assert list(tmp_path.iterdir()) == []
