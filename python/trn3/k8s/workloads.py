"""Which claims a file asks for: its own, and those that its pods make from templates.

Claims of one pod are placed together, on one node. Pods come from Pod, Deployment, ReplicaSet,
StatefulSet, Job and LeaderWorkerSet objects. A template that no pod of the file uses makes one
claim, under its own name **(choice)**.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trn3.k8s.claims import Claim, read_claim
from trn3.k8s.documents import Document, of_kind
from trn3.k8s.errors import K8sError, guess

REPLICATED = {
    "Deployment": "replicas",
    "ReplicaSet": "replicas",
    "StatefulSet": "replicas",
    "Job": "parallelism",
}
RESOURCE_KINDS = ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice", "DeviceClass")
MAX_PODS = 4096


@dataclass(frozen=True, slots=True)
class Unit:
    """Claims that go to one node."""

    claims: tuple[Claim, ...]
    pod: str = ""


@dataclass(frozen=True, slots=True)
class Workload:
    """What a file asks for, in its order, and the objects in it that have no say."""

    units: tuple[Unit, ...]
    ignored: tuple[str, ...]


def workload(documents: Sequence[Document]) -> Workload:
    """Read the claims of a file.

    Raises
    ------
    K8sError
        If a claim is malformed, a pod refers to one that the file does not have, or there is none.
    """
    own = {
        (each.namespace, each.name): each for each in _unique(of_kind(documents, "ResourceClaim"))
    }
    templates = {
        (each.namespace, each.name): each
        for each in _unique(of_kind(documents, "ResourceClaimTemplate"))
    }
    units: list[tuple[int, Unit]] = []
    ignored: list[str] = []
    shared: set[str] = set()
    for index, document in enumerate(documents):
        if document.kind in RESOURCE_KINDS:
            continue
        pods = list(_pods(document))
        if not pods:
            ignored.append(f"{document.kind} {document.name}")
        for pod, spec in pods:
            claims = []
            for reference in _references(document, spec):
                claim = _resolve(document, pod, reference, own, templates)
                if claim.document.kind == "ResourceClaim":
                    if claim.label in shared:
                        continue  # pods that share a claim share its devices
                    shared.add(claim.label)
                claims.append(claim)
            if claims:
                units.append((index, Unit(tuple(claims), pod)))
    in_pods = {id(claim.document) for _, unit in units for claim in unit.claims}
    for index, document in enumerate(documents):
        if (
            document.kind in {"ResourceClaim", "ResourceClaimTemplate"}
            and id(document) not in in_pods
        ):
            units.append((index, Unit((read_claim(document),))))
    if not units:
        sources = ", ".join(dict.fromkeys(document.source for document in documents))
        message = f"{sources}: holds no ResourceClaim or ResourceClaimTemplate"
        raise K8sError(message)
    units.sort(key=lambda each: each[0])  # stable: the pods of one object keep their order
    return Workload(tuple(unit for _, unit in units), tuple(ignored))


def _unique(documents: Sequence[Document]) -> Sequence[Document]:
    seen: set[tuple[str, str]] = set()
    for document in documents:
        key = (document.namespace, document.name)
        if key in seen:
            message = f"{document}: stands twice in namespace {document.namespace}"
            raise K8sError(message)
        seen.add(key)
    return documents


def _number(document: Document, value: object, path: str) -> int:
    if value is None:
        return 1
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_PODS:
        message = (
            f"{document}: {path}: must be a whole number from 0 to {MAX_PODS}; it is {value!r}"
        )
        raise K8sError(message)
    return value


def _mapping(document: Document, value: object, path: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        message = f"{document}: {path}: must be a mapping"
        raise K8sError(message)
    return value


def _pods(document: Document) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield name and spec of each pod that an object makes."""
    if document.kind == "Pod":
        yield document.name, _mapping(document, document.body.get("spec"), "spec")
    elif document.kind in REPLICATED:
        spec = _mapping(document, document.body.get("spec"), "spec")
        key = REPLICATED[document.kind]
        template = _template(document, spec.get("template"), "spec.template")
        for index in range(_number(document, spec.get(key), f"spec.{key}")):
            yield f"{document.name}-{index}", template
    elif document.kind == "LeaderWorkerSet":
        spec = _mapping(document, document.body.get("spec"), "spec")
        groups = _mapping(document, spec.get("leaderWorkerTemplate"), "spec.leaderWorkerTemplate")
        path = "spec.leaderWorkerTemplate"
        worker = _template(document, groups.get("workerTemplate"), f"{path}.workerTemplate")
        leader = worker
        if groups.get("leaderTemplate") is not None:
            leader = _template(document, groups["leaderTemplate"], f"{path}.leaderTemplate")
        size = _number(document, groups.get("size"), f"{path}.size")
        for group in range(_number(document, spec.get("replicas"), "spec.replicas")):
            yield f"{document.name}-{group}", leader
            for index in range(1, size):
                yield f"{document.name}-{group}-{index}", worker


def _template(document: Document, value: object, path: str) -> Mapping[str, Any]:
    return _mapping(document, _mapping(document, value, path).get("spec"), f"{path}.spec")


def _references(document: Document, spec: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    references = spec.get("resourceClaims") or []
    if not isinstance(references, list):
        message = f"{document}: resourceClaims must be a list"
        raise K8sError(message)
    found = [_mapping(document, each, "resourceClaims") for each in references]
    known = [str(each.get("name")) for each in found]
    for key in ("initContainers", "containers"):
        for container in spec.get(key) or []:
            for claim in ((container or {}).get("resources") or {}).get("claims") or []:
                name = str(claim.get("name"))
                if name not in known:
                    hint = guess(name, known)
                    message = (
                        f"{document}: container {container.get('name')} uses claim {name}, which "
                        "the pod does not "
                        f"have under resourceClaims (it has {', '.join(known) or 'none'}){hint}"
                    )
                    raise K8sError(message)
    return found


def _resolve(
    document: Document,
    pod: str,
    reference: Mapping[str, Any],
    own: Mapping[tuple[str, str], Document],
    templates: Mapping[tuple[str, str], Document],
) -> Claim:
    name, claim, template = (
        reference.get(key) for key in ("name", "resourceClaimName", "resourceClaimTemplateName")
    )
    if (claim is None) == (template is None):
        message = (
            f"{document}: resourceClaims {name}: must have one of resourceClaimName and "
            "resourceClaimTemplateName"
        )
        raise K8sError(message)
    wanted, kind, place = (
        (claim, "ResourceClaim", own)
        if claim is not None
        else (template, "ResourceClaimTemplate", templates)
    )
    found = place.get((document.namespace, str(wanted)))
    if found is None:
        there = sorted(each for namespace, each in place if namespace == document.namespace)
        message = (
            f"{document}: resourceClaims {name}: there is no {kind} {wanted} in namespace "
            f"{document.namespace} "
            f"(there {'are' if len(there) > 1 else 'is'} "
            f"{', '.join(there) or 'none'}){guess(str(wanted), there)}"
        )
        raise K8sError(message)
    if kind == "ResourceClaim":
        return read_claim(found, origin=pod)
    # Kubernetes ends generated names with five random characters; these depend on the names alone.
    suffix = hashlib.sha256(f"{document.namespace}/{pod}/{name}".encode()).hexdigest()[:5]
    return read_claim(found, f"{pod}-{name}-{suffix}", pod)
