"""Pictures of systems: fabrics, bounds, collectives, flows, and what is placed on them."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import trn3
from pictures.themes import COLORS, figure, themed
from trn3 import collectives, facts, flows, k8s, systems
from trn3.flows import Transfer
from trn3.system import Bound

#: Systems in the order of the pages.
SHOWN = ("trn1", "trn2", "trn2_ultraserver", "gen1", "gen2", "gb300_nvl72", "h100", "tpu_v7")


@functools.cache
def torus() -> bytes:
    """Draw the sixteen chips of a Trn2 instance as `trn3 ls --plot` does."""
    with tempfile.TemporaryDirectory() as folder, themed("light"):
        return systems.trn2_instance().plot(Path(folder) / "system.png").read_bytes()


@functools.cache
def bound_of(name: str) -> Bound:
    """Return what binds an all-to-all of a system."""
    return systems.load(name).bound()


def bounds() -> Figure:
    """Draw what an all-to-all leaves each chip, and what binds it."""
    names = [facts.canonical(name) for name in SHOWN]
    found = [bound_of(name) for name in names]
    picture = figure(3.2)
    axes = picture.subplots()
    rates = [bound.per_chip / 1e9 for bound in found]
    bars = axes.barh([facts.load(name).title for name in names], rates, color=COLORS[0])
    labels = [
        f" {rate:,.0f}, {each.binding.level}" for rate, each in zip(rates, found, strict=True)
    ]
    axes.bar_label(bars, labels, fontsize=9)
    axes.margins(x=0.22)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("all-to-all, GB/s a chip one way, and the links that bind")
    return picture


@functools.cache
def times_of(size: float) -> dict[str, float]:
    """Return how long an all-reduce of so many bytes takes, by each algorithm."""
    return collectives.candidates("all_reduce", size, systems.load("trn2_ultraserver"))


def collective_times() -> Figure:
    """Draw the time of an all-reduce by its size, for each algorithm."""
    sizes = np.logspace(3, 9.5, 14)
    times: dict[str, list[float]] = {}
    for size in sizes:
        for name, seconds in times_of(float(size)).items():
            times.setdefault(name, []).append(seconds)
    picture = figure(3.6)
    axes = picture.subplots()
    for (name, each), color in zip(times.items(), COLORS, strict=False):
        axes.loglog(sizes, np.array(each) * 1e6, label=name, color=color)
    least = np.min(list(times.values()), axis=0) * 1e6
    axes.loglog(sizes, least, color=COLORS[-1], linewidth=5, alpha=0.35, label="what is chosen")
    axes.set_xlabel("bytes")
    axes.set_ylabel("time (us)")
    axes.set_title("all_reduce over a Trn2 UltraServer")
    axes.legend()
    return picture


def shared_link() -> Figure:
    """Draw the transfers of the page on flows over time."""
    names = ("reduce", "class 1: what is left", "waits for reduce")
    result = flows.simulate(
        {"link": 64e9, "hbm": 4.9e12},
        [
            Transfer(1e9, {"link": 1, "hbm": 3}, name="reduce"),
            Transfer(1e9, ["link"], priority=1),
            Transfer(5e8, ["link"], latency=1.5e-6, after=["reduce"]),
        ],
    )
    picture = figure(1.9)
    axes = picture.subplots()
    for lane, (span, color) in enumerate(zip(result.spans, COLORS, strict=False)):
        axes.barh(lane, span.time * 1e3, left=span.start * 1e3, color=color)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("time (ms)")
    axes.axvline(result.finish * 1e3, linestyle=":", color=COLORS[-1])
    return picture


def comparison() -> Figure:
    """Draw three accelerators beside each other, each figure as a ratio to the first."""
    found = trn3.compare("trainium3", "b300", "tpu_v7")
    rows = [row for row in found.rows if sum(ratio is not None for ratio in row.ratios) > 1]
    picture = figure(0.5 * len(rows) + 0.9)
    axes = picture.subplots()
    height = 0.8 / len(found.systems)
    for number, each in enumerate(found.systems):
        places = np.arange(len(rows)) + (number - (len(found.systems) - 1) / 2) * height
        bars = axes.barh(
            places,
            [row.ratios[number] or 0 for row in rows],
            height,
            color=COLORS[number],
            label=each.title,
        )
        axes.bar_label(bars, [f" {row.cells[number].text}" for row in rows], fontsize=7)
    axes.set_yticks(range(len(rows)), [row.title for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(f"ratio to {found.systems[0].title}")
    axes.legend(loc="lower right")
    return picture


def claims() -> Figure:
    """Draw where claims of one, four, eight and two chips go on a node of Trn2."""
    slices = k8s.resource_slices("trn2", nodes=1)
    wanted = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": f"claim-of-{count}"},
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": "r",
                            "exactly": {"deviceClassName": k8s.DEFAULT_DRIVER, "count": count},
                        }
                    ]
                }
            },
        }
        for count in (1, 4, 8, 2)
    ]
    placed = k8s.allocate(wanted, slices).placed
    place = {
        device["name"]: (
            device["attributes"]["topology_x"]["int"],
            device["attributes"]["topology_y"]["int"],
        )
        for part in slices
        for device in part["spec"]["devices"]
        if "topology_x" in device["attributes"]
    }
    picture = figure(3.0, 5.2)
    axes = picture.subplots()
    for row, column in place.values():
        axes.add_patch(Rectangle((column, row), 0.86, 0.86, color=COLORS[-1], alpha=0.25))
    for each, color in zip(placed, COLORS, strict=False):
        for number, device in enumerate(each.devices):
            row, column = place[device[-1].name]
            label = each.claim.label.split("/")[-1] if not number else None
            axes.add_patch(Rectangle((column, row), 0.86, 0.86, color=color, label=label))
    axes.set_xlim(-0.1, 4)
    axes.set_ylim(4, -0.1)
    axes.set_aspect("equal")
    axes.set_axis_off()
    picture.legend(loc="outside right center", title="claims, in their order")
    return picture
