"""What all pictures share: colours, figures that need no display, times on axes, and files.

matplotlib (the extra ``plot``) is imported when the first picture is drawn. Colours are those of
the report on light, which stay apart for most colour-blind readers.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

from trn3.files import PLOT_SUFFIXES, write_files
from trn3.text import printable, time_unit

if TYPE_CHECKING:
    import os

    from matplotlib.figure import Figure, SubFigure

#: Of what has no colour of its own: systems, parts, lines.
SERIES: Final = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00",
    "#56b4e9", "#b8a800", "#7a3e9d", "#8c5a2b", "#5f6b76",
)  # fmt: skip
#: Of what is no data: ceilings, and what stands out from all else.
INK: Final = "#33373d"
ACCENT: Final = "#c00000"
DPI: Final = 120
#: Letters of a title that fit an inch.
TITLE_LETTERS: Final = 9.6


def need_matplotlib() -> None:
    """Refuse to draw without matplotlib.

    Raises
    ------
    ImportError
        If it is not installed; the message says how to install it.
    """
    if find_spec("matplotlib") is None:
        message = "plots need matplotlib: pip install 'trn3[plot]'"
        raise ImportError(message)


def style() -> AbstractContextManager[None]:
    """Return the context in which figures are made and written."""
    from matplotlib import rc_context

    return rc_context({"font.size": 9, "hatch.linewidth": 0.5, "svg.hashsalt": "trn3"})


@contextmanager
def drawing(width: float, height: float) -> Iterator[Figure]:
    """Give an empty figure of so many inches, for any canvas, to draw in while this lasts.

    Raises
    ------
    ImportError
        If matplotlib is not installed.
    """
    need_matplotlib()
    # The object interface: pyplot would look for a display and keep the figure alive.
    from trn3.figures import ShownFigure

    with style():
        yield ShownFigure(figsize=(width, height), dpi=DPI, layout="constrained")


def save(figure: Figure, path: Path) -> None:
    """Write a figure; one figure gives one file, whenever it is written.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    dates: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    kind = path.suffix.removeprefix(".")
    with style():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        _settle(figure)
        figure.savefig(path, format=kind, metadata=dates.get(kind))


def _settle(figure: Figure | SubFigure) -> None:
    """Round where things stand: the layout's last bits differ from run to run."""
    for part in figure.subfigs:
        part.bbox_relative.set_points(part.bbox_relative.get_points().round(6))
        _settle(part)
    for axes in figure.axes:
        places = axes.get_position()
        places.set_points(places.get_points().round(6))
        axes.set_position(places)


def check_suffix(path: Path) -> None:
    """Refuse a file whose ending says no kind of picture.

    Raises
    ------
    ValueError
        If it is none of those that are written.
    """
    if path.suffix not in PLOT_SUFFIXES:
        message = f"path is {str(path)!r}; pictures are {', '.join(PLOT_SUFFIXES)} files"
        raise ValueError(message)


@overload
def finished(figure: Figure, path: None) -> Figure: ...
@overload
def finished(figure: Figure, path: str | os.PathLike[str]) -> Path: ...
@overload
def finished(figure: Figure, path: str | os.PathLike[str] | None) -> Path | Figure: ...
def finished(figure: Figure, path: str | os.PathLike[str] | None) -> Path | Figure:
    """Return a figure, or write it into a file and return the file's path.

    The file appears when it is complete, replacing one there.

    Raises
    ------
    ValueError
        If the file has another ending than .png, .svg or .pdf.
    OSError
        If it cannot be written.
    """
    if path is None:
        return figure
    file = Path(path)
    check_suffix(file)
    write_files({file: partial(save, figure)})
    return file


def literal(text: str, width: int = 0) -> str:
    r"""Return a text that is drawn as it stands, not as a formula, in lines of so many characters.

    >>> literal("cost_$x\x1b"), literal("a_long_name", 6)
    ('cost_\\$x\\x1b', 'a_long\n_name')
    """
    lines = textwrap.wrap(printable(text), width) if width else [printable(text)]
    return "\n".join(line.replace("$", r"\$") for line in lines)


def write_title(figure: Figure | SubFigure, text: str) -> None:
    """Write what is drawn above it; a long text takes several lines."""
    width = int(TITLE_LETTERS * figure.bbox.width / figure.dpi)
    figure.suptitle(literal(text, width), fontweight="bold")


def digits(value: float) -> str:
    """Return a number of three digits, without powers of ten.

    >>> digits(0.0028612), digits(78643.2)
    ('0.00286', '78,600')
    """
    return f"{float(f'{value:.3g}'):,.12g}"


def plain_ticks(axis: Any) -> None:
    """Write the numbers at an axis without powers of ten."""
    axis.set_major_formatter(lambda value, _: f"{value:,.12g}")


def time_ticks(axis: Any, longest: float, seconds: float) -> str:
    """Write times at an axis in the unit that suits the longest, and return that unit.

    Parameters
    ----------
    axis
        Of matplotlib.
    longest
        Where the axis ends, in its own unit.
    seconds
        How many seconds 1 is on it.
    """
    factor, unit = time_unit(longest * seconds)
    axis.set_major_formatter(lambda value, _: f"{value * seconds / factor:,.9g}")
    return unit


def ink_on(colour: str) -> str:
    """Return black or white, whichever reads better on a colour.

    >>> ink_on("#0072b2"), ink_on("#e69f00")
    ('#ffffff', '#101214')
    """
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return "#101214" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#ffffff"
