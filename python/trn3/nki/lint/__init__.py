"""Whether the hardware compiler would accept a kernel that runs here.

Simulation runs plain Python, so it accepts more than a compiler does. `lint` reads a kernel's
source, and that of the user's functions it calls, for what is documented as refused; under
``TRN3_NKI_STRICT=1`` every launch does so first, and watches what only values show.

A finding is certain: where it depends on what a name stands for, the name was followed to it, and
what could not be followed is passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trn3.nki.lint.findings import Finding, PortabilityError, PortabilityFinding
from trn3.nki.lint.rules import RULES, PortabilityRule, Rule
from trn3.nki.values.kernel_function import as_kernel_function

__all__ = [
    "RULES",
    "Finding",
    "PortabilityError",
    "PortabilityFinding",
    "PortabilityRule",
    "Rule",
    "lint",
]


def lint(kernel: Callable[..., Any]) -> tuple[PortabilityFinding, ...]:
    """Return the places of a kernel that the hardware compiler refuses, without running it.

    Parameters
    ----------
    kernel : Kernel or function
        ``kernel[lnc]`` too.

    Returns
    -------
    tuple of PortabilityFinding
        In order of their lines; empty if nothing is known to be refused.

    Raises
    ------
    TypeError
        If it cannot be called.
    ValueError
        If there is no source to read, as of functions made by `exec`.

    Examples
    --------
    >>> from trn3 import nki
    >>> @nki.jit
    ... def kernel(x, scale=None):
    ...     scale = 1.0 if scale is None else scale
    ...     return x
    >>> [(finding.line, finding.rule) for finding in nki.lint(kernel)]
    [(3, 'TRN3-P001')]
    """
    from trn3.nki.lint.walker import Walk

    search = Walk(as_kernel_function(kernel))
    if not search.complete:
        message = (
            f"{search.kernel!r} has no source to read; allowed: a function that stands in a file"
        )
        raise ValueError(message)
    return tuple(sorted(search.findings))
