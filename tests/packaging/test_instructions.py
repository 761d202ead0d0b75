"""Counts of instructions: what fails, what is only said, and what cannot be compared."""

from __future__ import annotations

import re
import tomllib

import pytest

import instructions
from instructions import Counter, NotCountedError
from support.commands import ROOT

PERF, VALGRIND = instructions.COUNTERS
TABLE = {"valgrind": {"1.95.0 x": {"avx2": {"cast": 100_000, "exp": 200_000}}}}


def test_two_percent_more_fails() -> None:
    now = {"avx2": {"cast": 102_001, "exp": 196_001}}
    lines, worse = instructions.compared(TABLE["valgrind"]["1.95.0 x"], now)
    assert worse == 1
    assert lines[0].endswith("MORE than 2% above the table")
    assert lines[1].endswith(" ok")


def test_up_to_two_percent_is_slack() -> None:
    now = {"avx2": {"cast": 101_999, "exp": 203_999}}
    assert instructions.compared(TABLE["valgrind"]["1.95.0 x"], now)[1] == 0


def test_fewer_passes_and_asks_to_be_kept() -> None:
    lines, worse = instructions.compared(TABLE["valgrind"]["1.95.0 x"], {"avx2": {"cast": 90_000}})
    assert worse == 0
    assert "--record" in lines[0]


def test_a_path_that_is_not_in_the_table_fails() -> None:
    assert instructions.compared(TABLE["valgrind"]["1.95.0 x"], {"avx2": {"new": 1}})[1] == 1


def test_the_first_counter_that_the_table_knows_is_used() -> None:
    counter, before = instructions.chosen(TABLE, [PERF, VALGRIND], "1.95.0 x")
    assert counter is VALGRIND
    assert before is TABLE["valgrind"]["1.95.0 x"]


@pytest.mark.parametrize(
    ("available", "compiler", "said"),
    [
        ([], "1.95.0 x", "none ran"),
        ([VALGRIND], "1.96.0 x", "not compared: other toolchain (valgrind of 1.96.0 x; the table"),
        ([PERF], "1.95.0 x", "not compared: other toolchain (perf of 1.95.0 x; the table has"),
    ],
)
def test_what_cannot_be_compared_is_said(
    available: list[Counter], compiler: str, said: str
) -> None:
    with pytest.raises(NotCountedError, match=re.escape(said)):
        instructions.chosen(TABLE, available, compiler)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({}, "not compared: incremental builds count otherwise"),
        ({"CARGO_INCREMENTAL": "1"}, "not compared: incremental builds count otherwise"),
        ({"CARGO_INCREMENTAL": "0", "RUSTFLAGS": "-C opt-level=1"}, "not compared: RUSTFLAGS"),
    ],
)
def test_other_builds_are_not_compared(variables: dict[str, str], said: str) -> None:
    with pytest.raises(NotCountedError, match=re.escape(said)):
        instructions.check_build(variables)


@pytest.mark.parametrize(
    ("counter", "report", "count"),
    [
        (PERF, "# started on ...\n\n4212345,,instructions:u,1000,100.00,,\n", "4212345"),
        (VALGRIND, "==12== \n==12== I   refs:      1,087,886\n", "1,087,886"),
        (VALGRIND, "==12== I refs:        87,886\n", "87,886"),
    ],
)
def test_reports_are_read(counter: Counter, report: str, count: str) -> None:
    found = counter.found.search(report)
    assert found is not None
    assert found[1] == count


def test_a_counter_that_is_not_allowed_counts_nothing() -> None:
    assert PERF.found.search("<not supported>,,instructions:u,0,100.00,,\n") is None


def test_the_table_is_what_was_recorded() -> None:
    """Ten paths, those of the program; writing the table again changes nothing."""
    text = instructions.TABLE.read_text(encoding="utf-8")
    table = tomllib.loads(text)
    assert instructions.document(table) == text
    source = (ROOT / "rust" / "trn3" / "benches" / "paths.rs").read_text(encoding="utf-8")
    paths = set(re.findall(r'^    \("(\w+)", \w+\),$', source, re.MULTILINE))
    assert len(paths) == 10
    for compilers in table.values():
        for levels in compilers.values():
            assert set(levels) == set(instructions.LEVELS)
            assert set().union(*levels.values()) == paths
