"""The laboratory's own program: a table, pictures and a verdict for each published ordering."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax", reason="the extra jax is not installed")
pytest.importorskip("jax.ffi", reason="this JAX has no jax.ffi, which mx_dot needs")
pytest.importorskip("matplotlib", reason="matplotlib is not installed")

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "train"))

import laboratory


def test_a_text_is_learnt_on_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One recipe, one seed, two steps: files, and no best loss of a text."""
    text = tmp_path / "text"
    text.write_bytes(b"the quick brown fox jumps over the lazy dog. " * 9)
    output = tmp_path / "out"
    words = ["--recipes", "mxfp8", "--seeds", "1", "--steps", "2", "--size", "tiny", "--ranks", "2"]
    given = ["laboratory.py", *words, "--text", str(text), "--output", str(output)]
    monkeypatch.setattr(sys, "argv", given)
    laboratory.main()
    printed = capsys.readouterr().out
    assert "loss of sentences not seen, in nats" in printed
    assert "the best there is" not in printed
    assert "us collective" in printed
    pictures = {path.stem for path in output.glob("*.png")}
    assert pictures == {"loss", "norms", "saturation", "cost"}
    assert len(json.loads((output / "mxfp8.0.json").read_text())["losses"]) == 2
