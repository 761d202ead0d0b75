"""Figures of matplotlib (the extra ``plot``) that notebooks show as they stand."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A figure that a notebook shows when it stands last in a cell.

    Notebooks learn to show a plain one from pyplot, and not before that has drawn one of its own.

    Examples
    --------
    >>> from trn3.figures import ShownFigure
    >>> ShownFigure(figsize=(1, 1))._repr_png_()[1:4]
    b'PNG'
    """

    def _repr_png_(self) -> bytes:
        written = io.BytesIO()
        self.savefig(written, format="png")
        return written.getvalue()
