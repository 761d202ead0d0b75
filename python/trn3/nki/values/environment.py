"""Environment variables, as a launch reads them: many each time, nearly all of them unset."""

from __future__ import annotations

import functools
import os
from typing import Any, Final

__all__ = ["variable"]

_ENVIRON: Final = os.environ
#: What is behind `os.environ`, by encoded names: to find nothing there raises no exception.
_HELD: Final[dict[Any, Any]] = vars(os.environ)["_data"]
_encoded: Final = functools.cache(os.environ.encodekey)


def variable(name: str) -> str | None:
    """Return a variable as ``os.environ.get`` does.

    >>> variable("TRN3_NO_SUCH_VARIABLE")
    """
    if os.environ is _ENVIRON and _encoded(name) not in _HELD:
        return None
    return os.environ.get(name)
