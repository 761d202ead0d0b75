"""Build the C library and lay it out for installation: header, both libraries, pkg-config file.

The shared library is linked from the static one, which allows what cargo does not: a version of its
own in its name and in each symbol, and no symbol but the interface's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from environment import BUILD, CARGO_TEST, ROOT
from steps import Runner, StepError

HEADER = ROOT / "rust" / "capi" / "include" / "trn3.h"
DECLARATION = re.compile(r"^(?:trn3_status|uint32_t) (trn3_\w+)\(", re.MULTILINE)

PKG_CONFIG = """\
prefix=${{pcfiledir}}/../..
includedir=${{prefix}}/include
libdir=${{prefix}}/lib

Name: trn3
Description: The arithmetic of Trainium3 and a device with time, for other simulators
Version: {version}
Cflags: -I${{includedir}}
Libs: -L${{libdir}} -ltrn3
Libs.private: {private}
"""


@dataclass(frozen=True, slots=True)
class Version:
    """The version of the manifest, in the forms that names of libraries have."""

    text: str

    @property
    def release(self) -> str:
        """Return the version without a pre-release tag."""
        return self.text.split("-")[0]

    @property
    def interface(self) -> str:
        """Return the part that programs are bound to; with major version 0 the minor counts."""
        major, minor, _ = self.release.split(".")
        return major if major != "0" else f"{major}.{minor}"


def options(words: Sequence[str]) -> argparse.Namespace:
    """Read the words after ``make.py capi``."""
    parser = argparse.ArgumentParser(prog="make.py capi", description=__doc__)
    parser.add_argument(
        "--prefix",
        type=Path,
        default=BUILD / "capi",
        help="where include/, lib/ and lib/pkgconfig/ go (default: build/capi)",
    )
    parser.add_argument("--profile", default="dist", help="cargo profile (default: dist)")
    return parser.parse_args(words)


def exports() -> list[str]:
    """Return the names of the functions that the header declares."""
    return sorted(DECLARATION.findall(HEADER.read_text()))


def cargo_metadata(variables: Mapping[str, str]) -> tuple[Version, Path]:
    """Return the version of the interface's crate, and where cargo builds."""
    command = ["cargo", "metadata", "--no-deps", "--locked", "--format-version", "1"]
    run = subprocess.run(
        command, cwd=ROOT, env=dict(variables), capture_output=True, text=True, check=True
    )
    metadata = json.loads(run.stdout)
    (package,) = (package for package in metadata["packages"] if package["name"] == "trn3-capi")
    return Version(package["version"]), Path(metadata["target_directory"])


def system_libraries(variables: Mapping[str, str]) -> list[str]:
    """Return what a static library of Rust's needs of the system, as the compiler says it."""
    scratch = BUILD / "capi-link" / "empty.a"
    scratch.parent.mkdir(parents=True, exist_ok=True)
    command: list[str | Path] = ["rustc", "--crate-type", "staticlib"]
    command += ["--print", "native-static-libs", "-o", scratch, "-"]
    run = subprocess.run(
        command, input="", env=dict(variables), capture_output=True, text=True, check=True
    )
    found = re.search(r"native-static-libs: (.*)", run.stderr)
    return found.group(1).split() if found else []


def version_script(version: Version, names: Sequence[str]) -> str:
    """Return what tells the linker which symbols there are, and of which version."""
    body = "".join(f"        {name};\n" for name in names)
    return f"TRN3_{version.interface} {{\n    global:\n{body}    local:\n        *;\n}};\n"


def link_shared(
    runner: Runner,
    variables: Mapping[str, str],
    version: Version,
    static: Path,
    libraries: Path,
) -> None:
    """Link the shared library, and give it the names that compilers and loaders look for."""
    names = exports()
    script = BUILD / "capi-link" / "trn3.map"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(version_script(version, names))
    real = libraries / f"libtrn3.so.{version.release}"
    soname = f"libtrn3.so.{version.interface}"
    command: list[str | Path] = [
        os.environ.get("CC", "cc"),
        "-shared",
        "-o",
        real,
        f"-Wl,-soname,{soname}",
        f"-Wl,--version-script={script}",
        "-Wl,--gc-sections,--as-needed,-z,relro,-z,now,-z,defs",
        *(f"-Wl,--undefined={name}" for name in names),
        static,
        *system_libraries(variables),
    ]
    runner.run("shared library", command, environment=variables, required=True)
    for name, target in ((soname, real.name), ("libtrn3.so", soname)):
        link = libraries / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def build(
    runner: Runner, variables: Mapping[str, str], *, prefix: Path, profile: str = "dist"
) -> list[Path]:
    """Build everything, put it under `prefix` and return the files.

    With the profile "dev" the library is the one that tests of its crate are linked with, so that
    a run of all tests builds it once.
    """
    if not sys.platform.startswith("linux"):
        print(
            "make capi lays libraries out for Linux; elsewhere build them with"
            " `cargo build --release -p trn3-capi` and take them from target/release."
        )
        raise StepError("C library")
    version, target = cargo_metadata(variables)
    # Messages of panics name source files; those of this machine are nobody's business.
    cargo_home = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    remap = [f"--remap-path-prefix={ROOT}=.", f"--remap-path-prefix={cargo_home}=cargo"]
    if profile == "dist":
        flags = " ".join([variables.get("RUSTFLAGS", ""), *remap]).strip()
        variables = {**variables, "RUSTFLAGS": flags}
    command = ["cargo", "build", "--locked", "--profile", profile, "-p", "trn3-capi", "--lib"]
    if profile == "dev":
        command = [*CARGO_TEST, "--no-run"]
    runner.run("C library", command, environment=variables, required=True)
    # What tests are linked with stays among their parts.
    built = target / ("debug/deps" if profile == "dev" else profile) / "libtrn3_capi.a"
    include, libraries = prefix / "include", prefix / "lib"
    for folder in (include, libraries / "pkgconfig"):
        folder.mkdir(parents=True, exist_ok=True)
    shutil.copy2(HEADER, include / "trn3.h")
    shutil.copy2(built, libraries / "libtrn3.a")
    link_shared(runner, variables, version, libraries / "libtrn3.a", libraries)
    (libraries / "pkgconfig" / "trn3.pc").write_text(
        PKG_CONFIG.format(version=version.text, private=" ".join(system_libraries(variables)))
    )
    return [
        include / "trn3.h",
        libraries / "libtrn3.a",
        libraries / f"libtrn3.so.{version.release}",
        libraries / "pkgconfig" / "trn3.pc",
    ]
