"""The devices that ResourceSlices offer, checked as an API server would check them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trn3.k8s import names
from trn3.k8s.documents import Document, of_kind
from trn3.k8s.errors import K8sError
from trn3.k8s.values import ResourceQuantity, Semver, Value

VALUE_KEYS = ("bool", "int", "string", "version")


@dataclass(frozen=True, slots=True)
class Taint:
    """A mark that keeps claims away that do not tolerate it."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Device:
    """A device of a pool; its identity is (driver, pool, name)."""

    driver: str
    pool: str
    node: str
    name: str
    attributes: Mapping[tuple[str, str], Value] = field(hash=False, compare=False)
    capacity: Mapping[tuple[str, str], ResourceQuantity] = field(hash=False, compare=False)
    taints: tuple[Taint, ...] = field(hash=False, compare=False)

    @property
    def key(self) -> tuple[str, str, str]:
        """Driver, pool and name."""
        return self.driver, self.pool, self.name

    @property
    def is_node(self) -> bool:
        """Whether it stands for a whole node."""
        return self.attributes.get((self.driver, "resourceType")) == names.NODE

    def own(self, identifier: str) -> Value | None:
        """Return an attribute of our own domain."""
        return self.attributes.get((names.OWN_DOMAIN, identifier))

    def __str__(self) -> str:
        return f"{self.pool}/{self.name}"


@dataclass(frozen=True, slots=True)
class Inventory:
    """All devices, in the order of nodes, pools and names, numbers as numbers."""

    devices: tuple[Device, ...]

    @classmethod
    def from_documents(cls, documents: Sequence[Document]) -> Inventory:
        """Collect the devices of the newest generation of every pool.

        Raises
        ------
        K8sError
            If a slice is malformed, a pool misses a slice, or a device exists twice or is of a kind
            that the allocator does not model (shared counters, several allocations at once, pools
            that are not of one node).
        """
        pools: dict[tuple[str, str], list[Document]] = {}
        for document in of_kind(documents, "ResourceSlice"):
            spec = _mapping(document.body.get("spec"), document, "spec")
            pool = _mapping(spec.get("pool"), document, "spec.pool")
            driver, name = (
                _text(spec, "driver", document, "spec"),
                _text(pool, "name", document, "spec.pool"),
            )
            pools.setdefault((driver, name), []).append(document)
        if not pools:
            sources = (
                ", ".join(sorted({document.source for document in documents})) or "the inventory"
            )
            message = f"{sources}: holds no ResourceSlice; trn3 k8s slices writes them"
            raise K8sError(message)
        devices: dict[tuple[str, str, str], Device] = {}
        for (driver, pool_name), slices in pools.items():
            newest = max(_generation(each) for each in slices)
            current = [each for each in slices if _generation(each) == newest]
            expected = {_count(each) for each in current}
            if expected != {len(current)}:
                message = (
                    f"{current[0].source}: pool {pool_name} of {driver}: has {len(current)} slices "
                    "of "
                    f"generation {newest}, and says it has {', '.join(map(str, sorted(expected)))}"
                )
                raise K8sError(message)
            for document in current:
                for device in _devices(document, driver, pool_name):
                    if device.key in devices:
                        message = f"{document}: device {device} exists twice"
                        raise K8sError(message)
                    devices[device.key] = device
        ordered = sorted(
            devices.values(),
            key=lambda device: (
                names.natural(device.node),
                device.driver,
                names.natural(device.pool),
                device.is_node,
                names.natural(device.name),
            ),
        )
        return cls(tuple(ordered))

    def nodes(self) -> dict[str, list[Device]]:
        """Return the devices of each node, in order."""
        nodes: dict[str, list[Device]] = {}
        for device in self.devices:
            nodes.setdefault(device.node, []).append(device)
        return nodes


def _fail(document: Document, path: str, reason: str) -> K8sError:
    return K8sError(f"{document}: {path}: {reason}")


def _mapping(value: object, document: Document, path: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _fail(document, path, "must be a mapping" if value is not None else "is missing")
    return value


def _text(owner: Mapping[str, Any], key: str, document: Document, path: str) -> str:
    value = owner.get(key)
    if not isinstance(value, str) or not value:
        raise _fail(document, f"{path}.{key}", f"must be a text; it is {value!r}")
    return value


def _generation(document: Document) -> int:
    value = document.body["spec"]["pool"].get("generation")
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _fail(
            document, "spec.pool.generation", f"must be a number from 0 on; it is {value!r}"
        )
    return value


def _count(document: Document) -> int:
    value = document.body["spec"]["pool"].get("resourceSliceCount")
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise _fail(
            document, "spec.pool.resourceSliceCount", f"must be a number from 1 on; it is {value!r}"
        )
    return value


def _devices(document: Document, driver: str, pool: str) -> list[Device]:
    spec = document.body["spec"]
    node = spec.get("nodeName")
    if not isinstance(node, str) or not node:
        raise _fail(
            document,
            "spec.nodeName",
            "is missing; pools of several nodes (nodeSelector, allNodes) are not modelled",
        )
    if spec.get("sharedCounters"):
        raise _fail(document, "spec.sharedCounters", "shared counters are not modelled")
    bodies = spec.get("devices") or []
    if not isinstance(bodies, list):
        raise _fail(document, "spec.devices", "must be a list")
    limit = names.MAX_DEVICES
    if any(isinstance(body, dict) and body.get("taints") for body in bodies):
        limit = names.MAX_DEVICES_WITH_TAINTS
    if len(bodies) > limit:
        raise _fail(
            document,
            "spec.devices",
            f"{len(bodies)} devices; a slice like this holds at most {limit}",
        )
    return [_device(document, index, body, driver, pool, node) for index, body in enumerate(bodies)]


def _device(
    document: Document, index: int, body: object, driver: str, pool: str, node: str
) -> Device:
    path = f"spec.devices[{index}]"
    fields = _mapping(body, document, path)
    name = _text(fields, "name", document, path)
    for key in ("consumesCounters", "allowMultipleAllocations", "basic"):
        if fields.get(key):
            hint = "; basic belongs to v1beta1" if key == "basic" else ""
            raise _fail(document, f"{path}.{key}", f"is not modelled{hint}")
    attributes = {
        names.split_attribute(key, driver): _value(value, document, f"{path}.attributes[{key}]")
        for key, value in _mapping(
            fields.get("attributes") or {}, document, f"{path}.attributes"
        ).items()
    }
    capacity = {
        names.split_attribute(key, driver): _quantity(value, document, f"{path}.capacity[{key}]")
        for key, value in _mapping(
            fields.get("capacity") or {}, document, f"{path}.capacity"
        ).items()
    }
    if len(attributes) + len(capacity) > names.MAX_ATTRIBUTES:
        raise _fail(document, path, f"more than {names.MAX_ATTRIBUTES} attributes and capacities")
    taints = fields.get("taints") or []
    if not isinstance(taints, list):
        raise _fail(document, f"{path}.taints", "must be a list")
    marks = [
        Taint(
            _text(_mapping(mark, document, f"{path}.taints"), "key", document, f"{path}.taints"),
            str(mark.get("value") or ""),
            _text(mark, "effect", document, f"{path}.taints"),
        )
        for mark in taints
    ]
    return Device(driver, pool, node, name, attributes, capacity, tuple(marks))


def _value(body: object, document: Document, path: str) -> Value:
    fields = _mapping(body, document, path)
    given = {key: value for key, value in fields.items() if value is not None}
    if len(given) != 1 or next(iter(given)) not in VALUE_KEYS:
        raise _fail(
            document,
            path,
            f"must have one of {', '.join(VALUE_KEYS)}; it has {', '.join(given) or 'none'}",
        )
    key, value = next(iter(given.items()))
    if key == "version":
        try:
            return Semver.parse(value)
        except K8sError as error:
            raise _fail(document, path, str(error)) from error
    expected = {"bool": bool, "int": int, "string": str}[key]
    if type(value) is not expected:
        raise _fail(document, path, f"{key} is {value!r}")
    if isinstance(value, str) and len(value) > names.MAX_STRING:
        raise _fail(
            document,
            path,
            f"a text has at most {names.MAX_STRING} characters, this has {len(value)}",
        )
    assert isinstance(value, bool | int | str)
    return value


def _quantity(body: object, document: Document, path: str) -> ResourceQuantity:
    try:
        return ResourceQuantity.parse(_mapping(body, document, path).get("value"))
    except K8sError as error:
        raise (
            error if str(error).startswith(str(document)) else _fail(document, path, str(error))
        ) from error
