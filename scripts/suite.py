"""The checks of ``make test`` and ``make lint``, and how their outputs are counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from environment import BUILD, CARGO_TEST, PYTHON, ROOT, Environment
from steps import Result, Runner

# What pytest and cargo say of their tests: "3 failed, 80 passed, 1 skipped in 4.20s".
COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|deselected|xfailed|ignored)")
PYTEST_END = re.compile(r"^=* ?((?:\d+ \w+(?:, )?)+ in [\d.]+s.*?|no tests ran in .*?) ?=*$")
CARGO_END = re.compile(r"^test result: .*$", re.MULTILINE)


#: Tests that count threads, processes, bytes and seconds, and have the machine to themselves.
QUIET = (
    "benches",
    "tests/bindings/test_replay.py",
    "tests/cli/test_failures.py",
    "tests/cli/test_interruption.py",
    "tests/endpoint/test_ending.py",
    "tests/endpoint/test_many.py",
    "tests/endpoint/test_pace.py",
    "tests/numerics/test_determinism.py",
    "tests/numerics/test_interrupt.py",
    "tests/numerics/test_large.py",
    "tests/packaging/test_import.py",
    "tests/packaging/test_interpreters.py",
    "tests/packaging/test_wheel.py",
    "tests/studies",
    "tests/system/test_cluster.py",
    "tests/system/test_door.py",
)


@dataclass(frozen=True, slots=True)
class Check:
    """One command, and how to read counts of tests from its output, if it counts any."""

    name: str
    command: Sequence[str | Path]
    variables: tuple[tuple[str, str], ...] = ()
    count: Callable[[str], dict[str, int]] | None = None


#: How a check ended, and its counts of tests by word if it counts any.
Row: TypeAlias = tuple[Result, dict[str, int] | None]


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


def cargo_tests() -> list[Check]:
    """Return the checks of the crates, which need no extension."""
    # One failure hides no other. Benches are linted with the rest, and run by `make bench`.
    return [Check("cargo test", [*CARGO_TEST, "--no-fail-fast"], count=count_cargo)]


def instruction_counts() -> Check:
    """Return the check of hot paths' instructions, whose last line says what it found."""
    return Check("instruction counts", [PYTHON, ROOT / "scripts" / "instructions.py"])


def sphinx(target: Path) -> list[str | Path]:
    """Return the command that builds the HTML documentation; a warning fails it."""
    options: list[str | Path] = ["-W", "--keep-going", "-q", "-d", BUILD / "docs" / "doctrees"]
    return [PYTHON, "-m", "sphinx", *options, ROOT / "docs", target]


def pytest(name: str, *words: str) -> Check:
    """Return a run of pytest with these options and paths."""
    command: list[str | Path] = [PYTHON, "-m", "pytest", "--continue-on-collection-errors"]
    # The log names what to look at when the whole run takes too long.
    return Check(name, [*command, "--durations=40", *words], count=count_pytest)


def tests() -> list[Check]:
    """Return the checks that need the extension and share nothing with what runs beside them."""
    others = ["tests", "python/trn3", "scripts/house", *(f"--ignore={path}" for path in QUIET)]
    return [
        Check("documentation", sphinx(BUILD / "docs" / "html")),
        # They use one thread each: two at a time.
        pytest("pytest, side by side", "-n", "2", *others),
    ]


def quiet_tests() -> list[Check]:
    """Return the checks that have the machine to themselves."""
    return [pytest("pytest", *QUIET)]


def results(checks: Sequence[Check], runner: Runner, environment: Environment) -> list[Row]:
    """Run every check, failed ones or not, and return how each ended with its counts of tests."""
    rows = []
    for check in checks:
        variables = {**environment.variables, **dict(check.variables)}
        result = runner.run(check.name, check.command, environment=variables)
        rows.append((result, check.count(result.output) if check.count else None))
    return rows


def summarise(rows: Sequence[Row], runner: Runner, *, failed: int = 0) -> int:
    """Print the summary and return the exit status.

    `failed` is how many failures to count that happened before.
    """
    passed = 0
    print(f"\n  {'check':<28}{'result':<10}{'seconds':>9}  tests")
    for result, counts in rows:
        found = counts or {}
        passed += result.ok if counts is None else found.get("passed", 0)
        # A run that stops before it counts anything has failed all the same.
        failed += found.get("failed", 0) + found.get("error", 0) or not result.ok
        word = runner.paint(f"{'ok':<10}", 32) if result.ok else runner.paint(f"{'FAILED':<10}", 31)
        words = ", ".join(f"{number} {word}" for word, number in found.items() if number)
        print(f"  {result.name:<28}{word}{result.seconds:9.1f}  {words}".rstrip())
    print(f"  output of each: {runner.logs.relative_to(ROOT)}/")
    for result, _ in rows:
        if result.name == "pytest":
            print(f"\n{pytest_closing_line(result.output) or 'pytest: no closing line'}")
    print(f"{passed} passed, {failed} failed", flush=True)
    return int(failed > 0)
