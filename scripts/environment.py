"""The development environment: ``.venv``, its packages, a Rust toolchain, the built extension.

Each part is made once, and again only when what it depends on has changed; stamps in
``build/stamps`` hold the hash of those inputs. Only the standard library is imported: this runs
before anything is installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from steps import Runner, StepError

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
# Features are the same wherever tests need Rust, so that each crate is built for them once.
CARGO_TEST = ("cargo", "test", "--locked", "--features", "trn3-machine/example-instruction")
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMPS = BUILD / "stamps"
# Profiles of Cargo.toml: what users get, and what tests run, which is there sooner.
RELEASE, TESTED = "release", "tested"
# The stamp of the extension's profile.
BUILT_AS = "extension-profile"
TOOLCHAIN_FILE = BUILD / "toolchain.json"
# The components of a toolchain that checks need and that a minimal installation lacks.
COMPONENTS = ("clippy", "rustfmt")
# Debian's packages of programs that tests run, and how to see one: simulators that embed the C
# library, and the browser that reports are opened in.
HOST_PACKAGES: dict[str, dict[str, Callable[[], bool]]] = {
    "host simulators": {
        "libsystemc-dev": lambda: Path("/usr/include/systemc").exists(),
        "verilator": lambda: shutil.which("verilator") is not None,
        "pkg-config": lambda: shutil.which("pkg-config") is not None,
    },
    "browser": {
        "chromium": lambda: shutil.which("chromium") is not None,
        "chromium-driver": lambda: shutil.which("chromedriver") is not None,
    },
}


def project() -> dict[str, Any]:
    """Return the parsed ``pyproject.toml``."""
    with (ROOT / "pyproject.toml").open("rb") as source:
        return tomllib.load(source)


def tested_toolchain() -> str:
    """Return the version of Rust that the project is tested with."""
    with (ROOT / "Cargo.toml").open("rb") as source:
        version: str = tomllib.load(source)["workspace"]["metadata"]["tested-toolchain"]
    return version


def describe_toolchain(found: str, tested: str) -> str:
    """Return the line about the toolchain in use, a warning if it is older than the tested one.

    `found` is what ``rustc --version`` prints.

    >>> describe_toolchain("rustc 1.95.0 (59807616e 2026-04-14)", "1.95.0")
    '1.95.0, as tested'
    >>> describe_toolchain("rustc 1.96.1 (0123abcde 2026-05-28)", "1.95.0")
    '1.96.1, tested with 1.95.0'
    >>> describe_toolchain("rustc 1.89.0 (29483883e 2025-08-04)", "1.95.0")
    'WARNING: 1.89.0 is older than 1.95.0, which is tested; `rustup update` brings a newer one'
    """
    number = re.search(r"\d+\.\d+\.\d+", found)
    if number is None:
        return f"WARNING: rustc does not say its version ({found.strip()!r}); tested with {tested}"
    version = number.group()
    if version == tested:
        return f"{version}, as tested"
    if [int(part) for part in version.split(".")] > [int(part) for part in tested.split(".")]:
        return f"{version}, tested with {tested}"
    advice = "`rustup update` brings a newer one"
    return f"WARNING: {version} is older than {tested}, which is tested; {advice}"


def extra(name: str) -> list[str]:
    """Return the requirements of an extra."""
    found: list[str] = project()["project"]["optional-dependencies"][name]
    return found


def group(name: str) -> list[str]:
    """Return the requirements of a dependency group."""
    found: list[str] = project()["dependency-groups"][name]
    return found


def runtime() -> list[str]:
    """Return the requirements of the package with its plots, of building it and of its demo."""
    settings = project()
    return [
        *settings["build-system"]["requires"],
        *settings["project"]["dependencies"],
        *extra("demo"),
        *extra("plot"),
    ]


def digest(parts: Iterable[str], files: Iterable[Path] = ()) -> str:
    """Return a hash of some strings and of the names and contents of some files."""
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part.encode() + b"\0")
    for file in sorted(files):
        sha.update(str(file.relative_to(ROOT)).encode() + b"\0")
        sha.update(hashlib.sha256(file.read_bytes()).digest())
    return sha.hexdigest()


def is_fresh(stamp: str, key: str) -> bool:
    """Whether `stamp` was last set to `key`."""
    path = STAMPS / stamp
    return path.is_file() and path.read_text() == key


def extension_profile() -> str:
    """Return the profile that the extension in place was built with."""
    path = STAMPS / BUILT_AS
    return path.read_text() if path.is_file() else RELEASE


def set_stamp(stamp: str, key: str) -> None:
    """Remember that what `stamp` stands for was made from `key`."""
    STAMPS.mkdir(parents=True, exist_ok=True)
    (STAMPS / stamp).write_text(key)


class Environment:
    """Makes the environment and holds the variables that commands run with."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.variables = {
            name: value
            for name, value in os.environ.items()
            # Another environment's paths would be mixed with ours.
            if name not in {"PYTHONHOME", "PYTHONPATH", "CONDA_PREFIX", "VIRTUAL_ENV"}
        }
        self.variables |= {
            "VIRTUAL_ENV": str(VENV),
            "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "PYO3_PYTHON": str(PYTHON),
            # The extension is loaded by an interpreter: it links to no libpython.
            "PYO3_BUILD_EXTENSION_MODULE": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_PROGRESS_BAR": "off",
            "PIP_NO_INPUT": "1",
        }
        if "CI" in os.environ:
            self.variables |= {"NO_COLOR": "1", "CARGO_TERM_COLOR": "never"}

    def virtual_environment(self) -> None:
        """Create ``.venv``, or again if its interpreter is gone or another one is used."""
        key = digest([sys.version, os.path.realpath(sys.executable), str(VENV)])
        if is_fresh("venv", key) and self._runs():
            self.runner.note("virtual environment", "unchanged")
            return
        shutil.rmtree(STAMPS, ignore_errors=True)
        result = self.runner.run(
            "virtual environment",
            [sys.executable, "-m", "venv", "--clear", VENV],
            environment=self.variables,
        )
        if not result.ok:
            print(
                "    Python's venv and ensurepip modules are needed"
                " (on Debian and Ubuntu: the package python3-venv)."
            )
            raise StepError(result.name)
        set_stamp("venv", key)

    def packages(
        self,
        name: str,
        wanted: Sequence[str],
        *,
        dependencies: bool = True,
        required: bool = True,
    ) -> bool:
        """Install `wanted` into ``.venv`` unless the same list was installed before.

        Returns whether they are there, which matters if they are not `required`.
        """
        key = digest(wanted)
        if is_fresh(f"packages-{name}", key):
            self.runner.note(name, "unchanged")
            return True
        options = [] if dependencies else ["--no-deps"]
        result = self.runner.run(
            name,
            # What is imported is compiled then; that is a part of what comes.
            [PYTHON, "-m", "pip", "install", "--no-compile", *options, *wanted],
            environment=self.variables,
            required=required,
        )
        if result.ok:
            set_stamp(f"packages-{name}", key)
        return result.ok

    def toolchain(self) -> None:
        """Find cargo, or install Rust the way the build backend would, and put it on the path."""
        if not self._find_cargo():
            self.packages("Rust bootstrap", ["puccinialin>=0.1,<0.2"])
            self.runner.run(
                "Rust toolchain",
                [PYTHON, "-m", "puccinialin", "--info-json", TOOLCHAIN_FILE],
                environment=self.variables,
                required=True,
            )
            self._use(json.loads(TOOLCHAIN_FILE.read_text())["env"])
        found = subprocess.run(
            ["rustc", "--version"], env=self.variables, capture_output=True, text=True, check=False
        ).stdout
        self.runner.note("Rust toolchain", describe_toolchain(found, tested_toolchain()))

    def components(self) -> None:
        """Add what checks need of a toolchain, where rustup can."""
        missing = [name for name in COMPONENTS if not self._has(name)]
        if missing and shutil.which("rustup", path=self.variables["PATH"]):
            self.runner.run(
                "Rust components",
                ["rustup", "component", "add", *missing],
                environment=self.variables,
            )

    def extension(self, *, profile: str = RELEASE, required: bool = True) -> bool:
        """Build the extension in place unless it is there, of the same sources.

        `profile` is one of `Cargo.toml`; a release that is there serves for any. Returns whether it
        is there, which matters if it is not `required`.
        """
        sources = [path for path in (ROOT / "rust").rglob("*") if path.is_file()]
        sources += filter(Path.is_file, (ROOT / "Cargo.toml", ROOT / "Cargo.lock"))
        settings = project()
        packaging = [settings["build-system"], settings["project"], settings["tool"]["maturin"]]
        compiler = subprocess.run(
            ["rustc", "-vV"], env=self.variables, capture_output=True, text=True, check=False
        ).stdout
        flags = self.variables.get("RUSTFLAGS", "")
        key = digest([compiler, flags, json.dumps(packaging)], sources)
        built = (ROOT / "python" / "trn3").glob("_trn3*.so")
        serves = extension_profile() in {profile, RELEASE}
        if any(built) and serves and is_fresh("extension", key):
            self.runner.note(f"extension ({extension_profile()})", "unchanged")
            return True
        result = self.runner.run(
            f"extension ({profile})",
            [PYTHON, "-m", "maturin", "develop", "--profile", profile, "--locked"],
            environment=self.variables,
            required=required,
        )
        if result.ok:
            set_stamp("extension", key)
            set_stamp(BUILT_AS, profile)
        return result.ok

    def hosts(self) -> None:
        """Install the programs that tests run, where Debian's packages can be.

        Tests of what is not there are skipped, and say so.
        """
        for what, packages in HOST_PACKAGES.items():
            missing = [name for name, sign in packages.items() if not sign()]
            if not missing:
                self.runner.note(what, "unchanged")
                continue
            if shutil.which("apt-get") is None or os.geteuid() != 0:
                self.runner.note(what, f"not installed: {', '.join(missing)}")
                continue
            script = f"apt-get update -qq && apt-get install -y -qq {' '.join(missing)}"
            variables = {**self.variables, "DEBIAN_FRONTEND": "noninteractive"}
            self.runner.run(what, ["sh", "-c", script], environment=variables)

    def _runs(self) -> bool:
        if not PYTHON.is_file():
            return False
        return subprocess.run([PYTHON, "-c", ""], check=False).returncode == 0

    def _find_cargo(self) -> bool:
        if shutil.which("cargo", path=self.variables["PATH"]):
            return True
        home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "bin"
        if (home / "cargo").is_file():
            self._use({"PATH": f"{home}{os.pathsep}{self.variables['PATH']}"})
            return True
        if TOOLCHAIN_FILE.is_file():
            found = json.loads(TOOLCHAIN_FILE.read_text())["env"]
            if (Path(found["CARGO_HOME"]) / "bin" / "cargo").is_file():
                found["PATH"] = f"{found['CARGO_HOME']}/bin{os.pathsep}{self.variables['PATH']}"
                self._use(found)
                return True
        return False

    def _use(self, found: dict[str, str]) -> None:
        self.variables |= found
        # The message is worth a line: everything after this depends on which cargo it is.
        self.runner.note("cargo", str(shutil.which("cargo", path=self.variables["PATH"])))

    def _has(self, component: str) -> bool:
        command = {"clippy": ["cargo", "clippy"], "rustfmt": ["cargo", "fmt"]}[component]
        run = subprocess.run(
            [*command, "--version"], env=self.variables, capture_output=True, check=False
        )
        return run.returncode == 0
