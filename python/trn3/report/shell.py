"""The shell that all kinds of reports share: what draws them, and the page around their panes."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import trn3
from trn3.report.charts import Chart
from trn3.report.markup import Markup, entries, escaped, script_json

#: The format of a report's layout, as the compiled core writes it into those of runs.
REPORT_FORMAT = "trn3-report"
#: Its version.
REPORT_VERSION = 1


@dataclass(frozen=True, slots=True)
class ReportPane:
    """A part of a page: its name, heading, what stands in it, and what is drawn above that."""

    name: str
    title: str
    content: Markup
    charts: Sequence[Chart] = ()


@dataclass(frozen=True, slots=True)
class ReportPage:
    """What a page of another kind than a run's says.

    Attributes
    ----------
    kind
        ``plan``, ``compare``, ...: what `data-kind` of the page says.
    title, verdict
        What it is about, and one sentence about that.
    figures
        Names and texts of the figures on top.
    panes
        Its parts.
    summary
        What the command prints with ``--json``.
    form_action
        Where its forms may lead, as a content security policy has it.
    """

    kind: str
    title: str
    verdict: str
    figures: Sequence[tuple[str, str]]
    panes: Sequence[ReportPane]
    summary: Mapping[str, Any] = field(default_factory=dict)
    form_action: str = "'none'"

    @property
    def policy(self) -> str:
        """The content security policy of the page."""
        return drawing(self.form_action)["policy"]

    def html(self) -> str:
        """Return the page.

        Raises
        ------
        ValueError
            If the summary has a number that is not finite.
        """
        shell = drawing(self.form_action)
        layout = {
            "format": REPORT_FORMAT,
            "version": REPORT_VERSION,
            "kind": self.kind,
            "trn3": trn3.__version__,
            "title": self.title,
            "verdict": self.verdict,
            "charts": [
                {"pane": pane.name, **chart} for pane in self.panes for chart in pane.charts
            ],
        }
        links = "".join(f'<a href="#{pane.name}">{escaped(pane.title)}</a>' for pane in self.panes)
        figures = entries(self.figures).replace("<dl>", '<dl class="key-figures">', 1)
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{escaped(shell["policy"])}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f"<title>{escaped(self.title)} · trn3 report</title>\n"
            f"<style>{shell['style']}</style>\n</head>\n"
            f'<body data-kind="{escaped(self.kind)}">\n'
            f"<header><h1>{escaped(self.title)}</h1>"
            f'<p class="verdict">{escaped(self.verdict)}</p>{figures}</header>\n'
            f'<nav aria-label="Panes">{links}</nav>\n<main>\n'
            + "".join(map(_section, self.panes))
            + "</main>\n"
            f'<script type="application/json" id="trn3-summary">{script_json(self.summary)}'
            "</script>\n"
            f'<script type="application/json" id="trn3-report">{script_json(layout)}</script>\n'
            f'<script type="module">{shell["script"]}</script>\n</body>\n</html>\n'
        )


def versioned(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document as commands print it for machines: the version of trn3 first."""
    return {"trn3_version": trn3.__version__, **document}


@cache
def drawing(form_action: str = "'none'") -> dict[str, str]:
    """Return the style, the script, and the policy that allows these two and nothing else."""
    texts = {
        name: files(__package__).joinpath(file).read_text("utf-8")
        for name, file in (("style", "report.css"), ("script", "report.js"))
    }
    hashes = {
        name: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for name, text in texts.items()
    }
    policy = (
        f"default-src 'none'; script-src 'sha256-{hashes['script']}'; style-src "
        f"'sha256-{hashes['style']}'; img-src data:; base-uri 'none'; form-action {form_action}"
    )
    return {**texts, "policy": policy}


def _section(pane: ReportPane) -> str:
    name = pane.name
    return (
        f'<section data-pane="{name}" id="{name}" aria-labelledby="{name}-title">'
        f'<h2 id="{name}-title">{escaped(pane.title)}</h2><div data-stage></div>\n'
        f"{pane.content}</section>\n"
    )
