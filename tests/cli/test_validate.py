"""``trn3 validate``: output, exit codes, documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from trn3.__main__ import main
from trn3.validation import BEGIN, END, claims

SNAPSHOT = Path(__file__).with_name("validate_claims.txt")


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


def test_validate_prints_levels_apart_and_the_headline_of_texts_as_written(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["validate", "mamba-v1-256-trn1*", "matmul-spacing-trn2"]) == 0
    out = capsys.readouterr().out
    written, rebuilt = out.index("as-written:"), out.index("rebuilt:")
    assert written < out.index("mamba-v1-256-trn1-as-written") < rebuilt
    assert out.rindex("mamba-v1-256-trn1 ") > rebuilt
    assert "headline, as-written, held back: 2 rows, median error" in out
    assert "rank correlation 1.000, worst 111" in out
    assert "rebuilt, held back: 1 rows" in out
    [side] = [line for line in out.splitlines() if line.startswith(" mamba") and "150.9 us" in line
              and "trn1  " in line and "tutorial" not in line]  # fmt: skip
    assert side.split()[-3:] == ["2.118", "1.036", "1.148"]


def test_validate_json_names_levels(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "--json", "mamba-v1-256-trn1*"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [(row["level"], row["measurement"]) for row in document["rows"]] == [
        ("rebuilt", "mamba-v1-256-trn1"),
        ("as-written", "mamba-v1-256-trn1"),
        ("compiled", "mamba-v1-256-trn1"),
    ]
    headline, rebuilt = document["levels"]
    assert (headline["level"], headline["rows"]) == ("as-written", 1)
    assert headline["worst_row"] == "mamba-v1-256-trn1-as-written"
    assert headline["rank_correlation"] is None
    assert rebuilt["level"] == "rebuilt"


def test_validate_refuses_unknown_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "nothing"]) == 2
    assert "no row is called nothing; rows: vector-add-trn1" in capsys.readouterr().err


def test_validate_refuses_to_write_a_part(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "--write", str(tmp_path / "d.md"), "exp-128-trn2"]) == 2
    assert "--write takes all rows" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["no marks", f"{BEGIN} {BEGIN} {END}", f"{BEGIN} {END}"])
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


def test_validate_prints_claims_with_sources_and_remarks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The whole text, so that a change of any figure, column or order shows."""
    assert main(["validate", "1", "tco", "gen2-over-trn2-b*"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == SNAPSHOT.read_text(encoding="utf-8").splitlines()


def test_validate_json_holds_measurements_and_claims_in_one_list(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["validate", "--json", "exp-128-trn2", "chip-mxfp8"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["kind"] for row in document["rows"]] == ["measurement", "claim"]
    for row in document["rows"]:
        assert row["source"]
        assert row["ratio"] == pytest.approx(row["computed"] / row["published"])
    assert document["rows"][1]["status"] == "exact arithmetic"


@pytest.mark.parametrize(
    ("only", "kept"),
    [
        ("arithmetic", {"exact arithmetic"}),
        ("open", {"not derivable"}),
        ("facts", {"exact arithmetic", "needs an assumption"}),
    ],
)
def test_validate_only_keeps_a_part(
    only: str, kept: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["validate", "--json", "--only", only]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["status"] for row in rows} == kept
    assert {row["kind"] for row in rows} == {"claim"}


def test_validate_only_refuses_to_keep_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "chip-mxfp8", "--only", "machine"]) == 2
    assert "--only machine leaves nothing of chip-mxfp8" in capsys.readouterr().err


def test_validate_exits_with_1_where_a_claim_is_off(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dataclasses import replace

    [claim] = claims.select(["chip-mxfp8"])
    wrong = replace(claim, figures=(replace(claim.figures[0], published="2.518"),))
    monkeypatch.setattr(claims, "table", lambda: (wrong,))
    monkeypatch.setattr(claims, "select", lambda names: (wrong,))
    assert main(["validate", "chip-mxfp8"]) == 1
    assert "miss" in capsys.readouterr().out
