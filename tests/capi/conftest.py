"""The C library, installed once for all tests of it."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from pathlib import Path

import pytest

from support.commands import ROOT, output

TOOLS = ("cargo", "cc", "c++", "make", "pkg-config", "readelf")


@pytest.fixture(scope="session")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the library was installed, built as the tests of its crate are."""
    if not sys.platform.startswith("linux"):
        pytest.skip("the library is laid out for Linux")
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    # Tests that run side by side share it: who comes first builds it, the others wait.
    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    target = shared / "capi"
    with (shared / "capi.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "complete").exists():
            build(target)
            (target / "complete").touch()
    return target


def build(target: Path) -> None:
    """Install the library, with the profile that tests of its crate have."""
    program = (
        "import os, sys; from pathlib import Path; import capi; from steps import Runner;"
        "capi.build(Runner(Path(sys.argv[1]), Path(sys.argv[2]) / 'logs'), os.environ,"
        " prefix=Path(sys.argv[2]), profile='dev')"
    )
    scripts = str(ROOT / "scripts")
    output([sys.executable, "-B", "-c", program, ROOT, target], PYTHONPATH=scripts)
