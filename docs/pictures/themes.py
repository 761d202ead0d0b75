"""How pictures look on light pages and on dark ones."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

# Told apart by colour-blind people, and on either ground.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8A8F98")
WIDTH = 8.4  # inches; a page shows a picture about as wide as this

_COMMON = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.dpi": 100,
    "svg.fonttype": "path",  # the same letters everywhere
    "svg.hashsalt": "trn3",
}


def _ground(paper: str, ink: str) -> Any:
    names = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    papers = ("figure.facecolor", "axes.facecolor", "savefig.facecolor")
    return {**_COMMON, **dict.fromkeys(names, ink), **dict.fromkeys(papers, paper)}


#: By the theme of a page; grounds are those of the pages.
THEMES = {"light": _ground("#ffffff", "#24292f"), "dark": _ground("#131416", "#cfd0d0")}


def themed(theme: str) -> AbstractContextManager[None]:
    """Draw within this as a theme asks."""
    return rc_context(THEMES[theme])


def figure(height: float, width: float = WIDTH) -> Figure:
    """Return an empty figure, in inches; the object interface keeps no figure alive."""
    return Figure(figsize=(width, height), layout="constrained")
