"""The opaque configurations of the Neuron driver, which Kubernetes itself does not look into.

``NeuronConfig`` sets the size of a logical core, ``UltraServerConfig`` how many nodes of an
UltraServer a job takes. A driver finds a mistake in them when the pod starts; here it is found when
the claim is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trn3.k8s import topology
from trn3.k8s.claims import Claim
from trn3.k8s.documents import Object
from trn3.k8s.errors import AllocationError, guess
from trn3.k8s.inventory import Device

FIELDS = {"NeuronConfig": "logicalNeuronCore", "UltraServerConfig": "ultraserverMode"}
LOGICAL_CORES = (1, 2)
MODES = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the configurations of a claim set, by request; an empty name stands for all."""

    logical_core: dict[str, int]
    mode: int | None


def settings(claim: Claim, drivers: Sequence[str]) -> Settings:
    """Read the configurations of the drivers in the inventory; those of others pass through.

    Raises
    ------
    AllocationError
        If a kind, a field or a value is not the driver's, or two contradict each other.
    """
    cores: dict[str, int] = {}
    mode: int | None = None
    for entry in claim.config:
        opaque = entry["opaque"]
        parameters = opaque["parameters"]
        driver = opaque["driver"]
        if driver not in drivers:
            continue
        kind, version = parameters.get("kind"), parameters.get("apiVersion")
        requests = entry.get("requests") or [""]
        where = f"config of driver {driver}"
        if kind not in FIELDS:
            known = ", ".join(FIELDS)
            raise AllocationError(
                claim.label,
                requests[0],
                f"{where}: kind {kind!r} is not known; known: {known}{guess(str(kind), FIELDS)}",
            )
        if version != f"{driver}/v1":
            raise AllocationError(
                claim.label,
                requests[0],
                f"{where}: {kind} has apiVersion {driver}/v1; it is {version!r}",
            )
        key = FIELDS[kind]
        extra = sorted(set(parameters) - {"apiVersion", "kind", key})
        if extra:
            hint = guess(extra[0], [key])
            raise AllocationError(
                claim.label, requests[0], f"{where}: {kind} has no field {extra[0]}{hint}"
            )
        value = parameters.get(key)
        allowed = LOGICAL_CORES if kind == "NeuronConfig" else MODES
        if type(value) is not int or value not in allowed:
            choices = ", ".join(map(str, allowed))
            raise AllocationError(
                claim.label,
                requests[0],
                f"{where}: {key} must be one of {choices}; it is {value!r}",
            )
        if kind == "UltraServerConfig":
            if mode is not None and mode != value:
                raise AllocationError(
                    claim.label,
                    requests[0],
                    f"{where}: ultraserverMode {value} contradicts ultraserverMode {mode} in the "
                    "same claim",
                )
            mode = value
            continue
        for request in requests:
            before = cores.setdefault(request, value)
            others = [
                size
                for name, size in cores.items()
                if size != value and (not name or not request or name == request)
            ]
            if before != value or others:
                raise AllocationError(
                    claim.label,
                    request,
                    f"{where}: logicalNeuronCore {value} does not match logicalNeuronCore "
                    f"{others[0] if others else before}, "
                    "which the same claim sets for the same devices; a device has one",
                )
    return Settings(cores, mode)


def check_devices(claim: Claim, chosen: Settings, request: str, devices: Sequence[Device]) -> None:
    """Refuse a size of logical core or an UltraServer mode that the devices do not have."""
    main = request.partition("/")[0]
    size = chosen.logical_core.get(
        request, chosen.logical_core.get(main, chosen.logical_core.get(""))
    )
    for device in devices:
        kind = str(device.attributes.get((device.driver, "instanceType"), ""))
        chip = device.own("chip") or topology.chip_of(kind)
        if size is not None and chip is not None and size not in topology.lnc_modes(str(chip)):
            allowed = " or ".join(map(str, topology.lnc_modes(str(chip))))
            raise AllocationError(
                claim.label,
                request,
                f"logicalNeuronCore {size} does not match {device}: a logical core of {chip} has "
                f"{allowed} physical cores",
            )


def from_class(config: Sequence[Object], request: str) -> list[Object]:
    """Return the configurations of a class for a request of it."""
    return [{"source": "FromClass", "requests": [request], **entry} for entry in config]


def from_claim(claim: Claim, used: Sequence[str]) -> list[Object]:
    """Return the configurations of a claim, without those of alternatives that were not taken."""
    entries: list[Object] = []
    mains = {name.partition("/")[0] for name in used}
    for entry in claim.config:
        requests = [name for name in entry.get("requests") or [] if name in used or name in mains]
        if requests or not entry.get("requests"):
            named = {"requests": requests} if requests else {}
            entries.append({"source": "FromClaim", **named, "opaque": entry["opaque"]})
    return entries
