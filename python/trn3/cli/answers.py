"""The document that a command line prints with ``--json``, without a process of its own."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from typing import Any

from trn3.cli.app import UsageError, app
from trn3.cli.refusal import RefusedError


def answer(command: str) -> dict[str, Any]:
    """Return what a command line of ``trn3`` prints as JSON.

    Parameters
    ----------
    command
        As in a shell, ``trn3`` first; ``--json`` is added.

    Raises
    ------
    ValueError
        If it is refused; the text is the command's own.

    Examples
    --------
    >>> answer("trn3 nccom-test allr --system trn2 -b 1mb -e 1mb")["ranks"]
    64
    """
    first, *words = shlex.split(command)
    if first != "trn3":
        message = f"command is {command!r}; it must begin with trn3"
        raise ValueError(message)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            app(args=[*words, "--json"], prog_name="trn3", standalone_mode=False)
        except (RefusedError, UsageError) as error:
            raise ValueError(str(error)) from error
    document: dict[str, Any] = json.loads(printed.getvalue())
    return document
