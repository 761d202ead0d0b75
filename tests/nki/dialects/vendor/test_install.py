"""Names under which kernels import the package."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trn3.nki
from trn3.nki.values import version


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    trn3.nki.uninstall()


NAMES = {
    "nki": trn3.nki,
    "nki.language": trn3.nki.language,
    "nki.isa": trn3.nki.isa,
    "nki.isa.constants": trn3.nki.isa.constants,
    "nki.collectives": trn3.nki.collectives,
    "nki.typing": trn3.nki.typing,
    "nki.dtype": trn3.nki.dtype,
    "nki.tensor": trn3.nki.tensor,
    "nki.experimental": trn3.nki.experimental,
}


@pytest.mark.parametrize("name", NAMES)
def test_install_registers_every_name(name: str) -> None:
    trn3.nki.install()
    assert importlib.import_module(name) is NAMES[name]


def test_modules_hold_the_same_objects() -> None:
    trn3.nki.install()
    nl, nisa = importlib.import_module("nki.language"), importlib.import_module("nki.isa")
    assert nisa.engine is importlib.import_module("nki.isa.constants").engine
    assert importlib.import_module("nki.dtype").float8_e4m3 is nl.float8_e4m3
    assert importlib.import_module("nki.tensor").NkiTensor is nl.NkiTensor
    assert importlib.import_module("nki.experimental").while_loop is nl.while_loop
    assert importlib.import_module("nki.typing").tensor[128, 512].shape == (128, 512)
    assert importlib.import_module("neuron_dtypes").sizeinbytes(nl.bfloat16) == 2


def _present() -> dict[str, types.ModuleType]:
    owned = ("nki", "neuron_dtypes")
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in owned}


def test_install_gives_way_to_no_mere_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = types.ModuleType("nki")
    monkeypatch.setitem(sys.modules, "nki", folder)
    trn3.nki.install()
    assert sys.modules["nki"] is trn3.nki
    trn3.nki.uninstall()
    assert sys.modules["nki"] is folder


def test_uninstall_restores() -> None:
    before = _present()
    trn3.nki.install()
    trn3.nki.install()
    trn3.nki.uninstall()
    assert _present() == before
    trn3.nki.uninstall()


@pytest.mark.parametrize("name", ["nki", "neuronxcc", "neuron_dtypes"])
def test_install_refuses_beside_the_vendors_package(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType(name)
    module.__file__ = "/opt/vendor/file.py"
    monkeypatch.setitem(sys.modules, name, module)
    with pytest.raises(ImportError, match=rf"{name} is loaded already, from /opt/vendor/file.py"):
        trn3.nki.install()
    assert sys.modules[name] is module


def test_plain_import_reaches_every_submodule() -> None:
    program = (
        "import trn3.nki; trn3.nki.install(); import nki;"
        "nki.language.float32, nki.isa.tensor_copy, nki.typing.tensor, nki.collectives.all_reduce;"
        "nki.isa.constants.oob_mode.skip, nki.dtype.int8, nki.jit, nki.simulate, nki.cpu_simulate;"
        "nki.simulator.simulate_kernel;"
        "from nki.simulator import simulate, simulate_kernel"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_version_follows_install_then_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRN3_NKI_VERSION", raising=False)
    assert version.version() == "0.6"
    monkeypatch.setenv("TRN3_NKI_VERSION", "0.4")
    assert version.version() == "0.4"
    assert not version.at_least("0.5")
    trn3.nki.install(version="0.5.0")
    assert version.version() == "0.5"
    assert version.at_least("0.5")
    trn3.nki.uninstall()
    assert version.version() == "0.4"
    with pytest.raises(ValueError, match=r"version is '0.9'; allowed: 0.1, "):
        trn3.nki.install(version="0.9")
    monkeypatch.setenv("TRN3_NKI_VERSION", "new")
    with pytest.raises(ValueError, match="TRN3_NKI_VERSION is 'new'"):
        version.version()


def test_install_registers_the_legacy_tree() -> None:
    trn3.nki.install()
    nki = importlib.import_module("neuronxcc.nki")
    assert sys.modules["neuronxcc"].nki is nki
    for name in ("language", "isa", "compiler", "typing", "collectives"):
        assert importlib.import_module(f"neuronxcc.nki.{name}") is getattr(nki, name)
    assert importlib.import_module("nki").compiler is nki.compiler
    util = importlib.import_module("neuronxcc.starfish.support.util")
    dtype = importlib.import_module("neuronxcc.starfish.support.dtype")
    nl = importlib.import_module("neuronxcc.nki.language")
    half = dtype.static_cast([[1.0, 2.0]], nl.bfloat16)
    assert half.dtype == nl.bfloat16
    assert util.allclose(half, [[1.0, 2.0]])
    assert not util.allclose(half, [[1.0, 3.0]])
    trn3.nki.uninstall()
    assert "neuronxcc" not in sys.modules


def test_names_of_the_compiler_and_of_the_older_simulator() -> None:
    trn3.nki.install()
    try:
        for path, names in {
            "nki.compiler.frontend": ("NKIFrontend", "ParserFrontend"),
            "nki.compiler.ncc_driver": ("CompileOptions", "CompiledKernel"),
            "nki.compiler.kernel_builder": ("compile_kernel",),
        }.items():
            module = importlib.import_module(path)
            for name in names:
                with pytest.raises(NotImplementedError, match=f"{name}: hardware compilation"):
                    getattr(module, name)()
        tree = importlib.import_module("nki_cpu_simulator.nki")
        assert tree is trn3.nki
        for name in ("builtin", "compiler", "isa", "isa.constants", "language", "language.dtypes"):
            importlib.import_module(f"nki_cpu_simulator.nki.{name}")
        for name in ("tensor", "typing"):
            assert importlib.import_module(f"nki_cpu_simulator.nki.{name}") is getattr(tree, name)
    finally:
        trn3.nki.uninstall()
    assert "nki_cpu_simulator" not in sys.modules


PATHS = [
    "nki.compiler.frontend.NKIFrontend", "nki.compiler.ncc_driver.CompileOptions",
    "nki.compiler.kernel_builder.compile_kernel", "nki.language.dtypes.bfloat16",
    "nki.isa.constants.engine", "nki_cpu_simulator.nki.builtin.add",
    "nki_cpu_simulator.nki.compiler.sbuf", "nki_cpu_simulator.nki.isa.constants.reduce_cmd",
    "nki_cpu_simulator.nki.language.dtypes.float32", "nki_cpu_simulator.nki.tensor.NkiTensor",
    "nki_cpu_simulator.nki.typing.tensor", "neuronxcc.nki.language.par_dim",
    "neuronxcc.nki.isa.constants.dge_mode", "neuronxcc.nki.compiler.sbuf.mod_alloc",
    "neuronxcc.nki.typing.mutable_tensor", "neuronxcc.nki.collectives.all_reduce",
    "neuronxcc.starfish.support.util.allclose", "neuronxcc.starfish.support.dtype.static_cast",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_every_submodule_is_an_attribute_of_its_parent(path: str) -> None:
    trn3.nki.install()
    names = path.split(".")
    module = ".".join(names[:-1])
    scope: dict[str, object] = {}
    exec(f"import {'.'.join(names[:3])}" if "mod_alloc" in path else f"import {module}", scope)
    found = scope[names[0]]
    for name in names[1:]:
        found = getattr(found, name)
    assert found is not None


def test_uninstall_leaves_no_alias() -> None:
    owned = ("nki", "neuronxcc", "neuron_dtypes", "nki_cpu_simulator", "nkilib")
    before = set(sys.modules), list(sys.meta_path)
    trn3.nki.install()
    for path in PATHS:
        importlib.import_module(path.split(".")[0])
    trn3.nki.uninstall()
    assert not [name for name in sys.modules if name.partition(".")[0] in owned]
    assert {name for name in set(sys.modules) - before[0] if "trn3" not in name} == set()
    assert sys.meta_path == before[1]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("neuronxcc.nki")


def test_the_simulators_tree_runs_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEURON_PLATFORM_TARGET_OVERRIDE", raising=False)
    trn3.nki.install()
    tree = importlib.import_module("nki_cpu_simulator.nki")
    nl, nisa = tree.language, tree.isa

    def kernel(x: Any, scale: float = 1.0) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        if nl.program_id(0) == 0:
            tile = nl.ndarray(x.shape, x.dtype)
            nisa.dma_copy(tile, x)
            nisa.tensor_scalar(tile, tile, nl.multiply, scale)
            nisa.dma_copy(out, tile)
        versions.append(nisa.get_nc_version())
        return out

    versions: list[Any] = []
    x = np.ones((4, 4), np.float32)
    for text, wanted in (
        ("gen2", 2), ("gen3", 3), ("gen4", 4), ("trn2", 3), ("3", 3),
    ):  # fmt: skip
        monkeypatch.setenv("NKI_NC_VERSION", text)
        cores = 1 if wanted == 2 else 2
        assert (tree.cpu_simulate(kernel)[cores](x=x, scale=3.0) == 3).all()
        assert (tree.cpu_simulate(tree.jit(kernel))[cores](x=x, scale=3.0) == 3).all()
        assert {int(each) for each in versions} == {wanted}
        versions.clear()


@pytest.fixture
def _library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    files = {
        "nkilib_src/nkilib/__init__.py": "",
        "nkilib_src/nkilib/core/__init__.py": "from .sums import twice",
        "nkilib_src/nkilib/core/sums.py": "from ..tools import VALUE\ntwice = lambda: 2 * VALUE",
        "nkilib_src/nkilib/tools.py": "VALUE = 21",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    trn3.nki.uninstall()
    for name in [name for name in sys.modules if name.partition(".")[0] == "nkilib_src"]:
        del sys.modules[name]


@pytest.mark.usefixtures("_library")
def test_the_kernel_library_has_its_second_name() -> None:
    trn3.nki.install()
    sums = importlib.import_module("nkilib.core.sums")
    assert sums.twice() == 42
    assert sums is importlib.import_module("nkilib_src.nkilib.core.sums")
    assert sums.__spec__.name == sums.__name__ == "nkilib_src.nkilib.core.sums"
    scope: dict[str, Any] = {}
    exec("import nkilib.tools; from nkilib.core import twice", scope)
    assert scope["nkilib"].tools.VALUE == 21
    assert scope["twice"] is sums.twice
    with pytest.raises(ModuleNotFoundError, match=r"nkilib\.missing"):
        importlib.import_module("nkilib.missing")
    trn3.nki.uninstall()
    assert not [name for name in sys.modules if name.partition(".")[0] == "nkilib"]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("nkilib")


@pytest.mark.usefixtures("_library")
def test_a_library_of_the_compiler_has_precedence(tmp_path: Path) -> None:
    (tmp_path / "nkilib").mkdir()
    (tmp_path / "nkilib" / "__init__.py").write_text("OWN = True")
    trn3.nki.install()
    try:
        assert importlib.import_module("nkilib").OWN
    finally:
        sys.modules.pop("nkilib", None)


def test_allclose_takes_every_type() -> None:
    trn3.nki.install()
    util = importlib.import_module("neuronxcc.starfish.support.util")
    torch = pytest.importorskip("torch")
    one = torch.ones(3, dtype=torch.bfloat16)
    assert util.allclose(one, np.ones(3), rtol=1e-2, atol=1e-2)
    assert not util.allclose(one, np.full(3, 1.1, np.float16), 1e-2, 1e-2)
