"""What notebooks show, and the magic ``%%nki_profile``, in a shell of IPython."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

import trn3
import trn3.nki.language as nl
from trn3 import nki
from trn3.markup import as_html
from trn3.numerics import quantize_mx
from trn3.planner.training import Training, plan_training
from trn3.profile import Profile

HOSTILE = "<script>alert(1)</script>\x1b[31m"
KERNEL = """\
import nki
import nki.language as nl
import numpy as np

@nki.jit
def doubled(x):
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out
"""


@nki.jit
def doubled(x: Any) -> Any:
    out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
    nl.store(out, nl.multiply(nl.load(x), 2.0))
    return out


def profiled(name: str = "doubled") -> Profile:
    _, profile = nki.profile(doubled, np.ones((128, 64), np.float32))
    document = json.loads(json.dumps(profile.to_dict(), default=float))
    document["data"]["kernel"] = name
    return Profile.from_dict(document)


def shown(value: Any) -> str:
    """Return the text of the HTML of an object: tables, with no tags but those of layout."""
    bundle = value._repr_mimebundle_(include=None, exclude=None)
    assert bundle["text/plain"] == repr(value)
    tags: set[str] = set()
    texts: list[str] = []

    class Page(HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:  # noqa: ARG002
            tags.add(tag)

        def handle_data(self, data: str) -> None:
            texts.append(data)

    Page().feed(bundle["text/html"])
    assert tags <= {"caption", "div", "span", "table", "tbody", "td", "th", "thead", "tr"}
    assert "table" in tags
    return "".join(texts)


def test_everything_has_a_page_in_a_notebook(tmp_path: Path) -> None:
    assert "Bound by waiting" in shown(profiled())
    plan = trn3.plan("llama-3.1-8b", "gen2")
    assert f"{plan.tpot * 1e3:.4g} ms" in shown(plan)
    compared = trn3.compare("trainium3", "b300")
    assert compared.row("fp8").cells[0].text in shown(compared)
    system = trn3.UltraServer.gen2()
    assert "144" in shown(system)
    bound = system.bound("all_to_all")
    assert str(bound.binding) in shown(bound)
    assert "25 GB/s a chip" in shown(trn3.Cluster(system, 3))
    x = np.random.default_rng(0).standard_normal((32, 64), dtype=np.float32)
    assert "float8_e4m3fn" in shown(quantize_mx(x, "float8_e4m3fn"))
    swept = trn3.sweep(pow, {"base": [2, 3], "exp": [2]}, workers=1)
    assert "9" in shown(swept)
    both = trn3.plan("llama-3.1-8b", ["gen2", "b300"])
    assert [row[0] in shown(both) for row in both.table()] == [True, True]
    search = trn3.planner.search("llama-3.1-8b", "gen2")
    assert f"{search.tpot * 1e3:.4g} ms" in shown(search)
    step = plan_training("llama-3.3-70b", "gen2", Training(1152, 8192))
    assert step.phases[0].binding in shown(step)
    found = nki.diff(doubled, {"x": np.ones((128, 64), np.float32)})
    assert "1.00 x" in shown(found)


def test_numbers_stand_at_the_right_under_headings() -> None:
    page = profiled()._repr_mimebundle_()["text/html"]
    engines = page[page.index("Engines: at work") :].partition("</table>")[0]
    head, _, body = engines.partition("</thead>")
    headings = re.findall(r'<th scope="col" style="text-align:(\w+)[^>]*>([^<]+)<', head)
    assert headings[:3] == [("left", "engine"), ("right", "instructions"), ("right", "busy")]
    rows = [re.findall(r'<td style="text-align:(\w+)', row) for row in body.split("<tr>")[1:]]
    assert rows == [[side for side, _ in headings]] * 2
    # Notebooks drop style sheets, and light and dark pages have inks of their own.
    assert "<style" not in page
    assert "background" not in page


def test_cells_keep_their_markup_and_nothing_else() -> None:
    table = Table("name", title="[bold]a[/] < b")
    table.add_row("[red]no[/]", style="italic")
    table.add_row(Text("[red]\x1b[1m\n&"))
    page = as_html(Group(Text("plain", "bold"), table, Panel("framed")))
    assert '<div style="white-space:pre-wrap"><span style="font-weight:600">plain</span>' in page
    assert '<span style="font-weight:600">a</span> &lt; b</caption>' in page
    assert '<span style="color:#de3d3d">no</span></td>' in page
    assert page.count("font-style:italic") == 1
    assert "[red]\\x1b[1m\n&amp;</td>" in page
    assert page.index("<table") < page.index("<pre") < page.index("framed")


def test_checkpoints_show_their_tensors(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    x = np.ones((64, 64), np.float32)
    save_file({f"layer.{HOSTILE}": x, "bias": x[0]}, tmp_path / "in.safetensors")
    output = tmp_path / "out.safetensors"
    trn3.quantize_checkpoint(tmp_path / "in.safetensors", {"mxfp8-e4m3": output})
    with trn3.load_mx(tmp_path / "out.safetensors") as checkpoint:
        text = shown(checkpoint)
    assert "[64], " not in text
    assert "bias" in text
    assert text.count("one for 32 along axis") == 1


def test_hostile_names_are_text() -> None:
    text = shown(profiled(HOSTILE))
    assert "<script>" in text
    assert "\x1b" not in text


def test_plots_without_a_path_are_figures(tmp_path: Path) -> None:
    figures = pytest.importorskip("matplotlib.figure")
    profile = profiled()
    figure = profile.plot()
    assert isinstance(figure, figures.Figure)
    titles = [part.get_suptitle() for part in figure.subfigs[0].subfigs]
    assert [title.startswith("doubled on trn3: ") for title in titles] == [True, True]
    figure.savefig(tmp_path / "both.png")
    assert profile.plot(tmp_path / "again.png") == [tmp_path / "again.png"]
    plan = trn3.plan("llama-3.1-8b", "gen2")
    assert isinstance(plan.plot(), figures.Figure)
    assert plan.plot(tmp_path / "plan.png") == tmp_path / "plan.png"
    _, two = nki.profile(doubled[2], np.ones((128, 64), np.float32))
    assert len(two.plot().subfigs) == 2


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    """Return a shell that has loaded the extension, and forgets it."""
    made = InteractiveShell.instance()
    nki.install()
    try:
        made.run_line_magic("load_ext", "trn3")
        yield made
        made.run_line_magic("unload_ext", "trn3")
    finally:
        nki.uninstall()
        InteractiveShell.clear_instance()


def test_the_magic_profiles_a_cell(shell: InteractiveShell) -> None:
    assert shell.run_cell(KERNEL, store_history=True).success
    number = shell.execution_count
    call = (
        "%%nki_profile found\nx = np.ones((128, 64), np.float32)\n\ny = doubled(x)\nz = doubled(y)"
    )
    with capture_output() as captured:
        assert shell.run_cell(call, store_history=True).success
    assert [output.data["text/plain"] for output in captured.outputs] == [
        repr(each) for each in shell.user_ns["found"]
    ]
    assert np.array_equal(shell.user_ns["z"], np.full((128, 64), 4, np.float32))
    first, second = shell.user_ns["found"]
    assert first.latency_us == second.latency_us
    # Lines are those of the cell that the kernel stands in, with their texts.
    lines = {each.location: each.text for each in first.lines()}
    at = KERNEL.splitlines().index("    nl.store(out, nl.multiply(nl.load(x), 2.0))") + 1
    assert lines == {f"In[{number - 1}]:{at}": KERNEL.splitlines()[at - 1].strip()}
    inline = "%%nki_profile own\n" + KERNEL + "doubled(np.ones((128, 64), np.float32))"
    with capture_output():
        shell.run_cell(inline, store_history=True)
    (own,) = shell.user_ns["own"]
    assert [each.line for each in own.lines()] == [at + 1]
    with capture_output() as captured:
        shell.run_cell("%%nki_profile a b\n1", store_history=True)
    assert "allowed: nothing, or a name" in captured.stdout + captured.stderr
