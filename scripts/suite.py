"""The checks of ``make test`` and ``make lint``, and how their outputs are counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from environment import BUILD, PYTHON, ROOT, Environment
from steps import Result, Runner

# What pytest and cargo say of their tests: "3 failed, 80 passed, 1 skipped in 4.20s".
COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|deselected|xfailed|ignored)")
PYTEST_END = re.compile(r"^=* ?((?:\d+ \w+(?:, )?)+ in [\d.]+s.*?|no tests ran in .*?) ?=*$")
CARGO_END = re.compile(r"^test result: .*$", re.MULTILINE)


# Tests that run side by side.
KERNELS = (
    "tests/bindings", "tests/corpora", "tests/examples", "tests/machine", "tests/nki",
    "tests/profile",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Check:
    """One command, and how to read counts of tests from its output, if it counts any."""

    name: str
    command: Sequence[str | Path]
    variables: tuple[tuple[str, str], ...] = ()
    count: Callable[[str], dict[str, int]] | None = None


def tally(lines: Sequence[str]) -> dict[str, int]:
    """Add up the counts on the given lines, by word."""
    total: dict[str, int] = {}
    for line in lines:
        for number, word in COUNT.findall(line):
            total[word.removesuffix("s")] = total.get(word.removesuffix("s"), 0) + int(number)
    return total


def pytest_closing_line(output: str) -> str:
    """Return the last line of a pytest run, without its ornaments; empty if there is none."""
    for line in reversed(output.splitlines()):
        if found := PYTEST_END.match(line):
            return found.group(1)
    return ""


def count_pytest(output: str) -> dict[str, int]:
    """Return how many tests of a pytest run passed, failed and so on."""
    return tally([pytest_closing_line(output)])


def count_cargo(output: str) -> dict[str, int]:
    """Return how many tests of a cargo run passed, failed and so on."""
    return tally(CARGO_END.findall(output))


def existing(*paths: str) -> list[str]:
    """Return those of the paths that exist."""
    return [path for path in paths if (ROOT / path).exists()]


def lints() -> list[Check]:
    """Return the checks that run no tests, the quick ones first."""
    sources = existing("python", "tests", "benches", "scripts", "examples", "docs")
    typed = existing(
        "python/trn3", "python/trn3_pytest", "tests/oracle", "examples", "benches", "scripts"
    )
    return [
        Check("ruff check", [PYTHON, "-m", "ruff", "check", "--quiet", *sources]),
        Check("ruff format", [PYTHON, "-m", "ruff", "format", "--check", "--quiet", *sources]),
        Check("rustfmt", ["cargo", "fmt", "--all", "--check"]),
        Check("house", [PYTHON, "-m", "house"], variables=(("PYTHONPATH", "scripts"),)),
        Check("mypy --strict", [PYTHON, "-m", "mypy", *typed]),
        Check(
            "clippy",
            ["cargo", "clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"],
        ),
        Check(
            "rustdoc",
            ["cargo", "doc", "--locked", "--workspace", "--no-deps"],
            variables=(("RUSTDOCFLAGS", "-D warnings"),),
        ),
    ]


def sphinx(target: Path) -> list[str | Path]:
    """Return the command that builds the HTML documentation; a warning fails it."""
    options: list[str | Path] = ["-W", "--keep-going", "-q", "-d", BUILD / "docs" / "doctrees"]
    return [PYTHON, "-m", "sphinx", *options, ROOT / "docs", target]


def tests() -> list[Check]:
    """Return the checks that need the extension, pytest last."""
    pytest: list[str | Path] = [PYTHON, "-m", "pytest", "--continue-on-collection-errors"]
    stubtest = ["-m", "mypy.stubtest", "trn3._trn3", "--mypy-config-file", "pyproject.toml"]
    return [
        Check("stubtest", [PYTHON, *stubtest], variables=(("MYPYPATH", "python"),)),
        Check("documentation", sphinx(BUILD / "docs" / "html")),
        Check(
            "cargo test",
            ["cargo", "test", "--locked", "--features", "trn3-machine/example-instruction"],
            count=count_cargo,
        ),
        # Criterion runs each bench once, untimed.
        Check("cargo benches, once", ["cargo", "test", "--locked", "--bench", "*"]),
        # Kernels share nothing and use one thread each: two at a time. Other tests count threads,
        # processes and seconds, and have the machine to themselves.
        Check("pytest, kernels", [*pytest, "-n", "2", *KERNELS], count=count_pytest),
        Check(
            "pytest",
            [*pytest, *(f"--ignore={folder}" for folder in KERNELS)],
            count=count_pytest,
        ),
    ]


def run(
    checks: Sequence[Check], runner: Runner, environment: Environment, *, failed: int = 0
) -> int:
    """Run every check, failed ones or not, print the summary and return the exit status.

    `failed` is how many failures to count that happened before.
    """
    passed = 0
    rows: list[tuple[Result, dict[str, int]]] = []
    for check in checks:
        variables = {**environment.variables, **dict(check.variables)}
        result = runner.run(check.name, check.command, environment=variables)
        counts = check.count(result.output) if check.count else {}
        wrong = counts.get("failed", 0) + counts.get("error", 0)
        passed += counts.get("passed", 0) if check.count else result.ok
        # A run that stops before it counts anything has failed all the same.
        failed += wrong or not result.ok
        rows.append((result, counts))
    print(f"\n  {'check':<28}{'result':<10}{'seconds':>9}  tests")
    for result, counts in rows:
        word = runner.paint(f"{'ok':<10}", 32) if result.ok else runner.paint(f"{'FAILED':<10}", 31)
        words = ", ".join(f"{number} {word}" for word, number in counts.items() if number)
        print(f"  {result.name:<28}{word}{result.seconds:9.1f}  {words}".rstrip())
    print(f"  output of each: {runner.logs.relative_to(ROOT)}/")
    for result, _ in rows:
        if result.name == "pytest":
            print(f"\n{pytest_closing_line(result.output) or 'pytest: no closing line'}")
    print(f"{passed} passed, {failed} failed", flush=True)
    return int(failed > 0)
