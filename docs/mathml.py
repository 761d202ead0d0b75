"""Formulas as MathML, which browsers draw themselves: the usual way fetches a program for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def within(translator: Any, node: nodes.math) -> None:
    """Write a formula in a line."""
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def apart(translator: Any, node: nodes.math_block) -> None:
    """Write a formula that stands alone."""
    translator.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer with Sphinx."""
    app.add_html_math_renderer("mathml", (within, None), (apart, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
