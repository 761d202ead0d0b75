"""The composite action and the hooks of pre-commit: what they run, in a repository made here."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
KERNEL = """\
import nki
import nki.language as nl
import numpy as np

@nki.jit
def k(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out

def inputs():
    return {"x": np.ones((128, 32), np.float32)}
"""
REFUSED = KERNEL.replace("(x):\n", "(x, y=None):\n    assert y is None\n", 1)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a repository with a kernel, and a command trn3 on its path."""
    here = tmp_path / "repository"
    (here / "bin").mkdir(parents=True)
    for name, words in (("trn3", " -m trn3"), ("python", "")):
        command = here / "bin" / name
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)}{words} "$@"\n')
        command.chmod(0o755)
    (here / "k.py").write_text(KERNEL)
    (here / "setup.py").write_text("raise SystemExit('imported')\n")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for git in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "first"]):
        subprocess.run(["git", *git], cwd=here, check=True)
    return here


def shell(home: Path, script: str, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    named = {**os.environ, "PATH": path, "GITHUB_STEP_SUMMARY": str(home / "summary"), **variables}
    # As GitHub calls it.
    words = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(words, cwd=home, env=named, capture_output=True, text=True, check=False)


def run_action(home: Path, **given: str) -> list[tuple[str, subprocess.CompletedProcess[str]]]:
    """Run the steps of the action as a runner would, until one fails."""
    action = yaml.safe_load((ROOT / ".github/actions/check/action.yml").read_text())
    values = {name: str(each["default"]) for name, each in action["inputs"].items()}
    assert given.keys() <= values.keys()
    values.update(given)
    assert action["runs"]["using"] == "composite"

    def filled(text: str) -> str:
        return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: values[found[1]], text)

    done = []
    for step in action["runs"]["steps"]:
        # Values come by variables: a script that held them would run what they say.
        assert "${{" not in step["run"]
        (condition,) = re.findall(r"^inputs\.([\w-]+) != ''$", step["if"])
        if not values[condition]:
            continue
        outcome = shell(home, step["run"], **{k: filled(v) for k, v in step["env"].items()})
        done.append((step["name"], outcome))
        if outcome.returncode:
            break
    return done


def test_the_action_passes_what_is_right(home: Path) -> None:
    done = run_action(home, install="", lint="*.py", kernel="k.py:k", base="HEAD")
    assert [(name, each.returncode) for name, each in done] == [
        ("Lint", 0), ("Compare with the base", 0),
    ], done  # fmt: skip
    assert json.loads((home / "trn3-reports/lint.sarif").read_text())["version"] == "2.1.0"
    assert json.loads((home / "trn3-reports/diff.json").read_text())["changes"]
    assert (home / "summary").read_text().count("**trn3 ") == 2


def test_the_action_fails_what_is_refused_or_wrong(home: Path) -> None:
    (home / "k.py").write_text(REFUSED)
    ((name, lint),) = run_action(home, install="", lint="k.py; touch owned", kernel="k.py:k")
    assert (name, lint.returncode) == ("Lint", 2)
    assert not (home / "owned").exists()
    ((_, lint),) = run_action(home, install="", lint="k.py")
    assert lint.returncode == 1
    assert lint.stdout.startswith("::error file=k.py,line=7,")
    (home / "k.py").write_text(KERNEL.replace("2.0", "3.0"))
    ((name, compared),) = run_action(home, install="", kernel="k.py:k", base="HEAD")
    assert (name, compared.returncode) == ("Compare with the base", 1)
    assert "::error title=other-result::WRONG" in compared.stdout


def test_the_action_keeps_a_budget(home: Path) -> None:
    (home / "conftest.py").write_text("import trn3.nki\ntrn3.nki.install()\n")
    (home / "test_k.py").write_text(
        "from k import inputs, k\n\n\ndef test_k():\n    k(**inputs())\n"
    )
    arguments = "-p trn3_pytest -p no:cacheprovider test_k.py"
    assert shell(home, f"python -m pytest {arguments} --trn3-budget-update").returncode == 0
    (home / "k.py").write_text(KERNEL.replace("nl.load(x)", "nl.exp(nl.exp(nl.load(x)))"))
    ((name, outcome),) = run_action(home, install="", budget=arguments)
    assert (name, outcome.returncode) == ("Budget", 1), outcome.stdout
    report = (home / "trn3-reports/budget.xml").read_text()
    assert '<testsuite name="trn3 budget" tests="1" failures="1"' in report


def test_hooks_take_the_files_of_a_commit(home: Path) -> None:
    hooks: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    for hook in hooks:
        assert {"id", "name", "entry", "language"} <= hook.keys()
    assert [hook["language"] for hook in hooks] == ["python", "system"]
    hook, other = hooks
    assert hook["entry"] == other["entry"]
    files = "k.py setup.py"
    assert shell(home, f"{hook['entry']} {files}").returncode == 0
    (home / "k.py").write_text(REFUSED)
    outcome = shell(home, f"{hook['entry']} {files}")
    assert outcome.returncode == 1
    assert "k.py:7:" in outcome.stdout
