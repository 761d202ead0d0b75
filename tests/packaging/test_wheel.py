"""The wheel: what it is called, what is in it, and that it works where nothing else is."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import trn3
from support.sandbox import ROOT, run
from trn3.nki.dialects.vendor.aliases import OWNED

# Where no `make test` has built the extension before, the wheel takes minutes.
pytestmark = pytest.mark.timeout(1800)

# What a SIMD level needs of the CPU, as the kernel names it; empty: nothing.
LEVELS = {
    "scalar": set[str](),
    "portable": set[str](),
    "avx2": {"avx2", "fma"},
    "avx512": {"avx512f", "avx512bw", "avx512vl"},
    "avx512bf16": {"avx512f", "avx512bw", "avx512vl", "avx512_bf16"},
}

# A product with two tiles along k, in a format that each level multiplies in its own way.
PRODUCT = """
import hashlib, ml_dtypes, numpy, trn3
random = numpy.random.default_rng(7)
a = random.standard_normal((33, 200)).astype(ml_dtypes.bfloat16)
b = random.standard_normal((200, 47)).astype(ml_dtypes.bfloat16)
product = trn3.numerics.matmul(a, b)
print(trn3.simd_level(), hashlib.sha256(product.tobytes()).hexdigest())
"""


def cpu_flags() -> set[str]:
    """Return the CPU's flags, as far as the kernel lists them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_tag_is_abi3(wheel: Path) -> None:
    """One wheel serves CPython 3.11 and everything later."""
    name, version, python, abi, platform = wheel.stem.split("-")
    assert (name, version, python, abi) == ("trn3", trn3.__version__, "cp311", "abi3")
    assert platform != "any"


def test_wheel_version_is_that_of_the_workspace(wheel: Path) -> None:
    """Cargo.toml is the only source of the version."""
    with (ROOT / "Cargo.toml").open("rb") as source:
        version = tomllib.load(source)["workspace"]["package"]["version"]
    assert trn3.__version__ == version
    assert wheel.name.startswith(f"trn3-{version}-")


def test_wheel_contents(wheel: Path) -> None:
    """The wheel holds package (sources, stubs, data, extension), plug-in, vendor's names only."""
    packages = ("trn3", "trn3_pytest", *(f"{name}-stubs" for name in OWNED))
    sources = {
        str(path.relative_to(ROOT / "python"))
        for package in packages
        for path in (ROOT / "python" / package).rglob("*")
        if path.suffix in {".proto", ".py", ".pyi", ".toml", ".txt"} or path.name == "py.typed"
    } | {"trn3/report/report.css", "trn3/report/report.js"}
    inside = names(wheel)
    package = {name for name in inside if name.split("/")[0] in packages}
    extensions = {name for name in package if name.startswith("trn3/_trn3.") and "so" in name}
    assert {"trn3/py.typed", "trn3/_trn3/__init__.pyi", "nki-stubs/__init__.pyi"} <= sources
    assert len(extensions) == 1
    assert package - extensions == sources

    info = f"trn3-{trn3.__version__}.dist-info/"
    rest = {name.removeprefix(info) for name in inside - package}
    expected = {"METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"}
    assert rest == expected


def test_wheel_has_no_path_of_this_machine(wheel: Path) -> None:
    """Neither the metadata nor the Python sources name a directory of the build."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if not name.endswith(".so"):
                assert str(ROOT).encode() not in archive.read(name), name


def test_install_is_consistent(clean_python: Path, tmp_path: Path) -> None:
    """The wheel's dependencies are those that an import and the command need."""
    assert "No broken requirements" in run([clean_python, "-m", "pip", "check"], cwd=tmp_path)
    where = run([clean_python, "-c", "import trn3; print(trn3.__file__)"], cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(clean_python.parents[1])
    command = clean_python.parent / "trn3"
    assert "quantize" in run([command, "--help"], cwd=tmp_path)
    assert trn3.__version__ in run([clean_python, "-m", "trn3", "info"], cwd=tmp_path)


@pytest.mark.parametrize("level", LEVELS)
def test_installed_wheel_carries_every_level(
    clean_python: Path, tmp_path: Path, level: str
) -> None:
    """Levels are chosen at run time, and the bits of a product are the same at each."""
    if not cpu_flags() >= LEVELS[level]:
        pytest.skip(f"this CPU has no {level}")
    scalar = run([clean_python, "-c", PRODUCT], cwd=tmp_path, TRN3_SIMD="scalar").split()
    forced = run([clean_python, "-c", PRODUCT], cwd=tmp_path, TRN3_SIMD=level).split()
    assert forced[0] == level
    assert forced[1] == scalar[1]


def test_unknown_level_is_refused_by_name(tmp_path: Path) -> None:
    """A level that does not exist ends in an error that says which this CPU can run."""
    done = subprocess.run(
        [sys.executable, "-c", PRODUCT],
        cwd=tmp_path,
        env={"TRN3_SIMD": "mmx"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "ValueError" in last
    runnable = [level for level, needed in LEVELS.items() if cpu_flags() >= needed]
    assert last.endswith(f"can run: {', '.join(runnable)}")
    assert 'TRN3_SIMD is "mmx"' in last
