"""What figures of matplotlib show, once they are drawn."""

from __future__ import annotations

from io import BytesIO
from typing import Any


def texts_of(figure: Any) -> list[str]:
    """Return all that is written in a figure, once it is drawn and nothing of it is cut off.

    Raises
    ------
    AssertionError
        If a text reaches beyond the figure.
    """
    from matplotlib.text import Text

    figure.savefig(BytesIO(), format="png")
    found = [each for each in figure.findobj(Text) if each.get_visible() and each.get_text()]
    box = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    sides = (box.x0, box.y0, width - box.x1, height - box.y1)
    assert min(sides) > -0.06, sides
    return [each.get_text() for each in found]
