"""ResourceSlice and DeviceClass objects of simulated systems.

One pool a node. Devices are called ``neuron-device-N``; nodes of UltraServers have a
``neuron-node-0`` beside them, which stands for the whole node: whoever is given it holds the
devices of its pool too **(choice; slices have no word for it but counters)**.

Attributes carry the names and types of AWS's DRA driver. Values that only a cloud could give
(EFA addresses, capacity blocks, network nodes) are made from the place in the system, so that they
are the same every time **(choice)**: an UltraServer has one capacity block and one network node of
layer 3; all share those of layers 1 and 2. Attributes in our own domain say where a device is
(`rack`, `server`, `row`, `column`) and which chip it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from trn3.k8s import names, topology
from trn3.k8s.documents import API_VERSION, Object
from trn3.k8s.errors import K8sError
from trn3.k8s.values import Semver

NEURON_DRIVER_VERSION = "2.25.4.0"
"""Version that devices report unless told otherwise: the driver of Neuron SDK 2.27."""

DRA_DRIVER_VERSION = "1.0.0"

Attributes = dict[str, dict[str, Any]]


def resource_slices(
    system: str,
    *,
    nodes: int | None = None,
    driver: str = names.DEFAULT_DRIVER,
    lnc: int | None = None,
    efa: bool = True,
    node_devices: bool = True,
    neuron_driver_version: str = NEURON_DRIVER_VERSION,
    instance_type: str | None = None,
    taints: Mapping[str, Sequence[Mapping[str, str]]] | None = None,
    generation: int = 1,
) -> list[Object]:
    """Return the ResourceSlices of a system.

    Parameters
    ----------
    system
        ``trn1``, ``trn2``, ``trn2_ultraserver``, ``gen1``, ``gen2`` or the name of a spec.
    nodes
        How many nodes; by default one UltraServer or one instance. More than an UltraServer has
        begin another.
    driver
        The driver's name, which is the domain of the plain attributes too.
    lnc
        Publish ``logicalNeuronCore`` in our domain: what the nodes were started with.
    efa
        Publish the device groups of EFA, ``resource.aws.com/devicegroup{1,4,8,16}_id``.
    node_devices
        Publish a device for each whole node of an UltraServer.
    taints
        Taints by ``pool/device``.
    generation
        Of the pools.

    Raises
    ------
    K8sError
        If something does not exist in the system or breaks a limit of Kubernetes.

    Examples
    --------
    >>> slices = resource_slices("gen2")
    >>> len(slices), sum(len(each["spec"]["devices"]) for each in slices)
    (36, 180)
    """
    names.check_driver(driver)
    shape = topology.system(system)
    if lnc is not None and lnc not in shape.lnc_modes:
        allowed = " or ".join(map(str, shape.lnc_modes))
        message = f"--lnc {lnc}: a logical core of {shape.chip} has {allowed} physical cores"
        raise K8sError(message)
    if len(neuron_driver_version) > names.MAX_STRING:
        message = (
            f"neuron driver version {neuron_driver_version!r}: at most {names.MAX_STRING} "
            "characters"
        )
        raise K8sError(message)
    common: Attributes = {
        "instanceType": {"string": instance_type or shape.instance_type},
        "neuronDriverVersion": {"string": neuron_driver_version},
        "draDriverVersion": {"version": Semver.parse(DRA_DRIVER_VERSION).text},
    }
    own: Attributes = {f"{names.OWN_DOMAIN}/chip": {"string": shape.chip}}
    if lnc is not None:
        own[f"{names.OWN_DOMAIN}/logicalNeuronCore"] = {"int": lnc}
    slices: list[Object] = []
    pending = {name: [dict(taint) for taint in each] for name, each in (taints or {}).items()}
    for node in shape.nodes(nodes):
        pool = _pool_name(shape, node)
        whole = (
            _whole_node(shape, node, common, own) if shape.is_ultraserver and node_devices else []
        )
        devices: list[Object] = [
            {
                "name": f"neuron-device-{index}",
                "attributes": _attributes(shape, node, index, common, own, efa=efa),
                "capacity": {
                    "memory": {"value": f"{shape.memory_gib}Gi"},
                    "neuronCores": {"value": str(shape.cores)},
                },
            }
            for index in range(shape.devices)
        ] + whole
        for device in devices:
            marks = pending.pop(f"{pool}/{device['name']}", None)
            if marks:
                device["taints"] = [check_taint(mark) for mark in marks]
        slices += pool_slices(pool, devices, driver=driver, node=pool, generation=generation)
    if pending:
        missing = ", ".join(sorted(pending))
        message = (
            f"--taint {missing}: there is no such device; a device is called "
            f"{slices[0]['spec']['pool']['name']}/neuron-device-0"
        )
        raise K8sError(message)
    return slices


def pool_slices(
    pool: str, devices: Sequence[Mapping[str, Any]], *, driver: str, node: str, generation: int = 1
) -> list[Object]:
    """Split the devices of a pool over as few slices as Kubernetes allows.

    128 devices fit into a slice, 64 if one of them has taints or uses counters.

    >>> [len(each["spec"]["devices"]) for each in pool_slices(
    ...     "p", [{"name": f"d{n}"} for n in range(144)], driver="d.internal", node="n")]
    [128, 16]
    """
    if not names.SUBDOMAIN.fullmatch(pool) or len(pool) > names.MAX_POOL_NAME:
        message = (
            f"pool {pool!r}: must be a DNS subdomain of at most {names.MAX_POOL_NAME} characters"
        )
        raise K8sError(message)
    special = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    size = names.MAX_DEVICES_WITH_TAINTS if special else names.MAX_DEVICES
    parts = [list(devices[start : start + size]) for start in range(0, len(devices), size)] or [[]]
    return [
        {
            "apiVersion": API_VERSION,
            "kind": "ResourceSlice",
            "metadata": {"name": f"{pool}-{driver}-{index}"},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": len(parts)},
                "devices": [dict(device) for device in part],
            },
        }
        for index, part in enumerate(parts)
    ]


def device_class(name: str = names.DEFAULT_DRIVER, *, driver: str | None = None) -> Object:
    """Return the DeviceClass of a driver's devices; its name is the driver's unless told otherwise.

    >>> device_class("neuron.aws.com")["spec"]["selectors"][0]["cel"]["expression"]
    "device.driver == 'neuron.aws.com'"
    """
    names.check_driver(driver or name)
    if not names.SUBDOMAIN.fullmatch(name):
        message = f"DeviceClass {name!r}: must be a DNS subdomain"
        raise K8sError(message)
    return {
        "apiVersion": API_VERSION,
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver or name}'"}}]},
    }


def check_taint(taint: Mapping[str, str]) -> dict[str, str]:
    """Return a taint if Kubernetes would take it."""
    key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
    if not names.QUALIFIED_LABEL.fullmatch(key):
        message = f"taint key {key!r}: must be a label name, such as trn3.internal/unhealthy"
        raise K8sError(message)
    if not names.LABEL_VALUE.fullmatch(value):
        message = f"taint value {value!r}: must be a label value of at most 63 characters"
        raise K8sError(message)
    if effect not in names.EFFECTS:
        message = f"taint effect {effect!r}: must be one of {', '.join(names.EFFECTS)}"
        raise K8sError(message)
    return (
        {"key": key, "value": value, "effect": effect} if value else {"key": key, "effect": effect}
    )


def _pool_name(shape: topology.NodeSystem, node: topology.TopologyNode) -> str:
    base = shape.name.replace("_", "-")
    if node.ultraserver is None:
        return f"{base}-{node.server}"
    return f"{base}-{node.ultraserver}-r{node.rack}-s{node.server}"


def _token(*parts: object, length: int = 16) -> str:
    return hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:length]


def _network(shape: topology.NodeSystem, node: topology.TopologyNode) -> Attributes:
    block = node.ultraserver if node.ultraserver is not None else f"instance {node.server}"
    places: dict[str, tuple[object, ...]] = {
        "networkNodeLayer1": ("layer 1",),
        "networkNodeLayer2": ("layer 2",),
        "networkNodeLayer3": ("layer 3", shape.name, block),
    }
    return {key: {"string": f"nn-{_token(*place, length=17)}"} for key, place in places.items()}


def _block(shape: topology.NodeSystem, node: topology.TopologyNode) -> Attributes:
    if node.ultraserver is None:
        return {}
    return {
        "capacityBlockId": {
            "string": f"cr-{_token('block', shape.name, node.ultraserver, length=17)}"
        }
    }


def _place(node: topology.TopologyNode) -> Attributes:
    return {
        f"{names.OWN_DOMAIN}/rack": {"int": node.rack},
        f"{names.OWN_DOMAIN}/server": {"int": node.server},
    }


def _attributes(
    shape: topology.NodeSystem,
    node: topology.TopologyNode,
    index: int,
    common: Attributes,
    own: Attributes,
    *,
    efa: bool,
) -> Attributes:
    attributes: Attributes = {
        "deviceId": {"int": index},
        **common,
        "resourceType": {"string": names.DEVICE},
        **_network(shape, node),
    }
    if shape.rows is not None and shape.columns is not None:
        row, column = divmod(index, shape.columns)
        if not shape.is_ultraserver:
            attributes["topology_x"] = {"int": row}
            attributes["topology_y"] = {"int": column}
            attributes["topology4_id"] = {"int": row}
            attributes["topology8_id"] = {"int": row // 2}
        attributes[f"{names.OWN_DOMAIN}/row"] = {"int": row}
        attributes[f"{names.OWN_DOMAIN}/column"] = {"int": column}
        if shape.numa_of_row:
            attributes[names.NUMA_ATTRIBUTE] = {"int": shape.numa_of_row[row]}
    attributes |= _block(shape, node)
    if efa:
        place = (shape.name, node.ultraserver, node.rack, node.server)
        for size in names.GROUP_SIZES:
            if size == 1:
                # An address on the PCI bus in the form of bus:device.function.
                value = f"0000:{0x10 + index:02x}:00.0"
            elif size <= shape.devices:
                value = _token("group", *place, size, index // size)
            else:
                continue
            attributes[f"{names.GROUP_DOMAIN}/devicegroup{size}_id"] = {"string": value}
    return attributes | own | _place(node)


def _whole_node(
    shape: topology.NodeSystem, node: topology.TopologyNode, common: Attributes, own: Attributes
) -> list[Object]:
    return [
        {
            "name": "neuron-node-0",
            "attributes": {
                **common,
                "resourceType": {"string": names.NODE},
                **_network(shape, node),
                **_block(shape, node),
                **own,
                **_place(node),
            },
            "capacity": {
                "memory": {"value": f"{shape.memory_gib * shape.devices}Gi"},
                "neuronCores": {"value": str(shape.cores * shape.devices)},
                "neuronDevices": {"value": str(shape.devices)},
            },
        }
    ]
