"""Functions of JAX run with the oldest JAX that the package allows, as with the newest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from support.sandbox import ROOT

pytestmark = pytest.mark.timeout(900)


def floor() -> str:
    """Return the version from which on the extra has JAX."""
    with (ROOT / "pyproject.toml").open("rb") as source:
        (wanted,) = tomllib.load(source)["project"]["optional-dependencies"]["jax"]
    name, _, version = wanted.partition(">=")
    assert name == "jax"
    return str(version)


@pytest.fixture(scope="module")
def oldest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the oldest JAX; what it needs besides is that of the newest."""
    folder = tmp_path_factory.mktemp("jax")
    wanted = [f"jax=={floor()}", f"jaxlib=={floor()}"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-compile", "--no-deps"]
    command = [*pip, "--target", str(folder), *wanted]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.skip(f"JAX {floor()} cannot be installed here: {run.stderr.strip()[-300:]}")
    return folder


def test_functions_run_with_the_oldest_jax(oldest: Path) -> None:
    """All but a test whose `shard_map` that JAX itself refuses without ``check_rep=False``."""
    paths = [str(oldest), str(ROOT / "python")]
    told = subprocess.run(
        [sys.executable, "-c", "import jax; print(jax.__version__)"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == floor()
    refused = "tests/jax/test_ranks.py::test_a_data_parallel_step_is_that_of_the_whole_batch"
    tests = ["tests/jax/test_compile.py", "tests/jax/test_ranks.py", "--deselect", refused]
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(r"\d+ passed", run.stdout), run.stdout[-3000:] + run.stderr
    assert run.returncode == 0, run.stdout[-3000:]
