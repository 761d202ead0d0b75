"""The report of a run: what `profile.json` says, and what its panes draw, in one page."""

from __future__ import annotations

import base64
import hashlib
import json
import linecache
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trn3
import trn3.nki.collectives as ncc
import trn3.nki.isa as nisa
import trn3.nki.language as nl
from support.pages import Page
from support.profiles import by_hand
from trn3 import nki
from trn3.profile import BOUNDS, Profile
from trn3.profile.families import FAMILIES
from trn3.report import page, rebuild

PANES = ["timeline", "source", "memory", "roofline", "advice", "tables", "settings"]
TILE = np.ones((128, 512), np.float32)
OTHER = 2 * TILE


@nki.jit
def scaled(x: Any, y: Any) -> Any:
    """Multiply and scale, in four parts."""
    out = nl.ndarray((128, 512), nl.float32, buffer=nl.shared_hbm)
    left = nl.load(x)
    for part in nl.affine_range(4):
        right = nl.load(y[:, part * 128 : (part + 1) * 128])
        product = nl.matmul(left[:, 0:128], right, transpose_x=True)
        nl.store(out[:, part * 128 : (part + 1) * 128], nl.multiply(product, 0.5))
    return out


@pytest.fixture(scope="module")
def profile() -> Profile:
    return nki.profile(scaled, TILE, OTHER)[1]


@pytest.fixture(scope="module")
def report(profile: Profile) -> Page:
    return Page(profile.to_html())


def test_page_has_every_pane_and_the_figures(profile: Profile, report: Page) -> None:
    assert report.panes == PANES
    figures = json.loads(json.dumps(profile.to_dict()["figures"]))
    assert report.json("trn3-summary") == figures
    layout = report.json("trn3-report")
    assert (layout["format"], layout["version"], layout["kind"]) == ("trn3-report", 1, "profile")
    assert (layout["title"], layout["verdict"]) == (figures["kernel"], figures["verdict"])
    assert [run["latency_ps"] for run in layout["runs"]] == [profile.data.latency_ps]
    assert report.titles == ["scaled · trn3 report"]


def test_page_loads_nothing_and_allows_itself_alone(report: Page) -> None:
    names = {name for _, name, _ in report.attributes}
    assert not {name for name in names if name.startswith("on")} | (names & {"src", "style"})
    assert all(str(value).startswith("#") for value in report.values("href"))
    assert not re.search(r"(?:url\(|@import|fetch\(|import\()", "".join(report.styles))
    [script] = [text for given, text in report.scripts if given.get("type") == "module"]
    assert not re.search(r"https?://(?!www\.w3\.org/)", script)
    [style] = report.styles
    [policy] = [meta["content"] for meta in report.metas if "http-equiv" in meta]
    assert policy is not None
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    for name, text in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[name] == f"'sha256-{digest}'"


def test_columns_are_what_the_machine_recorded(profile: Profile, report: Page) -> None:
    rows, found = profile.data.instructions, report.table(0, "instructions")
    assert (found["start"] == rows.start_ps).all()
    assert (found["start"] + found["length"] == rows.end_ps).all()
    assert (found["start"] + found["slot"] == rows.slot_end_ps).all()
    assert (found["wait"] == rows.wait_ps).all()
    assert (found["cause"] == rows.cause).all()
    assert (found["hbm_read"] == rows.hbm_read).all()
    waits = rows.waited_on != 0xFFFF_FFFF
    assert (np.arange(len(rows)) - found["waited_on"] == rows.waited_on)[waits].all()
    assert not found["waited_on"][~waits].any()
    assert set(np.flatnonzero(found["critical"])) == set(profile.data.critical)
    layout = report.json("trn3-report")
    engines = np.array([stream["engine"] for stream in layout["runs"][0]["streams"]])
    assert (engines[found["stream"]] == rows.engine).all()
    moved, transfers = report.table(0, "transfers"), profile.data.transfers
    assert (moved["start"] == transfers.start_ps).all()
    assert (moved["bytes"] == transfers.bytes).all()


def test_every_dependence_is_an_edge(profile: Profile, report: Page) -> None:
    """From the writers of what an instruction reads; none from what it merely stands behind."""
    rows, found = report.table(0, "instructions"), report.table(0, "edges")
    layout = report.json("trn3-report")
    assert (found["back"] > 0).all()
    assert (np.diff(found["consumer"]) >= 0).all()
    triples = set(zip(found["consumer"], found["back"], found["kind"], strict=True))
    assert len(triples) == len(found["kind"])
    kinds = [layout["edges"][kind] for kind in found["kind"]]
    results = {
        (int(consumer), int(consumer - back))
        for consumer, back, kind in zip(found["consumer"], found["back"], kinds, strict=True)
        if kind == "read after write"
    }
    uses = report.table(0, "uses")
    writer: dict[Any, int] = {}
    on_chip = report.table(0, "tensors")["memory"] < 2
    expected = set()
    for row in range(len(rows["start"])):
        own = np.flatnonzero(uses["instruction"] == row)
        for tensor, usage in ((uses["tensor"][place], uses["usage"][place]) for place in own):
            if usage != 2 and tensor in writer and on_chip[tensor]:
                expected.add((row, writer[tensor]))
        for tensor in (uses["tensor"][place] for place in own if uses["usage"][place] >= 2):
            writer[tensor] = row
    assert expected
    assert expected <= results


def test_instructions_say_when_they_were_ready_and_what_bound_them(
    profile: Profile, report: Page
) -> None:
    rows, found = profile.data.instructions, report.table(0, "instructions")
    layout = report.json("trn3-report")
    assert (found["ready"] == rows.ready_ps).all()
    assert (found["ready"] <= found["start"]).all()
    assert (found["bound"] == rows.bound).all()
    edges = report.table(0, "edges")
    for row in np.flatnonzero(found["bound"]):
        bound = layout["bounds"][found["bound"][row]]
        if bound not in layout["edges"]:
            continue
        own = edges["consumer"] == row
        kinds = {
            layout["edges"][kind]
            for kind in edges["kind"][own & (edges["back"] == found["waited_on"][row])]
        }
        assert bound in kinds


def test_tensors_lie_where_instructions_use_them(profile: Profile, report: Page) -> None:
    layout, found = report.json("trn3-report"), report.table(0, "tensors")
    names = [layout["names"][name] for name in found["name"]]
    assert {"x", "y"} <= set(names)
    place = names.index("x")
    assert layout["shapes"][found["shape"][place]] == [128, 512]
    assert layout["dtypes"][found["dtype"][place]] == "float32"
    on_chip = found["memory"] < 2
    assert on_chip.any()
    assert (found["partitions"][on_chip] == 128).all()
    rows, uses = profile.data.instructions, report.table(0, "uses")
    for tensor in range(len(names)):
        own = uses["instruction"][uses["tensor"] == tensor]
        assert found["from"][tensor] == rows.start_ps[own].min()
        assert found["to"][tensor] == rows.end_ps[own].max()
        assert (found["first_use"][tensor], found["last_use"][tensor]) == (own[0] + 1, own[-1] + 1)
    # What lies at the same bytes of one memory, lies there at different times.
    chip = np.flatnonzero(on_chip)
    for one in chip:
        for other in chip[chip > one]:
            ends = found["byte"] + found["bytes"]
            apart = [
                found["memory"][one] != found["memory"][other],
                ends[one] <= found["byte"][other] or ends[other] <= found["byte"][one],
                found["to"][one] <= found["from"][other],
                found["to"][other] <= found["from"][one],
            ]
            assert any(apart), (names[one], names[other])
    traffic = {each["name"]: each for each in layout["traffic"]}
    assert traffic["x"]["read_bytes"] == TILE.nbytes
    assert sum(each["read_bytes"] for each in layout["traffic"]) == profile.hbm_read_bytes
    assert sum(each["write_bytes"] for each in layout["traffic"]) == profile.hbm_write_bytes


def test_memory_says_what_was_free_at_the_peak(profile: Profile, report: Page) -> None:
    for peak in report.json("trn3-report")["memory"]:
        assert peak["peak_bytes"] == getattr(profile, f"{peak['memory']}_peak_bytes")
        assert peak["largest_free_bytes"] <= peak["free_bytes"] <= peak["capacity_bytes"]
        assert peak["free_bytes"] >= peak["capacity_bytes"] - peak["peak_bytes"]


def test_lines_of_the_source_are_text(profile: Profile, report: Page) -> None:
    source = Path(__file__).read_text("utf-8").splitlines()
    lines = report.values("data-line")
    for total in profile.figures()["lines"]:
        assert f"{__file__}:{total['line']}" in lines
        assert f"test_page.py:{total['line']}" in report.words
        assert source[total["line"] - 1] in report.words
    heats = [kind for kind in report.values("data-heat") if kind == "critical"]
    assert len(heats) == len({total["line"] for total in profile.figures()["lines"]})


def test_roofline_has_the_kernel_its_functions_and_its_lines(
    profile: Profile, report: Page
) -> None:
    points = report.json("trn3-report")["roofline"]["points"]
    kinds = [point["kind"] for point in points]
    assert kinds == sorted(kinds, key=["kernel", "region", "line"].index)
    kernel, region = points[0], points[1]
    assert kernel["tflops"] == pytest.approx(profile.roofline().achieved_tflops)
    assert (region["name"], region["flop"]) == ("scaled", kernel["flop"])
    lines = [point for point in points if point["kind"] == "line"]
    assert sum(point["flop"] for point in lines) == kernel["flop"]
    assert sum(point["hbm_bytes"] for point in lines) == kernel["hbm_bytes"]


NASTY = "</script><b onclick=x>&\x1b[31m\u202e"


def test_what_a_person_wrote_is_no_markup() -> None:
    file = f"/tmp/{NASTY.replace('/', '')}.py"
    text = (
        "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n"
        f"def kernel(x):\n    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)\n"
        f"    nisa.dma_copy(dst=out, src=x, name={NASTY!r})  # {NASTY}\n    return out\n"
    ).replace("import nki", "import trn3.nki")
    text = text.replace("import trn3.nki\n", "from trn3 import nki\n")
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {}
    try:
        exec(compile(text, file, "exec"), names)
        found = nki.profile(nki.jit(names["kernel"]), TILE)[1]
        html = found.to_html()
    finally:
        del linecache.cache[file]
    report = Page(html)
    assert report.panes == PANES
    assert "b" not in {tag for tag, *_ in report.attributes}
    assert "\x1b" not in html
    assert "\u202e" not in html
    assert html.lower().count("</script") == 4
    layout = report.json("trn3-report")
    assert NASTY in layout["labels"]
    assert file in [each["name"] for each in layout["files"]]
    assert any("␛[31m" in word for word in report.words)


def split(x: Any) -> Any:
    """Let each core copy its half."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    half = x.shape[0] // nl.num_programs(0)
    rows = slice(nl.program_id(0) * half, (nl.program_id(0) + 1) * half)
    tile = nl.ndarray((half, x.shape[1]), x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x[rows])
    nisa.dma_copy(dst=out[rows], src=tile)
    return out


def compiled(level: str) -> Profile:
    return nki.profile(nki.simulate(scaled, compile=level), TILE, TILE)[1]


CASES: dict[str, Callable[[], Profile]] = {
    "timing-only": lambda: nki.profile(scaled, TILE, TILE, values=False)[1],
    "two cores": lambda: nki.profile(nki.jit(split)[2], TILE)[1],
    "shadow": lambda: nki.profile(scaled, TILE, TILE, shadow=True)[1],
    "nki": lambda: compiled("nki"),
    "neuronx-cc": lambda: compiled("neuronx-cc"),
    "older document": by_hand,
}


@pytest.mark.parametrize("case", CASES)
def test_a_saved_run_gives_the_same_report(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("trn3.pictures.find_spec", lambda name: None)
    profile = CASES[case]()
    written = {path.name for path in profile.save(tmp_path)}
    assert written == {"report.html", "profile.json", "trace.perfetto"}
    line = "timeline.png and roofline.png are left out: plots need matplotlib: "
    assert capsys.readouterr().err.splitlines() == [line + "pip install 'trn3[plot]'"]
    first = (tmp_path / "report.html").read_bytes()
    (tmp_path / "report.html").unlink()
    assert rebuild(tmp_path) == tmp_path / "report.html"
    assert (tmp_path / "report.html").read_bytes() == first
    report = Page(first.decode())
    assert report.panes == PANES
    document = json.loads((tmp_path / "profile.json").read_text("utf-8"))
    assert report.json("trn3-summary") == document["figures"]
    runs = report.json("trn3-report")["runs"]
    assert len([run for run in runs if run["is_main"]]) == len(profile.cores)
    level = profile.compile["level"]
    beside = [] if level == "as-written" else ["as-written"]
    assert [run["level"] for run in runs if not run["is_main"]] == beside


@pytest.mark.parametrize("level", ["nki", "neuronx-cc"])
def test_compiled_runs_stand_beside_the_kernel_as_written(level: str) -> None:
    profile = compiled(level)
    report = Page(profile.to_html())
    now, written = report.json("trn3-report")["runs"]
    assert (now["level"], written["level"]) == (level, "as-written")
    assert now["latency_ps"] == profile.data.latency_ps
    assert written["latency_ps"] / 1e6 == pytest.approx(profile.compile["as_written_us"])
    rows = report.table(1, "instructions")
    assert (rows["start"] + rows["length"]).max() == written["latency_ps"]
    assert [len(report.table(run, "edges")["kind"]) > 0 for run in (0, 1)] == [True, True]
    for run in (0, 1):
        tensors, uses = report.table(run, "tensors"), report.table(run, "uses")
        assert len(tensors["byte"])
        assert (uses["tensor"] < len(tensors["byte"])).all()
        assert (np.diff(uses["instruction"]) >= 0).all()


@nki.jit
def gather(x: Any, group: Any) -> Any:
    """Gather the rows of all ranks."""
    mine = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    out = nl.ndarray((2, *x.shape[1:]), x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(mine, x)
    ncc.all_gather([mine], [out], group, collective_dim=0)
    return out


def test_ranks_stand_beside_each_other() -> None:
    group = ncc.ReplicaGroup([[0, 1]])
    arguments = [(np.full((1, 64), value, np.int32), group) for value in (7, 8)]
    _, profiles = nki.profile_ranks(gather, arguments)
    report = Page(page(profiles))
    layout = report.json("trn3-report")
    assert [run["rank"] for run in layout["runs"]] == [0, 1]
    assert layout["meetings"] == [[{"run": 0, "row": 1}, {"run": 1, "row": 1}]]
    assert "all_gather" in report.words
    assert Page(profiles[1].to_html()).json("trn3-report")["runs"][0]["rank"] is None
    with pytest.raises(ValueError, match="no rank"):
        page([])


@nki.jit
def long(x: Any, steps: int) -> Any:
    """Issue many instructions."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tiles = [nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf) for _ in range(4)]
    for step in range(steps):
        tile = tiles[step % 4]
        nisa.dma_copy(dst=tile, src=x)
        nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=2.0)
        nisa.activation(dst=tiles[(step + 1) % 4], op=nl.exp, data=tile)
        nisa.dma_copy(dst=out, src=tile)
    return out


def test_a_hundred_thousand_instructions_are_small_and_soon_written() -> None:
    profile = nki.profile(long, np.ones((128, 64), np.float32), 25_000, values=False)[1]
    assert len(profile.data.instructions) == 100_000
    before = time.process_time()
    html = profile.to_html()
    seconds = time.process_time() - before
    assert len(html.encode()) < 2_000_000
    assert seconds < 3
    assert len(Page(html).table(0, "uses")["tensor"]) == 200_000


def test_a_folder_without_a_profile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"holds no profile\.json"):
        rebuild(tmp_path)
    (tmp_path / "profile.json").write_text("{}")
    with pytest.raises(ValueError, match="no profile"):
        rebuild(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_recorded_columns_that_contradict_are_refused(profile: Profile) -> None:
    document = profile.to_dict()
    recorded = document["data"]["recorded"]
    for change, wrong in (
        ({"columns": "!"}, "base64"),
        ({"names": []}, "names|tensors"),
        ({"tables": {}}, "no table"),
        ({"extra": 1}, "extra"),
    ):
        broken = {**document["data"], "recorded": {**recorded, **change}}
        with pytest.raises(ValueError, match=wrong):
            Profile.from_dict({**document, "data": broken})


def halve(tile: Any) -> None:
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.multiply, operand0=0.5)


@nki.jit
def calling(x: Any) -> Any:
    """Leave the work to a function."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    halve(tile)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_instructions_of_functions_have_their_calls() -> None:
    report = Page(nki.profile(calling, TILE)[1].to_html())
    layout, rows = report.json("trn3-report"), report.table(0, "instructions")
    [place] = np.flatnonzero(rows["stack"])
    stack = [layout["sites"][site] for site in layout["stacks"][rows["stack"][place]]]
    assert [function for _, _, function in stack] == ["calling", "halve"]
    assert layout["stacks"][rows["stack"][place]][-1] == rows["site"][place]
    assert layout["stacks"][0] == []


def again(tile: Any, times: int) -> None:
    if times:
        return again(tile, times - 1)
    halve(tile)
    return None


@nki.jit
def recursive(x: Any) -> Any:
    """Reach an instruction through more calls than are told one by one."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
    nisa.dma_copy(dst=tile, src=x)
    again(tile, 60)
    nisa.dma_copy(dst=out, src=tile)
    return out


def test_a_function_that_calls_itself_is_told_once() -> None:
    layout = Page(nki.profile(recursive, TILE)[1].to_html()).json("trn3-report")
    [stack] = [stack for stack in layout["stacks"] if stack]
    functions = [layout["sites"][site][2] for site in stack]
    assert functions == ["recursive", "again", "again", "halve"]


@nki.jit
def idle(x: Any) -> Any:
    """Do nothing."""
    return nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)


@nki.jit
def single(x: Any) -> Any:
    """Copy, in one instruction."""
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=out, src=x)
    return out


@pytest.mark.parametrize(("kernel", "count"), [(idle, 0), (single, 1)])
def test_hardly_any_instruction(kernel: Callable[..., Any], count: int) -> None:
    report = Page(nki.profile(kernel, TILE)[1].to_html())
    assert report.panes == PANES
    layout = report.json("trn3-report")
    [run] = layout["runs"]
    assert run["tables"]["instructions"]["rows"] == count
    assert run["tables"]["edges"]["rows"] == 0
    # A file without a line to show is not spoken of.
    assert not report.values("data-file-missing")


def test_heat_of_precision_is_what_the_shadow_run_found() -> None:
    profile = nki.profile(scaled, TILE, OTHER / 3, shadow=True)[1]
    cells = Page(profile.to_html()).attributes
    after = [
        float(cells[place + 1][2] or "nan")
        for place, (_, name, value) in enumerate(cells)
        if (name, value) == ("data-heat", "precision")
    ]
    lost: dict[int, float] = {}
    for loss in profile.precision:
        if loss.line:
            lost[loss.line] = max(lost.get(loss.line, 0), loss.relative_error)
    worst = max(lost.values())
    assert worst > 0
    shown = [share for share in after if share]
    expected = [lost[line] / worst for line in sorted(lost) if lost[line]]
    assert shown == pytest.approx(expected, rel=1e-3)


def test_every_bound_and_every_family_has_its_look() -> None:
    """What the core names is drawn; the palette of pages has no name that nobody uses."""
    palette = (Path(trn3.__file__).parent / "report/web/palette.js").read_text("utf-8")

    def body(name: str) -> str:
        return palette.split(f"const {name} = ", 1)[1].split(";", 1)[0]

    bounds = re.findall(r'\["([^"]+)", ', body("GROUP_OF_BOUND"))
    assert sorted(bounds) == sorted(BOUNDS[1:])
    families = re.findall(r'(?m)^  "?([^":]+)"?: \[', body("FAMILIES"))
    assert families == list(FAMILIES)
