"""The allocator: claims in, claims with `status.allocation` out, or one error that says why not.

Claims are taken in the order of the file, the claims of a pod together; a claim that was placed is
not moved for a later one, and if one cannot be met nothing is allocated **(choice)**. All devices
of a claim are on one node, as a pod is. A claim with `ultraserverMode` 2 or 4 gets a node of an
aligned set of so many nodes of one UltraServer, which is kept for the claims of that mode that
follow until it is full **(choice)**.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trn3.k8s import configs, placement
from trn3.k8s.attempts import try_node, ways
from trn3.k8s.claims import Ask, Claim, read_claim
from trn3.k8s.configs import Settings
from trn3.k8s.documents import Document, Object, of_kind
from trn3.k8s.errors import AllocationError, K8sError, guess
from trn3.k8s.explain import refusal
from trn3.k8s.inventory import Device
from trn3.k8s.names import MAX_RESULTS
from trn3.k8s.placement import Score
from trn3.k8s.search import Found, SearchLimitError
from trn3.k8s.state import State, as_documents, hold
from trn3.k8s.workloads import Unit, workload

ASSUMPTIONS = (
    "claims are placed in the order of the file; one that was placed is not moved for another",
    "a claim's devices are on one node",
    "a device of type neuron_node holds all devices of its pool",
    "UltraServer sets of 2 and 4 nodes are aligned to the first server of a rack",
)


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
    assumptions: tuple[str, ...] = ASSUMPTIONS

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
    claim_documents, slice_documents = (
        as_documents(claims, "claims"),
        as_documents(inventory, "inventory"),
    )
    state = State.build(slice_documents, claim_documents)
    work = workload(claim_documents)
    kept: list[Object] = []
    for document in of_kind(as_documents(allocated, "allocated"), "ResourceClaim"):
        claim = read_claim(document)
        if claim.allocation is not None:
            hold(state, claim)
    pending: list[Unit] = []
    for unit in work.units:
        new = []
        for claim in unit.claims:
            if claim.allocation is not None:
                hold(state, claim)
                kept.append(claim.document.body)
            else:
                new.append(claim)
        if new:
            pending.append(Unit(tuple(new), unit.pod))
    seen: set[str] = set()
    for claim in (each for unit in pending for each in unit.claims):
        if claim.label in seen:
            message = f"{claim.document}: a claim of the name {claim.label} exists twice"
            raise K8sError(message)
        seen.add(claim.label)
    placed: list[Placed] = []
    for unit in pending:
        placed += _place(state, unit)
    notes = [f"{each} has no claims and was left aside" for each in work.ignored]
    for slot, mode in sorted(state.slots.items()):
        empty = [node for node in slot if state.whole(node)]
        if empty:
            notes.append(
                f"ultraserverMode {mode}: {len(empty)} of the {mode} nodes of its set are not "
                f"claimed yet: {', '.join(empty)}"
            )
    return Allocation(tuple(placed), tuple(kept), tuple(notes))


def _check(state: State, claim: Claim) -> Settings:
    for request in claim.requests:
        for ask in request.alternatives:
            if ask.class_name not in state.classes:
                known = ", ".join(sorted(state.classes))
                raise AllocationError(
                    claim.label,
                    ask.name,
                    f"there is no DeviceClass {ask.class_name}; known: "
                    f"{known}{guess(ask.class_name, state.classes)}",
                )
    settings = configs.settings(claim, state.drivers)
    if settings.mode is not None and not state.blocks:
        raise AllocationError(
            claim.label,
            "",
            f"ultraserverMode {settings.mode} needs nodes of an UltraServer (devices with "
            "capacityBlockId); "
            "the inventory has none: leave UltraServerConfig out, or take slices of gen1, gen2 or "
            "trn2_ultraserver",
        )
    return settings


def _place(state: State, unit: Unit) -> list[Placed]:
    settings = [_check(state, claim) for claim in unit.claims]
    nodes = state.allowed_nodes(settings)
    try:
        for way in ways(unit):
            options = []
            for number, node in enumerate(nodes):
                found = try_node(state, node, way, opened=state.opened(node, settings))
                if found is not None:
                    options.append(
                        (
                            placement.key(found.score),
                            state.free[node].bit_count(),
                            number,
                            node,
                            found,
                        )
                    )
            if options:
                _, _, _, node, found = min(options, key=lambda option: option[:3])
                return _commit(state, unit, settings, way, node, found)
    except SearchLimitError:
        claim = unit.claims[0]
        raise AllocationError(
            claim.label,
            "",
            "the search gave up: too many combinations of devices; ask with matchAttribute or "
            "fewer distinct values",
        ) from None
    raise refusal(state, unit, settings, nodes)


def _commit(
    state: State,
    unit: Unit,
    settings: Sequence[Settings],
    way: Sequence[tuple[Claim, Ask]],
    node: str,
    found: Found,
) -> list[Placed]:
    layout = state.layouts[node]
    placed = []
    for claim, chosen in zip(unit.claims, settings, strict=True):
        devices = []
        results: list[Object] = []
        class_configs: list[Object] = []
        used = []
        for (owner, ask), positions in zip(way, found.sets, strict=True):
            if owner is not claim:
                continue
            used.append(ask.name)
            members = [layout.devices[p] for p in positions]
            configs.check_devices(claim, chosen, ask.name, members)
            for device in members:
                devices.append((ask.name, device))
                results.append(
                    {
                        "request": ask.name,
                        "driver": device.driver,
                        "pool": device.pool,
                        "device": device.name,
                        **({"adminAccess": True} if ask.admin else {}),
                        **(
                            {"tolerations": [dict(each.body) for each in ask.tolerations]}
                            if ask.tolerations
                            else {}
                        ),
                    }
                )
            class_configs += configs.from_class(state.classes[ask.class_name].config, ask.name)
            if not ask.admin:
                state.take(claim, members, chosen.mode)
        if len(results) > MAX_RESULTS:
            raise AllocationError(
                claim.label,
                "",
                f"{len(results)} devices; a claim holds at most {MAX_RESULTS}, so ask in several "
                "claims",
            )
        config = [*class_configs, *configs.from_claim(claim, used)]
        placed.append(
            Placed(claim, node, tuple(devices), found.score, _body(claim, node, results, config))
        )
    return placed


def _body(claim: Claim, node: str, results: list[Object], config: list[Object]) -> Object:
    body = claim.document.body
    metadata = dict(body.get("metadata") or {})
    spec = body["spec"]
    if claim.document.kind == "ResourceClaimTemplate":
        # Only what the template gives its claims is theirs.
        inner = spec.get("metadata") or {}
        metadata = {
            "name": claim.name,
            **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
            **{key: inner[key] for key in ("labels", "annotations") if inner.get(key)},
        }
        spec = spec["spec"]
    selector = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {
        "apiVersion": body["apiVersion"],
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": spec,
        "status": {
            **(body.get("status") or {}),
            "allocation": {
                "devices": {"results": results, **({"config": config} if config else {})},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [selector]}]},
            },
        },
    }
