"""``trn3 diff`` of several kernels: files, revisions of git and saved runs beside each other."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

Refused = Callable[..., str]
Run = Callable[..., Any]
SIBLING = """\
import nki.language as nl

def scaled(tile):
    return nl.multiply(tile, {factor})
"""
KERNEL = """\
import nki
import nki.language as nl
import numpy as np
from sibling import scaled

@nki.jit
def k(x):
    out = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.load(x)
    b = scaled(a)
    c = nl.exp(b)
    nl.store(out, c)
    return out

@nki.jit
def other(y, x=None):
    return y

def inputs(columns=64, seed=0):
    return {"x": np.random.default_rng(seed).standard_normal((128, columns)).astype(np.float32)}
"""
#: One more line, and one that reads a little otherwise.
SLOWER = KERNEL.replace("    c = nl.exp(b)\n", "    b2 = nl.add(b, 0.0)\n    c = nl.exp(b2)\n")
WORDS = ("--arch", "trn3")


class Page(HTMLParser):
    """The tags of a page, and its texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:  # noqa: ARG002
        self.tags.add(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def git(folder: Path, *words: str) -> None:
    named = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(folder), *who, *words], check=True, env=named)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder, in which the tests stand, with a slower kernel than its last commit."""
    home = tmp_path / "of <kernels>"
    home.mkdir()
    (home / "k.py").write_text(KERNEL)
    (home / "sibling.py").write_text(SIBLING.format(factor="2.0"))
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    (home / "k.py").write_text(SLOWER)
    monkeypatch.chdir(home)
    return home


def changed(outcome: Any) -> dict[str, Any]:
    """Return the only change of a JSON, whose lines are by what they say."""
    (change,) = json.loads(outcome.stdout)["changes"]
    return {
        **change,
        "lines": {line["text"] or line["base_text"]: line for line in change["lines"]},
    }


@pytest.mark.usefixtures("folder")
def test_a_revision_beside_what_there_is(run: Run) -> None:
    outcome = run("diff", "git:HEAD:k.py:k", "k.py:k", *WORDS, "--json")
    assert (outcome.code, outcome.stderr) == (0, "")
    document = json.loads(outcome.stdout)
    assert [row["kernel"] for row in document["archs"]] == ["k@HEAD", "k"]
    assert document["archs"][1]["agreement"]["largest_error"] == 0
    change = changed(outcome)
    assert (change["base"], change["kernel"], change["aligned_by"]) == ("k@HEAD", "k", "text")
    assert change["latency_us"] > change["base_latency_us"]
    lines = change["lines"]
    added, kept = lines["b2 = nl.add(b, 0.0)"], lines["c = nl.exp(b2)"]
    assert (added["base_line"], added["line"]) == (None, "k.py:11")
    assert added["change_us"] == pytest.approx(change["latency_us"] - change["base_latency_us"])
    assert (kept["base_line"], kept["line"]) == ("k.py:11", "k.py:12")
    assert kept["base_text"] == "c = nl.exp(b)"
    by_engine = {each["engine"]: each for each in change["engines"]}
    assert by_engine["vector"]["busy_us"] > by_engine["vector"]["base_busy_us"]
    waits = [each for each in change["causes"] if each["engine"] == "scalar"]
    assert sum(each["us"] for each in waits) > sum(each["base_us"] for each in waits)
    assert run("diff", "git:HEAD:k.py:k", "k.py:k", *WORDS, "--json").stdout == outcome.stdout


def test_what_lies_beside_a_file_is_of_its_revision(run: Run, folder: Path) -> None:
    (folder / "k.py").write_text(KERNEL)
    (folder / "sibling.py").write_text(SIBLING.format(factor="3.0"))
    for words in [("k.py:k", "git:HEAD:k.py:k"), ("git:HEAD:k.py:k", "k.py:k")]:
        outcome = run("diff", *words, *WORDS)
        assert outcome.code == 1
        assert outcome.stdout.startswith("WRONG, ")
    alike = run("diff", "k.py:k", "git:HEAD:k.py:k", *WORDS, "--rtol", "1e9")
    assert alike.code == 0
    assert run("diff", "k.py:k", "git:HEAD:k.py:k", *WORDS, "--timing-only").code == 0
    kept = run("diff", f"git:HEAD:{folder / 'k.py'}:k", "git:HEAD:./k.py:k", *WORDS, "--json")
    assert (kept.code, changed(kept)["kernel"]) == (0, "k@HEAD (2)")


def test_three_kernels_have_one_base(run: Run, folder: Path) -> None:
    (folder / "wrong.py").write_text(KERNEL.replace("nl.exp(b)", "nl.exp(a)"))
    outcome = run("diff", "git:HEAD:k.py:k", "k.py:k", "wrong.py:k", *WORDS, "--json")
    assert outcome.code == 1
    document = json.loads(outcome.stdout)
    held = [row["agreement"] and row["agreement"]["verdict"] for row in document["archs"]]
    assert held == [None, "right", "wrong"]
    assert {change["base"] for change in document["changes"]} == {"k@HEAD"}
    assert document["changes"][1]["kernel"] == "k in wrong.py"


@pytest.mark.usefixtures("folder")
def test_levels_and_machines_are_compared_with_their_own(run: Run) -> None:
    levels = ("--compile", "as-written", "--compile", "nki", "--timing-only", "--json")
    outcome = run("diff", "git:HEAD:k.py:k", "k.py:k", *levels)
    titles = [(each["base"], each["kernel"]) for each in json.loads(outcome.stdout)["changes"]]
    assert titles == [("k@HEAD, as-written", "k, as-written"), ("k@HEAD, nki", "k, nki")]
    outcome = run("diff", "git:HEAD:k.py:k", "k.py:k", "--timing-only", "--json")
    titles = [(each["base"], each["kernel"]) for each in json.loads(outcome.stdout)["changes"]]
    assert titles == [(f"k@HEAD on {arch}", f"k on {arch}") for arch in ("trn2", "trn3")]


def test_a_saved_run_is_compared_by_time(run: Run, folder: Path) -> None:
    pytest.importorskip("matplotlib")
    (folder / "k.py").write_text(KERNEL)
    assert run("profile", "k.py:k", "--out", "before", "--shape", "columns=128").code == 0
    saved = json.loads((folder / "before" / "profile.json").read_text())["figures"]
    alone = run("diff", "before", "k.py:k", "--shape", "columns=128", "--json")
    assert alone.code == 0
    # The machine is that of the run.
    rows = json.loads(alone.stdout)["archs"]
    assert [(row["kernel"], row["arch"]) for row in rows] == [("before", "trn3"), ("k", "trn3")]
    assert rows[0]["latency_us"] == rows[1]["latency_us"] == saved["latency_us"]
    assert (rows[0]["equal"], rows[1]["equal"]) == (None, True)
    assert changed(alone)["aligned_by"] == "text"
    assert {line["change_us"] for line in changed(alone)["lines"].values()} == {0}
    (folder / "k.py").write_text(SLOWER)
    later = (folder / "before" / "profile.json").stat().st_mtime + 10
    os.utime(folder / "k.py", (later, later))
    newer = run("diff", "before", "k.py:k", *WORDS)
    assert "lines by number: the text that ran is not there" in newer.stdout
    both = run("diff", "before", "before", "--json")
    assert [row["speedup"] for row in json.loads(both.stdout)["archs"]] == [1.0, 1.0]


@pytest.mark.usefixtures("folder")
def test_the_page_holds_what_is_shown(run: Run, tmp_path: Path) -> None:
    outcome = run("diff", "git:HEAD:k.py:k", "k.py:k", *WORDS, "--html", tmp_path / "page.html")
    page = Page()
    page.feed((tmp_path / "page.html").read_text())
    assert not {"script", "link", "img", "kernels"} & page.tags
    words = " ".join(page.texts).split()
    for line in filter(None, outcome.stdout.splitlines()):
        assert set(line.split()) <= set(words), line


def test_what_cannot_be_compared_is_refused_by_name(refused: Refused, folder: Path) -> None:
    line = refused("diff", "k.py:k", "k.py:other", *WORDS)
    assert line.startswith("other takes other arguments than the first: missing")
    assert line.endswith("(it takes y, x; given are x)")
    (folder / "failing.py").write_text(KERNEL.replace("nl.exp(b)", "nl.exp(b, 1, 2, 3, 4)"))
    assert refused("diff", "k.py:k", "failing.py:k", *WORDS).startswith(
        "k in failing.py: no machine runs it; trn3: TypeError"
    )
    several = "several kernels; name one; kernels there: k, other"
    assert refused("diff", "git:HEAD:k.py") == f"git:HEAD:k.py: {several}"
    assert "write git:REV:FILE.py:KERNEL" in refused("diff", "git:HEAD")
    assert refused("diff", "git:none:k.py:k").startswith("git:none:k.py:k: git: ")
    assert refused("diff", "git:--all:k.py:k").startswith("git:--all:k.py:k: git: ")
    assert "git: path" in refused("diff", "git:HEAD:gone.py:k")
    (folder / "empty").mkdir()
    assert refused("diff", "empty", "k.py:k") == "empty: no run: there is no profile.json in it"
    (folder / "empty" / "profile.json").write_text("{}")
    assert "no profile" in refused("diff", "empty", "k.py:k")
    git(folder, "commit", "-aqm", "broken")
    (folder / "k.py").write_text("x = (\n")
    git(folder, "commit", "-aqm", "broken")
    assert refused("diff", "git:HEAD:k.py:k").startswith("git:HEAD:k.py:1: SyntaxError")
