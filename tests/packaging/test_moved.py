"""Modules that moved are found by the names that they had, and say where they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from trn3._moved import MOVED, PUBLIC, renamed

#: Tries each pair of names in a process of its own, which begins with NumPy and without trn3.
TRIED = """
import importlib, json, os, sys, traceback, warnings
import ml_dtypes, numpy

def check(old_name, new_name):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        old = importlib.import_module(old_name)
        again = importlib.import_module(old_name)
    assert old is again is importlib.import_module(new_name), (old, again)
    messages = [str(w.message) for w in seen if w.category is DeprecationWarning]
    assert any(m.startswith(f"{old_name} is now {new_name};") for m in messages), messages
    assert len(messages) == len(set(messages)), messages

found = {}
for old_name, new_name in json.loads(sys.argv[1]):
    read, write = os.pipe()
    if os.fork() == 0:
        text = "ended early"
        try:
            check(old_name, new_name)
            text = ""
        except BaseException:
            text = traceback.format_exc()[-4000:]
        finally:
            os.write(write, text.encode() or b"ok")
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        found[old_name] = pipe.read()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """Return what became of each old name: ``ok``, or what was raised."""
    pairs = json.dumps(sorted(MOVED.items()))
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # a process that forks has one thread
    run = subprocess.run(
        [sys.executable, "-c", TRIED, pairs],
        capture_output=True, text=True, check=False, env=environment,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    found: dict[str, str] = json.loads(run.stdout)
    return found


@pytest.mark.parametrize("old", sorted(MOVED))
def test_an_old_name_gives_the_module_itself(old: str, outcomes: dict[str, str]) -> None:
    """The module is the same object under both names, and the old one warns once."""
    assert outcomes[old] == "ok"


def test_modules_that_lay_in_a_package_are_found_in_it() -> None:
    """What `import trn3.nki` once loaded is still an attribute of it, and warns."""
    names = [old.removeprefix("trn3.nki.") for old in MOVED if old.startswith("trn3.nki.")]
    code = (
        "import sys, warnings; from trn3 import nki; warnings.simplefilter('ignore')\n"
        "for name in sys.argv[1:]: assert getattr(nki, name).__name__.startswith('trn3.nki.'), name"
    )
    given = [name for name in names if "." not in name and name != "annotations"]  # of __future__
    assert given
    run = subprocess.run(
        [sys.executable, "-c", code, *given], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


def test_a_function_is_not_replaced_by_the_module_of_its_name() -> None:
    """`astra_sim` is a function of the package and a module below it, by the old name too."""
    code = """
import warnings
warnings.simplefilter("ignore", DeprecationWarning)
import trn3.export.astra_sim
from trn3.export.astra_sim import astra_sim
assert trn3.export.astra_sim is astra_sim
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


SHORT = """
import importlib, sys
short, new = sys.argv[1:]
module = importlib.import_module(short)
assert module is importlib.import_module(new), module
import trn3
assert getattr(trn3, short.removeprefix("trn3.")) is module
"""


@pytest.mark.parametrize(("short", "new"), sorted(PUBLIC.items()))
def test_a_public_name_gives_the_module_without_a_word(short: str, new: str) -> None:
    """The short name is no old one: with warnings as errors it works too."""
    command = [sys.executable, "-W", "error", "-c", SHORT, short, new]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


def test_what_never_moved_is_nobodys_alias() -> None:
    """Names outside the table are left to the import system."""
    assert renamed("trn3.numerics") is None
    assert renamed("trn3.numerics.nothing") is None
