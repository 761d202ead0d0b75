"""What `import trn3` costs and brings along, and that all public names are documented."""

from __future__ import annotations

import doctest
import inspect
import json
import statistics
from types import ModuleType

import pytest

import trn3
from support.checks import run_python
from trn3 import numerics

PACKAGE_NAMES = {
    "Chip",
    "Cluster",
    "Instance",
    "NeuronCore",
    "Training",
    "UltraServer",
    "__version__",
    "collectives",
    "compare",
    "cost",
    "flows",
    "get_num_threads",
    "goodput",
    "implied_capex",
    "load_mx",
    "numerics",
    "perf_per_watt",
    "operators",
    "plan",
    "power",
    "quantize_checkpoint",
    "search",
    "serve",
    "set_num_threads",
    "simd_level",
    "sweep",
    "system",
    "systems",
    "tco",
    "traffic",
}
NUMERICS_NAMES = {
    "MXArray",
    "SparseArray",
    "Xorwow",
    "activation",
    "cast",
    "compress",
    "exp",
    "matmul",
    "matmul_mx",
    "matmul_sparse",
    "prune",
    "quantize_mx",
    "tfloat32",
}
MEMBERS = {
    "MXArray": {
        "axis",
        "dequantize",
        "dtype",
        "elements",
        "from_parts",
        "from_trn3_layout",
        "from_x4",
        "nbytes",
        "scales",
        "shape",
        "to_trn3_layout",
        "to_x4",
    },
    "SparseArray": {
        "axis",
        "from_tags",
        "indices",
        "nbytes",
        "pattern",
        "to_dense",
        "to_tags",
        "values",
    },
    "Xorwow": {"copy", "jump", "phase", "seed", "state", "uint32", "uniform"},
}
HEAVY = ("matplotlib", "pandas", "rich", "safetensors", "scipy", "tokenizers", "torch", "typer")

TIMED_IMPORT = """
import sys, time
import numpy, ml_dtypes
start = time.perf_counter()
import trn3
trn3.numerics
print(time.perf_counter() - start)
"""


def test_import_takes_less_than_150_ms() -> None:
    """The median of seven processes, beyond what numpy and ml_dtypes take."""
    seconds = []
    for _ in range(7):
        finished = run_python(TIMED_IMPORT)
        assert finished.returncode == 0, finished.stderr
        seconds.append(float(finished.stdout))
    assert statistics.median(seconds) < 0.150


def test_import_brings_nothing_heavy() -> None:
    code = "import sys, json, trn3; print(json.dumps(sorted(sys.modules)))"
    finished = run_python(code)
    assert finished.returncode == 0, finished.stderr
    loaded = {name.split(".")[0] for name in json.loads(finished.stdout)}
    assert "trn3" in loaded
    assert not loaded & {*HEAVY, "ml_dtypes", "numpy"}


def test_numerics_come_when_they_are_named() -> None:
    code = "import sys, json, trn3; trn3.numerics; print(json.dumps(sorted(sys.modules)))"
    finished = run_python(code)
    assert finished.returncode == 0, finished.stderr
    loaded = {name.split(".")[0] for name in json.loads(finished.stdout)}
    assert {"trn3", "numpy", "ml_dtypes"} <= loaded
    assert not loaded & set(HEAVY)


def test_import_starts_no_threads() -> None:
    """The pool waits for work, so that importing before a fork does no harm."""
    code = "import os, numpy; n = len(os.listdir('/proc/self/task')); import trn3; "
    finished = run_python(code + "print(len(os.listdir('/proc/self/task')) - n)")
    assert finished.stdout == "0\n", finished.stderr


def test_import_is_quiet() -> None:
    """No output, and no warning that an importer would see."""
    finished = run_python("import warnings; warnings.simplefilter('error'); import trn3")
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


def test_public_names() -> None:
    assert set(trn3.__all__) == PACKAGE_NAMES
    assert set(numerics.__all__) == NUMERICS_NAMES
    for module, names in ((trn3, PACKAGE_NAMES), (numerics, NUMERICS_NAMES)):
        for name in names:
            getattr(module, name)
        visible = {name for name in vars(module) if not name.startswith("_")}
        extra = {name for name in visible - names if not inspect.ismodule(vars(module)[name])}
        assert extra <= {"annotations", "TYPE_CHECKING", "Any"}, "public by accident"


def public_members(owner: type) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


@pytest.mark.parametrize("name", MEMBERS)
def test_public_members(name: str) -> None:
    """`copy` is there for those who do not reach for the copy module."""
    optional = {"copy"}
    members = public_members(getattr(numerics, name))
    assert MEMBERS[name] - optional <= members <= MEMBERS[name] | optional


DOCUMENTED = [(trn3, name) for name in sorted(PACKAGE_NAMES - {"__version__"})]
DOCUMENTED += [(numerics, name) for name in sorted(NUMERICS_NAMES)]


@pytest.mark.parametrize(("module", "name"), DOCUMENTED)
def test_every_public_object_has_a_docstring_with_an_example(module: ModuleType, name: str) -> None:
    thing = getattr(module, name)
    text = inspect.getdoc(thing) or ""
    assert len(text) > 100
    if not inspect.ismodule(thing):
        assert ">>>" in text


@pytest.mark.parametrize("name", MEMBERS)
def test_every_public_member_has_a_docstring(name: str) -> None:
    owner = getattr(numerics, name)
    bare = [
        member for member in public_members(owner) if not inspect.getdoc(getattr(owner, member))
    ]
    assert not bare


def test_the_module_docstring_states_the_common_rules() -> None:
    text = " ".join((numerics.__doc__ or "").lower().split())
    for word in ("subnormal", "nan", "threads", "simd", "typeerror", "valueerror", "model choice"):
        assert word in text


@pytest.mark.parametrize(("module", "name"), DOCUMENTED)
def test_doctests(module: ModuleType, name: str) -> None:
    """All examples of an object and of its members run and print what they say."""
    thing = getattr(module, name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    owner = type(thing) if not callable(thing) and not inspect.ismodule(thing) else thing
    # Examples of arithmetic import what they use; elsewhere they may use their module's names.
    home = thing if inspect.ismodule(thing) else inspect.getmodule(thing)
    names = {} if module is numerics or home is None else dict(vars(home))
    tests = finder.find(owner, name, module=False, globs=names)
    runner = doctest.DocTestRunner(verbose=False)
    attempted = 0
    for test in tests:
        attempted += len(test.examples)
        assert runner.run(test, clear_globs=True).failed == 0
    assert attempted > 0 or inspect.ismodule(thing)
