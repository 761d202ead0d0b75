"""Pictures of kernels: their timelines, rooflines and reports."""

from __future__ import annotations

import contextlib
import functools
import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import trn3.nki.language as nl
from pictures import lanes
from pictures.cache import DOCS, from_page
from pictures.programs import blocks_of
from pictures.themes import COLORS, figure, themed
from trn3 import nki
from trn3.cli import kernel_file
from trn3.profile import PrecisionLoss, Profile
from trn3.report import page

EXAMPLES = DOCS.parent / "examples"


@functools.cache
def profile_of(file: str, kernel: str, level: str | None = None, **sizes: int) -> Profile:
    """Return the profile of a kernel of the examples, without values."""
    module = kernel_file.import_file(EXAMPLES / f"{file}.py")
    name, _, cores = kernel.partition("[")
    inputs = getattr(module, f"{name}_inputs", None) or module.inputs
    function = getattr(module, name)
    function = function[int(cores.rstrip("]"))] if cores else function
    asked: Any = {"compile": level} if level else {}
    _, profile = nki.profile(function, values=False, **asked, **inputs(**sizes))
    return profile


def attention(tokens: int = 1024) -> Profile:
    """Return the profile of the kernel that stands for kernels."""
    return profile_of("kernels/flash_attention", "forward", tokens=tokens)


@functools.cache
def as_written_by_the_command() -> dict[str, bytes]:
    """Return the pictures that `trn3 profile --out` writes, which are the same on dark pages."""
    with tempfile.TemporaryDirectory() as folder, themed("light"):
        return {path.name: path.read_bytes() for path in attention().plot(folder)}


def attention_lanes() -> Figure:
    """Draw flash attention, small."""
    return lanes.stacked([("flash attention on one NeuronCore", attention(tokens=512))], 0.3)


def attention_timeline() -> bytes:
    """Draw flash attention as the command does."""
    return as_written_by_the_command()["timeline.png"]


def attention_roofline() -> bytes:
    """Draw how far flash attention is from what the machine allows."""
    return as_written_by_the_command()["roofline.png"]


def attention_report() -> str:
    """Return the report of flash attention."""
    return page([attention()])


def gate_steps() -> Figure:
    """Draw the four steps of the tutorial."""
    steps = ("first", "wide", "pipelined", "two_cores[2]")
    runs = [(step, profile_of("kernels/gate", step)) for step in steps]
    return lanes.stacked([(name, run.cores[0] if run.cores else run) for name, run in runs])


def gate_first() -> Figure:
    """Draw the first kernel of the tutorial."""
    return lanes.stacked([("first", profile_of("kernels/gate", "first"))], 0.32)


def matmul_steps() -> Figure:
    """Draw how long the five matmuls take, and what of it TensorE works."""
    steps = ("tiled", "hoisted", "blocked_free", "blocked", "balanced")
    sizes = dict.fromkeys("MKN", 2048)
    runs = [profile_of("kernels/matmul", step, **sizes) for step in steps]
    picture = figure(2.6)
    axes = picture.subplots()
    bars = axes.barh(steps, [run.latency_us for run in runs], color=COLORS[1], label="latency")
    ideal = [run.ideal_matmul_us for run in runs]
    axes.barh(steps, ideal, color=COLORS[0], label="of it, all matmuls at the peak")
    labels = [f" {run.latency_us:,.0f} us, MFU {100 * run.mfu:.0f} %" for run in runs]
    axes.bar_label(bars, labels)
    axes.invert_yaxis()
    axes.set_xlabel("time (us)")
    axes.margins(x=0.2)
    axes.grid(visible=False, axis="y")
    axes.legend(loc="lower right")
    return picture


@functools.cache
def bottlenecks(text: str) -> list[tuple[str, Profile]]:
    """Return the runs of both kernels of the page on bottlenecks."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.py"
        first, _, shared = blocks_of(text)
        file.write_text(f"{first}\n\n{shared}", encoding="utf-8")
        module: Any = kernel_file.import_file(file)
        given = module.inputs()
        runs = []
        for kernel in (module.normalise, module.shared):
            _, profile = nki.profile(kernel, values=False, **given)
            runs.append((kernel.__name__, profile))
    return runs


@from_page("how-to/find-the-bottleneck.md")
def normalise(text: str) -> Figure:
    """Draw both kernels of the page on bottlenecks."""
    return lanes.stacked(bottlenecks(text))


def softmax_compiled() -> Figure:
    """Draw a kernel as it is written and as a compiler orders it."""
    sizes = {"rows": 768, "columns": 1024}
    levels = {"as written": "as-written", "compiled (neuronx-cc)": "neuronx-cc"}
    runs = [
        (name, profile_of("optimize/softmax", "softmax", level=level, **sizes))
        for name, level in levels.items()
    ]
    return lanes.stacked(runs)


def tiled_levels() -> Figure:
    """Draw a matmul at each level of the compiler."""
    sizes = dict.fromkeys("MKN", 1024)
    runs = [
        (level, profile_of("kernels/matmul", "tiled", level=level, **sizes))
        for level in ("as-written", "nki", "neuronx-cc")
    ]
    return lanes.stacked(runs)


@from_page("how-to/own-instructions.md")
def own_instruction(text: str) -> Figure:
    """Draw the kernel whose instruction is a function of the page's own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "own.py"
        file.write_text(blocks_of(text)[0], encoding="utf-8")
        with contextlib.redirect_stdout(io.StringIO()):  # the page prints; the build is quiet
            profile = kernel_file.import_file(file).profile
    return lanes.stacked([("running_maximum on GpSimdE", profile)], 0.34)


@functools.cache
def losses_of(kernel: str) -> list[PrecisionLoss]:
    """Return what each line of a layer norm loses, in the order of lines."""
    file = kernel_file.import_file(EXAMPLES / "kernels" / "unsteady_norm.py")
    _, profile = nki.profile(getattr(file, kernel), shadow=True, **file.inputs())
    return sorted(profile.precision, key=lambda loss: loss.line)


def precision() -> Figure:
    """Draw the precision that each line of two layer norms loses."""
    picture = figure(3.6)
    parts = picture.subplots(1, 2, sharex=True)
    for axes, name in zip(parts, ("unsteady", "steady"), strict=True):
        losses = losses_of(name)
        labels = [f"{loss.line}: {loss.instruction}" for loss in losses]
        places = np.arange(len(losses))
        total = [max(loss.relative_error, 1e-9) for loss in losses]
        added = [max(loss.relative_added_error, 1e-9) for loss in losses]
        axes.barh(places - 0.2, total, 0.4, color=COLORS[5], label="in result")
        axes.barh(places + 0.2, added, 0.4, color=COLORS[0], label="added here")
        axes.set_yticks(places, labels, fontsize=8)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlim(1e-9, 1e1)
        axes.grid(visible=False, axis="y")
        axes.set_title(name)
        axes.set_xlabel("error against float64")
    picture.legend(*parts[0].get_legend_handles_labels(), loc="outside lower right", ncols=2)
    return picture


@functools.cache
def load_us(arch: str, size: int) -> float:
    """Return how long a load of so many float32 numbers a partition takes."""

    @nki.jit
    def moved(x):  # type: ignore[no-untyped-def]
        tile = nl.ndarray(x.shape, x.dtype, buffer=nl.sbuf)
        nki.isa.dma_copy(dst=tile, src=x)
        out = nl.ndarray((128, 1), x.dtype, buffer=nl.shared_hbm)
        nki.isa.dma_copy(dst=out, src=tile[:, 0:1])
        return out

    _, profile = nki.profile(moved, np.zeros((128, size), np.float32), arch=arch, values=False)
    load = profile.data.instructions
    return (int(load.end_ps[0]) - int(load.start_ps[0])) / 1e6


def transfers() -> Figure:
    """Draw how long a transfer takes, by its size, on three generations."""
    sizes = 2 ** np.arange(2, 15)
    picture = figure(3.2)
    axes = picture.subplots()
    for arch, color in zip(("trn1", "trn2", "trn3"), COLORS, strict=False):
        times = [load_us(arch, int(size)) for size in sizes]
        axes.plot(4 * sizes, times, marker="o", markersize=3, color=color, label=arch)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("bytes a partition, of 128")
    axes.set_ylabel("a load, from start to result (us)")
    axes.legend()
    return picture
