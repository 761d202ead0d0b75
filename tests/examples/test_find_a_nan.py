"""The page on finding a NaN prints what the commands print, and its kernels do what it says."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from support.kernel_files import kernels_of
from trn3 import nki
from trn3.__main__ import main

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "how-to" / "find-a-nan.md").read_text()


def text_of(kernel: str) -> str:
    file = kernels_of("unsteady_norm")
    _, profile = nki.profile(getattr(file, kernel), **file.inputs(), shadow=True)
    console = Console(width=100, file=io.StringIO(), color_system=None)
    console.print(profile.summary())
    printed = console.file
    assert isinstance(printed, io.StringIO)
    return printed.getvalue()


def words(text: str) -> list[str]:
    """Return the words, without the folders of places and without rules."""
    return [re.sub(r"^.*(?=_norm\.py:)", "", word) for word in text.split() if "─" not in word]


@pytest.mark.parametrize(("kernel", "block"), [("unsteady", 1), ("steady", 2)])
def test_the_page_shows_what_is_printed(kernel: str, block: int) -> None:
    shown = words(re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)[block])
    printed = words(text_of(kernel))
    start = next(i for i in range(len(printed)) if printed[i : i + len(shown)] == shown)
    assert printed[start:] == shown


def test_the_page_shows_how_the_command_begins(capsys: pytest.CaptureFixture[str]) -> None:
    shown = words(re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)[0])
    file = ROOT / "examples" / "kernels" / "unsteady_norm.py"
    assert main(["profile", f"{file}:unsteady", "--shadow"]) == 1
    assert words(capsys.readouterr().out)[: len(shown)] == shown


def test_the_command_ends_with_the_difference_that_the_page_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = ROOT / "examples" / "kernels" / "unsteady_norm.py"
    assert main(["profile", f"{file}:steady"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Largest difference from the golden: 2.17e-04 of its largest magnitude" in printed
    assert "allowed 0.02" in printed
    assert "2.17e-04 of its largest magnitude where 0.02 is allowed" in PAGE


def test_the_unsteady_kernel_gives_nan_and_the_steady_one_does_not() -> None:
    file = kernels_of("unsteady_norm")
    arguments = file.inputs()
    wanted = file.golden(**arguments)
    assert np.isnan(file.unsteady(**arguments)).any()
    assert np.abs(file.steady(**arguments) - wanted).max() < 5e-3 * np.abs(wanted).max()
