"""``trn3 spec`` and ``trn3 compare``: tables, JSON, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trn3 import facts


def test_spec_without_a_name_lists_all_systems(run: Callable[..., Any]) -> None:
    outcome = run("spec")
    assert outcome.code == 0
    for name in facts.names():
        assert f" {name} " in outcome.stdout
    document = json.loads(run("spec", "--json").stdout)
    assert [entry["name"] for entry in document["systems"]] == list(facts.names())


def test_spec_prints_both_variants_of_power(run: Callable[..., Any]) -> None:
    outcome = run("spec", "trainium3")
    [line] = [line for line in outcome.stdout.splitlines() if line.startswith("tdp ")]
    assert line.split()[:6] == ["tdp", "1,000", "W", "conflicting", "500", "to"]
    assert "8 x 314.57 TFLOPS = 2,516.6 TFLOPS" in outcome.stdout
    assert "press" not in outcome.stdout


def test_spec_sources_shows_every_source_and_reason(run: Callable[..., Any]) -> None:
    out = run("spec", "gen2", "--sources").stdout
    for quantity in facts.load("gen2").values():
        for source in quantity.sources:
            assert source.source in out
        assert quantity.why is None or quantity.why in out


def test_spec_sources_says_which_value_is_used(run: Callable[..., Any]) -> None:
    out = " ".join(run("spec", "trainium3", "--sources").stdout.split())
    assert "used: 629.15 TFLOPS, computed" in out
    assert "used: 4.9 TB/s, as published" in out


def test_spec_json_has_figures_formulas_and_sources(run: Callable[..., Any]) -> None:
    document = json.loads(run("spec", "trn3", "--json").stdout)
    assert (document["name"], document["parts"]) == ("trainium3", {"core": "neuroncore_v4"})
    figure = document["quantities"]["tflops_mxfp8"]
    assert figure["value"] == pytest.approx(2516.5824)
    assert (figure["published"], figure["agrees"], figure["unit"]) == (2517, True, "TFLOPS")
    assert figure["sources"][0] == {"value": 2517, "source": "neuron docs trainium3"}


def test_spec_refuses(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "'trainum3' is unknown; the nearest is 'trainium3'" in refused("spec", "trainum3")
    file = tmp_path / "mine.toml"
    file.write_text('[mine]\n[mine.hbm_bandwidth]\ndefault = -3\nunit = "TB/s"\nsources = []\n')
    assert "mine.toml: mine.hbm_bandwidth" in refused("spec", file)
    assert "No such file" in refused("spec", tmp_path / "none.toml")


def test_compare_prints_marks_ranges_and_ratios(run: Callable[..., Any]) -> None:
    out = run("compare", "trainium3", "b300").stdout
    [line] = [line for line in out.splitlines() if line.startswith("HBM bandwidth")]
    assert line.split() == ["HBM", "bandwidth", "4.9", "TB/s", "(c)", "8", "TB/s", "1.63"]
    assert "4.7 to 4.9152" in out
    assert "sources conflict" in out


def test_compare_json_and_csv(run: Callable[..., Any], tmp_path: Path) -> None:
    document = json.loads(run("compare", "gen2", "gb300", "--json", "--peaks", "array").stdout)
    rows = {row["id"]: row for row in document["rows"]}
    assert rows["bf16"]["cells"][0]["value_in_row_unit"] == pytest.approx(90.5969664)
    assert rows["fp4"]["unit"] == "PFLOPS"
    assert run("compare", "gen2", "gb300", "--csv").stdout.startswith(
        "figure,system,key,value,unit"
    )


def test_compare_draws(run: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    picture = tmp_path / "picture.svg"
    assert run("compare", "trainium3", "b200", "--plot", picture).code == 0
    assert picture.read_text(encoding="utf-8").startswith("<?xml")


def test_compare_refuses(refused: Callable[..., str], tmp_path: Path) -> None:
    assert "a comparison needs two or more" in refused("compare", "trainium3")
    assert "trainium3 comes twice" in refused("compare", "trainium3", "trn3")
    assert "--json and --csv exclude" in refused("compare", "trn2", "trn3", "--json", "--csv")
    assert "--plot writes .png" in refused("compare", "trn2", "trn3", "--plot", "x.gif")
    nowhere = tmp_path / "none" / "x.png"
    assert "there is no directory" in refused("compare", "trn2", "trn3", "--plot", nowhere)
