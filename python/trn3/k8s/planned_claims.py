"""Plans of serving as Kubernetes objects: what claims devices for each replica, and its pods."""

from __future__ import annotations

import re
from typing import Any, Final

from trn3.k8s.documents import Object
from trn3.k8s.errors import K8sError
from trn3.k8s.slices import DEFAULT_DRIVER, resource_slices

#: Groups of devices that the driver has an attribute of.
GROUPS: Final = (1, 4, 8, 16)
#: Nodes of an UltraServer that the driver sets aside together.
MODES: Final = (2, 4)
IMAGE: Final = "registry.example/server:1"


def claims_of_plan(
    plan: Any, *, name: str | None = None, driver: str = DEFAULT_DRIVER, image: str = IMAGE
) -> list[Object]:
    """Return the claim template of a replica of a plan, and the workload whose pods use it.

    A replica that fits a node is a pod of a Deployment, with devices of the smallest group that
    holds them; a larger one is a LeaderWorkerSet of whole nodes, of an aligned set where the driver
    has such (2 or 4). Replicas that share a chip share a pod **(choice)**. Logical cores are set as
    planned.

    Parameters
    ----------
    plan : Plan or Mapping
        A plan, or what its ``to_dict`` gives (``trn3 plan --json``).
    name : str, optional
        Of the objects; by default the model's.
    driver : str
        Of the devices.
    image : str
        Of the container.

    Raises
    ------
    K8sError
        If it is no plan of serving, or its system has no nodes.

    Examples
    --------
    >>> import trn3
    >>> plan = trn3.plan("llama-3-8b", "gen2", tp=4, batch=8, context=8_000)
    >>> template, workload = plan.to_resource_claims()
    >>> template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"]
    1
    >>> workload["kind"], workload["spec"]["replicas"]
    ('Deployment', 144)
    """
    document = plan.to_dict() if hasattr(plan, "to_dict") else plan
    try:
        replicas, chips = document["layout"]["replicas"], document["chips"]
        lnc, system = document["layout"]["lnc"], document["system"]["name"]
        named = name or re.sub(r"[^a-z0-9]+", "-", str(document["model"]["name"]).lower()).strip(
            "-"
        )
    except (KeyError, TypeError) as error:
        message = (
            f"this is no plan of serving: it lacks {error}; needed: what trn3 plan --json prints"
        )
        raise K8sError(message) from error
    pods = min(replicas, chips)
    each, room = chips // pods, _chips_of_node(system)
    template = f"{named}-devices"
    request: dict[str, Any] = {"deviceClassName": driver, "count": each}
    spec: dict[str, Any] = {"requests": [{"name": "devices", "exactly": request}]}
    config = [_opaque(driver, "NeuronConfig", "logicalNeuronCore", lnc)]
    kind = "neuron_device" if each <= room else "neuron_node"
    chosen = f'device.attributes["{driver}"].resourceType == "{kind}"'
    request["selectors"] = [{"cel": {"expression": chosen}}]
    if each <= room:
        size = next((group for group in GROUPS if each <= group <= room), None)
        if each > 1 and size is not None:
            attribute = f"resource.aws.com/devicegroup{size}_id"
            spec["constraints"] = [{"requests": ["devices"], "matchAttribute": attribute}]
    else:
        request["count"] = 1
        if -(-each // room) in MODES:
            config.append(_opaque(driver, "UltraServerConfig", "ultraserverMode", -(-each // room)))
    spec["config"] = config
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": template},
        "spec": {"spec": {"devices": spec}},
    }
    pod = {
        "containers": [
            {"name": "server", "image": image, "resources": {"claims": [{"name": "devices"}]}}
        ],
        "resourceClaims": [{"name": "devices", "resourceClaimTemplateName": template}],
    }
    if each <= room:
        return [claim, _deployment(named, pods, pod)]
    return [claim, _leaders(named, pods, -(-each // room), pod)]


def _deployment(name: str, replicas: int, pod: Object) -> Object:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _leaders(name: str, replicas: int, size: int, pod: Object) -> Object:
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "leaderWorkerTemplate": {"size": size, "workerTemplate": {"spec": pod}},
        },
    }


def _opaque(driver: str, kind: str, key: str, value: int) -> Object:
    parameters = {"apiVersion": f"{driver}/v1", "kind": kind, key: value}
    return {"requests": ["devices"], "opaque": {"driver": driver, "parameters": parameters}}


def _chips_of_node(system: str) -> int:
    try:
        [first] = resource_slices(system, nodes=1, node_devices=False)
    except K8sError as error:
        message = f"the plan's system has no nodes of Kubernetes: {error}"
        raise K8sError(message) from error
    return len(first["spec"]["devices"])
