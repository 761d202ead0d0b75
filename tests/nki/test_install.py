"""Names under which kernels import the package."""

from __future__ import annotations

import importlib
import subprocess
import sys
import types
from collections.abc import Iterator

import pytest

import trn3.nki
from trn3.nki import version


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
        "nki.isa.constants.oob_mode.skip, nki.dtype.int8, nki.jit, nki.simulate, nki.cpu_simulate"
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
