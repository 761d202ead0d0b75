"""Jobs beside each other: times by hand, slow-downs where links are shared, none elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trn3 import k8s, systems
from trn3.__main__ import main
from trn3.flows import Message

OWN = k8s.DEFAULT_DRIVER
NODE = f'device.attributes["{OWN}"].resourceType == "neuron_node"'


def _claim(name: str, count: int, **annotations: str) -> dict[str, Any]:
    exactly = {"deviceClassName": OWN, "count": count}
    notes = {f"trn3.internal/{key}": value for key, value in annotations.items()}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "annotations": notes},
        "spec": {"devices": {"requests": [{"name": "chips", "exactly": exactly}]}},
    }


def _leaders(name: str, size: int, replicas: int = 1) -> list[dict[str, Any]]:
    selectors = [{"cel": {"expression": NODE}}]
    request = {"name": "node", "exactly": {"deviceClassName": OWN, "selectors": selectors}}
    pod = {
        "containers": [{"name": "worker", "image": "registry.example/job:1"}],
        "resourceClaims": [{"name": "node", "resourceClaimTemplateName": f"{name}-node"}],
    }
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": f"{name}-node"},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        },
        {
            "apiVersion": "leaderworkerset.x-k8s.io/v1",
            "kind": "LeaderWorkerSet",
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "leaderWorkerTemplate": {"size": size, "workerTemplate": {"spec": pod}},
            },
        },
    ]


def test_a_job_alone_takes_what_its_links_take() -> None:
    """Four chips of a server with 4 links of 64 GB/s each: 3/4 of the bytes leave a chip, twice."""
    found = k8s.schedule([_claim("one", 4)], "gen2", size=256e6)
    [job] = found.jobs
    expected = 2 * (0.75 * 256e6 / (4 * 64e9) + 1.5e-6)
    assert job.alone == pytest.approx(expected, rel=1e-6)
    assert job.together == pytest.approx(job.alone)
    halved = k8s.schedule([_claim("one", 4, collective="all_gather")], "gen2", size=256e6)
    assert halved.jobs[0].alone == pytest.approx(expected / 2, rel=1e-6)
    more = k8s.schedule([_claim("one", 4, bytes="512e6")], "gen2")
    assert more.jobs[0].alone == pytest.approx(2 * expected - 3e-6, rel=1e-6)


def test_jobs_on_servers_of_their_own_do_not_meet() -> None:
    jobs = [_claim(f"job-{number}", 4) for number in range(6)]
    found = k8s.schedule(jobs, "gen2", collective="all_to_all")
    assert [job.slowdown for job in found.jobs] == pytest.approx([1.0] * 6)
    assert len({job.nodes for job in found.jobs}) == 6
    assert found.free.free == 144 - 24


def test_a_job_across_racks_slows_whom_it_passes() -> None:
    """Chips of the same place join racks, so what crosses goes through chips of others."""
    jobs = [*_leaders("wide", 14), *_leaders("narrow", 12)]
    found = k8s.schedule(jobs, "gen2", collective="all_to_all")
    wide, narrow = found.jobs
    racks = {systems.trn3_gen2().chips[chip][0] for chip in wide.chips}
    assert racks == {0, 1}
    assert narrow.slowdown > 1.2
    assert wide.slowdown < 1.1
    assert all(job.slowdown > 0.99 for job in found.jobs)
    assert narrow.binding


def test_the_slowdown_is_that_of_one_message_between_two() -> None:
    """Two jobs of two chips whose one way is a link of a torus share it by halves."""
    torus = systems.trn2_instance()
    messages = [Message((0, 0), (0, 2), 1e9), Message((0, 0), (0, 2), 1e9)]
    both, one = torus.simulate(messages), torus.simulate(messages[:1])
    assert both.time > 1.9 * one.time


def test_a_job_of_one_chip_sends_nothing_and_a_job_on_two_systems_is_not_timed() -> None:
    found = k8s.schedule([_claim("one", 1)], "trn2", nodes=1)
    assert (found.jobs[0].alone, found.jobs[0].slowdown) == (0.0, 1.0)
    spread = k8s.schedule(_leaders("large", 20), "trn2_ultraserver", nodes=20)
    [job] = spread.jobs
    assert job.ultraserver == -1
    assert any("not timed" in note for note in spread.notes)


def test_groups_of_a_set_are_jobs_and_pods_of_a_job_are_one() -> None:
    found = k8s.schedule(_leaders("set", 2, replicas=3), "gen2", timing=False)
    assert [job.name for job in found.jobs] == ["default/set-0", "default/set-1", "default/set-2"]
    assert all(len(job.chips) == 8 and len(job.nodes) == 2 for job in found.jobs)
    template, workload = _leaders("train", 1)
    pod = workload["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"parallelism": 4, "template": {"spec": pod}},
    }
    [one] = k8s.schedule([template, job], "gen2", timing=False).jobs
    assert (one.name, len(one.chips)) == ("default/train", 16)


@pytest.mark.parametrize(
    ("notes", "needle"), [({"collective": "shout"}, "shout"), ({"bytes": "-1"}, "bytes are '-1'")]
)
def test_what_a_job_cannot_do_is_refused(notes: dict[str, str], needle: str) -> None:
    with pytest.raises(k8s.K8sError, match=needle):
        k8s.schedule([_claim("one", 4, **notes)], "gen2")


def test_the_command_prints_slowdowns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(k8s.to_yaml([_claim("a", 4), _claim("b", 4)]))
    assert main(["k8s", "schedule", str(path), "--timing"]) == 0
    assert "beside us" in capsys.readouterr().out
    assert main(["k8s", "schedule", str(path), "--timing", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [job["slowdown"] for job in printed["jobs"]] == [1.0, 1.0]
    assert main(["k8s", "schedule", str(path), "--system", "trn2", "--collective", "x"]) == 2
