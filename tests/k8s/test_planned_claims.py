"""Claims of plans: as many devices as a replica has chips, in forms that the allocator takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import trn3
from trn3 import k8s
from trn3.__main__ import main


def _plan(**more: Any) -> Any:
    given = {"model": "llama-3-8b", "system": "gen2", "batch": 8, "context": 8_000, **more}
    return trn3.plan(**given)


@pytest.mark.parametrize(
    ("system", "tp", "kind"),
    [("gen2", 4, "Deployment"), ("gen2", 8, "Deployment"), ("trn2", 8, "Deployment")],
)
def test_all_replicas_of_a_plan_find_their_chips(system: str, tp: int, kind: str) -> None:
    """What a plan takes of a system is there: every pod is placed, and holds a replica's chips."""
    plan = _plan(system=system, tp=tp)
    template, workload = plan.to_resource_claims()
    assert (template["kind"], workload["kind"]) == ("ResourceClaimTemplate", kind)
    found = k8s.allocate([template, workload], k8s.resource_slices(system))
    assert sum(len(each.devices) for each in found.placed) == plan.chips
    assert len(found.placed) == workload["spec"]["replicas"]
    assert all(each.score.pieces == 0 for each in found.placed)


def test_a_replica_of_nodes_is_a_group_of_an_aligned_set() -> None:
    plan = _plan(model="openai/gpt-oss-120b", tp=64)
    template, workload = plan.to_resource_claims(name="big")
    assert workload["kind"] == "LeaderWorkerSet"
    assert workload["spec"]["leaderWorkerTemplate"]["size"] * 4 * 4 == 64
    modes = [
        each["opaque"]["parameters"].get("ultraserverMode")
        for each in template["spec"]["spec"]["devices"]["config"]
    ]
    assert modes == [None, 4]
    found = k8s.allocate([template, workload], k8s.resource_slices("gen2"))
    assert len(found.placed) == 4 * plan.layout.replicas


def test_logical_cores_are_those_of_the_plan() -> None:
    for lnc in (1, 2):
        template, _ = _plan(tp=4, lnc=lnc).to_resource_claims()
        [config] = template["spec"]["spec"]["devices"]["config"]
        assert config["opaque"]["parameters"]["logicalNeuronCore"] == lnc


def test_the_objects_are_those_of_kubernetes() -> None:
    pytest.importorskip("kubernetes_validate")
    assert k8s.check(_plan(tp=8).to_resource_claims(driver="neuron.aws.com"))


def test_the_command_reads_what_plan_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    assert main(["plan", "llama-3-8b", "--tp", "4", "--json"]) == 0
    path.write_text(capsys.readouterr().out)
    assert main(["k8s", "claim", "--from-plan", str(path), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [each["kind"] for each in printed["items"]] == ["ResourceClaimTemplate", "Deployment"]


@pytest.mark.parametrize("text", ["{}", "[", '{"layout": 3}', "[]"])
def test_what_is_no_plan_is_refused(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    assert main(["k8s", "claim", "--from-plan", str(path)]) == 2
    assert "trn3 plan --json" in capsys.readouterr().err


def test_systems_without_nodes_are_refused() -> None:
    with pytest.raises(k8s.K8sError, match="no nodes of Kubernetes"):
        _plan(system="gb300_nvl72", tp=4).to_resource_claims()
