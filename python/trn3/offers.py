"""What methods of lower rooms leave to higher ones, by name.

A plan writes itself as Chakra traces, and a system as a file of ASTRA-sim, though neither knows
these formats. The front page of the package says where the function stands that does it; it is
loaded when it is first asked for.
"""

from __future__ import annotations

import os
from typing import Any

_PLACES: dict[str, str] = {}


def offer(what: str, place: str) -> None:
    """Say where the function stands that does something, as ``"package.module:function"``.

    A later offer takes the place of an earlier one.
    """
    _PLACES[what] = place


def take(what: str) -> Any:
    """Return the function that does something.

    Raises
    ------
    LookupError
        If nobody offers it.

    Examples
    --------
    >>> from trn3 import offers
    >>> offers.offer("a square root", "math:sqrt")
    >>> offers.take("a square root")(16)
    4.0
    """
    if what not in _PLACES:
        known = ", ".join(map(repr, sorted(_PLACES)))
        message = f"nobody offers {what!r}; offered: {known}"
        raise LookupError(message)
    from pkgutil import resolve_name

    return resolve_name(_PLACES[what])


class Reported:
    """What has a report for a browser, which a room above offers under the name of its class."""

    __slots__ = ()

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the report: one page without network.

        Parameters
        ----------
        path : path, optional
            Where to write it too, as UTF-8; the file appears when it is complete.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        from trn3.files import write_bytes

        html: str = take(f"report of {type(self).__name__}")(self)
        if path is not None:
            write_bytes(path, [html.encode()])
        return html
