"""The wheel as others get it: which systems it is for, and whether it works there.

    python scripts/wheels.py audit WHEEL          what its symbols ask of a system, by auditwheel
    python scripts/wheels.py check                whether all crates compile for each platform
    python scripts/wheels.py try WHEEL [PYTHON]   install it into a new environment, test it there

Only the standard library is imported, by any Python >= 3.11: what is tried has its own packages.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: The oldest C library of GNU that a wheel for Linux may need.
GLIBC = (2, 28)
#: What builds such a wheel where a newer one is: zig links against the symbols of the older.
OLD_GLIBC = ("--zig", "--compatibility", "manylinux_{}_{}".format(*GLIBC))
#: Platforms that wheels are built for, by their names in ``wheels.yml``, as Rust calls them.
TARGETS = {
    "linux-x86_64": "x86_64-unknown-linux-gnu",
    "linux-aarch64": "aarch64-unknown-linux-gnu",
    "macos-arm64": "aarch64-apple-darwin",
    "macos-x86_64": "x86_64-apple-darwin",
    "windows-x86_64": "x86_64-pc-windows-msvc",
}
#: Versions of CPython that one wheel is for.
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
#: Tests that need nothing but the wheel, pytest and hypothesis, and the folders that they import.
TESTS = (
    "nki/language/test_memory.py",
    "nki/language/test_views.py",
    "numerics/test_sparse.py",
    "profile/test_tables.py",
)
SHARED = ("oracle", "support")
TEST_PACKAGES = ("hypothesis>=6.100", "mpmath>=1.3", "pytest>=8.3")


class WheelError(Exception):
    """A wheel is not what it should be; the text says why."""


def glibc_of(tag: str) -> tuple[int, int]:
    """Return which C library of GNU a platform needs.

    >>> glibc_of("manylinux_2_28_x86_64")
    (2, 28)

    Raises
    ------
    WheelError
        If the tag promises none, as that of a wheel for one machine.
    """
    found = re.fullmatch(r"manylinux_(\d+)_(\d+)_\w+", tag)
    if found is None:
        message = f"its platform is {tag}, must be manylinux"
        raise WheelError(message)
    return int(found[1]), int(found[2])


def check(audited: str, name: str) -> str:
    """Return for which platform a wheel is good, by what auditwheel said of it as JSON.

    Raises
    ------
    WheelError
        If it needs a newer C library than `GLIBC`, or its name promises an older one.
    """
    tag: str = json.loads(audited)["overall_tag"]
    needed, promised = glibc_of(tag), glibc_of(Path(name).stem.split("-")[-1].split(".")[0])
    limit = min(GLIBC, promised)
    if needed > limit:
        symbols = json.loads(audited)["versioned_symbols"]
        message = "{}: needs glibc {}.{}, may need {}.{}; it has {}".format(
            name, *needed, *limit, json.dumps(symbols)
        )
        raise WheelError(message)
    return tag


def audit(wheel: Path) -> str:
    """Return for which platform a wheel is good; raises as `check`."""
    command = [sys.executable, "-m", "auditwheel", "show", "--json", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"{wheel.name}: auditwheel says {(done.stderr or done.stdout).strip()}"
        raise WheelError(message)
    return check(done.stdout, wheel.name)


def compiles(target: str) -> bool | None:
    """Whether all crates compile for a target; None if its standard library is not installed."""
    where = ["rustc", "--print", "target-libdir", "--target", target]
    library = subprocess.run(where, capture_output=True, text=True, check=False).stdout.strip()
    if not library or not Path(library).is_dir():
        return None
    command = ["cargo", "check", "--workspace", "--locked", "--quiet", "--target", target]
    # A module for an interpreter links to no libpython, of which there is none for others.
    variables = {**os.environ, "PYO3_BUILD_EXTENSION_MODULE": "1"}
    return subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode == 0


def interpreters() -> dict[str, Path]:
    """Return the interpreters of `PYTHONS` on this machine: on the path, or kept by pyenv."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {}
    for version in PYTHONS:
        places = sorted(kept.glob(f"{version}*/bin/python"))
        if on_path := shutil.which(f"python{version}"):
            places.append(Path(on_path))
        if running := next((place for place in places if _runs(place, version)), None):
            found[version] = running
    return found


def _runs(python: Path, version: str) -> bool:
    # A version manager's shim may exist and not run.
    says = "import sys, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", says], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def environment(python: Path, home: Path, *options: str) -> Path:
    """Make a new environment, with options of venv, and return its interpreter."""
    subprocess.run([python, "-m", "venv", *options, home], check=True)
    return home / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def run_tests(python: Path, home: Path) -> str:
    """Run `TESTS` where the repository is not, and return pytest's last line.

    Raises
    ------
    WheelError
        If one fails; with what pytest printed.
    """
    for name in (*SHARED, *TESTS):
        source, target = ROOT / "tests" / name, home / "tests" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    options = ["-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-o", "pythonpath=tests"]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-m", "pytest", *options, "--rootdir", str(home), "tests"],
        cwd=home, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise WheelError(done.stdout + done.stderr)
    return done.stdout.strip().splitlines()[-1]


def attempt(wheel: Path, python: Path, options: Sequence[str] = ()) -> str:
    """Install a wheel into a new environment of an interpreter and run `TESTS` there.

    `options` are pip's, such as where packages lie.

    Raises
    ------
    WheelError
        If it cannot be installed, or a test fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        own = environment(python, Path(folder) / "venv")
        pip = [str(own), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
        command = [*pip, "--no-compile", *options, str(wheel.resolve()), *TEST_PACKAGES]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise WheelError(done.stdout + done.stderr)
        return run_tests(own, Path(folder))


def main(arguments: Sequence[str]) -> int:
    """Do what the words say and return the exit status."""
    try:
        match list(arguments):
            case ["audit", wheel]:
                print(audit(Path(wheel)))
            case ["check"]:
                found = {name: compiles(target) for name, target in TARGETS.items()}
                words = {True: "compiles", False: "does not compile", None: "not installed"}
                print("\n".join(f"{name}: {words[good]}" for name, good in found.items()))
                return int(False in found.values())
            case ["try", wheel, *pythons] if len(pythons) < 2:
                for python in map(Path, pythons) if pythons else interpreters().values():
                    print(f"{python}: {attempt(Path(wheel), python)}")
            case _:
                print((__doc__ or "").strip(), file=sys.stderr)
                return 2
    except WheelError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
