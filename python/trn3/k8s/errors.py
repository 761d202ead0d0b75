"""What can go wrong between a claim and its devices."""

from __future__ import annotations


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


def nearest(word: str, allowed: object) -> str:
    """Return a hint at what was probably meant, or nothing.

    >>> nearest("cuont", ["count", "selectors"])
    '; did you mean count?'
    >>> nearest("zzz", ["count", "selectors"])
    ''
    """
    from collections.abc import Iterable
    from difflib import get_close_matches

    words = [str(each) for each in allowed] if isinstance(allowed, Iterable) else []
    folded = {each.lower(): each for each in words}
    close = get_close_matches(word.lower(), list(folded), n=1, cutoff=0.6)
    return f"; did you mean {folded[close[0]]}?" if close else ""
