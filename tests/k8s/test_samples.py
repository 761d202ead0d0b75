"""Seven claims in the shape of the driver's documentation are met, and the results conform."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from support.resource_claims import DRIVER, devices_of, numbers_of
from trn3 import k8s

DATA = Path(__file__).parent / "data"


def met(name: str, system: str, nodes: int | None = None) -> list[dict[str, Any]]:
    inventory = k8s.resource_slices(system, nodes=nodes, driver=DRIVER)
    bodies = k8s.allocate(k8s.read(DATA / f"{name}.yaml"), inventory).objects
    for body in bodies:
        for version in ("1.34", "1.35", "1.36", "1.37"):
            kubernetes_validate.validate(body, version, strict=True)
    return bodies


def test_samples_are_seven_and_conform_themselves() -> None:
    files = sorted(DATA.glob("*.yaml"))
    assert len(files) == 7
    for path in files:
        for document in k8s.read(path):
            if document.body["apiVersion"].startswith("resource.k8s.io"):
                kubernetes_validate.validate(document.body, "1.34", strict=True)


@pytest.mark.parametrize(("system", "count"), [("trn2", 16), ("trn2_ultraserver", 64)])
def test_one_row_is_a_row(system: str, count: int) -> None:
    assert count
    (body,) = met("one-row", system)
    assert numbers_of(body) == [0, 1, 2, 3]
    assert body["metadata"]["name"].startswith("server-row-")
    selector = body["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"][0]
    assert selector["matchFields"][0]["values"] == [devices_of(body)[0][0]]


def test_half_node_is_two_rows() -> None:
    (body,) = met("half-node", "trn2")
    assert numbers_of(body) == list(range(8))


def test_whole_node_is_all_of_it_with_the_labels_of_the_template() -> None:
    (body,) = met("whole-node", "trn2", 2)
    assert numbers_of(body) == list(range(16))
    assert len({pool for pool, _ in devices_of(body)}) == 1
    assert body["metadata"]["namespace"] == "training"
    assert body["metadata"]["labels"] == {"team": "pretraining"}


def test_driver_version_takes_a_node_for_each_replica() -> None:
    bodies = met("driver-version", "trn2", 3)
    assert [len(devices_of(body)) for body in bodies] == [16, 16]
    assert devices_of(bodies[0])[0][0] != devices_of(bodies[1])[0][0]


def test_single_cores_pass_their_configuration_on() -> None:
    (body,) = met("single-cores", "trn2")
    assert numbers_of(body) == [8]
    (config,) = body["status"]["allocation"]["devices"]["config"]
    assert config["source"] == "FromClaim"
    assert config["requests"] == ["chip"]
    assert config["opaque"]["parameters"]["logicalNeuronCore"] == 1


@pytest.mark.parametrize("system", ["trn2_ultraserver", "gen1"])
def test_two_nodes_are_pairs_of_neighbours(system: str) -> None:
    pools = [devices_of(body)[0][0] for body in met("two-nodes", system)]
    slices = k8s.resource_slices(system, driver=DRIVER)
    order = [each["spec"]["pool"]["name"] for each in slices]
    assert pools == order


@pytest.mark.parametrize("system", ["trn2_ultraserver", "gen1", "gen2"])
def test_four_nodes_are_of_one_ultraserver(system: str) -> None:
    bodies = met("four-nodes", system, 36 if system == "gen2" else 8)
    pools = [devices_of(body)[0] for body in bodies]
    assert len(set(pools)) == 4
    assert {device for _, device in pools} == {"neuron-node-0"}
    assert len({pool.rsplit("-r", 1)[0] for pool, _ in pools}) == 1
    kinds = [
        each["opaque"]["parameters"]["kind"]
        for each in bodies[0]["status"]["allocation"]["devices"]["config"]
    ]
    assert kinds == ["UltraServerConfig", "NeuronConfig"]
