"""What can go wrong between a claim and its devices."""

from __future__ import annotations

from collections.abc import Iterable

from trn3.text import nearest


class K8sError(ValueError):
    """An object or a request is wrong; the text names it and the nearest thing that would work."""


class AllocationError(K8sError):
    """A claim cannot be met.

    Attributes
    ----------
    claim
        Namespace and name of the claim.
    request
        The request that fails; empty if all together do.
    """

    def __init__(self, claim: str, request: str, reason: str) -> None:
        where = f"claim {claim}, request {request}" if request else f"claim {claim}"
        super().__init__(f"{where}: {reason}")
        self.claim = claim
        self.request = request


def guess(word: str, allowed: object) -> str:
    """Return a hint at what was probably meant, or nothing.

    >>> guess("cuont", ["count", "selectors"])
    '; did you mean count?'
    >>> guess("zzz", ["count", "selectors"])
    ''
    """
    close = nearest(word, allowed, 0.6) if isinstance(allowed, Iterable) else None
    return f"; did you mean {close}?" if close else ""
