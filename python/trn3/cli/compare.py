"""What ``trn3 compare`` does: systems beside each other, with what is certain about each figure."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from trn3.cli.consoles import output, print_json
from trn3.cli.plots import check_html, check_plot
from trn3.cli.refusal import RefusedError, refusing
from trn3.cli.settings import HtmlReport, JsonForTable


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def compare(
        systems: Annotated[
            list[str], typer.Argument(help="Two or more: trainium3, b300, gen2, mine.toml, ...")
        ],
        peaks: Annotated[
            Literal["published", "array"],
            typer.Option(help="Published figures, or array x clock where the parts are known."),
        ] = "published",
        as_json: JsonForTable = False,
        as_csv: Annotated[
            bool, typer.Option("--csv", help="Print CSV instead of a table.")
        ] = False,
        plot: Annotated[
            Path | None,
            typer.Option(help="Draw the ratios to the first system: a .png, .svg or .pdf file."),
        ] = None,
        html: HtmlReport = None,
    ) -> None:
        """Set systems beside each other, each figure exact, derived or conflicting.

        A derived figure follows from those of the system's parts; where sources conflict, the
        range of what they say is shown. Ratios are to the first system.
        """
        from trn3.facts.comparison import compare

        if as_json and as_csv:
            message = "--json and --csv exclude each other; give one"
            raise RefusedError(message)
        if plot is not None:
            check_plot(plot)
        check_html(html)
        with refusing(ValueError, OSError):
            comparison = compare(*systems, peaks=peaks)
        if plot is not None:
            comparison.plot(plot)
        if html is not None:
            comparison.to_html(html)
        if as_json:
            print_json(comparison.as_json(), versioned=True)
        elif as_csv:
            typer.echo(comparison.as_csv(), nl=False)
        else:
            output().print(comparison)
            if html is not None:
                typer.echo(f"wrote {html}")
