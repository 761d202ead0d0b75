"""What can go wrong between a claim and its devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from trn3._trn3 import k8s as core

P = ParamSpec("P")
R = TypeVar("R")


class K8sError(ValueError):
    """An object or a request is wrong; the text names it and the nearest thing that would work."""


class SelectorError(K8sError):
    """An expression cannot be read, or fails on a device."""


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


def asked(function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """Call a function of the core; what it refuses is raised as what it is here."""
    try:
        return function(*arguments, **named)
    except core.RefusalError as refusal:
        claim, request, text, of_selector = refusal.args
    if claim:
        raise AllocationError(claim, request, text)
    raise (SelectorError if of_selector else K8sError)(text)
