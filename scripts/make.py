"""What the targets of the Makefile do: ``python scripts/make.py TARGET``.

Runs under any Python >= 3.11 with nothing installed; what needs packages runs in ``.venv``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import capi
import fuzz
import suite
import wheels
from environment import BUILD, PYTHON, ROOT, TESTED, VENV, Environment, extra, group, runtime
from steps import Runner, StepError


def prepare(
    runner: Runner, *, develop: bool = True, toolchain: bool = True, extension: bool = True
) -> Environment:
    """Make the parts of the environment that a target needs."""
    environment = Environment(runner)
    environment.virtual_environment()
    environment.packages("packages", runtime())
    if develop:
        environment.packages("development packages", extra("dev"))
    if toolchain:
        environment.toolchain()
        if develop:
            environment.components()
    if extension:
        environment.extension()
    return environment


def interactive(environment: Environment, words: Sequence[str | Path]) -> int:
    """Run Python in ``.venv`` on the terminal itself and return its exit status."""
    command = [PYTHON, *words]
    return subprocess.run(command, cwd=ROOT, env=environment.variables, check=False).returncode


def demo(runner: Runner) -> int:
    """Quantize a real model's weights, run a layer of it on a simulated core, show the effects."""
    environment = prepare(runner, develop=False)
    environment.packages("model weights", group("demo-weights"), dependencies=False)
    print(flush=True)
    return interactive(environment, [ROOT / "examples" / "demo.py"])


def train(runner: Runner) -> int:
    """Train a small decoder by several recipes, and say which published orderings show."""
    environment = prepare(runner, develop=False)
    environment.packages("JAX and matplotlib", [*extra("jax"), *extra("plot")])
    print(flush=True)
    return interactive(environment, [ROOT / "examples" / "train" / "laboratory.py", *sys.argv[2:]])


def test(runner: Runner) -> int:
    """Run all tests and checks."""
    environment = prepare(runner, develop=False, extension=False)
    environment.components()
    checks: list[suite.Row] = []
    tests: list[suite.Row] = []
    is_equipped = threading.Event()

    def crates() -> None:
        """Gather what checks and tests need, and check what needs no extension."""
        try:
            equip(runner, environment)
        finally:
            is_equipped.set()
        wanted = [*suite.lints(), *suite.cargo_tests(), suite.instruction_counts()]
        checks.extend(suite.results(wanted, runner, environment))
        # Where nothing could be counted it is no failure, but is said.
        runner.note("instruction counts", checks[-1][0].output.splitlines()[-1])

    def package() -> None:
        """Build the extension, whose last part is work for one core, and test it."""
        # Without it tests would run an extension built from other sources.
        if environment.extension(profile=TESTED, required=False):
            is_equipped.wait()
            tests.extend(suite.results(suite.tests(), runner, environment))

    runner.lanes(package, crates)
    if tests:
        tests += suite.results(suite.quiet_tests(), runner, environment)
    return suite.summarise([*checks, *tests], runner, failed=int(not tests))


def equip(runner: Runner, environment: Environment) -> None:
    """Install what checks and tests need beside the package's own requirements."""
    environment.packages("development packages", extra("dev"))
    environment.packages("model weights", group("demo-weights"), dependencies=False)
    environment.packages("documentation packages", extra("docs"))
    environment.hosts()
    # Half a gigabyte: tests do without where it does not come.
    if not environment.packages("torch", extra("torch"), required=False):
        runner.note("tests of torch", "do not run: torch cannot be installed here")
    if not environment.packages("Flax and Optax", group("jax-models"), required=False):
        runner.note("tests of Flax and Optax", "do not run: they cannot be installed here")


def lint(runner: Runner) -> int:
    """Run the checks that need no tests."""
    environment = prepare(runner, extension=False)
    return suite.summarise(suite.results(suite.lints(), runner, environment), runner)


def format_sources(runner: Runner) -> int:
    """Format Rust and Python sources in place."""
    environment = prepare(runner, extension=False)
    sources = suite.existing("python", "tests", "benches", "scripts", "examples", "docs")
    ruff: list[str | Path] = [PYTHON, "-m", "ruff"]
    commands: dict[str, list[str | Path]] = {
        "import order": [*ruff, "check", "--select", "I", "--fix", "--quiet", *sources],
        "ruff format": [*ruff, "format", "--quiet", *sources],
        "rustfmt": ["cargo", "fmt", "--all"],
    }
    for name, command in commands.items():
        runner.run(name, command, environment=environment.variables, required=True)
    return 0


def bench(runner: Runner) -> int:
    """Measure speed and write docs/explanation/performance.md."""
    environment = prepare(runner)
    environment.variables.pop("TRN3_SIMD", None)
    print(flush=True)
    return interactive(environment, [ROOT / "scripts" / "bench.py", *sys.argv[2:]])


def bench_compare(runner: Runner) -> int:
    """Measure another revision and the working tree in turn."""
    environment = prepare(runner)
    print(flush=True)
    return interactive(environment, [ROOT / "scripts" / "bench_compare.py", *sys.argv[2:]])


def wheel(runner: Runner) -> int:
    """Build an abi3 wheel into dist/; on Linux, for every system with glibc 2.28 or newer."""
    environment = prepare(runner, develop=False, extension=False)
    old = wheels.OLD_GLIBC if sys.platform == "linux" else ()
    if old:
        environment.packages("wheel packages", group("wheel"))
    # Messages of panics name source files; those of this machine are nobody's business.
    cargo_home = os.environ.get("CARGO_HOME", str(Path.home() / ".cargo"))
    remap = [f"--remap-path-prefix={ROOT}=.", f"--remap-path-prefix={cargo_home}=cargo"]
    flags = [environment.variables.get("RUSTFLAGS", ""), *remap]
    options: list[str | Path] = ["--profile", "dist", "--locked", *old, "--out", ROOT / "dist"]
    runner.run(
        "wheel",
        [PYTHON, "-m", "maturin", "build", *options],
        environment={**environment.variables, "RUSTFLAGS": " ".join(flags).strip()},
        required=True,
    )
    built = max((ROOT / "dist").glob("*.whl"), key=lambda path: path.stat().st_mtime)
    if old:
        runner.run(
            "auditwheel",
            [PYTHON, ROOT / "scripts" / "wheels.py", "audit", built],
            environment=environment.variables,
            required=True,
        )
    print(f"  {built.relative_to(ROOT)}  {built.stat().st_size / 1e6:.1f} MB")
    return 0


def c_library(runner: Runner) -> int:
    """Build the C library with its header and pkg-config file."""
    wanted = capi.options(sys.argv[2:])
    environment = Environment(runner)
    environment.virtual_environment()
    environment.toolchain()
    prefix = wanted.prefix.resolve()
    files = capi.build(runner, environment.variables, prefix=prefix, profile=wanted.profile)
    for path in files:
        print(f"  {path}  {path.stat().st_size / 1e6:.2f} MB")
    return 0


def fuzz_targets(runner: Runner) -> int:
    """Look for inputs that the C library should refuse and does not."""
    wanted = fuzz.options(sys.argv[2:])
    environment = Environment(runner)
    environment.virtual_environment()
    environment.toolchain()
    return fuzz.run(runner, environment.variables, **vars(wanted))


def docs(runner: Runner) -> int:
    """Build the HTML documentation."""
    environment = prepare(runner)
    environment.packages("documentation packages", extra("docs"))
    target = BUILD / "docs" / "html"
    runner.run("Sphinx", suite.sphinx(target), environment=environment.variables, required=True)
    print(f"  {(target / 'index.html').relative_to(ROOT)}")
    return 0


def clean() -> int:
    """Remove everything that was built."""
    caches = [".benchmarks", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache"]
    for path in [VENV, BUILD, ROOT / "dist", ROOT / "target", *(ROOT / name for name in caches)]:
        shutil.rmtree(path, ignore_errors=True)
    for top in ("python", "tests", "benches", "scripts", "examples", "docs"):
        for path in [*(ROOT / top).rglob("__pycache__")]:
            shutil.rmtree(path, ignore_errors=True)
    for name in ("target", "corpus", "artifacts", "coverage"):
        shutil.rmtree(ROOT / "rust" / "fuzz" / name, ignore_errors=True)
    for path in (ROOT / "python" / "trn3").glob("_trn3*.so"):
        path.unlink()
    return 0


TARGETS: dict[str, Callable[[Runner], int]] = {
    "demo": demo,
    "train": train,
    "test": test,
    "lint": lint,
    "format": format_sources,
    "bench": bench,
    "bench-compare": bench_compare,
    "wheel": wheel,
    "capi": c_library,
    "fuzz": fuzz_targets,
    "docs": docs,
}


def main() -> int:
    """Run the target named on the command line and return its exit status."""
    target = sys.argv[1] if len(sys.argv) > 1 else ""
    if target == "clean":
        return clean()
    if target not in TARGETS:
        print(f"make.py: unknown target {target!r}; one of: clean, {', '.join(TARGETS)}")
        return 2
    start = time.monotonic()
    print(f"trn3: make {target}", flush=True)
    try:
        status = TARGETS[target](Runner(ROOT, BUILD / "logs"))
    except StepError as error:
        print(f"make {target}: stopped at '{error}'", flush=True)
        if target == "test":
            print("0 passed, 1 failed", flush=True)
        return 1
    except KeyboardInterrupt:
        print(f"\nmake {target}: interrupted", file=sys.stderr)
        return 130
    if target != "test":
        print(f"  done in {time.monotonic() - start:.1f} s", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
