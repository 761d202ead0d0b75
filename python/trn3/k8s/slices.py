"""ResourceSlice and DeviceClass objects of simulated systems; the core makes them.

One pool a node. Devices are called ``neuron-device-N``; nodes of UltraServers have a
``neuron-node-0`` beside them, which stands for the whole node: whoever is given it holds the
devices of its pool too **(choice; slices have no word for it but counters)**. With `counters`
slices say so themselves; with `ultraserver_devices` a pool is an UltraServer.

Attributes carry the names and types of AWS's DRA driver. Values that only a cloud could give
(EFA addresses, capacity blocks, network nodes) are made from the place in the system, so that they
are the same every time **(choice)**: an UltraServer has one capacity block and one network node of
layer 3; all share those of layers 1 and 2. Attributes in our own domain say where a device is
(`rack`, `server`, `row`, `column`) and which chip it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trn3._trn3 import k8s as core
from trn3.k8s.documents import Object
from trn3.k8s.errors import asked

DEFAULT_DRIVER = core.DEFAULT_DRIVER
"""Our own driver name **(choice)**: `.internal` is reserved for private use, so it is nobody's."""

NEURON_DRIVER_VERSION = core.NEURON_DRIVER_VERSION
"""Version that devices report unless told otherwise: the driver of Neuron SDK 2.27."""


def resource_slices(
    system: str,
    *,
    nodes: int | None = None,
    driver: str = DEFAULT_DRIVER,
    lnc: int | None = None,
    efa: bool = True,
    node_devices: bool = True,
    neuron_driver_version: str = NEURON_DRIVER_VERSION,
    instance_type: str | None = None,
    taints: Mapping[str, Sequence[Mapping[str, str]]] | None = None,
    generation: int = 1,
    counters: bool = False,
    ultraserver_devices: bool = False,
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
    counters
        Publish counters, by which a node and its chips exclude each other for any scheduler
        (partitionable devices of Kubernetes 1.35 and later; a slice of each pool has them).
    ultraserver_devices
        Publish a device for each whole UltraServer, in one pool with all its nodes and chips,
        which exclude each other by counters.

    Raises
    ------
    K8sError
        If something does not exist in the system or breaks a limit of Kubernetes.

    Examples
    --------
    >>> slices = resource_slices("gen2")
    >>> len(slices), sum(len(each["spec"]["devices"]) for each in slices)
    (36, 180)
    >>> whole = resource_slices("gen2", ultraserver_devices=True)
    >>> len(whole), whole[1]["spec"]["devices"][0]["name"]
    (4, 'neuron-ultraserver-0')
    """
    options = {
        "nodes": nodes,
        "driver": driver,
        "lnc": lnc,
        "efa": efa,
        "node_devices": node_devices,
        "neuron_driver_version": neuron_driver_version,
        "instance_type": instance_type,
        "taints": taints or {},
        "generation": generation,
        "counters": counters,
        "ultraserver_devices": ultraserver_devices,
    }
    return asked(core.resource_slices, system, options)


def pool_slices(
    pool: str, devices: Sequence[Mapping[str, Any]], *, driver: str, node: str, generation: int = 1
) -> list[Object]:
    """Split the devices of a pool over as few slices as Kubernetes allows.

    128 devices fit into a slice, 64 if one of them has taints or uses counters.

    >>> [len(each["spec"]["devices"]) for each in pool_slices(
    ...     "p", [{"name": f"d{n}"} for n in range(144)], driver="d.internal", node="n")]
    [128, 16]
    """
    return asked(core.pool_slices, pool, devices, driver, node, generation)


def device_class(name: str = DEFAULT_DRIVER, *, driver: str | None = None) -> Object:
    """Return the DeviceClass of a driver's devices; its name is the driver's unless told otherwise.

    >>> device_class("neuron.aws.com")["spec"]["selectors"][0]["cel"]["expression"]
    "device.driver == 'neuron.aws.com'"
    """
    return asked(core.device_class, name, driver)
