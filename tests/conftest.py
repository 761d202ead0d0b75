"""Settings shared by all tests.

Hypothesis runs the profile named by TRN3_HYPOTHESIS_PROFILE: `fast` (the default, the same
examples each time) or `thorough` (many fresh examples). Tests marked `slow` take minutes and are
left out of the default run; `pytest -m slow` runs them.
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest

from trn3.nki.values.version import VERSIONS

# pyproject.toml does the same for a run that finds it.
sys.path.insert(0, str(Path(__file__).parent))

# A run in a script's background ignores Ctrl-C, and would hand that on to the processes that tests
# interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

hypothesis.settings.register_profile("fast", max_examples=60, deadline=None, derandomize=True)
hypothesis.settings.register_profile("thorough", max_examples=3000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("TRN3_HYPOTHESIS_PROFILE", "fast"))

MODE_SOURCE = """
#include <xmmintrin.h>
unsigned get_mode(void) { return _mm_getcsr(); }
void set_mode(unsigned mode) { _mm_setcsr(mode); }
"""


# Its fixture runs for minutes: begun last, one of two workers would wait for it at the end.
FIRST = "tests/validation/test_measurements.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Move what takes longest to the front; all else keeps its order."""
    items.sort(key=lambda item: not item.nodeid.startswith(FIRST))


@pytest.fixture(params=VERSIONS)
def every_release(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run the test under each release of NKI."""
    monkeypatch.setenv("TRN3_NKI_VERSION", request.param)
    release: str = request.param
    return release


@pytest.fixture(scope="session")
def mode_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Build a shared library that reads and sets the SSE control register."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        pytest.skip("the floating-point control register is set with x86 instructions")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler to build the helper that sets the floating-point mode")
    folder = tmp_path_factory.mktemp("mode")
    source, library = folder / "mode.c", folder / "mode.so"
    source.write_text(MODE_SOURCE, encoding="ascii")
    command = [compiler, "-O0", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True, capture_output=True)
    return str(library)
