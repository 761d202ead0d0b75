"""``--verify`` of ``trn3 profile`` and ``trn3 record``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trn3.nki.launch import compiled

Refused = Callable[..., str]
Run = Callable[..., Any]
KERNEL = """\
import nki
import nki.language as nl


@nki.jit
def halved(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 0.5))
    return out
"""
SAYS = "verified: 1 output equal bit for bit, the schedule legal after each of"


@pytest.fixture
def command(tmp_path: Path) -> tuple[str, ...]:
    path = tmp_path / "kernel.py"
    path.write_text(KERNEL)
    return f"{path}:halved", "--shape", "x=128x64"


@pytest.mark.parametrize("level", ["nki", "neuronx-cc"])
def test_profile_says_what_was_verified(run: Run, command: tuple[str, ...], level: str) -> None:
    outcome = run("profile", *command, "--compile", level, "--verify")
    assert outcome.code == 0
    assert SAYS in " ".join(outcome.stdout.split())
    found = json.loads(run("profile", *command, "--compile", level, "--verify", "--json").stdout)
    made = found["compile"]
    assert made["verified"] == {"outputs": 1, "passes": len(made["passes"])}
    assert SAYS not in run("profile", *command, "--compile", level).stdout


def test_record_writes_what_it_verified(run: Run, command: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "halved.json"
    outcome = run("record", *command, "--compile", "nki", "--verify", "--out", out)
    assert outcome.code == 0
    assert outcome.stdout.startswith(f"wrote {out}: 3 instructions")
    assert "  verified: 1 output equal bit for bit" in outcome.stdout


def test_what_is_wrong_ends_with_1(
    run: Run, command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        message = "program halved: compiled, output 'result' differs from byte 8 on"
        raise ValueError(message)

    monkeypatch.setattr(compiled, "verify_cores", refuse)
    outcome = run("profile", *command, "--compile", "nki", "--verify")
    assert (outcome.code, outcome.stdout) == (1, "")
    assert outcome.stderr == (
        "trn3: halved is not verified: program halved: compiled, output 'result' differs from byte "
        "8 on\n"
    )
    monkeypatch.setattr("trn3.compiler.compile", refuse)
    out = tmp_path / "halved.json"
    outcome = run("record", *command, "--compile", "nki", "--verify", "--out", out)
    assert (outcome.code, out.exists()) == (1, False)


def test_nothing_to_verify_is_refused(
    refused: Refused, command: tuple[str, ...], tmp_path: Path
) -> None:
    says = "verify is True at level as-written, which compiles nothing; allowed: nki, neuronx-cc"
    assert says in refused("profile", *command, "--verify", "--compile", "as-written")
    assert says in refused("record", *command, "--verify", "--out", tmp_path / "halved.json")
    says = "verify is True with values=False: without values no bits are compared"
    assert says in refused("profile", *command, "--verify", "--compile", "nki", "--timing-only")
