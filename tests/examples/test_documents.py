"""The figures on the page about kernels are those that a user gets, and it names every file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from examples.test_matmul_steps import STEPS, profile_of, tensor_waits

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "kernels.md"


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
