"""Pictures: that they exist, in their size, without a warning, for profiles of any kind."""

from __future__ import annotations

import importlib.util
import re
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import trn3
from support.checks import error, run_python
from support.figures import texts_of
from support.profiles import Recorder, attention, by_hand, empty, profile_data
from trn3.pictures import SERIES
from trn3.profile import Profile, ProfileData
from trn3.profile.data import CAUSES
from trn3.profile.families import FAMILIES, WAITS, family_of

pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")

REPORT = Path(trn3.__file__).parent / "report"


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
    # Its lane is the only high one.
    assert 90 < np.sum(counts > 1000) < 130


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
    monkeypatch.setattr("trn3.pictures.find_spec", lambda name: None)
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


def test_long_times_and_names_are_whole_and_have_fitting_units() -> None:
    name = "attention_of_many_heads_" * 8
    recorder = Recorder(name, [("k.py", 1, "k")])
    for _ in range(50):
        recorder.issue("nc_matmul", 0, 0, 700_000, 700_000)
    figure = Profile(recorder.data()).plot()
    written = texts_of(figure)
    title = figure.subfigs[0].subfigs[0].get_suptitle()
    assert "".join(title.split()) == "".join(f"{name} on trn3: 35 ms, 50 instructions".split())
    assert max(map(len, title.split("\n"))) < 100
    assert "nc_matmul x 50" in written
    assert {"vector: idle", "dma: idle", "tensor\n100 % busy"} <= set(written)
    assert "time from the start of the first instruction (ms)" in written
    assert {"5", "35"} <= set(written)
    assert not any("000" in each for each in written if each.startswith("3"))


def test_idle_lanes_are_thin() -> None:
    recorder = Recorder("k", [("k.py", 1, "k")])
    recorder.issue("nc_matmul", 0, 0, 1000, 1000)
    axes = Profile(recorder.data()).plot().subfigs[0].subfigs[0].axes[0]
    places = sorted(axes.get_yticks())
    steps = np.diff([0, *places])
    assert steps[-1] > 1.5 * steps[1]


def test_the_roofline_says_its_ridges() -> None:
    profile = attention(10)
    written = texts_of(profile.plot())
    roofline = profile.roofline()
    ridges = {each.partition("\n")[2] for each in written if each.startswith("ridge of ")}
    rates = (roofline.hbm_gbps, roofline.dma_gbps)
    wanted = {f"{1e3 * roofline.compute_tflops / rate:.0f} FLOP/byte" for rate in rates}
    assert ridges == wanted


def test_colours_and_waits_are_those_of_the_report() -> None:
    """The report's script holds them for its two themes; those of pictures are the light ones."""
    script = (REPORT / "web" / "palette.js").read_text()
    families = script[script.index("const FAMILIES") :].partition("};")[0]
    found = re.findall(r'"?([\w, -]+?)"?: \["(#\w+)", "#\w+"\]', families)
    assert {name.strip(): colour for name, colour in found} == FAMILIES
    series = script[script.index("const SERIES") :].partition("];\n")[0]
    assert tuple(re.findall(r'\["(#\w+)", "#\w+"\]', series)) == SERIES
    groups = dict(re.findall(r'name: "([^"]+)", hatch: "\w+", colour: \["(#\w+)"', script))
    assert {name: group.color for name, group in WAITS.items()}.items() <= groups.items()
    by_cause = script[script.index("const GROUP_OF_CAUSE") :].partition("]);")[0]
    constants = {"BY_DMA": 2}
    found_of = dict(re.findall(r'\["([\w ]+)", (\w+)\]', by_cause))
    names = list(groups)
    for name, group in WAITS.items():
        # What has no place of its own there is a result of an engine.
        places = {found_of.get(cause, "1") for cause in group.causes}
        assert {names[constants.get(place) or int(place)] for place in places} == {name}
    assert {cause for group in WAITS.values() for cause in group.causes} == set(CAUSES)


def test_every_family_has_a_colour_of_its_own() -> None:
    assert len(set(FAMILIES.values())) == len(FAMILIES)
    assert {family_of("nc_matmul_mx"), family_of("DMA_COPY"), family_of("x")} <= set(FAMILIES)
