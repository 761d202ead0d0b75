"""ResourceClaims, ResourceClaimTemplates and DeviceClasses, read strictly.

A field that v1 does not have is refused, as ``kubectl apply --validate=strict`` does: a claim that
asks for something else than its author thinks is the worst outcome of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from trn3.k8s import names
from trn3.k8s.cel import SelectorError, compile_selector
from trn3.k8s.documents import Document, Object
from trn3.k8s.errors import K8sError, guess
from trn3.k8s.inventory import Device, Taint
from trn3.k8s.values import ResourceQuantity

EXACT_FIELDS = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
)
SUB_FIELDS = ("name", *(each for each in EXACT_FIELDS if each != "adminAccess"))
MODES = ("ExactCount", "All")


@dataclass(frozen=True, slots=True)
class Selector:
    """A CEL expression and where it stands."""

    where: str
    expression: str
    matches: Callable[[Device], bool] = field(compare=False, repr=False)

    def accepts(self, device: Device) -> bool:
        """Whether the device matches; an error names the selector."""
        try:
            return self.matches(device)
        except SelectorError as error:
            message = f"{self.where}: {self.expression!r}: {error}"
            raise SelectorError(message) from error


@dataclass(frozen=True, slots=True)
class Toleration:
    """A taint that a request can live with."""

    key: str
    operator: str
    value: str
    effect: str
    body: Mapping[str, Any] = field(compare=False)

    def tolerates(self, taint: Taint) -> bool:
        """Whether it covers the taint."""
        return (
            (not self.key or self.key == taint.key)
            and (not self.effect or self.effect == taint.effect)
            and (self.operator == "Exists" or self.value == taint.value)
        )


@dataclass(frozen=True, slots=True)
class Ask:
    """What a request, or one of its alternatives, asks for.

    `count` is None for all devices that match.
    """

    name: str
    class_name: str
    selectors: tuple[Selector, ...]
    count: int | None
    admin: bool
    tolerations: tuple[Toleration, ...]
    capacity: Mapping[tuple[str | None, str], ResourceQuantity]

    @property
    def key(self) -> tuple[object, ...]:
        """What decides which devices match, taints aside."""
        return (
            self.class_name,
            tuple(selector.expression for selector in self.selectors),
            tuple((place, amount.number) for place, amount in self.capacity.items()),
        )


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request and its alternatives in order of preference; plain ones have one."""

    name: str
    alternatives: tuple[Ask, ...]


@dataclass(frozen=True, slots=True)
class Constraint:
    """Devices of `requests` have the same, or all different, values of an attribute."""

    requests: tuple[str, ...]
    attribute: tuple[str, str]
    distinct: bool

    def covers(self, request: str, ask: str) -> bool:
        """Whether it holds for a request; none named means all."""
        return not self.requests or request in self.requests or ask in self.requests

    def __str__(self) -> str:
        kind = "distinctAttribute" if self.distinct else "matchAttribute"
        return f"{kind} {self.attribute[0]}/{self.attribute[1]}"


@dataclass(frozen=True)
class DeviceClass:
    """Selectors and configuration under a name."""

    name: str
    selectors: tuple[Selector, ...]
    config: tuple[Object, ...]


@dataclass(frozen=True)
class Claim:
    """A claim: its object as it came, and what it asks for."""

    document: Document
    name: str
    requests: tuple[DeviceRequest, ...]
    constraints: tuple[Constraint, ...]
    config: tuple[Object, ...]
    origin: str = ""

    @cached_property
    def label(self) -> str:
        """Namespace and name."""
        return f"{self.document.namespace}/{self.name}"

    @property
    def allocation(self) -> Mapping[str, Any] | None:
        """What the claim holds already."""
        status = self.document.body.get("status") or {}
        allocation = status.get("allocation") if isinstance(status, dict) else None
        return allocation if isinstance(allocation, dict) else None


class _Reader:
    """Reads the parts of one object; errors begin with where they are."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def fail(self, path: str, reason: str) -> K8sError:
        return K8sError(f"{self.document}: {path}: {reason}")

    def mapping(
        self, value: object, path: str, fields: Iterable[str] | None = None
    ) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.fail(
                path, "is missing" if value is None else f"must be a mapping; it is {value!r}"
            )
        if fields is not None:
            known = list(fields)
            for key in value:
                if key not in known:
                    raise self.fail(
                        path,
                        f"{key} is not a field here{guess(str(key), known)} (known: "
                        f"{', '.join(known)})",
                    )
        return value

    def items(self, value: object, path: str, limit: int) -> list[tuple[str, Any]]:
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.fail(path, f"must be a list; it is {value!r}")
        if len(value) > limit:
            raise self.fail(path, f"{len(value)} entries; at most {limit} are allowed")
        return [(f"{path}[{index}]", each) for index, each in enumerate(value)]

    def text(self, owner: Mapping[str, Any], key: str, path: str) -> str:
        value = owner.get(key)
        if not isinstance(value, str) or not value:
            raise self.fail(
                f"{path}.{key}",
                "is missing" if value is None else f"must be a text; it is {value!r}",
            )
        return value

    def selectors(self, value: object, path: str) -> tuple[Selector, ...]:
        selectors = []
        for where, entry in self.items(value, path, names.MAX_SELECTORS):
            body = self.mapping(
                self.mapping(entry, where, ["cel"]).get("cel"), f"{where}.cel", ["expression"]
            )
            expression = self.text(body, "expression", f"{where}.cel")
            try:
                matches = compile_selector(expression)
            except SelectorError as error:
                message = f"{self.document}: {where}.cel.expression: {error}"
                raise SelectorError(message) from error
            selectors.append(Selector(f"{self.document}: {where}", expression, matches))
        return tuple(selectors)

    def tolerations(self, value: object, path: str) -> tuple[Toleration, ...]:
        tolerations = []
        for where, entry in self.items(value, path, names.MAX_TOLERATIONS):
            body = self.mapping(
                entry, where, ["key", "operator", "value", "effect", "tolerationSeconds"]
            )
            operator = body.get("operator") or "Equal"
            if operator not in {"Exists", "Equal"}:
                raise self.fail(f"{where}.operator", f"must be Exists or Equal; it is {operator!r}")
            if not body.get("key") and operator != "Exists":
                raise self.fail(f"{where}.key", "may be empty only with the operator Exists")
            parts = [str(body.get(key) or "") for key in ("key", "value", "effect")]
            tolerations.append(Toleration(parts[0], operator, parts[1], parts[2], body))
        return tuple(tolerations)

    def capacity(self, value: object, path: str) -> dict[tuple[str | None, str], ResourceQuantity]:
        if value is None:
            return {}
        body = self.mapping(
            self.mapping(value, path, ["requests"]).get("requests"), f"{path}.requests"
        )
        asked: dict[tuple[str | None, str], ResourceQuantity] = {}
        for key, amount in body.items():
            domain, slash, identifier = str(key).rpartition("/")
            try:
                asked[domain if slash else None, identifier] = ResourceQuantity.parse(amount)
            except K8sError as error:
                raise self.fail(f"{path}.requests[{key}]", str(error)) from error
        return asked

    def ask(self, body: Mapping[str, Any], path: str, name: str) -> Ask:
        mode = body.get("allocationMode") or "ExactCount"
        if mode not in MODES:
            hint = guess(str(mode), MODES)
            raise self.fail(
                f"{path}.allocationMode", f"must be {' or '.join(MODES)}; it is {mode!r}{hint}"
            )
        count = body.get("count")
        if mode == "All":
            if count:
                raise self.fail(
                    f"{path}.count", "has no meaning with allocationMode All; leave one of them out"
                )
            count = None
        else:
            count = 1 if count is None else count
            if not isinstance(count, int) or isinstance(count, bool) or count < 1:
                raise self.fail(
                    f"{path}.count", f"must be a whole number from 1 on; it is {count!r}"
                )
            if count > names.MAX_RESULTS:
                raise self.fail(
                    f"{path}.count",
                    f"{count}: a claim holds at most {names.MAX_RESULTS} devices; use several "
                    "claims, one for each pod",
                )
        admin = body.get("adminAccess") or False
        if not isinstance(admin, bool):
            raise self.fail(f"{path}.adminAccess", f"must be true or false; it is {admin!r}")
        return Ask(
            name=name,
            class_name=self.text(body, "deviceClassName", path),
            selectors=self.selectors(body.get("selectors"), f"{path}.selectors"),
            count=count,
            admin=admin,
            tolerations=self.tolerations(body.get("tolerations"), f"{path}.tolerations"),
            capacity=self.capacity(body.get("capacity"), f"{path}.capacity"),
        )

    def request(self, entry: object, path: str) -> DeviceRequest:
        if isinstance(entry, dict) and "deviceClassName" in entry:
            raise self.fail(
                path,
                "deviceClassName stands directly in the request, which is v1beta1; in v1 it stands "
                "under exactly:",
            )
        body = self.mapping(entry, path, ["name", "exactly", "firstAvailable"])
        name = self.text(body, "name", path)
        self.label(name, f"{path}.name")
        exactly, first = body.get("exactly"), body.get("firstAvailable")
        if (exactly is None) == (first is None):
            raise self.fail(path, "must have one of exactly and firstAvailable")
        if exactly is not None:
            where = f"{path}.exactly"
            return DeviceRequest(
                name, (self.ask(self.mapping(exactly, where, EXACT_FIELDS), where, name),)
            )
        alternatives = []
        for where, each in self.items(first, f"{path}.firstAvailable", names.MAX_SUBREQUESTS):
            fields = self.mapping(each, where, SUB_FIELDS)
            sub = self.text(fields, "name", where)
            self.label(sub, f"{where}.name")
            alternatives.append(self.ask(fields, where, f"{name}/{sub}"))
        if not alternatives:
            raise self.fail(f"{path}.firstAvailable", "must have at least one entry")
        self.unique((each.name for each in alternatives), f"{path}.firstAvailable")
        return DeviceRequest(name, tuple(alternatives))

    def label(self, name: str, path: str) -> None:
        if not names.LABEL.fullmatch(name):
            raise self.fail(path, f"{name!r} must be a DNS label: lower-case letters, digits and -")

    def unique(self, given: Iterable[str], path: str) -> None:
        seen: set[str] = set()
        for name in given:
            if name in seen:
                raise self.fail(path, f"the name {name} stands twice")
            seen.add(name)

    def references(self, value: object, path: str, known: list[str]) -> tuple[str, ...]:
        wanted = []
        for where, name in self.items(value, path, names.MAX_REQUESTS):
            if name not in known:
                raise self.fail(
                    where,
                    f"there is no request {name!r}; there are "
                    f"{', '.join(known)}{guess(str(name), known)}",
                )
            wanted.append(name)
        return tuple(wanted)

    def constraint(self, entry: object, path: str, known: list[str]) -> Constraint:
        body = self.mapping(entry, path, ["requests", "matchAttribute", "distinctAttribute"])
        match, distinct = body.get("matchAttribute"), body.get("distinctAttribute")
        if (match is None) == (distinct is None):
            raise self.fail(path, "must have one of matchAttribute and distinctAttribute")
        attribute = match if match is not None else distinct
        key = "matchAttribute" if match is not None else "distinctAttribute"
        if not isinstance(attribute, str) or "/" not in attribute:
            raise self.fail(
                f"{path}.{key}",
                f"{attribute!r} needs its domain before it, such as neuron.aws.com/{attribute}",
            )
        try:
            split = names.split_attribute(attribute, "")
        except K8sError as error:
            raise self.fail(f"{path}.{key}", str(error)) from error
        return Constraint(
            self.references(body.get("requests"), f"{path}.requests", known),
            split,
            distinct is not None,
        )

    def config(self, value: object, path: str, known: list[str] | None) -> tuple[Object, ...]:
        configs = []
        for where, entry in self.items(value, path, names.MAX_CONFIGS):
            body = self.mapping(
                entry, where, ["opaque"] if known is None else ["requests", "opaque"]
            )
            opaque = self.mapping(body.get("opaque"), f"{where}.opaque", ["driver", "parameters"])
            self.text(opaque, "driver", f"{where}.opaque")
            self.mapping(opaque.get("parameters"), f"{where}.opaque.parameters")
            if known is not None:
                self.references(body.get("requests"), f"{where}.requests", known)
            configs.append(dict(body))
        return tuple(configs)


def read_class(document: Document) -> DeviceClass:
    """Read a DeviceClass."""
    reader = _Reader(document)
    if not document.name:
        raise reader.fail("metadata.name", "is missing")
    spec = reader.mapping(
        document.body.get("spec") or {}, "spec", ["selectors", "config", "extendedResourceName"]
    )
    return DeviceClass(
        document.name,
        reader.selectors(spec.get("selectors"), "spec.selectors"),
        reader.config(spec.get("config"), "spec.config", None),
    )


def read_claim(document: Document, name: str | None = None, origin: str = "") -> Claim:
    """Read a ResourceClaim, or the claim that a ResourceClaimTemplate describes.

    Parameters
    ----------
    document
        The object.
    name
        Name of the claim, if the object does not give it.
    origin
        The pod for which a template is used.
    """
    reader = _Reader(document)
    spec, path = document.body.get("spec"), "spec"
    if document.kind == "ResourceClaimTemplate":
        spec = reader.mapping(spec, path, ["metadata", "spec"]).get("spec")
        path = "spec.spec"
    name = name or document.name
    if not name:
        raise reader.fail("metadata.name", "is missing")
    if not names.SUBDOMAIN.fullmatch(name):
        raise reader.fail(
            "metadata.name",
            f"{name!r} must be a DNS subdomain: lower-case letters, digits, - and .",
        )
    devices = reader.mapping(
        reader.mapping(spec, path, ["devices"]).get("devices") or {},
        f"{path}.devices",
        ["requests", "constraints", "config"],
    )
    path = f"{path}.devices"
    requests = tuple(
        reader.request(entry, where)
        for where, entry in reader.items(
            devices.get("requests"), f"{path}.requests", names.MAX_REQUESTS
        )
    )
    if not requests:
        raise reader.fail(f"{path}.requests", "asks for nothing; give at least one request")
    reader.unique((request.name for request in requests), f"{path}.requests")
    known = [
        each
        for request in requests
        for each in dict.fromkeys([request.name, *(ask.name for ask in request.alternatives)])
    ]
    constraints = tuple(
        reader.constraint(entry, where, known)
        for where, entry in reader.items(
            devices.get("constraints"), f"{path}.constraints", names.MAX_CONSTRAINTS
        )
    )
    config = reader.config(devices.get("config"), f"{path}.config", known)
    return Claim(document, name, requests, constraints, config, origin)
