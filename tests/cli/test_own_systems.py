"""The spec files of the page on systems, and changes behind names, through every command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "systems.md"
RACK, DERIVED = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[:2]
TCO = ("--capex", "1e6", "--years", "4", "--kw", "20", "--pue", "1.2", "--price-kwh", "0.1",
       "--utilisation", "0.5")  # fmt: skip
TRAIN = ("--train", "--global-batch", "64", "--sequence", "4096")


@pytest.fixture
def rack(tmp_path: Path) -> str:
    file = tmp_path / "mine.toml"
    file.write_text(RACK, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("words", "needles"),
    [
        (("spec", "{}"), ("16 x 6 TB/s = 96 TB/s", "12.8  PFLOPS")),
        (("ls", "{}"), ("backplane", "192 GiB")),
        (("bound", "{}"), ("400 GB/s a chip",)),
        (("route", "{}", "0", "5"), ("backplane", "400 GB/s")),
        (("compare", "{}", "b300"), ("96 TB/s",)),
        (
            ("plan", "llama-3-8b", "--system", "{}", "--tp", "8"),
            ("Sixteen of them", "16 chips", "6.00 TB/s a chip", "TDP of 900 W", "at 2.5 USD"),
        ),
        (("plan", "llama-3-8b", "--system", "{}", "--tp", "8", "--instances", "3"), ("48 chips",)),
        (
            ("plan", "llama-3-8b", "--system", "{}", *TRAIN),
            ("16 chips of Sixteen of them", "at 900 W"),
        ),
        (("nccom-test", "allr", "--system", "{}"), ("Sixteen of them, 16 ranks",)),
        (("power", "{}", "--dtype", "bf16"), ("my_rack", "16 chips", "TDP of 900 W")),
        (("tco", *TCO, "--system", "{}"), ("PFLOP",)),
        (("export", "astra-sim", "{}"), ("npus_count: [16]",)),
        (("export", "calculon", "{}"), ('"bandwidth"',)),
    ],
)
def test_the_example_of_the_page_runs_everywhere(
    run: Run, rack: str, words: tuple[str, ...], needles: tuple[str, ...]
) -> None:
    outcome = run(*(word.format(rack) for word in words))
    assert outcome.code == 0, outcome.stderr
    for needle in needles:
        assert needle in outcome.stdout, outcome.stdout


@pytest.mark.parametrize(
    ("words", "needle"),
    [
        (("k8s", "slices", "--system", "{}"), "add [my_rack._kubernetes], or _base"),
        (("export", "llmcompass", "{}"), "my_chip"),
        (("plan", "llama-3-8b", "--system", "{}:my_racket"), 'the nearest is "my_rack"'),
        (("bound", "{}:levels.backplan.rate=3"), 'the nearest is "levels.backplane.rate"'),
        (("plan", "llama-3-8b", "--system", "{}:tdp=hot"), "a number of W, or a change such as"),
        (("power", "{}:tdp=-1"), "not negative"),
        (("spec", "{}.toml"), "No such file"),
    ],
)
def test_what_an_own_system_cannot_is_said(
    refused: Callable[..., str], rack: str, words: tuple[str, ...], needle: str
) -> None:
    assert needle in refused(*(word.format(rack) for word in words))


def test_changes_of_an_own_system_are_those_of_its_chip(run: Run, rack: str) -> None:
    changed = f"{rack}:my_rack:hbm_bandwidth=+50%,chips=8,levels.backplane.rate=100,price_hour=5"
    plan = json.loads(run("plan", "llama-3-8b", "--system", changed, "--tp", "8", "--json").stdout)
    assert plan["system"]["chips"] == 8
    assert plan["cost"]["price_per_chip_hour"] == 5
    assert any("9.00 TB/s a chip" in text for text in plan["assumptions"])
    assert "800 GB/s a chip" in run("bound", changed).stdout


def test_a_base_has_what_its_table_leaves_out(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "hbm4.toml"
    file.write_text(DERIVED, encoding="utf-8")
    options = ("--tp", "4", "--batch", "1", "--json")
    plans = [
        json.loads(run("plan", "llama-3-8b", "--system", name, *options).stdout)
        for name in (str(file), "trainium3", "trainium3:hbm_bandwidth=+100%,dma_bandwidth=+100%")
    ]
    assert plans[0]["tpot"] == plans[2]["tpot"] < plans[1]["tpot"]
    cooler = json.loads(run("plan", "llama-3-8b", "--system", f"{file}:tdp=500", *options).stdout)
    assert cooler["tpot"] == plans[0]["tpot"]
    assert cooler["energy"]["tdp"] == 500
    assert plans[0]["cost"]["price"] == plans[1]["cost"]["price"]
    assert "8 x 19.661 TFLOPS" in run("spec", file).stdout


def test_nodes_of_a_changed_system_are_its_own(run: Run) -> None:
    slices = ("k8s", "slices", "--system")
    half, whole = (run(*slices, name).stdout for name in ("gen2:chips=72", "gen2"))
    assert half.count("kind: ResourceSlice") * 2 == whole.count("kind: ResourceSlice") > 0


def test_several_systems_are_one_table_and_one_document(run: Run, rack: str) -> None:
    words = ("plan", "llama-3-8b", "--tp", "8", "--batch", "4", "--in", "2048")
    systems = ("--system", "gen2", "--system", rack, "--system", f"{rack}:chips=4")
    outcome = run(*words, *systems, "--json")
    assert outcome.code == 0, outcome.stderr
    document = json.loads(outcome.stdout)
    assert list(document) == ["trn3_version", "plans"]
    gen2, mine, small = document["plans"]
    alone = json.loads(run(*words, "--system", "gen2", "--json").stdout)
    alone.pop("trn3_version")
    assert gen2 == {"asked": "gen2", **alone}
    assert (mine["asked"], mine["system"]["chips"]) == (rack, 16)
    assert list(small) == ["asked", "refused"]
    assert "8" in small["refused"]
    table = " ".join(run(*words, *systems).stdout.split())
    assert "gen2" in table
    assert small["refused"].split()[0] in table


def test_several_systems_train_and_are_drawn(run: Run, rack: str, tmp_path: Path) -> None:
    systems = ("--system", "gen2:chips=64", "--system", rack)
    trained = run("plan", "llama-3-8b", *systems, *TRAIN)
    assert trained.code == 0, trained.stderr
    assert "step s" in trained.stdout
    picture = tmp_path / "frontiers.svg"
    assert run("plan", "llama-3-8b", *systems, "--tp", "4", "--plot", picture).code == 0
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_systems_that_all_refuse_refuse_the_command(refused: Callable[..., str]) -> None:
    said = refused("plan", "llama-3-8b", "--system", "gen2", "--system", "trn2", "--tp", "3")
    assert "no system has a plan: gen2: tp is 3" in said
    twice = refused("plan", "llama-3-8b", "--system", "gen2", "--system", "gen2")
    assert "each once" in twice
