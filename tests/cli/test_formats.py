"""``--format`` of the commands that find something: schemas, escaping, and exit codes that stay."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from shutil import copy
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest
import xmlschema

from trn3.notices import Notice, NoticeReport

Refused = Callable[..., str]
Run = Callable[..., Any]
EXAMPLES = Path(__file__).parents[2] / "examples"
SCHEMAS = Path(__file__).parent / "schemas"
KERNELS = """\
import nki
import nki.language as nl
import numpy as np

@nki.jit
def k(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out

@nki.jit
def wrong(x):
    scale = None
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.exp(nl.load(x))
    nl.store(out, nl.multiply(a, 3.0 if scale is None else scale))
    return out

def inputs():
    return {"x": np.ones((128, 32), np.float32)}

def golden(x):
    return 2 * x
"""
COMMANDS = {
    "lint": ("lint", "k.py"),
    "profile": ("profile", "k.py:wrong"),
    "diff": ("diff", "k.py:k", "k.py:wrong", "--arch", "trn3"),
}
#: What tries to leave its place in every form.
HOSTILE = "a | <b> `c` ]]> & 100%\n::error::d\x1b[31m\udc80"


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.py").write_text(KERNELS)


@cache
def sarif() -> jsonschema.Draft7Validator:
    text = (SCHEMAS / "sarif-schema-2.1.0.json").read_text()
    return jsonschema.Draft7Validator(json.loads(text))


@cache
def junit() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(SCHEMAS / "junit-10.xsd")


def check_sarif(text: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(text)
    sarif().validate(document)
    run: dict[str, Any] = document["runs"][0]
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    return run


def check_junit(text: str) -> ET.Element:
    junit().validate(text)
    root = ET.fromstring(text)
    failing = [case for case in root.iter("testcase") if case.find("failure") is not None]
    for element in (root, root[0]):
        assert element.get("failures") == str(len(failing))
        assert element.get("tests") == str(len(list(root.iter("testcase"))))
    return root


@pytest.mark.parametrize("command", COMMANDS)
def test_every_form_of_every_command(run: Run, command: str) -> None:
    words = COMMANDS[command]
    found = {
        form: run(*words, "--format", form)
        for form in ("text", "github", "sarif", "junit", "markdown", "json")
    }
    # Exit codes do not depend on the form.
    assert {outcome.code for outcome in found.values()} == {1}
    assert {outcome.stderr for outcome in found.values()} == {""}
    plain = run(*words)
    drop = "Simulated in"
    assert plain.stdout.partition(drop)[0] == found["text"].stdout.partition(drop)[0]
    document = json.loads(found["json"].stdout)
    assert document.keys() == json.loads(run(*words, "--json").stdout).keys()
    results = check_sarif(found["sarif"].stdout)["results"]
    errors = [each for each in results if each["level"] == "error"]
    assert errors
    lines = found["github"].stdout.splitlines()
    assert len(lines) == len(results)
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in lines)
    assert sum(line.startswith("::error ") for line in lines) == len(errors)
    failures = list(check_junit(found["junit"].stdout).iter("failure"))
    assert len(failures) == len(errors)
    table = found["markdown"].stdout.splitlines()
    assert table[0].startswith(f"**trn3 {command}**: {len(results)} found in ")
    assert len(table) == 4 + len(results)


def test_places_are_those_of_the_lines(run: Run) -> None:
    (error,) = check_sarif(run("lint", "k.py", "--format", "sarif").stdout)["results"]
    location = error["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "k.py", "uriBaseId": "%SRCROOT%"}
    number = location["region"]["startLine"]
    assert "scale is None" in KERNELS.splitlines()[number - 1]
    github = run("lint", "k.py", "--format", "github").stdout
    assert github.startswith(f"::error file=k.py,line={number},col=")
    slower = run(*COMMANDS["diff"], "--format", "github").stdout
    at = KERNELS.splitlines().index("    a = nl.exp(nl.load(x))") + 1
    assert f"::notice file=k.py,line={at},title=slower-line::" in slower


def test_profile_gives_its_advice_after_what_is_wrong(run: Run, tmp_path: Path) -> None:
    """Each ranked piece of advice is a note at its line, in the order of the JSON."""
    words = ("profile", "slow.py", "--timing-only")
    copy(EXAMPLES / "optimize" / "layernorm.py", tmp_path / "slow.py")
    document = json.loads(run(*words, "--json").stdout)
    assert len(document["advice"]) > 1
    results = check_sarif(run(*words, "--format", "sarif").stdout)["results"]
    assert {each["level"] for each in results} == {"note"}
    found: dict[str, list[dict[str, Any]]] = {}
    for each in results:
        found.setdefault(each["ruleId"], []).append(each)
    texts = [each["message"]["text"] for each in found["advice"]]
    assert texts == [each["text"] for each in document["advice"]]
    for each, advice in zip(found["advice"], document["advice"], strict=True):
        place = each["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "slow.py"
        assert advice["line"].endswith(f"slow.py:{place['region']['startLine']}")
    (light,) = found["speed-of-light"]
    assert light["message"]["text"] == document["speed_of_light"]["text"]
    (case,) = check_junit(run(*words, "--format", "junit").stdout).iter("testcase")
    said = [str(each.text) for each in case if "note advice: " in str(each.text)]
    assert [text.endswith(advice) for text, advice in zip(said, texts, strict=True)]
    errors_first = run(*COMMANDS["profile"], "--format", "github").stdout.splitlines()
    kinds = [line.partition(" ")[0] for line in errors_first]
    assert kinds == ["::error", *["::notice"] * (len(kinds) - 1)]


def test_a_shadow_run_notes_where_precision_is_lost(run: Run, tmp_path: Path) -> None:
    (tmp_path / "narrow.py").write_text(KERNELS.replace("np.float32)", "np.float32) / 3"))
    outcome = run("profile", "narrow.py:wrong", "--shadow", "--no-check", "--format", "github")
    lines = [each for each in outcome.stdout.splitlines() if "title=precision" in each]
    assert {line.partition(",line=")[0] for line in lines} == {"::notice file=narrow.py"}
    added = [line for line in lines if "::activation writes" in line]
    assert [line.count("against float64") for line in added] == [1]


def test_diff_says_what_each_machine_takes(run: Run) -> None:
    """One kernel on two machines has no changes of text, and still a verdict for each."""
    outcome = run("diff", "k.py:k", "--format", "sarif")
    rules = [each["ruleId"] for each in check_sarif(outcome.stdout)["results"]]
    assert rules == ["verdict"] * 2
    several = run(*COMMANDS["diff"], "--format", "github").stdout
    assert "title=engine::scalar at work: 0.000 us -> " in several


def test_a_clean_report_passes(run: Run) -> None:
    for form in ("sarif", "junit", "github", "markdown"):
        outcome = run("lint", "k.py:k", "--format", form)
        assert outcome.code == 0
        if form == "sarif":
            assert check_sarif(outcome.stdout)["results"] == []
        elif form == "junit":
            (case,) = check_junit(outcome.stdout).iter("testcase")
            assert (case.get("name"), len(case)) == ("k", 0)
        else:
            assert outcome.stdout.strip() == (
                "" if form == "github" else "**trn3 lint**: 0 found in 1 checked"
            )


def test_hostile_texts_stay_in_their_places(tmp_path: Path) -> None:
    file = f"{tmp_path}/a folder/{HOSTILE}.py"
    found = (
        Notice("error", "rule", HOSTILE, file, 3, 1, HOSTILE),
        Notice("warning", "rule", HOSTILE, "/elsewhere/k.py", about="k"),
    )
    report = NoticeReport("trn3 lint", found, ("k", HOSTILE))
    assert len(report.written("github").splitlines()) == 2
    assert "%0A::error::d" in report.written("github")
    results = check_sarif(report.written("sarif"))["results"]
    assert results[0]["message"]["text"] == HOSTILE
    assert results[1]["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "file:///elsewhere/k.py"}
    }
    root = check_junit(report.written("junit"))
    assert "<b>" in str(root.find(".//failure").text)  # type: ignore[union-attr]
    table = report.written("markdown").splitlines()
    assert [line.replace(r"\|", "").count("|") for line in table[2:]] == [6] * 4
    assert not any("<b>" in line for line in table)
    for form in ("github", "junit", "markdown"):
        assert "\x1b" not in report.written(form)
    with pytest.raises(ValueError, match="form is 'text'; allowed: github, sarif"):
        report.written("text")


def test_forms_that_contradict_are_refused(refused: Refused) -> None:
    assert refused("lint", "k.py", "--json", "--format", "sarif") == (
        "--json and --format sarif: give one of them"
    )
    assert "'yaml'" in refused("lint", "k.py", "--format", "yaml")


def test_lint_of_several_files(run: Run, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("raise SystemExit('imported')\n")
    outcome = run("lint", "k.py", "other.py", "--skip-others", "--json")
    assert outcome.code == 1
    assert json.loads(outcome.stdout)["kernels"] == ["k", "wrong"]
    assert run("lint", "other.py", "--skip-others").code == 0
    assert run("lint", "k.py:k", "other.py").code == 2
