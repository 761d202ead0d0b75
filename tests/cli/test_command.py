"""The command itself: version, help, completion, and `trn3 new`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

import trn3
from support.checks import run_python
from trn3.cli import front_page
from trn3.cli.app import app
from trn3.cli.command_table import PANELS
from trn3.cli.version import version

ROOT = Path(__file__).resolve().parents[2]
Refused = Callable[..., str]
Run = Callable[..., Any]


def test_version_is_one_line(run: Run) -> None:
    outcome = run("--version")
    assert (outcome.code, outcome.stdout) == (0, f"trn3 {trn3.__version__}\n")


@pytest.mark.parametrize("words", [(), ("profile",), ("k8s",), ("trace", "replay")])
def test_h_is_help(run: Run, words: tuple[str, ...]) -> None:
    short, long = run(*words, "-h"), run(*words, "--help")
    assert (short.code, short.stdout) == (0, long.stdout)
    assert "Usage: trn3" in short.stdout


def test_help_has_a_panel_for_every_command(run: Run) -> None:
    text = run("-h").stdout
    places = [text.index(f"─ {panel} ─") for panel in PANELS]
    assert places == sorted(places)
    assert "─ Commands ─" not in text
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    for panel, at, end in zip(PANELS, places, [*places[1:], len(text)], strict=True):
        own = {name for name, each in commands.items() if each.rich_help_panel == panel}
        assert own >= {*PANELS[panel]}
        for name in own:
            assert f"│ {name} " in text[at:end]


def test_the_table_says_what_the_commands_say() -> None:
    """Help shows the table and loads no command: both are one text."""
    commands: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    said = {(panel, name): place.line for panel in PANELS for name, place in PANELS[panel].items()}
    assert said == {
        (each.rich_help_panel, name): each.get_short_help_str(10_000)
        for name, each in commands.items()
    }


@pytest.mark.parametrize("word", ["-h", "--help", "--version"])
@pytest.mark.parametrize("columns", [80, 132])
def test_the_front_page_is_what_the_command_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, word: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    assert front_page.has([word])
    assert front_page.show([word]) == 0
    page = capsys.readouterr().out
    app(args=[word], prog_name="trn3", standalone_mode=False)
    assert capsys.readouterr().out == page


def test_completion_goes_past_the_front_page(monkeypatch: pytest.MonkeyPatch) -> None:
    assert front_page.has([])
    monkeypatch.setenv("_TRN3_COMPLETE", "complete_bash")
    assert not front_page.has([])


@pytest.mark.parametrize(
    ("words", "unneeded"),
    [
        ([], {"typer", "numpy", "trn3._trn3", "importlib.abc"}),
        (["--help"], {"typer", "numpy", "trn3._trn3", "importlib.abc"}),
        (["--version"], {"typer", "rich", "numpy", "importlib.abc"}),
        (["plan", "--help"], {"numpy", "trn3._trn3", "trn3.cli.quantize", "trn3.planner"}),
        (["k8s", "-h"], {"numpy", "trn3._trn3", "trn3.cli.plan", "trn3.k8s"}),
    ],
)
def test_help_loads_what_it_shows(words: list[str], unneeded: set[str]) -> None:
    code = "import json, sys; from trn3.__main__ import main; code = main(sys.argv[1:]); "
    code += "print(json.dumps([code, *sys.modules]))"
    finished = run_python(code, *words)
    status, *loaded = json.loads(finished.stdout.splitlines()[-1])
    assert (status, finished.stderr) == (0, "")
    assert not unneeded & set(loaded)


def test_the_version_is_that_of_the_installation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Beside the package, or beside a file that names its folder; else what the core says."""
    here = Path(trn3.__file__).parents[1]
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    (tmp_path / "trn3-98.7.6.dist-info").mkdir()
    assert version() == trn3.__version__
    (tmp_path / "trn3.pth").write_text(f"{tmp_path / 'elsewhere'}\n")
    assert version() == trn3.__version__
    (tmp_path / "trn3.pth").write_text(f"{here}\n")
    assert version() == "98.7.6"
    (tmp_path / "trn3-98.7.5.dist-info").mkdir()
    assert version() == trn3.__version__


def every_command() -> dict[tuple[str, ...], Any]:
    """Return all commands and groups by the words that name them."""

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        yield words, command
        for name, each in getattr(command, "commands", {}).items():
            yield from walk(each, (*words, name))

    return dict(walk(typer.main.get_command(app), ()))


@pytest.mark.parametrize("columns", [80, 132])
def test_no_help_cuts_a_name_or_breaks_a_word(
    run: Run, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for words, command in every_command().items():
        text = run(*words, "-h").stdout
        assert max(map(len, text.splitlines())) <= columns
        assert "…" not in text
        flat = " ".join(text.replace("│", " ").split())
        said = [command.help] + [each.help for each in command.params if hasattr(each, "help")]
        for sentence in filter(None, said):
            assert " ".join(sentence.replace("`", "").split()) in flat
        options = {name for each in command.params for name in each.opts if name[0] == "-"}
        assert options <= set(text.replace(",", " ").split())


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        ("bash", {"COMP_WORDS": "trn3 pro", "COMP_CWORD": "1"}),
        ("zsh", {"_TYPER_COMPLETE_ARGS": "trn3 pro"}),
        (
            "fish",
            {"_TYPER_COMPLETE_ARGS": "trn3 pro", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
        ),
    ],
)
def test_shells_complete_commands(shell: str, words: dict[str, str]) -> None:
    for task in ("complete", "source"):
        env = {**os.environ, **words, "_TRN3_COMPLETE": f"{task}_{shell}"}
        done = subprocess.run(
            [sys.executable, "-m", "trn3"], env=env, capture_output=True, text=True, check=False
        )
        assert done.stderr == ""
        if task == "complete":
            assert "profile" in done.stdout
            assert "probe" in done.stdout
            assert "plan" not in done.stdout.split()
        else:
            assert f"_TRN3_COMPLETE=complete_{shell}" in done.stdout


def test_examples_are_those_of_the_repository(run: Run, refused: Refused, tmp_path: Path) -> None:
    files = {path.stem: path for path in (ROOT / "examples" / "kernels").glob("*.py")}
    listed = json.loads(run("examples", "list", "--json").stdout)["examples"]
    assert [each["name"] for each in listed] == sorted(files)
    assert all(each["holds"] for each in listed)
    assert all(f"{name} " in run("examples", "list").stdout for name in files)
    outcome = run("examples", "copy", "softmax", "--to", tmp_path)
    assert outcome.stdout == f"wrote {tmp_path / 'softmax.py'}\n"
    assert refused("examples", "copy", "--to", tmp_path).endswith("nothing was copied")
    assert [path.name for path in tmp_path.iterdir()] == ["softmax.py"]
    (tmp_path / "all").mkdir()
    assert run("examples", "copy", "--to", tmp_path / "all").code == 0
    for name, path in files.items():
        assert (tmp_path / "all" / f"{name}.py").read_bytes() == path.read_bytes()
    assert "nearest: softmax" in refused("examples", "copy", "softmx", "--to", tmp_path)


def test_a_new_kernel_is_right_and_portable(run: Run, refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "scaled.py"
    outcome = run("new", path)
    assert outcome.stdout == f"wrote {path}; next: trn3 profile {path}:scaled\n"
    profiled = run("profile", f"{path}:scaled", "--shape", "rows=130", "--shape", "columns=32")
    assert (profiled.code, profiled.stderr) == (0, "")
    assert "Largest difference from the golden" in profiled.stdout
    assert run("lint", path).code == 0
    before = path.read_text()
    assert "trn3 profile scaled.py:scaled" in before
    assert refused("new", path) == f"{path}: is there already; name another file"
    assert path.read_text() == before
    assert run("new", tmp_path / "a-b.py", "--name", "other").code == 0
    for wrong in ("a-b.py", "class.py", "kernel.txt"):
        assert "can name a function of Python" in refused("new", tmp_path / wrong)
    assert refused("new", tmp_path / "none" / "k.py").endswith("No such file or directory")
