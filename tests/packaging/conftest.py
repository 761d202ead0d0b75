"""The wheel, built once a session, and a clean environment that it is installed into."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tomllib
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from environment import extension_profile
from support.sandbox import ROOT, run

# Downloaded once, so that a second run needs no network.
WHEELHOUSE = ROOT / "build" / "wheelhouse"
# The oldest versions that we support have no wheels for later interpreters.
LAST_PYTHON_OF_FLOORS = (3, 12)


def dependencies() -> list[str]:
    """Return the requirements of the package, each pinned to its floor where that installs."""
    with (ROOT / "pyproject.toml").open("rb") as source:
        wanted: list[str] = tomllib.load(source)["project"]["dependencies"]
    if sys.version_info[:2] > LAST_PYTHON_OF_FLOORS:
        return wanted
    return [requirement.replace(">=", "==") for requirement in wanted]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel of the sources as they are, built with the profile the extension has."""
    if shutil.which("cargo") is None:
        pytest.skip("building a wheel needs cargo on the path; `make test` puts it there")
    target = tmp_path_factory.mktemp("wheel")
    options: list[str | Path] = ["--profile", extension_profile(), "--locked", "--out", target]
    run([sys.executable, "-m", "maturin", "build", *options, "-i", sys.executable], cwd=ROOT)
    (built,) = target.glob("*.whl")
    return built


def gathered(python: Path, wanted: Sequence[str]) -> Path:
    """Return the folder with the packages that an interpreter needs for some requirements."""
    version = run([python, "-c", "import sys; print(sys.version)"], cwd=ROOT).rstrip("\n")
    key = hashlib.sha256(repr([version, *wanted]).encode()).hexdigest()[:16]
    house = WHEELHOUSE / key
    if not (house / "complete").is_file():
        pip: list[str | Path] = [python, "-m", "pip", "--disable-pip-version-check"]
        run([*pip, "download", "--only-binary", ":all:", "--dest", house, *wanted], cwd=ROOT)
        (house / "complete").touch()
    return house


@pytest.fixture(scope="session")
def gather() -> Callable[[Path, Sequence[str]], Path]:
    """Return what gathers packages for an interpreter in a folder."""
    return gathered


@pytest.fixture(scope="session")
def clean_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment outside the repository that holds the wheel only."""
    wanted = dependencies()
    house = gathered(Path(sys.executable), wanted)
    home = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    offline: list[str | Path] = [
        "--disable-pip-version-check",
        "install",
        "--no-compile",
        "--no-index",
        "--find-links",
        house,
    ]
    run([python, "-m", "pip", *offline, wheel, *wanted], cwd=home)
    return python
