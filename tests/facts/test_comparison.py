"""Systems beside each other: same figures under different names, marks, and the page of tables."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from support.figures import texts_of
from trn3.facts.comparison import compare
from trn3.facts.documents import markdown
from trn3.validation import BEGIN, END

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "systems.md"


def test_the_page_is_current() -> None:
    section = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()
    assert section == markdown(), "run: python scripts/systems_doc.py"


def test_chips_share_rows_whatever_their_vendors_call_them() -> None:
    table = compare("trainium3", "trainium2", "b300", "tpu_v7")
    fp8 = table.row("fp8")
    assert [cell.key for cell in fp8.cells] == ["tflops_mxfp8", *["tflops_fp8"] * 3]
    assert [cell.value for cell in fp8.cells] == [2517, 1299, 5000, 4614]
    assert fp8.ratios[1] == pytest.approx(1299 / 2517)
    links = table.row("scale_up")
    assert [cell.value for cell in links.cells] == [2560, 1280, 1800, 1200]


def test_published_ratios_come_out() -> None:
    """Of Trainium3 over Trainium2, and of Gen2 over the Trn2 UltraServer and GB300 NVL72."""
    chips = compare("trainium2", "trainium3")
    for row, ratio in (
        ("fp8", 1.94), ("bf16", 1.01), ("hbm_capacity", 1.5), ("hbm_bandwidth", 1.69),
        ("on_chip_memory", 1.14), ("scale_up", 2.0), ("dma_bandwidth", 1.4),
    ):  # fmt: skip
        assert chips.row(row).ratios[1] == pytest.approx(ratio, abs=0.005), row
    systems = compare("trn2_ultraserver", "gen2")
    assert systems.row("fp8").ratios[1] == pytest.approx(4.36, abs=0.005)
    assert systems.row("hbm_capacity").ratios[1] == 3.375
    assert systems.row("hbm_bandwidth").ratios[1] == pytest.approx(3.80, abs=0.005)
    racks = compare("gen2", "gb300")
    assert racks.row("fp4").ratios[1] == pytest.approx(2.98, abs=0.005)
    assert racks.row("fp8").ratios[1] == pytest.approx(360 / 362.448)


def test_peaks_of_the_array_are_the_other_choice() -> None:
    table = compare("trainium3", "trainium2", peaks="array")
    assert table.row("bf16").ratios[1] == 1
    assert table.row("fp8").cells[1].value == pytest.approx(1258.2912)


def test_cells_are_exact_derived_or_conflicting() -> None:
    table = compare("gen2", "gb300", "tpu_v7")
    assert [cell.status for cell in table.row("hbm_bandwidth").cells] == [
        "exact",
        "exact",
        "derived",
    ]
    capacity = table.row("hbm_capacity").cells[0]
    assert capacity.status == "conflicting"
    assert capacity.spread == pytest.approx((20.7, 22.26511046))
    assert table.row("scale_out").cells[1].status is None


def test_pods_stand_beside_systems_and_chips_beside_chips() -> None:
    assert compare("gen2", "tpu_v7").row("chips").cells[1].value == 9216
    assert compare("trainium3", "tpu_v7").row("hbm_capacity").cells[1].value == 192


def test_user_files_compare(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    figures = (
        ("hbm_bandwidth", 9.8, "TB/s"),
        ("hbm_capacity", 1, "GiB"),
        ("tflops_fp8", 1, "PFLOPS"),
    )
    tables = (
        f'[mine.{key}]\ndefault = {value}\nunit = "{unit}"\n'
        'sources = [{ value = 1, source = "x" }]\n'
        for key, value, unit in figures
    )
    file.write_text('[mine]\n_kind = "chip"\n' + "".join(tables), encoding="utf-8")
    table = compare("trainium3", file)
    assert table.row("hbm_bandwidth").ratios[1] == 2
    assert table.row("fp8").cells[1].value == 1000


@pytest.mark.parametrize(
    ("systems", "complaint"),
    [
        ((), "systems are 0; a comparison needs two or more"),
        (("trainium3", "trn3"), "trainium3 comes twice"),
        (("trainium3", "b301"), "'b301' is unknown; the nearest is 'b30"),
    ],
)
def test_compare_refuses(systems: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        compare(*systems)


def test_compare_refuses_other_peaks_and_rows() -> None:
    with pytest.raises(ValueError, match="peaks is 'best'; allowed: 'published', 'array'"):
        compare("trainium3", "b300", peaks="best")  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="no row 'fp9'; the nearest is 'fp"):
        compare("trainium3", "b300").row("fp9")


def test_csv_has_a_line_for_each_figure() -> None:
    table = compare("gen2", "gb300")
    lines = list(csv.DictReader(io.StringIO(table.as_csv())))
    assert len(lines) == sum(cell.quantity is not None for row in table.rows for cell in row.cells)
    [fp8] = [line for line in lines if (line["figure"], line["system"]) == ("fp8", "gb300_nvl72")]
    assert (fp8["value"], fp8["unit"], fp8["status"]) == ("360", "PFLOPS", "exact")


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_plot_writes_a_picture(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    path = tmp_path / f"picture.{suffix}"
    assert compare("gen2", "gb300", "tpu_v7").plot(path) == path
    assert path.stat().st_size > 1000


def test_the_picture_names_every_figure_in_full() -> None:
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    table = compare("gen2", "gb300", "tpu_v7")
    written = texts_of(table.plot())
    assert {facts.title for facts in table.systems} <= set(written)
    shared = [row for row in table.rows if sum(ratio is not None for ratio in row.ratios) > 1]
    assert {row.title for row in shared} <= set(written)
    for row in shared:
        known = zip(row.cells, row.ratios, strict=True)
        texts = {cell.text for cell, ratio in known if ratio is not None}
        assert texts <= {text.rstrip("*") for text in written}
    assert {"1", "10", "100"} <= set(written)
