"""``pytest --trn3-budget``: what it writes, what it fails and what it reports."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trn3.nki.language as nl
from trn3 import nki
from trn3.machine.time_model import TIME_MODEL
from trn3.studies.budget import plugin  # noqa: F401 -- loaded before sessions that forget what they load

pytest_plugins = ["pytester"]

#: A kernel whose latency grows with `width`, and tests that launch it.
TESTS = """
import numpy as np
import pytest
import trn3.nki.isa as nisa
import trn3.nki.language as nl
from trn3 import nki

@nki.jit
def copied(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out

def run(width):
    return copied(np.ones((128, width), np.float32))

@pytest.fixture
def made():
    return run(8)

@pytest.mark.xdist_group("one")
@pytest.mark.parametrize("width", [{widths}])
def test_one(width):
    assert run(width).all()

def test_several(made):
    for width in (16, 32, 64):
        run(width)

def test_of_two_cores():
    nki.simulate(copied)[2](np.ones((128, 64), np.float32))
    nki.profile(copied, np.ones((128, 64), np.float32), arch="trn2")

def test_without_kernels():
    pass

def test_that_fails():
    run(8)
    raise AssertionError

@pytest.mark.xfail
def test_expected_to_fail():
    run(8)
    raise AssertionError
"""
FILE = "test_kernels.py"


@pytest.fixture(autouse=True)
def _tests(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    # The files of tests are written anew faster than times of modification tell.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    write(pytester, "512, 1024")


def write(pytester: pytest.Pytester, widths: str) -> None:
    pytester.makepyfile(test_kernels=TESTS.replace("{widths}", widths))


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess("-p", "trn3_pytest", *options)


def saved(pytester: pytest.Pytester, name: str = "trn3-budget.json") -> dict[str, Any]:
    document: dict[str, Any] = json.loads((pytester.path / name).read_text())
    return document


def edit(pytester: pytest.Pytester, factor: float) -> None:
    """Multiply the latencies in the file."""
    document = saved(pytester)
    for kernels in document["tests"].values():
        for cost in kernels.values():
            cost["latency_ps"] = round(cost["latency_ps"] * factor)
    (pytester.path / "trn3-budget.json").write_text(json.dumps(document))


def test_update_writes_what_profiles_say(pytester: pytest.Pytester) -> None:
    outcome = run(pytester, "--trn3-budget-update")
    outcome.assert_outcomes(passed=5, failed=1, xfailed=1)
    outcome.stdout.fnmatch_lines(["new: copied on trn3: *", "wrote trn3-budget.json"])
    tests = saved(pytester)["tests"]
    assert sorted(tests) == [
        f"{FILE}::test_of_two_cores",
        f"{FILE}::test_one[1024]",
        f"{FILE}::test_one[512]",
        f"{FILE}::test_several",
    ]

    @nki.jit
    def copied(x: Any) -> Any:
        out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
        nl.store(out, nl.load(x))
        return out

    def latency(kernel: Any, width: int, arch: str = "trn3") -> int:
        x = np.ones((128, width), np.float32)
        return int(nki.profile(kernel, x, arch=arch)[1].data.latency_ps)

    assert tests[f"{FILE}::test_one[512]"] == {
        "copied on trn3": {"launches": 1, "latency_ps": latency(copied, 512)}
    }
    # The launch of its fixture does not count.
    assert tests[f"{FILE}::test_several"]["copied on trn3"] == {
        "launches": 3,
        "latency_ps": sum(latency(copied, width) for width in (16, 32, 64)),
    }
    assert tests[f"{FILE}::test_of_two_cores"] == {
        "copied on trn2": {"launches": 1, "latency_ps": latency(copied, 64, "trn2")},
        "copied[2] on trn3": {"launches": 1, "latency_ps": latency(copied[2], 64)},
    }


def test_regression_fails_the_test_and_names_it(pytester: pytest.Pytester) -> None:
    run(pytester, "--trn3-budget-update")
    run(pytester, "--trn3-budget").assert_outcomes(passed=5, failed=1, xfailed=1)
    edit(pytester, 0.9)
    outcome = run(pytester, "--trn3-budget")
    outcome.assert_outcomes(passed=1, failed=5, xfailed=1)
    text = outcome.stdout.str()
    line = re.search(
        r"copied on trn3 takes ([\d.]+) us, was ([\d.]+) us: \+11\.11 %, allowed 5 %", text
    )
    assert line is not None
    assert float(line[1]) == pytest.approx(float(line[2]) / 0.9, rel=1e-3)
    assert "copied on trn3 takes" in text
    assert "slower by more than 5 %: copied[2] on trn3" in text
    run(pytester, "--trn3-budget=11.2%").assert_outcomes(passed=5, failed=1, xfailed=1)
    run(pytester, "--trn3-budget=11").assert_outcomes(passed=1, failed=5, xfailed=1)
    run(pytester, "--trn3-budget=0", "--trn3-budget-update").assert_outcomes(
        passed=5, failed=1, xfailed=1
    )
    run(pytester, "--trn3-budget=0").assert_outcomes(passed=5, failed=1, xfailed=1)


def test_faster_new_and_gone_are_reported(pytester: pytest.Pytester) -> None:
    run(pytester, "--trn3-budget-update")
    edit(pytester, 1.25)
    write(pytester, "512, 2048")
    outcome = run(pytester, "--trn3-budget")
    outcome.assert_outcomes(passed=5, failed=1, xfailed=1)
    outcome.stdout.fnmatch_lines(
        [
            "faster: copied on trn3 takes * us, was * us: -20.00 % *test_one[[]512[]])",
            "new: copied on trn3: * us *test_one[[]2048[]])",
            "gone: copied on trn3: was * us *test_one[[]1024[]])",
            "*--trn3-budget-update brings trn3-budget.json up to date",
        ]
    )
    run(pytester, "--trn3-budget-update")
    assert f"{FILE}::test_one[1024]" not in saved(pytester)["tests"]
    assert f"{FILE}::test_one[2048]" in saved(pytester)["tests"]


def test_latencies_of_another_model_of_time_are_told_apart(pytester: pytest.Pytester) -> None:
    run(pytester, "--trn3-budget-update")
    assert "model of time" not in run(pytester, "--trn3-budget").stdout.str()
    document = saved(pytester)
    assert document.pop("time_model") == TIME_MODEL
    (pytester.path / "trn3-budget.json").write_text(json.dumps(document))
    lines = [
        f"trn3-budget.json is of trn3 *, whose model of time is version 1; *, version {TIME_MODEL}",
        *(f"{number}: *" for number in range(2, TIME_MODEL + 1)),
    ]
    run(pytester, "--trn3-budget").stdout.fnmatch_lines(lines)


def test_budgets_of_another_level_say_so(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(pytester, "--trn3-budget-update")
    as_written = saved(pytester)
    # As files of before there were levels: those of kernels as written say none.
    assert "level" not in json.dumps(as_written)
    monkeypatch.setenv("TRN3_COMPILE", "nki")
    test = f"{FILE}::test_one[512]"
    edit(pytester, 0.5)
    outcome = run(pytester, "--trn3-budget=5%", test)
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(
        [
            "copied on trn3 takes * us at level nki, was * us at level as-written: *, allowed 5 %",
            "compile=, or the variable TRN3_COMPILE, chooses the compiler's level",
        ]
    )
    edit(pytester, 4)
    outcome = run(pytester, "--trn3-budget=5%", test)
    outcome.assert_outcomes(passed=1)
    outcome.stdout.fnmatch_lines(
        ["at another level of the compiler: copied on trn3 takes * us at level nki, was * us at *"]
    )
    outcome.stdout.no_fnmatch_line("faster:*")
    run(pytester, "--trn3-budget-update")
    assert saved(pytester)["tests"][test]["copied on trn3"]["level"] == "nki"
    outcome = run(pytester, "--trn3-budget=5%", test)
    outcome.assert_outcomes(passed=1)
    outcome.stdout.no_fnmatch_line("* level *")
    monkeypatch.delenv("TRN3_COMPILE")
    run(pytester, "--trn3-budget-update")
    assert saved(pytester) == as_written


def test_launches_at_several_levels_are_of_all_of_them(pytester: pytest.Pytester) -> None:
    body = """
        def test_levels():
            for level in ("nki", "as-written", "nki"):
                nki.profile(copied, np.ones((128, 64), np.float32), compile=level)
    """
    write(pytester, "512")
    kernel = TESTS.partition("def run(")[0]
    pytester.makepyfile(test_kernels=kernel + textwrap.dedent(body))
    run(pytester, "--trn3-budget-update").assert_outcomes(passed=1)
    (costs,) = saved(pytester)["tests"].values()
    assert costs["copied on trn3"]["launches"] == 3
    assert costs["copied on trn3"]["level"] == "nki and as-written"
    outcome = run(pytester, "--trn3-budget=0")
    outcome.assert_outcomes(passed=1)
    outcome.stdout.no_fnmatch_line("* level *")


def test_update_of_some_tests_keeps_the_others(pytester: pytest.Pytester) -> None:
    run(pytester, "--trn3-budget-update")
    before = saved(pytester)
    for selection in (["-k", "several"], [f"{FILE}::test_several"], ["--deselect", FILE], ["--lf"]):
        outcome = run(pytester, "--trn3-budget-update", *selection)
        assert "gone" not in outcome.stdout.str()
        assert saved(pytester) == before, selection
    (pytester.path / FILE).unlink()
    pytester.makepyfile(test_other="def test_nothing(): pass")
    assert "gone: copied on trn3" in run(pytester, "--trn3-budget-update").stdout.str()
    assert saved(pytester)["tests"] == {}


def test_workers_merge_to_the_same_bytes(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist", reason="pytest-xdist is not installed")
    run(pytester, "--trn3-budget-update")
    alone = (pytester.path / "trn3-budget.json").read_bytes()
    options = ["-n", "2", "--dist", "loadgroup", "--trn3-budget-file", "other.json"]
    outcome = run(pytester, "--trn3-budget-update", *options)
    outcome.assert_outcomes(passed=5, failed=1, xfailed=1)
    assert (pytester.path / "other.json").read_bytes() == alone
    document = saved(pytester, "other.json")
    document["tests"]["test_gone.py::test"] = {"copied on trn3": {"launches": 1, "latency_ps": 5}}
    document["tests"][f"{FILE}::test_one[512]"]["copied on trn3"]["latency_ps"] -= 10**6
    (pytester.path / "other.json").write_text(json.dumps(document))
    outcome = run(pytester, "--trn3-budget", *options)
    outcome.assert_outcomes(passed=4, failed=2, xfailed=1)
    outcome.stdout.fnmatch_lines(
        ["slower by *", "gone: copied on trn3: was 0.000 us (test_gone.py::test)"]
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{", "no JSON"),
        ("[]", "no trn3-budget file"),
        ('{"format": "trn3-budget", "version": 2}', "of version 1"),
        ('{"format": "trn3-budget", "version": 1}', "tests is no object"),
        ('{"format": "trn3-budget", "version": 1, "tests": {"a": 1}}', "tests of a is no object"),
        (
            '{"format": "trn3-budget", "version": 1, "tests": {"a": {"k": {"launches": 1.5}}}}',
            "k of a is",
        ),
        (
            '{"format": "trn3-budget", "version": 1, "tests": {}, "time_model": "2"}',
            "time_model is '2'",
        ),
    ],
)
def test_unreadable_file_is_a_usage_error(
    pytester: pytest.Pytester, content: str, text: str
) -> None:
    (pytester.path / "trn3-budget.json").write_text(content)
    outcome = run(pytester, "--trn3-budget")
    assert outcome.ret == pytest.ExitCode.USAGE_ERROR
    assert f"trn3-budget.json: {text}" in outcome.stderr.str() or text in outcome.stderr.str()


def test_wrong_percentage_is_a_usage_error(pytester: pytest.Pytester) -> None:
    for options in (["--trn3-budget=much"], ["--trn3-budget", FILE]):
        outcome = run(pytester, *options)
        assert outcome.ret == pytest.ExitCode.USAGE_ERROR
        assert "allowed: a percentage, as --trn3-budget=5%" in outcome.stderr.str()


def test_without_an_option_nothing_is_done_or_imported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_kernels="import sys\ndef test_imports(): assert 'trn3' not in sys.modules"
    )
    outcome = pytester.runpytest_subprocess("-p", "trn3_pytest")
    outcome.assert_outcomes(passed=1)
    assert "trn3 budget" not in outcome.stdout.str()
    source = (
        "import sys, trn3_pytest; print(sorted(n for n in sys.modules if n in ('numpy', 'trn3')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_entry_point_names_the_module() -> None:
    import tomllib

    root = Path(__file__).resolve().parents[3]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    # Both names the same: pytest then takes `-p trn3_pytest` beside it for one plug-in.
    assert project["entry-points"]["pytest11"] == {"trn3_pytest": "trn3_pytest"}


def test_budgets_by_figure_and_by_line(pytester: pytest.Pytester) -> None:
    by = "--trn3-budget-by=line,hbm_read_bytes,sbuf_peak_bytes"
    run(pytester, "--trn3-budget-update", by)
    figures = saved(pytester)["tests"][f"{FILE}::test_one[512]"]["copied on trn3"]["figures"]
    assert figures["hbm_read_bytes"] == 128 * 512 * 4
    assert figures["sbuf_peak_bytes"] == 512 * 4
    line = f"{FILE}: nl.store(out, nl.load(x))"
    assert figures.keys() == {"hbm_read_bytes", "sbuf_peak_bytes", line}
    # Of several launches bytes add up, a peak is the largest.
    several = saved(pytester)["tests"][f"{FILE}::test_several"]["copied on trn3"]["figures"]
    assert several["hbm_read_bytes"] == 128 * (16 + 32 + 64) * 4
    assert several["sbuf_peak_bytes"] == 64 * 4
    # What the file has counts, without being named again.
    run(pytester, "--trn3-budget").assert_outcomes(passed=5, failed=1, xfailed=1)
    document = saved(pytester)
    for name in ("hbm_read_bytes", line):
        kept = document["tests"][f"{FILE}::test_one[512]"]["copied on trn3"]["figures"]
        kept[name] //= 2
        (pytester.path / "trn3-budget.json").write_text(json.dumps(document))
        outcome = run(pytester, "--trn3-budget", "-k", "test_one")
        outcome.assert_outcomes(passed=1, failed=1)
        outcome.stdout.fnmatch_lines([f"copied on trn3, {name}: *, was *+100.00 %, allowed 5 %"])
        kept[name] *= 2
    with_wrong = run(pytester, "--trn3-budget", "--trn3-budget-by=speed")
    assert with_wrong.ret == pytest.ExitCode.USAGE_ERROR
    with_wrong.stderr.fnmatch_lines(["*--trn3-budget-by names 'speed'; allowed: instructions, *"])


@pytest.mark.parametrize(
    "name", ["report.json", "report.md", "report.sarif", "report.xml", "report.txt"]
)
def test_the_report_is_an_artefact(pytester: pytest.Pytester, name: str) -> None:
    run(pytester, "--trn3-budget-update")
    edit(pytester, 0.5)
    run(pytester, "--trn3-budget", "--trn3-budget-report", name, "-k", "test_one")
    text = (pytester.path / name).read_text()
    form = name.partition(".")[2]
    if form == "json":
        report = json.loads(text)
        assert (report["format"], report["measured"]) == ("trn3-budget-report", 2)
        assert {each["group"] for each in report["changes"]} == {"slower"}
        assert all(99 < each["percent"] < 101 for each in report["changes"])
    elif form == "sarif":
        results = json.loads(text)["runs"][0]["results"]
        assert {(each["ruleId"], each["level"]) for each in results} == {("slower", "error")}
    elif form == "xml":
        assert '<testsuite name="trn3 budget" tests="2" failures="2" errors="0">' in text
    else:
        start = "| error | test" if form == "md" else "slower by more than 5 %: copied on trn3"
        assert sum(line.startswith(start) for line in text.splitlines()) == 2
