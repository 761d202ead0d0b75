"""The C library as `make capi` lays it out: found by pkg-config, bound by version, and it runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "rust" / "trn3-capi" / "tests" / "c"
TOOLS = ("cargo", "cc", "c++", "pkg-config", "readelf")

pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="laid out for Linux"),
    pytest.mark.skipif(
        any(shutil.which(tool) is None for tool in TOOLS), reason=f"needs {', '.join(TOOLS)}"
    ),
]


def output(command: Sequence[str | Path], **variables: str) -> str:
    """Run a command and return what it says; fail with that."""
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return where the library was installed, built as the tests of its crate are."""
    target = tmp_path_factory.mktemp("capi")
    program = (
        "import os, sys; from pathlib import Path; import capi; from steps import Runner;"
        "capi.build(Runner(Path(sys.argv[1]), Path(sys.argv[2]) / 'logs'), os.environ,"
        " prefix=Path(sys.argv[2]), profile='dev')"
    )
    scripts = str(ROOT / "scripts")
    output([sys.executable, "-B", "-c", program, ROOT, target], PYTHONPATH=scripts)
    return target


def packaged(prefix: Path, *words: str) -> list[str]:
    """Ask pkg-config about the library."""
    return output(
        ["pkg-config", *words, "trn3"], PKG_CONFIG_PATH=str(prefix / "lib" / "pkgconfig")
    ).split()


def test_shared_library_has_its_version_in_its_name_and_in_each_symbol(prefix: Path) -> None:
    """Exactly the header's functions are visible, bound to major and minor version."""
    library = prefix / "lib" / "libtrn3.so"
    version = packaged(prefix, "--modversion")[0]
    interface = ".".join(version.split(".")[:2])
    assert f"[libtrn3.so.{interface}]" in output(["readelf", "-W", "-d", library])
    assert (prefix / "lib" / f"libtrn3.so.{version}").is_file()
    assert (prefix / "lib" / f"libtrn3.so.{interface}").is_symlink()
    symbols = output(["readelf", "-W", "--dyn-syms", library]).splitlines()
    defined = {line.split()[7] for line in symbols if "GLOBAL" in line and " UND " not in line}
    header = (prefix / "include" / "trn3.h").read_text()
    declared = re.findall(r"^(?:trn3_status|uint32_t) (trn3_\w+)\(", header, re.MULTILINE)
    node = f"TRN3_{interface}"
    assert defined == {f"{name}@@{node}" for name in declared} | {node}


@pytest.mark.parametrize("source", ["numerics.c", "host.cpp"])
def test_programs_are_built_by_pkg_config_and_run(
    prefix: Path, tmp_path: Path, source: str
) -> None:
    """The flags it gives are all that a C11 and a C++17 program need."""
    compiler = ["c++", "-std=c++17"] if source.endswith(".cpp") else ["cc", "-std=c11"]
    program = tmp_path / "program"
    flags = packaged(prefix, "--cflags", "--libs")
    output([*compiler, "-Wall", "-Wextra", "-Werror", SOURCES / source, "-o", program, *flags])
    assert output([program], LD_LIBRARY_PATH=str(prefix / "lib")) == "ok\n"


def test_static_library_needs_what_pkg_config_says(prefix: Path, tmp_path: Path) -> None:
    """A program with no shared library of ours runs wherever it is put."""
    program = tmp_path / "program"
    flags = packaged(prefix, "--cflags", "--libs", "--static")
    flags = [str(prefix / "lib" / "libtrn3.a") if flag == "-ltrn3" else flag for flag in flags]
    output(["cc", "-std=c11", SOURCES / "numerics.c", "-o", program, *flags])
    assert output([program]) == "ok\n"
    assert "libtrn3" not in output(["readelf", "-W", "-d", program])
