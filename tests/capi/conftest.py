"""The C library, installed once for all tests of it."""

from __future__ import annotations

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
    target = tmp_path_factory.mktemp("capi")
    program = (
        "import os, sys; from pathlib import Path; import capi; from steps import Runner;"
        "capi.build(Runner(Path(sys.argv[1]), Path(sys.argv[2]) / 'logs'), os.environ,"
        " prefix=Path(sys.argv[2]), profile='dev')"
    )
    scripts = str(ROOT / "scripts")
    output([sys.executable, "-B", "-c", program, ROOT, target], PYTHONPATH=scripts)
    return target
