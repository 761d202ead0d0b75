"""Runs commands the way a user would, apart from the environment of the tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(command: Sequence[str | Path], *, cwd: Path, **variables: str) -> str:
    """Run `command` without our environment's Python settings; fail with its output."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TRN3_", "PYTHON", "VIRTUAL_ENV"))
    }
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}")
    return done.stdout
