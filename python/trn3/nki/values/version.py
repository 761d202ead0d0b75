"""Which NKI version's behaviour holds where versions differ; what differs: `releases`."""

from __future__ import annotations

from typing import Final

from trn3.nki.values.environment import variable

#: Every version whose behaviour is known, oldest first.
VERSIONS: Final = ("0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7")
#: The version that is in force if none is chosen: the newest that is modelled whole.
DEFAULT: Final = "0.6"

_installed: str | None = None


def set_version(version: str | None) -> None:
    """Choose a version for the process; None leaves the choice to ``TRN3_NKI_VERSION``.

    Raises
    ------
    ValueError
        If the version is unknown.
    """
    global _installed  # noqa: PLW0603
    _installed = None if version is None else _checked(str(version), "version")


def version() -> str:
    """Return the version in force: that of `install`, else ``TRN3_NKI_VERSION``, else 0.6.

    Raises
    ------
    ValueError
        If the variable names an unknown version.
    """
    if _installed is not None:
        return _installed
    return _checked(variable("TRN3_NKI_VERSION") or DEFAULT, "TRN3_NKI_VERSION")


def at_least(wanted: str, in_force: str | None = None) -> bool:
    """Return whether a version, by default that in force, is that one or a later one."""
    return VERSIONS.index(in_force or version()) >= VERSIONS.index(wanted)


def _checked(text: str, origin: str) -> str:
    if text in VERSIONS:
        return text
    # 0.6.0 means 0.6.
    short = ".".join(text.split(".")[:2])
    if short not in VERSIONS:
        message = f"{origin} is {text!r}; allowed: {', '.join(VERSIONS)}"
        raise ValueError(message)
    return short
