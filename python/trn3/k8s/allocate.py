"""The allocator: claims in, claims with `status.allocation` out, or one error that says why not.

The core allocates. Claims are taken in the order of the file, the claims of a pod together; a claim
that was placed is not moved for a later one, and if one cannot be met nothing is allocated
**(choice)**. All devices of a claim are on one node, as a pod is. A claim with `ultraserverMode` 2
or 4 gets a node of an aligned set of so many nodes of one UltraServer, which is kept for the claims
of that mode that follow until it is full **(choice)**.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from trn3._trn3 import k8s as core
from trn3.k8s.devices import Claim, Device, Score
from trn3.k8s.documents import Document, Object, sourced
from trn3.k8s.errors import asked


@dataclass(frozen=True, slots=True)
class Placed:
    """A claim that was met.

    Attributes
    ----------
    devices
        Pairs of request (with the alternative that was taken) and device.
    """

    claim: Claim
    node: str
    devices: tuple[tuple[str, Device], ...]
    score: Score
    body: Object

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return a placed claim as the core describes it."""
        claim = given["claim"]
        return cls(
            Claim(Document(claim["source"], claim["document"]), claim["name"], claim["origin"]),
            given["node"],
            tuple((request, Device.of(device)) for request, device in given["devices"]),
            Score.of(given["score"]),
            given["body"],
        )


@dataclass(frozen=True, slots=True)
class Allocation:
    """What `allocate` returns.

    Attributes
    ----------
    placed
        Claims in their order.
    objects
        The same as ResourceClaims with `status.allocation`, ready to be written.
    notes
        What the caller should know: objects that had no say, UltraServer sets that are not full.
    """

    placed: tuple[Placed, ...]
    kept: tuple[Object, ...]
    notes: tuple[str, ...]
    assumptions: tuple[str, ...] = core.ASSUMPTIONS

    @property
    def objects(self) -> list[Object]:
        """ResourceClaims, those that were allocated before first."""
        return [*self.kept, *(each.body for each in self.placed)]


def allocate(
    claims: Sequence[Document | Mapping[str, Any]],
    inventory: Sequence[Document | Mapping[str, Any]],
    allocated: Sequence[Document | Mapping[str, Any]] = (),
) -> Allocation:
    """Allocate devices to claims.

    Parameters
    ----------
    claims
        ResourceClaims, ResourceClaimTemplates and the pods that use them, as documents or as plain
        data; DeviceClasses may stand among them.
    inventory
        ResourceSlices, and DeviceClasses. A class of the name of a driver is implied.
    allocated
        Claims with `status.allocation`, whose devices are taken.

    Raises
    ------
    AllocationError
        If a claim cannot be met; the text says what is in the way and what would work.
    K8sError
        If an object is malformed.

    Examples
    --------
    >>> from trn3.k8s import resource_slices
    >>> claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
    ...     "metadata": {"name": "four"},
    ...     "spec": {"devices": {"requests": [
    ...         {"name": "chips", "exactly": {"deviceClassName": "trn3.internal", "count": 4}}]}}}
    >>> result = allocate([claim], resource_slices("trn2"))
    >>> [device.name for _, device in result.placed[0].devices]
    ['neuron-device-0', 'neuron-device-1', 'neuron-device-2', 'neuron-device-3']
    """
    found = asked(
        core.allocate,
        sourced(claims, "claims"),
        sourced(inventory, "inventory"),
        sourced(allocated, "allocated"),
    )
    placed = tuple(Placed.of(each) for each in found["placed"])
    return Allocation(placed, tuple(found["kept"]), tuple(found["notes"]))
