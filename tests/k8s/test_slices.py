"""ResourceSlices of every system."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import kubernetes_validate
import pytest
from hypothesis import given, strategies as st

from trn3 import k8s
from trn3.k8s import schema

SYSTEMS = ["trn1_32xlarge", "trn2_instance", "trn2_ultraserver", "trn3_gen1", "trn3_gen2"]
VERSIONS = ["1.34", "1.35", "1.36", "1.37"]


def attributes(device: dict[str, Any]) -> dict[str, Any]:
    """Return plain values; the type of each is a test of its own."""
    return {key: next(iter(value.values())) for key, value in device["attributes"].items()}


def devices(slices: list[dict[str, Any]], kind: str = "neuron_device") -> list[dict[str, Any]]:
    return [
        device
        for each in slices
        for device in each["spec"]["devices"]
        if attributes(device)["resourceType"] == kind
    ]


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("driver", ["trn3.internal", "neuron.aws.com"])
def test_slices_conform_to_the_published_schema(system: str, driver: str) -> None:
    objects = k8s.resource_slices(system, driver=driver, lnc=1)
    objects.append(k8s.device_class(driver))
    bodies = [each.body for each in k8s.parse(k8s.to_yaml(objects))]
    items = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "items": bodies[:-1]}
    for version in VERSIONS:
        kubernetes_validate.validate(items, version, strict=True)
        kubernetes_validate.validate(bodies[-1], version, strict=True)
    assert schema.check(objects)[:4] == VERSIONS


def test_schema_check_refuses_an_object_that_does_not_conform() -> None:
    body = k8s.device_class()
    body["spec"]["selectors"][0]["cel"]["expresion"] = "true"
    with pytest.raises(
        k8s.K8sError, match=r"DeviceClass trn3.internal: spec.selectors.0.cel: .*expresion"
    ):
        schema.check([body])


@pytest.mark.parametrize(
    ("system", "pools", "chips", "per_pool", "nodes"),
    [
        ("trn1", 1, 16, 16, 0),
        ("trn2", 1, 16, 16, 0),
        ("trn2_ultraserver", 4, 64, 16, 4),
        ("gen1", 4, 64, 16, 4),
        ("gen2", 36, 144, 4, 36),
    ],
)
def test_slices_have_a_pool_for_each_node(
    system: str, pools: int, chips: int, per_pool: int, nodes: int
) -> None:
    slices = k8s.resource_slices(system)
    names = {each["spec"]["pool"]["name"] for each in slices}
    assert len(names) == pools
    assert len(devices(slices)) == chips
    assert len(devices(slices, "neuron_node")) == nodes
    for each in slices:
        assert len(devices([each])) == per_pool
        assert each["spec"]["pool"]["resourceSliceCount"] == 1
        assert each["spec"]["nodeName"] == each["spec"]["pool"]["name"]


@given(st.integers(min_value=0, max_value=600), st.booleans())
def test_pool_slices_never_exceed_the_limit(count: int, tainted: bool) -> None:
    bodies: list[dict[str, Any]] = [{"name": f"d{index}"} for index in range(count)]
    if tainted and bodies:
        bodies[-1]["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    limit = 64 if tainted and bodies else 128
    slices = k8s.pool_slices("pool", bodies, driver="d.internal", node="node")
    sizes = [len(each["spec"]["devices"]) for each in slices]
    assert sum(sizes) == count
    assert max(sizes) <= limit
    assert all(each["spec"]["pool"]["resourceSliceCount"] == len(slices) for each in slices)
    assert len({each["metadata"]["name"] for each in slices}) == len(slices)


def test_slices_never_hold_the_144_chips_of_a_gen2_ultraserver_at_once() -> None:
    gen2 = devices(k8s.resource_slices("gen2"))
    assert len(gen2) == 144
    slices = k8s.pool_slices("one-pool", gen2, driver="d.internal", node="n")
    assert [len(each["spec"]["devices"]) for each in slices] == [128, 16]
    pool = {"name": "one-pool", "generation": 1, "resourceSliceCount": 1}
    whole = [{**slices[0], "spec": {**slices[0]["spec"], "devices": gen2, "pool": pool}}]
    with pytest.raises(k8s.K8sError, match="144 devices; a slice like this holds at most 128"):
        k8s.allocate([], whole)


@pytest.mark.parametrize("system", SYSTEMS)
def test_slices_keep_the_limits_of_the_api(system: str) -> None:
    for each in k8s.resource_slices(system, lnc=1):
        assert len(each["metadata"]["name"]) <= 253
        for device in each["spec"]["devices"]:
            assert re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", device["name"])
            assert len(device["attributes"]) + len(device["capacity"]) <= 32
            for key, value in device["attributes"].items():
                domain, _, name = key.rpartition("/")
                assert len(name) <= 32
                assert len(domain) <= 63
                assert len(value) == 1
                (kind,) = value
                assert type(value[kind]) is {"int": int, "string": str, "version": str}[kind]
                assert not isinstance(value[kind], str) or len(value[kind]) <= 64


def test_attributes_have_the_types_of_the_driver() -> None:
    (chip,) = (each for each in devices(k8s.resource_slices("trn2")) if each["name"].endswith("-6"))
    kinds = {key: next(iter(value)) for key, value in chip["attributes"].items()}
    for name in ("deviceId", "topology_x", "topology_y", "topology4_id", "topology8_id"):
        assert kinds[name] == "int"
    for name in ("instanceType", "neuronDriverVersion", "resourceType", "networkNodeLayer1"):
        assert kinds[name] == "string"
    assert kinds["draDriverVersion"] == "version"
    assert {kinds[f"resource.aws.com/devicegroup{size}_id"] for size in (1, 4, 8, 16)} == {"string"}
    assert chip["capacity"]["memory"] == {"value": "96Gi"}


def test_groups_of_the_torus_are_rows_and_pairs_of_rows() -> None:
    chips = [attributes(each) for each in devices(k8s.resource_slices("trn2"))]
    for chip in chips:
        index = chip["deviceId"]
        assert (chip["topology_x"], chip["topology_y"]) == (index // 4, index % 4)
        assert (chip["topology4_id"], chip["topology8_id"]) == (index // 4, index // 8)
        # Rows 0 and 3 are on NUMA node 1, rows 1 and 2 on node 0.
        assert chip["resource.kubernetes.io/numaNode"] == (1 if index // 4 in {0, 3} else 0)
    for size in (1, 4, 8, 16):
        groups = Counter(chip[f"resource.aws.com/devicegroup{size}_id"] for chip in chips)
        assert list(groups.values()) == [size] * (16 // size)


def test_groups_of_a_gen2_sled_are_its_four_chips() -> None:
    slices = k8s.resource_slices("gen2")
    groups = Counter(
        attributes(each)["resource.aws.com/devicegroup4_id"] for each in devices(slices)
    )
    assert sorted(groups.values()) == [4] * 36
    assert "resource.aws.com/devicegroup8_id" not in attributes(devices(slices)[0])


def test_capacity_blocks_are_ultraservers() -> None:
    slices = k8s.resource_slices("gen1", nodes=6)
    blocks = Counter(attributes(each)["capacityBlockId"] for each in devices(slices, "neuron_node"))
    assert sorted(blocks.values()) == [2, 4]
    chips = [attributes(each) for each in devices(slices)]
    assert all("topology_x" not in chip for chip in chips)
    layer = {chip["capacityBlockId"]: chip["networkNodeLayer3"] for chip in chips}
    assert len(set(layer.values())) == 2
    assert "capacityBlockId" not in attributes(devices(k8s.resource_slices("trn2"))[0])


def test_options_are_seen_in_the_attributes() -> None:
    slices = k8s.resource_slices(
        "trn2", driver="neuron.aws.com", lnc=1, efa=False, neuron_driver_version="9.9"
    )
    chip = attributes(devices(slices)[0])
    assert not any(key.startswith("resource.aws.com/") for key in chip)
    assert chip["trn3.internal/logicalNeuronCore"] == 1
    assert chip["neuronDriverVersion"] == "9.9"
    assert not devices(k8s.resource_slices("gen2", node_devices=False), "neuron_node")


def test_slices_are_the_same_every_time() -> None:
    assert k8s.to_yaml(k8s.resource_slices("gen2")) == k8s.to_yaml(k8s.resource_slices("gen2"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"system": "gen3"}, "no such system; known: .*gen1, gen2.*did you mean gen"),
        ({"system": "b300"}, "b300 has no nodes for Kubernetes; known: .*gen2"),
        ({"system": "trn2", "nodes": 0}, "--nodes 0: at least 1"),
        (
            {"system": "trn2", "driver": "Neuron"},
            "--driver Neuron: .*DNS subdomain.*neuron.aws.com",
        ),
        ({"system": "trn2", "lnc": 4}, "--lnc 4: a logical core of trainium2 has 1 or 2 physical"),
        ({"system": "trn1", "lnc": 2}, "--lnc 2: a logical core of trainium1 has 1 physical"),
        ({"system": "trn2", "neuron_driver_version": "1" * 65}, "at most 64 characters"),
        (
            {"system": "trn2", "taints": {"x/y": [{"key": "k", "effect": "NoSchedule"}]}},
            (
                "--taint x/y: there is no such device; a device is called "
                "trn2-instance-0/neuron-device-0"
            ),
        ),
        (
            {
                "system": "trn2",
                "taints": {"trn2-instance-0/neuron-device-0": [{"key": "k", "effect": "Never"}]},
            },
            "taint effect 'Never': must be one of None, NoSchedule, NoExecute",
        ),
    ],
)
def test_slices_refuse_what_does_not_exist(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(k8s.K8sError, match=message):
        k8s.resource_slices(**arguments)
