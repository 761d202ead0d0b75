"""Pictures of the documentation, drawn while it is built.

``{picture} kernels.flash_timeline`` on a page calls the function `flash_timeline` of the module
`pictures.kernels`, once for light pages and once for dark ones. A function returns a figure of
matplotlib, or the bytes of a PNG. What is drawn is kept beside Sphinx's own cache, under a name
made of all that it is drawn from, so that a second build draws only what has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pictures.directives import LiveReport, Picture, changed, copy_reports

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives with Sphinx."""
    app.add_directive("picture", Picture)
    app.add_directive("live-report", LiveReport)
    app.connect("env-get-outdated", changed)
    app.connect("build-finished", copy_reports)
    return {"version": "1", "parallel_read_safe": False, "parallel_write_safe": True}
