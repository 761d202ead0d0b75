"""Names that older texts import from here."""

from __future__ import annotations

from trn3.nki.language.control import while_loop

__all__ = ["while_loop"]
