"""What ``trn3 profile`` and ``trn3 diff`` say of wrong results, races and traps, and exit codes."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from trn3 import nki
from trn3.cli import kernel_file
from trn3.nki.launch.golden import NARROWEST

Refused = Callable[..., str]
Run = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "kernels"
PAGE = (ROOT / "docs" / "reference" / "command-line.md").read_text()
KERNELS = """\
import nki
import nki.isa as nisa
import nki.language as nl
import numpy as np


def inputs(rows=128, seed=0):
    x = np.random.default_rng(seed).standard_normal((rows, 16), dtype=np.float32)
    return {"x": 1e-3 * x}


def golden(x):
    return np.exp(x.astype(np.float64)) - 1.0


def lossy_body(x, out):
    tile = nl.load(x)
    rounded = nl.ndarray(x.shape, nl.bfloat16, buffer=nl.sbuf)
    nisa.activation(rounded, nl.exp, tile)
    nisa.tensor_scalar(tile, rounded, nl.subtract, 1.0)
    nl.store(out, tile)


@nki.jit
def lossy(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    lossy_body(x, out)
    return out


@nki.jit
def exact(x):
    tile = nl.load(x)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    square = nl.multiply(tile, nl.multiply(tile, 0.5))
    nl.store(out, nl.add(tile, square))
    return out


@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out


@nki.jit
def logarithm(x):
    tile = nl.load(x)
    nisa.activation(tile, nl.log, tile)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def half(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out[0:64], nl.load(x[0:64]))
    return out


@nki.jit
def empty(x):
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, tile)
    return out


@nki.jit
def racing(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.load(x))
    return out
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kernels.py"
    path.write_text(KERNELS)
    return path


def line_of(text: str) -> int:
    """Return the first line of the file that holds a text."""
    return next(i for i, line in enumerate(KERNELS.splitlines(), 1) if text in line)


def test_a_result_that_misses_its_golden_is_wrong_on_the_first_line(run: Run, file: Path) -> None:
    outcome = run("profile", f"{file}:lossy")
    assert (outcome.code, outcome.stderr) == (1, "")
    text = " ".join(outcome.stdout.split())
    place = f"{file}:{line_of('nl.subtract')}"
    assert text.startswith("WRONG: result[31, 8] is 0, the golden 0.0034377; ")
    assert f"; {place} deviates first" in text
    assert "allowed 0.02, since bfloat16 is the narrowest type on the way" in text
    assert text.index("WRONG") < text.index("lossy on trn3")


def test_a_file_named_from_its_folder_has_short_places(
    run: Run, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    first = run("profile", "kernels.py:lossy").stdout.splitlines()[0]
    assert f"; kernels.py:{line_of('nl.subtract')} deviates first" in first


def test_json_of_a_wrong_result_is_whole(run: Run, file: Path) -> None:
    outcome = run("profile", f"{file}:lossy", "--json")
    assert outcome.code == 1
    document = json.loads(outcome.stdout)
    check = document["check"]
    assert {"verdict", "error", "tolerance", "worst_index", "line"} <= set(check)
    assert (check["verdict"], check["worst_index"]) == ("wrong", [31, 8])
    assert check["line"] == f"{file}:{line_of('nl.subtract')}"
    assert check["error"] == document["golden_error"] > check["tolerance"] == 0.02
    assert document["latency_us"] > 0


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_nan_where_the_golden_has_none_is_wrong(
    run: Run, file: Path, options: tuple[str, ...]
) -> None:
    outcome = run("profile", f"{file}:logarithm", *options)
    assert outcome.code == 1
    place = f"{file}:{line_of('nl.log')}"
    if options:
        check = json.loads(outcome.stdout)["check"]
        assert (check["verdict"], check["error"], check["line"]) == ("wrong", None, place)
        assert json.loads(outcome.stdout)["golden_error"] == "nan"
    else:
        text = " ".join(outcome.stdout.split())
        assert text.startswith("WRONG: result[0, 1] is nan")
        assert f"{place} makes the first NaN" in text


def test_a_right_result_says_why_it_is(run: Run, file: Path) -> None:
    outcome = run("profile", f"{file}:exact")
    assert outcome.code == 0
    text = " ".join(outcome.stdout.split())
    assert "WRONG" not in text
    assert "allowed 0.0001, since float32 is the narrowest type on the way to the result" in text
    check = json.loads(run("profile", f"{file}:exact", "--json").stdout)["check"]
    assert (check["verdict"], check["line"]) == ("right", None)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 1),
        (("--no-check",), 0),
        (("--timing-only",), 0),
        (("--rtol", "0.1"), 1),
        (("--atol", "0.1"), 0),
        (("--rtol", "1.5"), 0),
        (("--atol", "0"), 1),
    ],
)
def test_tolerances_and_no_check(run: Run, file: Path, options: tuple[str, ...], code: int) -> None:
    outcome = run("profile", f"{file}:lossy", "--json", *options)
    assert outcome.code == code
    check = json.loads(outcome.stdout)["check"]
    assert (check is None) == (options in [("--no-check",), ("--timing-only",)])


@pytest.mark.parametrize(
    ("more", "options", "code"),
    [
        ("atol = 0.1", (), 0),
        ("lossy_atol = 0.1", (), 0),
        ("atol = 0.1\nlossy_atol = 1e-6", (), 1),
        ("atol = 0.1", ("--atol", "1e-6"), 1),
        ("rtol = 1.5", (), 0),
    ],
)
def test_the_file_may_set_tolerances(
    run: Run, file: Path, more: str, options: tuple[str, ...], code: int
) -> None:
    file.write_text(f"{KERNELS}\n\n{more}\n")
    assert run("profile", f"{file}:lossy", *options).code == code


def test_wrong_tolerances_are_refused(refused: Refused, file: Path) -> None:
    file.write_text(f"{KERNELS}\n\nrtol = 'some'\n")
    assert refused("profile", f"{file}:lossy") == (
        f"{file}: rtol is 'some'; allowed: a number of at least 0"
    )
    for value in ("nan", "-1", "some"):
        assert "--rtol" in refused("profile", f"{file}:lossy", "--rtol", value)


@pytest.mark.parametrize(
    ("kernel", "text"),
    [("empty", "uninitialised elements read"), ("half", "uninitialised elements read")],
)
def test_reads_of_what_nothing_wrote_stand_first(
    run: Run, refused: Refused, file: Path, kernel: str, text: str
) -> None:
    outcome = run("profile", f"{file}:{kernel}", "--no-check")
    first, second, *_ = outcome.stdout.splitlines()
    assert (outcome.code, first) == (0, "1 finding:")
    assert second.startswith("- ")
    assert text in " ".join(outcome.stdout.split())
    assert outcome.stdout.index("finding") < outcome.stdout.index(f"{kernel} on trn3")
    line = refused("profile", f"{file}:{kernel}", "--no-check", "--strict")
    assert "UninitializedReadError" in line
    assert f"{file}:" in line


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--strict",), 1)])
def test_races_stand_first_and_fail_strict_runs(
    run: Run, file: Path, options: tuple[str, ...], code: int
) -> None:
    outcome = run("profile", f"{file}:racing[2]", "--no-check", *options)
    assert (outcome.code, outcome.stderr) == (code, "")
    assert outcome.stdout.index("finding") < outcome.stdout.index("racing on trn3")
    line = line_of("def racing") + 2
    assert f"kernels.py:{line}" in outcome.stdout.partition("racing on trn3")[0].replace("\n", "")
    document = run("profile", f"{file}:racing[2]", "--no-check", "--json", *options)
    assert document.code == code
    assert "race" in {each["kind"] for each in json.loads(document.stdout)["findings"]}


def test_diff_of_a_kernel_that_misses_its_golden(run: Run, file: Path) -> None:
    outcome = run("diff", f"{file}:lossy")
    assert outcome.code == 1
    assert outcome.stdout.startswith("WRONG, trn2: result[31, 8]")
    assert run("diff", f"{file}:lossy", "--no-check").code == 0
    assert run("diff", f"{file}:lossy", "--timing-only").code == 0
    assert run("diff", f"{file}:lossy", "--atol", "0.1").code == 0
    assert run("diff", f"{file}:exact").code == 0
    rows = json.loads(run("diff", f"{file}:lossy", "--json").stdout)["archs"]
    assert [row["check"]["verdict"] for row in rows] == ["wrong", "wrong"]


@pytest.mark.parametrize(
    ("second", "options", "code"),
    [("exact", (), 0), ("doubled", (), 1), ("doubled", ("--rtol", "2"), 0), ("lossy", (), 1)],
)
def test_diff_of_two_kernels(
    run: Run, file: Path, second: str, options: tuple[str, ...], code: int
) -> None:
    words = ("diff", f"{file}:exact", f"{file}:{second}", "--no-check", *options)
    outcome = run(*words)
    assert outcome.code == code, outcome.stdout
    assert ("WRONG" in outcome.stdout) == bool(code)
    rows = json.loads(run(*words, "--json").stdout)["archs"]
    names = ["exact", "exact (2)" if second == "exact" else second]
    assert [(row["kernel"], row["arch"]) for row in rows] == [
        (name, arch) for arch in ("trn2", "trn3") for name in names
    ]
    wanted = [None, "wrong" if code else "right"] * 2
    assert [row["agreement"] and row["agreement"]["verdict"] for row in rows] == wanted


def test_only_machines_that_differ_are_no_miss(run: Run, file: Path) -> None:
    """One machine gives another result: the table says so, the exit code does not."""
    version = "float(nisa.get_nc_version().value)"
    file.write_text(KERNELS.replace("nl.load(x), 2.0", f"nl.load(x), {version}"))
    outcome = run("diff", f"{file}:doubled", "--no-check", "--json")
    assert outcome.code == 0
    first, second = json.loads(outcome.stdout)["archs"]
    assert (first["equal"], second["equal"], second["difference"] > 0) == (True, False, True)


def test_diff_refuses_goldens_of_other_shapes(refused: Refused, file: Path) -> None:
    file.write_text(KERNELS.replace("- 1.0\n", "- 1.0 + np.zeros((2, 1, 1))\n", 1))
    line = refused("diff", f"{file}:exact")
    assert line == "the kernel returns shape (128, 16), the golden (2, 128, 16)"


@pytest.mark.parametrize("command", ["profile", "diff"])
@pytest.mark.parametrize(
    ("arch", "words"),
    [("gen2", ["Trainium1", "Trn3 Gen2 UltraServer", "--arch trn3"]), ("gen3", ["Trainium2"])],
)
def test_names_that_mean_other_things_elsewhere_warn(
    run: Run, file: Path, command: str, arch: str, words: list[str]
) -> None:
    outcome = run(command, f"{file}:exact", "--arch", arch, "--json")
    assert outcome.code == 0
    json.loads(outcome.stdout)
    (line,) = outcome.stderr.splitlines()
    assert line.startswith(f"trn3: warning: --arch {arch} ")
    assert all(word in line for word in words)


@pytest.mark.parametrize("arch", ["trn1", "trn2", "trn3", "gen4"])
def test_names_that_mean_one_thing_do_not_warn(run: Run, file: Path, arch: str) -> None:
    assert run("profile", f"{file}:exact", "--arch", arch).stderr == ""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("profile", "{file}:exact"), 0),
        (("profile", "{file}:lossy"), 1),
        (("profile", "{file}:racing[2]", "--no-check", "--strict"), 1),
        (("profile", "{file}:empty", "--strict"), 2),
        (("profile", "{file}:none"), 2),
        (("diff", "{file}:exact"), 0),
        (("diff", "{file}:lossy"), 1),
        (("diff", "{file}:exact", "{file}:doubled", "--no-check"), 1),
        (("diff", "{file}:exact", "--arch", "trn9"), 2),
        (("lint", str(FOLDER / "matmul.py")), 0),
        (("run", "{file}"), 0),
        (("profile", "--no-such-option"), 2),
    ],
)
def test_exit_codes(file: Path, words: tuple[str, ...], code: int) -> None:
    command = [sys.executable, "-m", "trn3", *(word.format(file=file) for word in words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert bool(done.stderr) == (code == 2)
    if code == 2:
        assert done.stderr.startswith("trn3: error: ")


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("shadow", [False, True])
def test_no_place_loses_its_line_on_narrow_terminals(
    file: Path, width: int, *, shadow: bool
) -> None:
    loaded = kernel_file.load(f"{file}:lossy")
    _, found = nki.profile(loaded.kernel, shadow=shadow, **kernel_file.arguments(loaded, [], 0))
    console = Console(width=width, file=io.StringIO(), highlight=False)
    console.print(found.summary())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(len(line) <= width for line in text.splitlines())
    lines = [total.line for total in found.lines()[:3]]
    lines += [loss.line for loss in found.precision[:3]]
    for line in lines:
        assert f"kernels.py:{line}" in text
    # Cut off is the start of paths alone.
    assert not re.search(r"\S…", text)


def test_the_page_has_the_tolerances_of_every_type() -> None:
    rows = re.findall(r"^\| (.*?) \| ([\de.-]+) \|$", PAGE, re.MULTILINE)
    shown = {
        name: float(figure)
        for cell, figure in rows
        if cell.startswith(("`float", "`bfloat"))
        for name in re.findall(r"`(\w+)`", cell)
    }
    assert shown == {name: figure for name, figure in NARROWEST.items() if name is not None}
    assert "| none: integers alone | 0 |" in PAGE


def test_the_page_has_every_key_of_the_check(run: Run, file: Path) -> None:
    check = json.loads(run("profile", f"{file}:exact", "--json").stdout)["check"]
    keys = re.findall(r"^\| (`.*?`) \| ", PAGE.partition("| key |")[2], re.MULTILINE)
    assert {name for cell in keys for name in re.findall(r"`(\w+)`", cell)} == set(check)


def test_the_page_names_every_command_that_gives_one() -> None:
    named = set(re.findall(r"^\| `trn3 ([\w-]+)` \| ", PAGE, re.MULTILINE))
    folder = Path(kernel_file.__file__).parent
    texts = {path.stem: path.read_text() for path in folder.glob("*.py")}
    # `verified` of kernel_file ends those that use it.
    ways = ("typer.Exit(1)", "kernel_file.verified()")
    raising = {name for name, text in texts.items() if any(way in text for way in ways)}
    assert {name.replace("-", "_") for name in named} == raising - {"kernel_file"} | {"run"}
