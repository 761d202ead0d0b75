"""Pictures and reports as parts of pages."""

from __future__ import annotations

import os
import shutil
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from pictures.cache import content, drawn
from pictures.themes import THEMES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

REPORTS = "_reports"


class Picture(SphinxDirective):
    """A picture: ``{picture} MODULE.FUNCTION``, with its `alt` text; the content is the caption."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"alt": directives.unchanged_required, "class": directives.class_option}

    def run(self) -> list[nodes.Node]:
        """Draw it for each theme; the page shows one of both."""
        (name,) = self.arguments
        self.check_alt(name)
        figure = nodes.figure(classes=["picture", *self.options.get("class", [])])
        for theme in THEMES:
            path = self.file_of(name, theme)
            beside = os.path.relpath(path, Path(self.env.doc2path(self.env.docname)).parent)
            image = nodes.image(uri=beside, alt=self.options["alt"], classes=[f"only-{theme}"])
            image["width"] = "100%"
            figure += image
        if self.content:
            text, _ = self.state.inline_text(" ".join(self.content), self.lineno)
            figure += nodes.caption("", "", *text)
        return [figure]

    def check_alt(self, name: str) -> None:
        """Refuse a picture that says nothing to those who cannot see it."""
        if not self.options.get("alt"):
            raise self.error(f"picture {name}: needs an alt text, for those who cannot see it")

    def file_of(self, name: str, theme: str) -> Path:
        """Return the file of a picture, and have this page read again when it is out of date."""
        self.env.metadata[self.env.docname]["pictures"] = content()
        try:
            return drawn(name, theme, Path(self.env.doctreedir) / "pictures")
        except ValueError as error:
            raise self.error(str(error)) from error


class LiveReport(Picture):
    """A report that works in the page: ``{live-report} MODULE.FUNCTION``, which returns HTML."""

    def run(self) -> list[nodes.Node]:
        """Show it in a frame, under a link that opens it alone."""
        (name,) = self.arguments
        self.check_alt(name)
        path = self.file_of(name, "light")
        above = "../" * self.env.docname.count("/")
        where = f"{above}{REPORTS}/{name}.html"
        self.env.metadata[self.env.docname]["report"] = str(path)
        frame = (
            f'<div class="report"><iframe class="report" src="{where}" loading="lazy" '
            f'title="{escape(self.options["alt"])}"></iframe></div>'
            f'<p class="report"><a href="{where}">Open it alone</a></p>'
        )
        return [nodes.raw("", frame, format="html")]


def changed(_app: Sphinx, env: BuildEnvironment, *_pages: set[str]) -> Iterable[str]:
    """Name the pages whose pictures were drawn from something else than there is now."""
    return [
        page
        for page, known in env.metadata.items()
        if "pictures" in known and known["pictures"] != content()
    ]


def copy_reports(app: Sphinx, error: Exception | None) -> None:
    """Put the reports of pages where their frames look for them."""
    if error is not None or app.builder.format != "html":
        return
    for known in app.env.metadata.values():
        if "report" in known:
            source = Path(known["report"])
            target = Path(app.outdir) / REPORTS / f"{source.name.rsplit('-', 2)[0]}.html"
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(source, target)
