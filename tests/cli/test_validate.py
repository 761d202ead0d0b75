"""``trn3 validate``: output, exit codes, documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trn3.__main__ import main
from trn3.validation import BEGIN, END


def test_validate_prints_rows_and_summary(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "exp-*"]) == 0
    out = capsys.readouterr().out
    assert "exp-4096-trn2" in out
    assert "fit: 2 rows, median error" in out


def test_validate_json_has_figures_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--json", "exp-128-trn2", "store-32k-trn2"]) == 0
    document = json.loads(capsys.readouterr().out)
    first, second = document["rows"]
    assert first["published"] == 403
    assert first["ratio"] == pytest.approx(first["predicted"] / 403)
    assert (first["verdict"], first["reason"]) == ("within", None)
    assert second["verdict"] == "explained miss"
    assert second["reason"].startswith("The documented rate")
    assert document["summary"][0]["class"] == "fit"


def test_validate_refuses_unknown_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "nothing"]) == 2
    assert "no row is called nothing; rows: vector-add-trn1" in capsys.readouterr().err


def test_validate_refuses_to_write_a_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "--write", str(tmp_path / "d.md"), "exp-128-trn2"]) == 2
    assert "--write takes all rows" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["no marks", f"{BEGIN} {BEGIN} {END}"])
def test_validate_refuses_documents_without_a_place(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tmp_path / "d.md"
    document.write_text(text, encoding="utf-8")
    assert main(["validate", "--write", str(document)]) == 2
    assert "d.md: needs one line" in capsys.readouterr().err
    assert document.read_text(encoding="utf-8") == text


def test_validate_refuses_a_document_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "--write", str(tmp_path / "none.md")]) == 2
    assert "none.md: No such file" in capsys.readouterr().err


def test_validate_exits_with_1_where_nothing_explains_a_miss(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dataclasses import replace

    from trn3 import validation

    [row] = validation.select(["exp-128-trn2"])
    monkeypatch.setattr(validation, "select", lambda names: (replace(row, published=500.0),))
    assert main(["validate", "exp-128-trn2"]) == 1
    assert "miss" in capsys.readouterr().out
