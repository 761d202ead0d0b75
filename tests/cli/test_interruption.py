"""Ctrl-C while the command starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import trn3

#: Sends Ctrl-C when a module begins to be imported.
INTERRUPTING = """
import signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""
MODULES = (
    "trn3._trn3",
    "numpy",
    "numpy._core._multiarray_umath",
    "numpy.linalg",
    "ml_dtypes",
    "typer",
    "trn3.cli.app",
    "trn3.cli.info",
)


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("how", [["-m", "trn3"], ["-c", "import sys; sys.exit(main())"]])
def test_interrupt_during_imports_is_one_line(tmp_path: Path, module: str, how: list[str]) -> None:
    """NumPy makes an ImportError of a Ctrl-C that falls into the import of its extension."""
    hook = INTERRUPTING.format(module=module)
    (tmp_path / "sitecustomize.py").write_text(hook, encoding="ascii")
    path = os.pathsep.join([str(tmp_path), str(Path(trn3.__file__).parents[1])])
    words = [word.replace("main()", "__import__('trn3.__main__').__main__.main()") for word in how]
    done = subprocess.run(
        [sys.executable, *words, "info"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "trn3: error: interrupted\n"


def test_an_ignored_interrupt_stays_ignored() -> None:
    """As in the background of a script."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "from trn3.__main__ import main; signal.raise_signal(signal.SIGINT); "
        "code = main(['info']); signal.raise_signal(signal.SIGINT); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
