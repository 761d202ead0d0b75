"""How much of this machine's memory a launch may take."""

from __future__ import annotations

from trn3.nki.values.environment import variable

__all__ = ["max_host_bytes"]


def max_host_bytes() -> int | None:
    """Return what ``TRN3_MAX_HOST_BYTES`` says; None: a share of what is free."""
    wanted = variable("TRN3_MAX_HOST_BYTES")
    if not wanted:
        return None
    if not (wanted.isascii() and wanted.isdigit() and 0 < int(wanted) < 1 << 64):
        message = f"TRN3_MAX_HOST_BYTES is {wanted!r}; allowed: a whole number of bytes from 1"
        raise ValueError(message)
    return int(wanted)
