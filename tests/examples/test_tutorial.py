"""The tutorial's kernels are those of the example, and its figures are what they cost."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.kernel_files import FOLDER, kernels_of
from trn3 import nki
from trn3.cli import script
from trn3.profile import Profile

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tutorial" / "first-kernel.md").read_text()
STEPS = ["first", "wide", "pipelined", "two_cores[2]"]


def kernel_of(step: str) -> Any:
    name, _, cores = step.partition("[")
    kernel = getattr(kernels_of("gate"), name)
    return kernel[int(cores.rstrip("]"))] if cores else kernel


@functools.cache
def profile_of(step: str) -> Profile:
    _, profile = nki.profile(kernel_of(step), values=False, **kernels_of("gate").inputs())
    return profile


@pytest.mark.parametrize("step", STEPS)
def test_the_table_is_current(step: str) -> None:
    (row,) = re.findall(rf"\| `{re.escape(step)}` \| ([\d.]+) us \| (\d+) % \| (\w+) \|", PAGE)
    profile = profile_of(step)
    (dma,) = [engine for engine in profile.engines() if engine.engine == "dma"]
    bound = profile.verdict().split()[2].rstrip(":")
    share = f"{100 * dma.busy_us / profile.latency_us:.0f}"
    assert row == (f"{profile.latency_us:.1f}", share, bound)


@pytest.mark.parametrize("step", STEPS[:3])
def test_the_verdicts_are_current(step: str) -> None:
    (text,) = re.findall(rf"```text\n{step} on trn3: .*?instructions\n(.*?)```", PAGE, re.DOTALL)
    assert " ".join(text.split()) == profile_of(step).verdict()


def test_the_kernels_are_those_of_the_example() -> None:
    def bare(text: str) -> str:
        without_docstrings = re.sub(r'\n +""".*?"""', "", text, flags=re.DOTALL)
        return re.sub(r"  # .*", "", without_docstrings)

    example = bare((FOLDER / "gate.py").read_text())
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    functions = [part for block in blocks for part in re.split(r"\n\n\n", block) if "def " in part]
    assert len(functions) == 5
    for function in functions:
        assert bare(function).strip() in example


def test_the_script_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, call, *_ = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "first.py"
    file.write_text(first + "\n" + call)
    assert script.run(file, []) == 0
    dtype, *shape, error = capsys.readouterr().out.split()
    assert (dtype, shape) == ("bfloat16", ["(256,", "1024)"])
    # Three roundings to bfloat16 of numbers up to about 15.
    assert 0 < float(error) < 0.1


@pytest.mark.parametrize("step", [*STEPS, "two_cores"])
def test_each_step_is_the_same_gate(step: str) -> None:
    gate = kernels_of("gate")
    arguments = gate.inputs(rows=512, columns=1024)
    result = kernel_of(step)(**arguments).astype(np.float64)
    golden = gate.golden(**arguments)
    # Inputs are exact; silu and the product round to bfloat16 once each.
    assert (np.abs(result - golden) <= 2.0**-7 * np.abs(golden)).all()
