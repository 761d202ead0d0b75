"""Claims for tests, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

DRIVER = "neuron.aws.com"
OWN = "trn3.internal"


def attribute(name: str, domain: str = DRIVER) -> str:
    return f"device.attributes['{domain}'].{name}"


def exactly(
    count: int | None = 1, *selectors: str, device_class: str = DRIVER, **more: Any
) -> dict[str, Any]:
    """Return what a request asks for; a count of None means all."""
    mode = {"allocationMode": "All"} if count is None else {"count": count}
    chosen = [{"cel": {"expression": selector}} for selector in selectors]
    return {
        "deviceClassName": device_class,
        **mode,
        **({"selectors": chosen} if chosen else {}),
        **more,
    }


def claim(
    name: str,
    requests: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    constraints: Sequence[Mapping[str, Any]] = (),
    config: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Return a ResourceClaim of exact requests by name."""
    devices: dict[str, Any] = {
        "requests": [
            {"name": each, "exactly": dict(ask)}
            for each, ask in (requests or {"r": exactly()}).items()
        ]
    }
    if constraints:
        devices["constraints"] = [dict(each) for each in constraints]
    if config:
        devices["config"] = [dict(each) for each in config]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": devices},
    }


def opaque(kind: str, field: str, value: object, *requests: str) -> dict[str, Any]:
    """Return a configuration of the driver."""
    parameters = {"apiVersion": f"{DRIVER}/v1", "kind": kind, field: value}
    named = {"requests": list(requests)} if requests else {}
    return {**named, "opaque": {"driver": DRIVER, "parameters": parameters}}


def devices_of(body: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return pool and device of everything that a claim was given."""
    results = body["status"]["allocation"]["devices"]["results"]
    return [(each["pool"], each["device"]) for each in results]


def numbers_of(body: Mapping[str, Any]) -> list[int]:
    """Return the numbers of the devices that a claim was given."""
    return [int(device.rsplit("-", 1)[1]) for _, device in devices_of(body)]
