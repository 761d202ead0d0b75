"""The C library as `make capi` lays it out: found by pkg-config, bound by version, and it runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.commands import ROOT, output

SOURCES = ROOT / "rust" / "capi" / "tests" / "c"

pytestmark = pytest.mark.timeout(1800)


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
