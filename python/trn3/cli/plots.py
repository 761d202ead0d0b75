"""Checks of the options that draw, and of those that write reports, before any work is done."""

from __future__ import annotations

from pathlib import Path

from trn3.cli.refusal import RefusedError


def check_plot(plot: Path, option: str = "--plot") -> None:
    """Refuse a picture that cannot be drawn.

    Raises
    ------
    RefusedError
        If its suffix is none that is written, its folder does not exist, or matplotlib is missing.
    """
    from trn3.files import PLOT_SUFFIXES

    if plot.suffix not in PLOT_SUFFIXES:
        message = f"{plot}: {option} writes {', '.join(PLOT_SUFFIXES)} files"
        raise RefusedError(message)
    if not plot.absolute().parent.is_dir():
        message = f"{plot}: there is no directory {plot.absolute().parent}"
        raise RefusedError(message)
    check_matplotlib(option)


def check_html(html: Path | None) -> None:
    """Refuse a report that cannot be written.

    Raises
    ------
    RefusedError
        If it is a directory, or its folder does not exist.
    """
    if html is not None and html.is_dir():
        message = f"{html}: is a directory; --html needs the name of a file"
        raise RefusedError(message)
    if html is not None and not html.absolute().parent.is_dir():
        message = f"{html}: there is no directory {html.absolute().parent}"
        raise RefusedError(message)


def check_matplotlib(option: str) -> None:
    """Refuse to draw without the library that does it.

    Raises
    ------
    RefusedError
        If it is not installed.
    """
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        message = f"{option} needs matplotlib: pip install 'trn3[plot]'"
        raise RefusedError(message)
