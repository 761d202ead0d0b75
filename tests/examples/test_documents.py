"""The commands and figures in the documents about kernels are those that a user gets."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from examples.test_matmul_steps import STEPS, profile_of, tensor_waits
from trn3.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "kernels.md"
COMMANDS = sorted(
    {
        line.strip()
        for file in (ROOT / "README.md", PAGE)
        for line in file.read_text().splitlines()
        if line.strip().startswith("trn3 profile examples")
    }
)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_work(
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "--out" in command:
        pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    words = shlex.split(command)[1:]
    words[1] = str(ROOT / words[1])
    monkeypatch.chdir(tmp_path)
    assert main(words) == 0, capsys.readouterr().err
    if "--out" in command:
        assert len(list((tmp_path / "run").iterdir())) == 5


def test_the_programs_work(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    first, *others = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    file = tmp_path / "program.py"
    file.write_text(first)
    names: dict[str, Any] = {"__name__": "program"}
    exec(compile(first, file, "exec"), names)
    assert capsys.readouterr().out.startswith("Bound by ")
    for source in others:
        exec(compile(source, file, "exec"), dict(names))


@pytest.mark.parametrize("step", STEPS)
def test_the_table_of_steps_is_current(step: str) -> None:
    (row,) = re.findall(
        rf"\| `{step}` \| ([\d.]+) us \| (\d+) % \| ([\d.]+) us \|", PAGE.read_text()
    )
    profile = profile_of(step, "trn3")
    waits = tensor_waits(profile).get("dma", 0.0)
    wanted = (f"{profile.latency_us:.0f}", f"{100 * profile.mfu:.0f}", f"{waits:.0f}")
    assert row == wanted


def test_every_kernel_is_named() -> None:
    names = {path.name for path in (ROOT / "examples" / "kernels").glob("*.py")}
    assert set(re.findall(r"\| `(\w+\.py)` \|", PAGE.read_text())) == names
