"""What editors know: names to complete, and types of what kernels import."""

from __future__ import annotations

import importlib
import itertools
import re
import subprocess
import sys
import venv
from importlib.machinery import PathFinder
from pathlib import Path

import jedi
import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import vendor_stubs
from support.checks import run_python
from support.sandbox import ROOT
from trn3.nki.dialects.vendor.aliases import ALIASES, OWNED

PYTHON = ROOT / "python"
EXAMPLES = [*sorted((ROOT / "examples").rglob("*.py"))]
#: Modules that load what they offer when it is asked for, and some of what they then load.
LAZY = {
    "trn3": {"plan", "planner", "numerics", "systems", "cost", "Chip"},
    "trn3.nki": {"diff", "CheckedRun", "record", "ResultCheck", "compiler", "builtin", "jit"},
    "trn3.nki.language": {"constants", "dtypes", "load", "float32"},
    "trn3.nki.isa": {"nc_matmul", "engine"},
    "trn3.nki.collectives": {"all_reduce"},
    "trn3.machine": {"Profile", "arch"},
    "trn3.system": {"NeuronCore", "Chip"},
    "trn3.nki.dialects.legacy.language.constants": {"pmax"},
}
#: Of these, dir() has what they offer and nothing that they import to work with.
CLEAN = [name for name in LAZY if name not in {"trn3.machine", "trn3.system"}][:-1]
WRONG = """
import neuronxcc.nki.language as old
import nki
import nki.isa as nisa
import nki.language as nl
import trn3

nl.lode
nisa.nc_matmull
nki.jitt
nki.language.lode
old.lode
trn3.plann
"""


@pytest.mark.parametrize("name", LAZY)
def test_dir_has_what_is_not_loaded_yet(name: str) -> None:
    listed = set(dir(importlib.import_module(name)))
    assert LAZY[name] <= listed
    assert {"__all__", "__name__", "__doc__"} <= listed


@pytest.mark.parametrize("name", CLEAN)
def test_dir_has_what_is_offered_and_no_more(name: str) -> None:
    module = importlib.import_module(name)
    public = {each for each in dir(module) if not each.startswith("_")}
    assert public <= {*module.__all__, *LAZY[name]}
    for each in public:
        getattr(module, each)


def test_dir_loads_nothing() -> None:
    code = "import sys, trn3; dir(trn3); print('trn3.planner' in sys.modules)"
    assert run_python(code).stdout == "False\n"


def completed(name: str) -> set[str]:
    """Return what jedi offers after the name of a module, by texts alone."""
    project = jedi.Project(ROOT, sys_path=[str(PYTHON), *sys.path], smart_sys_path=False)
    script = jedi.Script(f"import {name} as module\nmodule.", project=project)
    return {each.name for each in script.complete()}


@pytest.mark.parametrize("name", ["trn3", "trn3.nki", "trn3.nki.language", "trn3.nki.isa"])
def test_names_are_completed(name: str) -> None:
    """In a file, by its text alone; in a notebook, by the module that is there."""
    assert LAZY[name] <= completed(name)
    shell = InteractiveShell()
    shell.user_ns["module"] = importlib.import_module(name)
    with provisionalcompleter():
        offered = {each.text for each in shell.Completer.completions("module.", 7)}
    assert LAZY[name] <= {text.rpartition(".")[2] for text in offered}


@pytest.mark.parametrize("alias", ["nki", "nki.language", "nki.isa", "neuronxcc.nki.language"])
def test_names_that_kernels_import_are_completed(alias: str) -> None:
    assert set(importlib.import_module(ALIASES[alias]).__all__) <= completed(alias)


def test_stubs_are_as_the_script_writes_them() -> None:
    there = {
        str(path.relative_to(PYTHON)): path.read_text(encoding="utf-8")
        for name in OWNED
        for path in (PYTHON / f"{name}-stubs").rglob("*")
        if path.is_file()
    }
    assert there == vendor_stubs.stubs()


@pytest.mark.parametrize("name", OWNED)
def test_stubs_can_not_be_imported(name: str) -> None:
    """The vendor's packages are found as if there were no stubs."""
    assert PathFinder.find_spec("trn3", [str(PYTHON)]) is not None
    assert PathFinder.find_spec(name, [str(PYTHON)]) is None


@pytest.fixture(scope="session")
def user(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment that has the package as a wheel puts it."""
    home = tmp_path_factory.mktemp("user")
    venv.create(home, symlinks=True)
    (site,) = home.glob("lib/python*/site-packages")
    installed = [path for path in sys.path if path.endswith("-packages")]
    (site / "user.pth").write_text("\n".join([str(PYTHON), *installed]) + "\n")
    return home / "bin" / "python"


def pages(folder: Path) -> list[Path]:
    """Write the programs of each page that has kernels into a file, and return the files."""
    files = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)
        text = "\n\n".join(blocks)
        if re.search(r"^(?:import|from) (?:nki|neuronxcc)\b", text, re.MULTILINE):
            files.append(folder / f"page_{page.stem.replace('-', '_')}.py")
            files[-1].write_text(text)
    assert len(files) >= 3
    return files


def names(folder: Path) -> Path:
    """Write a file that imports all names of all modules that kernels import."""
    file = folder / "names.py"
    lines = ["from typing import assert_type", "import nki.language", "import trn3.nki.language"]
    number = itertools.count()
    for alias, module in ALIASES.items():
        offered = importlib.import_module(module).__all__
        lines += [f"from {alias} import {name} as _{next(number)}" for name in offered]
    lines.append("assert_type(nki.language.float32, trn3.nki.language.DType)")
    file.write_text("\n".join(lines))
    return file


@pytest.fixture(scope="session", params=["pyright", "mypy"])
def complaints(
    request: pytest.FixtureRequest, user: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """Return the errors that a checker has, one a line: on all files at once, for speed."""
    folder = tmp_path_factory.mktemp("checked")
    (folder / "wrong.py").write_text(WRONG)
    files = [*EXAMPLES, *pages(folder), names(folder), folder / "wrong.py"]
    command: list[str | Path] = ["pyright", "--pythonpath", user]
    if request.param == "mypy":
        settings = folder / "mypy.ini"
        # Blocks of a page are programs of their own, which import what they use; a program of
        # several files finds the others beside it, as an interpreter does.
        settings.write_text(
            "[mypy]\ncheck_untyped_defs = True\ndisable_error_code = no-redef\n"
            f"mypy_path = {folder}:{ROOT / 'examples' / 'train'}\nexplicit_package_bases = True\n"
        )
        cache = ROOT / ".mypy_cache" / "editors"
        command = ["mypy", "--config-file", settings, "--python-executable", user]
        command += ["--cache-dir", cache]
    run = subprocess.run(
        [sys.executable, "-m", *map(str, [*command, *files])],
        cwd=ROOT / "examples",
        env={"PATH": str(folder), "HOME": str(folder), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line.strip() for line in run.stdout.splitlines()]
    found = [line for line in lines if re.search(r":\d+: error|- error", line)]
    assert run.returncode == 1, run.stdout + run.stderr
    return found


def test_kernels_are_clean(complaints: list[str]) -> None:
    """All examples and the kernels of all pages, as an editor checks them, untyped as they are."""
    assert len(EXAMPLES) >= 25
    assert [line for line in complaints if "wrong.py" not in line and "names.py" not in line] == []


def test_misspelt_names_are_found(complaints: list[str]) -> None:
    found = [re.findall(r"wrong\.py:(\d+)", line) for line in complaints if "wrong.py" in line]
    first = WRONG[: WRONG.index("nl.lode")].count("\n") + 1
    assert found == [[str(line)] for line in range(first, WRONG.count("\n") + 1)]


def test_every_name_is_known(complaints: list[str]) -> None:
    """What a module offers when it runs, a checker finds in its stub."""
    assert [line for line in complaints if "names.py" in line] == []
