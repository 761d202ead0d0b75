"""Pictures of systems and of bounds, of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.figures import texts_of
from trn3 import text
from trn3.system import Cluster, Instance, UltraServer

pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")


def test_a_drawing_without_a_path_is_a_figure(tmp_path: Path) -> None:
    system = UltraServer.gen2()
    written = texts_of(system.plot())
    assert {"0/0/0", "1/17/3", "server/0/0"} <= set(written)
    assert any(each.startswith("rack: ") for each in written)
    two = Cluster(Instance.trn2(), 2)
    assert two.plot(tmp_path / "two.png") == tmp_path / "two.png"


def test_a_thousand_chips_are_folded_and_still_joined() -> None:
    """Equal parts stand side by side; no two chips in one place, and links end at their chips."""
    cluster = Cluster(UltraServer.gen2(), 7)
    figure: Any = cluster.plot()
    width, height = figure.get_size_inches()
    assert height < 2.5 * width
    (axes,) = figure.axes
    dots = [tuple(float(each[0]) for each in line.get_data()) for line in axes.lines]
    nodes = cluster.graph.nodes
    assert len(set(dots)) == len(dots) == len(nodes)
    place = dict(zip(nodes, dots, strict=True))
    curves = [patch.get_path().vertices[::2].tolist() for patch in axes.patches]
    joined = {tuple(sorted(tuple(point) for point in ends)) for ends in curves}
    links = [(place[each.source], place[each.target]) for each in cluster.graph.links]
    assert joined == {tuple(sorted(ends)) for ends in links}


def test_bounds_show_each_level_and_which_binds() -> None:
    bound = UltraServer.gen2().bound("all_to_all")
    written = texts_of(bound.plot())
    assert set(bound.levels) <= set(written)
    slowest = min(bound.levels.values())
    said = {f"{text.rate(rate)}{', binds' * (rate == slowest)}" for rate in bound.levels.values()}
    assert said <= set(written)
