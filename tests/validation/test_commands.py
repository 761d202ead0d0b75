"""Published figures of systems: each is a command line, and nothing else computes it."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import replace

import pytest

from trn3 import validation
from trn3.__main__ import main
from trn3.validation import RowError, commands
from trn3.validation.rows import COMMAND_UNITS


def _row(name: str) -> validation.PublishedRow:
    [row] = validation.select([name], commands.published())
    return row


def test_every_handed_row_is_there_and_is_a_command() -> None:
    rows = commands.published()
    assert len([row for row in rows if row.class_ == "fit"]) >= 50
    for row in rows:
        assert row.command is not None
        assert shlex.split(row.command)[0] == "trn3"
        assert row.group
        assert row.source


def test_names_differ_from_those_of_kernels() -> None:
    names = [row.id for row in (*validation.table().rows, *commands.published())]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("llama-3-8b-trn1-tp32-b1-128-8064-tpot", "tpot"),
        ("llama-3-8b-trn1-tp32-b1-128-8064-ttft", "ttft"),
        ("bert-large-train-1-nodes-batch-65536", "sequences_per_second"),
    ],
)
def test_a_row_is_what_its_command_prints(
    name: str, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    row = _row(name)
    assert row.command is not None
    [result] = validation.run([row])
    assert main([*shlex.split(row.command)[1:], "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)[key]
    assert result.predicted == printed / COMMAND_UNITS[row.unit]


def test_a_collective_is_what_nccom_test_prints(capsys: pytest.CaptureFixture[str]) -> None:
    row = _row("nccom-permute-8-trn1-32mb")
    assert row.command is not None
    [result] = validation.run([row])
    assert main([*shlex.split(row.command)[1:], "--json"]) == 0
    [line] = json.loads(capsys.readouterr().out)["results"]
    assert result.predicted == pytest.approx(line["time(us)"], rel=1e-12)


def test_formulas_take_several_numbers_of_a_document() -> None:
    command = "trn3 plan llama-3-8b --system gen2 --tp 4 --batch 8 --in 512 --out 64"
    found = commands.figures(command)
    rate = commands.compute(command, "served_tokens_per_second_per_chip * chips")
    assert rate == found["served_tokens_per_second_per_chip"] * found["chips"]
    with pytest.raises(RowError, match="prints no speed; allowed: "):
        commands.compute(command, "speed * 2")


def test_a_refused_command_is_a_miss_that_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    row = replace(_row("qwen3-32b-trn2-tp64-b1-128-558-tpot"), command="trn3 plan no-such-model")
    [result] = validation.run([row])
    assert math.isnan(result.predicted)
    assert (result.verdict, result.refusal is not None) == ("miss", True)
    assert 'model "no-such-model" is unknown' in str(result.refusal)
    [summary] = validation.summarise([result], "group")
    assert (summary.class_, summary.rows, summary.median) == ("trn2 decode", 1, 1.0)
    assert "refused" in validation.command_tables([result])


def test_validate_prints_commands_that_a_shell_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--commands", "nccom-permute-*", "exp-128-trn2", "chip-mxfp8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [shlex.split(line, comments=True) for line in lines] == [
        ["trn3", "validate", "exp-128-trn2"],
        shlex.split("trn3 nccom-test permute --system trn1 -r 8 -b 32mb -e 32mb"),
        ["trn3", "validate", "chip-mxfp8"],
    ]
    assert main(["validate", "--commands", "--json", "nccom-permute-*"]) == 0
    [line] = json.loads(capsys.readouterr().out)["commands"]
    assert (line["figure"], line["published"]) == ("time", 894.24)


def test_every_command_line_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--commands"]) == 0
    out = capsys.readouterr().out
    for row in commands.published():
        assert f"{row.command}  # {row.id}: " in out
