"""What ``trn3 view`` does: serve a folder of runs to a browser on this machine."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from trn3.cli.refusal import RefusedError


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command()
    def view(
        folder: Annotated[
            Path,
            typer.Argument(help="A folder in or below which `trn3 profile --out` wrote runs."),
        ],
        port: Annotated[
            int, typer.Option(min=0, max=2**16 - 1, help="Where to serve; 0 takes a free one.")
        ] = 0,
        browser: Annotated[
            bool | None,
            typer.Option(
                "--browser/--no-browser",
                help="Open a browser.  [default: if a person looks at a screen]",
            ),
        ] = None,
    ) -> None:
        """List the runs of a folder in a browser, and set some of them beside each other.

        The first line is the address, for this machine alone. It has a secret part that is new each
        time. Ctrl-C ends it.
        """
        from trn3.report.run_server import RunServer
        from trn3.report.saved_runs import RunFolder

        runs = RunFolder(folder)
        if not runs.runs():
            message = (
                f"{folder}: holds no run, and no folder below does; `trn3 profile --out` and "
                "`Profile.save` write them"
            )
            raise RefusedError(message)
        try:
            server = RunServer(runs, port)
        except OSError as error:
            message = f"--port {port}: {error.strerror or error}"
            raise RefusedError(message) from error
        with server:
            typer.echo(server.url)
            sys.stdout.flush()
            if _has_screen() if browser is None else browser:
                webbrowser.open(server.url)
            server.serve_forever()


def _has_screen() -> bool:
    """Return whether a browser would open a window, and not take the terminal."""
    has_windows = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return has_windows and sys.stdout.isatty()
