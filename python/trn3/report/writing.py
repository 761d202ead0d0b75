"""The page: what the core writes of a run, and what draws it."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from trn3.files import write_bytes
from trn3.profile import Profile, report_page


@cache
def _shell() -> dict[str, str]:
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
        f"default-src 'none'; script-src 'sha256-{hashes['script']}'; "
        f"style-src 'sha256-{hashes['style']}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
    return {**texts, "policy": policy}


def page(profiles: Sequence[Profile]) -> str:
    """Return the report of a kernel's ranks, beside each other; figures are the first one's.

    Parameters
    ----------
    profiles : sequence of Profile
        One a rank; of a kernel on one rank, its own.

    Raises
    ------
    ValueError
        Without a profile.

    Examples
    --------
    >>> from trn3.machine import NeuronCore
    >>> from trn3.profile import profile_of
    >>> html = page([profile_of([NeuronCore("trn3")], "nothing")])
    >>> html.startswith("<!doctype html>"), "<h1>nothing</h1>" in html
    (True, True)
    """
    return report_page(profiles, **_shell())


def rebuild(folder: str | os.PathLike[str]) -> Path:
    """Write ``report.html`` anew into the folder of a run, from its ``profile.json``.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    FileNotFoundError
        If there is no ``profile.json``.
    OSError
        If a file cannot be read or written.
    ValueError
        If it holds no profile.
    """
    source = Path(folder) / "profile.json"
    if not source.is_file():
        message = (
            f"{folder}: holds no profile.json; `trn3 profile --out` and `Profile.save` write one"
        )
        raise FileNotFoundError(message)
    target = source.with_name("report.html")
    write_bytes(target, [page([Profile.from_json(source)]).encode()])
    return target
