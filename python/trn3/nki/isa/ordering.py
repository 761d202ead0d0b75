"""Which kinds of dependency the hardware waits for, and when a register has a truth."""

from __future__ import annotations

import warnings
from typing import Any

from trn3._trn3 import machine
from trn3.nki.isa.constants import dependency
from trn3.nki.values.releases import DEPENDENCY_KIND, DYNAMIC_LOOPS

__all__ = ["waits"]


def waits(kind: dependency | None, what: str = "depends_on") -> bool:
    """Return whether a dependency is more than an order in which instructions are issued.

    Raises
    ------
    TypeError
        If `kind` is none.
    """
    if kind is None:
        if what == "depends_on" and DEPENDENCY_KIND.value() == "deprecated":
            message = (
                "depends_on without kind=; allowed: nisa.dependency.runtime, which is what it "
                "means, or nisa.dependency.schedule"
            )
            warnings.warn(message, DeprecationWarning, stacklevel=2)
        return True
    given: Any = kind
    if not isinstance(given, dependency):
        message = (
            f"{what} kind is {kind!r}; allowed: nisa.dependency.runtime, nisa.dependency.schedule"
        )
        raise TypeError(message)
    return kind is dependency.runtime


def _refuse_truth() -> None:
    if DYNAMIC_LOOPS.value() == "refused":
        message = (
            "a register has no value while a kernel is traced, as NKI 0.7 does; write "
            "nl.while_loop(register, body) for `while register:`"
        )
        raise TypeError(message)


machine.hooks().update(dependency=waits, register_truth=_refuse_truth)
