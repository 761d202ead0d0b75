"""Pictures: that they exist, in their size, without a warning, for profiles of any kind."""

from __future__ import annotations

import importlib.util
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from support.checks import error, run_python
from support.profiles import Recorder, attention, by_hand, empty, profile_data
from trn3.profile import Profile, ProfileData
from trn3.profile.families import FAMILIES, family_of

pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")


def size_of(path: Path) -> tuple[int, ...]:
    raw = path.read_bytes()
    assert raw.startswith(b"\x89PNG")
    return struct.unpack(">II", raw[16:24])


@pytest.fixture(autouse=True)
def warnings_are_errors() -> None:
    warnings.simplefilter("error")


def test_plot_into_a_directory(tmp_path: Path) -> None:
    written = attention(10, findings=True).plot(tmp_path)
    assert written == [tmp_path / "timeline.png", tmp_path / "roofline.png"]
    assert sorted(tmp_path.iterdir()) == sorted(written)
    assert size_of(written[0]) == (1200, 840)
    assert size_of(written[1]) == (1200, 720)


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_plot_into_a_file_is_reproducible(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"both{suffix}"
    assert attention(2).plot(path) == [path]
    first = path.read_bytes()
    attention(2).plot(path)
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


def test_plot_of_a_large_profile_draws_bins(tmp_path: Path) -> None:
    profile = attention(2000)
    profile.plot(tmp_path)
    assert size_of(tmp_path / "timeline.png") == (1200, 840)


def test_plot_shows_work_where_it_is(tmp_path: Path) -> None:
    """The tensor lane of a kernel of one long matmul is blue from side to side."""
    from matplotlib.image import imread

    recorder = Recorder("k", [("k.py", 1, "k")])
    values = {"macs": 1, "peak_macs_per_cycle": 1}
    recorder.issue("nc_matmul", 0, 0, 1000, 1000, values=values)
    Profile(recorder.data()).plot(tmp_path)
    pixels = (imread(tmp_path / "timeline.png")[:, :, :3] * 255).round().astype(int)
    blue = tuple(int(FAMILIES["matmul"][i : i + 2], 16) for i in (1, 3, 5))
    counts = np.sum(np.all(pixels == blue, axis=2), axis=1)
    assert counts.max() > 1000
    assert 50 < np.sum(counts > 1000) < 80


@settings(max_examples=6)
@given(profile_data())
def test_plot_of_any_profile(tmp_path_factory: pytest.TempPathFactory, data: ProfileData) -> None:
    directory = tmp_path_factory.mktemp("plots")
    Profile(data).plot(directory)
    assert size_of(directory / "timeline.png") == (1200, 840)


def test_plot_of_nothing_and_of_no_traffic(tmp_path: Path) -> None:
    Profile(empty()).plot(tmp_path)
    assert size_of(tmp_path / "roofline.png") == (1200, 720)
    recorder = Recorder("k", [("k.py", 1, "k")])
    recorder.issue("nc_matmul", 0, 0, 9, 9, values={"macs": 9, "peak_macs_per_cycle": 9})
    Profile(recorder.data()).plot(tmp_path / "both.svg")
    assert "without HBM traffic" in (tmp_path / "both.svg").read_text()


def test_plot_names_dollars_and_controls_as_they_are(tmp_path: Path) -> None:
    recorder = Recorder("cost_$x\\$_\x1b[1m$", [("k.py", 1, "k")])
    recorder.issue("nc_matmul", 0, 0, 9, 9)
    Profile(recorder.data()).plot(tmp_path)
    assert size_of(tmp_path / "timeline.png") == (1200, 840)


def test_plot_refuses_other_endings(tmp_path: Path) -> None:
    with error(ValueError, "picture.bmp", "directory", ".png"):
        by_hand().plot(tmp_path / "picture.bmp")


def test_plot_needs_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("trn3.profile.plots.find_spec", lambda name: None)
    with error(ImportError, "matplotlib", "trn3[plot]"):
        by_hand().plot(tmp_path)
    assert list(tmp_path.iterdir()) == []
    by_hand().save(tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"report.html", "profile.json", "trace.perfetto"}


def test_importing_the_profile_loads_nothing_heavy() -> None:
    code = (
        "import sys, trn3.machine; "
        "heavy = {'matplotlib', 'pandas', 'perfetto', 'rich', 'typer'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    finished = run_python(code)
    assert (finished.stdout, finished.stderr) == ("[]\n", "")
    assert importlib.util.find_spec("matplotlib")


def test_every_family_has_a_colour_of_its_own() -> None:
    assert len(set(FAMILIES.values())) == len(FAMILIES)
    assert {family_of("nc_matmul_mx"), family_of("DMA_COPY"), family_of("x")} <= set(FAMILIES)
