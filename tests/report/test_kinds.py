"""Reports of plans and the like: one shell, what `--json` prints, and nothing that acts."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trn3
from support import checkpoints
from support.pages import Page
from trn3.__main__ import main

EVIL = "</script><img src=x onerror=hacked=1>\x1b[31m\u202e"
#: What the header has as names of its own, which no pane may have too.
TAKEN = {
    "bar", "machine", "choices", "search", "query", "found", "hits", "figures", "help", "theme",
    "tip", "keys", "shell", "panes", "side-nav", "trn3-summary", "trn3-report",
}  # fmt: skip


def shell_is_sound(text: str, kind: str) -> Page:
    """Check what all kinds have, and return the page."""
    page = Page(text)
    assert f'<body data-kind="{kind}">' in text
    assert page.json("trn3-report")["kind"] == kind
    assert len(set(page.panes)) == len(page.panes)
    assert not set(page.panes) & TAKEN
    assert [f"#{pane}" for pane in page.panes] == page.values("href")[: len(page.panes)]
    names = {name for _, name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on")} | (names & {"src", "style"})
    [script] = [text for given, text in page.scripts if given.get("type") == "module"]
    [policy] = [str(meta["content"]) for meta in page.metas if "http-equiv" in meta]
    for drawing in (script, *page.styles):
        digest = base64.b64encode(hashlib.sha256(drawing.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    for chart in page.json("trn3-report")["charts"]:
        assert chart["pane"] in page.panes
        assert chart["kind"] in ("stacks", "curves", "bars")
    return page


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[str, Any]]:
    """Run a command with --html and --json; return the page and the document."""

    def run(*words: str, code: int = 0) -> tuple[str, Any]:
        file = tmp_path / "report.html"
        assert main([*words, "--html", str(file), "--json"]) == code
        return file.read_text("utf-8"), json.loads(capsys.readouterr().out)

    return run


PLANS: dict[str, tuple[str, list[str]]] = {
    "plan --in 512 --out 64": (
        "plan", ["time", "memory", "power", "cost", "frontier", "operators", "settings"],
    ),
    "plan --tp 4 --batch 1 --uncertainty 2": (
        "plan", ["time", "memory", "power", "cost", "operators", "settings"],
    ),
    "plan --system gen2 --system gb300_nvl72": (
        "plans", ["plans", "time", "memory", "frontier", "settings"],
    ),
    "plan --train --global-batch 576 --sequence 4096 --price 2": (
        "training", ["time", "memory", "power", "cost", "settings"],
    ),
    "plan --train --global-batch 1152 --sequence 4096 --system gen2 --system trn2_ultraserver": (
        "plans", ["plans", "settings"],
    ),
    "plan --ops": ("operators", ["pass-0", "pass-1", "settings"]),
}  # fmt: skip


@pytest.mark.parametrize("words", PLANS)
def test_plans_have_the_document_of_the_command(
    command: Callable[..., tuple[str, Any]], words: str
) -> None:
    kind, panes = PLANS[words]
    name, *options = words.split()
    text, document = command(name, "llama-3-8b", *options)
    page = shell_is_sound(text, kind)
    assert page.panes == panes
    assert page.json("trn3-summary") == document


def test_a_plan_says_where_all_goes() -> None:
    plan = trn3.plan("llama-3-8b", "gen2", input_tokens=512, output_tokens=64)
    page = Page(plan.to_html())
    charts = {chart["title"]: chart for chart in page.json("trn3-report")["charts"]}
    prompt, token = charts["What takes the time of a stage"]["rows"]
    for row, phase in ((prompt, plan.prefill), (token, plan.decode)):
        assert {part["name"]: part["value"] for part in row["parts"]} == phase.breakdown
    [bank] = charts["What a bank holds"]["rows"]
    held = plan.memory_table()
    assert (sum(part["value"] for part in bank["parts"]), bank["limit"]) == (
        pytest.approx(held.used), held.bank,
    )  # fmt: skip
    assert plan.cost is not None
    assert plan.energy is not None
    price = charts["What the chips' time, and so its price, goes to"]["rows"][0]["parts"]
    assert sum(part["value"] for part in price) == pytest.approx(plan.cost.per_million_tokens)
    watts = {row["name"]: row["values"][0][0] for row in charts["Watts of a chip"]["rows"]}
    assert (watts["on average"], watts["TDP"]) == (plan.energy.watts_per_chip, plan.energy.tdp)
    assert plan.searched is not None
    best, own = charts["Speed against throughput, decoding"]["series"]
    assert len(best["points"]) == len(plan.searched.frontier)
    assert own["points"][0][:2] == [
        plan.tokens_per_second_per_user, plan.tokens_per_second_per_chip,
    ]  # fmt: skip
    for part in (*plan.prefill.parts, *plan.decode.parts):
        assert part.name in page.words
    assert plan.assumptions[0] in page.words


def test_what_fits_nowhere_and_has_no_price_says_so() -> None:
    plan = trn3.plan("llama-3-70b", "gb300_nvl72", tp=1, batch=4096, on_overflow="report")
    assert not plan.fits
    assert plan.cost is None
    page = Page(plan.to_html())
    assert plan.why_not in page.words
    assert any(word.startswith("It does not fit: ") for word in page.words)
    assert "Nobody named a price for this chip; --price gives one." in page.words


def test_names_of_models_are_text(tmp_path: Path) -> None:
    plan = trn3.plan("llama-3-8b", "gen2", tp=4, batch=1, context=8_000)
    object.__setattr__(plan.model, "name", EVIL)
    text = plan.to_html(tmp_path / "plan.html")
    assert (tmp_path / "plan.html").read_text("utf-8") == text
    page = shell_is_sound(text, "plan")
    assert "img" not in {tag for tag, *_ in page.attributes}
    assert not {"\x1b", "\u202e"} & set(text)
    assert re.sub(r"\s", "", page.titles[0]).startswith("</script><imgsrc=x")
    assert page.json("trn3-report")["title"] == f"{EVIL} on {plan.system}"
    assert text.lower().count("</script") == 3


def test_systems_stand_beside_each_other(command: Callable[..., tuple[str, Any]]) -> None:
    text, document = command("compare", "gen2", "gb300", "tpu_v7")
    page = shell_is_sound(text, "compare")
    assert page.panes == ["ratios", "sources"]
    assert page.json("trn3-summary") == document
    found = trn3.compare("gen2", "gb300", "tpu_v7")
    [chart] = page.json("trn3-report")["charts"]
    assert chart["names"] == [facts.title for facts in found.systems[1:]]
    drawn = {row["name"]: [value for value, _ in row["values"]] for row in chart["rows"]}
    row = found.row("hbm_bandwidth")
    assert drawn[row.title] == list(row.ratios[1:])
    for cell in found.row("bf16").cells:
        assert cell.text in page.words
    assert "90.597 to 96.624" in page.words
    assert any(
        source["source"] in page.words for source in document["rows"][0]["cells"][0]["sources"]
    )


def test_errors_of_a_quantization(command: Callable[..., tuple[str, Any]], tmp_path: Path) -> None:
    """What loses most stands first, in both formats."""
    rng = np.random.default_rng(7)
    tensors = {
        "good": rng.standard_normal((8, 64)).astype(np.float32),
        f"bad{EVIL}": np.exp2(rng.uniform(-30, 9, (8, 64))).astype(np.float32),
        "bias": np.ones(8, np.float32),
    }
    model = checkpoints.write(tmp_path / "model.safetensors", tensors)
    formats = ("mxfp8-e4m3", "mxfp4-e2m1")
    words = [word for name in formats for word in ("--to", name)]
    text, document = command("quantize", str(model), *words, "--out", str(tmp_path / "out.st"))
    page = shell_is_sound(text, "quantize")
    assert page.panes == ["formats", "errors", "tensors", "kept", "settings"]
    assert page.json("trn3-summary") == document
    assert not {"\x1b", "\u202e"} & set(text)
    assert text.lower().count("</script") == 3
    errors, worst = page.json("trn3-report")["charts"]
    assert [series["name"] for series in errors["series"]] == list(formats)
    for series in errors["series"]:
        assert sum(share for _, share, _ in series["points"]) == pytest.approx(1)
    totals = {each["name"]: each["sqnr_db"] for each in document["outputs"][1]["tensors"]}
    drawn = {row["name"]: row["values"][1][0] for row in worst["rows"]}
    assert drawn == totals
    assert next(iter(drawn)) == min(totals, key=totals.__getitem__)
    assert "bias" in page.words


def test_a_quantization_without_histograms_says_so(tmp_path: Path) -> None:
    model = checkpoints.write(tmp_path / "model.safetensors", {"w": np.ones((2, 64), np.float32)})
    report = trn3.quantize_checkpoint(model, {"mxfp8-e4m3": tmp_path / "out.safetensors"})
    page = Page(report.to_html())
    assert "No histograms were gathered: with_histogram=True gathers them." in page.words
    assert "exact" in page.words


def measure(chips: int, batch: int, dtype: str) -> dict[str, float]:
    if chips == 8 and dtype == EVIL:
        raise ValueError(EVIL)
    return {"rate": chips * batch / 2, "bytes": batch * 16}


def test_a_sweep_is_drawn_over_its_longest_axis() -> None:
    grid: dict[str, list[Any]] = {"dtype": ["bf16", EVIL], "chips": [1, 8], "batch": [1, 2, 64]}
    result = trn3.sweep(measure, grid, workers=0)
    text = result.to_html()
    page = shell_is_sound(text, "sweep")
    assert page.panes == ["values", "points", "failures"]
    assert not {"\x1b", "\u202e"} & set(text)
    assert text.lower().count("</script") == 3
    summary = page.json("trn3-summary")
    assert summary.pop("trn3_version") == trn3.__version__
    assert summary == json.loads(result.to_json())
    charts = {chart["title"]: chart for chart in page.json("trn3-report")["charts"]}
    assert set(charts) == {"value.rate", "value.bytes", "seconds"}
    rate = charts["value.rate"]
    assert (rate["x"]["name"], rate["x"]["is_log"]) == ("batch", True)
    drawn = {line["name"]: [point[:2] for point in line["points"]] for line in rate["series"]}
    assert drawn["dtype bf16, chips 8"] == [[1, 4], [2, 8], [64, 256]]
    assert drawn[f"dtype {EVIL}, chips 8"] == []
    assert "12 points (2 of dtype, 2 of chips, 3 of batch); 3 failed." in page.words


@pytest.mark.parametrize("grid", [{"x": ["a", "b"]}, {}, {"x": []}])
def test_a_sweep_without_numbers_says_so(grid: dict[str, list[str]]) -> None:
    page = shell_is_sound(trn3.sweep(lambda **_: 1, grid, workers=0).to_html(), "sweep")
    said = "No parameter has two numbers: there is nothing to draw values over."
    assert said in page.words
    assert page.json("trn3-report")["charts"] == []


def test_published_and_computed(command: Callable[..., tuple[str, Any]]) -> None:
    """Measurements of kernels, of which one is off with a reason, a command line's, and claims."""
    names = ("exp-128-trn2", "store-32k-trn2", "llama-3-8b-trn1-tp32-b1-128-8064-tpot", "1", "2")
    text, document = command("validate", *names)
    page = shell_is_sound(text, "validate")
    assert page.json("trn3-summary") == document
    assert set(page.panes) == {"summary", "kernels", "commands", "claims", "reasons"}
    for row in document["rows"]:
        assert row["id"] in page.words
    assert [row["reason"] in page.words for row in document["rows"] if row["reason"]] == [True]
    drawn = {
        point[2].split("\n")[0]: point[:2]
        for chart in page.json("trn3-report")["charts"]
        for series in chart["series"]
        for point in series["points"]
    }
    for row in document["rows"]:
        if row["ratio"]:
            name = f"{row['id']}: {row['figure']}" if row["kind"] == "claim" else row["id"]
            assert drawn[name] == [row["published"], row["ratio"]]


@pytest.mark.parametrize("where", [".", "nowhere/report.html"])
def test_a_report_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    assert main(["plan", "llama-3-8b", "--html", str(tmp_path / where)]) == 2
    assert "directory" in capsys.readouterr().err
