"""``trn3 k8s``."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

DATA = Path(__file__).parents[1] / "k8s" / "data"


@pytest.fixture
def slices(run: Callable[..., Any], tmp_path: Path) -> Path:
    path = tmp_path / "slices.yaml"
    outcome = run("k8s", "slices", "--system", "trn2", "--driver", "neuron.aws.com", "-o", path)
    assert (outcome.code, outcome.stderr) == (0, "")
    return path


def test_slices_are_written_as_yaml_or_json(run: Callable[..., Any]) -> None:
    text = run("k8s", "slices", "--system", "gen2", "--validate")
    assert text.code == 0
    documents = list(yaml.safe_load_all(text.stdout))
    assert len(documents) == 36
    listed = run("k8s", "slices", "--system", "gen2", "--json")
    assert json.loads(listed.stdout)["items"] == documents


def test_class_is_written(run: Callable[..., Any]) -> None:
    body = yaml.safe_load(
        run("k8s", "class", "mine", "--driver", "d.internal", "--validate").stdout
    )
    assert body["metadata"]["name"] == "mine"
    assert "d.internal" in body["spec"]["selectors"][0]["cel"]["expression"]


def test_allocate_writes_claims_and_a_table(
    run: Callable[..., Any], slices: Path, tmp_path: Path
) -> None:
    out = tmp_path / "allocated.yaml"
    outcome = run(
        "k8s", "allocate", DATA / "one-row.yaml", "--inventory", slices, "-o", out, "--validate"
    )
    assert outcome.code == 0
    assert "neuron-device-3" in outcome.stdout
    assert len(yaml.safe_load(out.read_text())["status"]["allocation"]["devices"]["results"]) == 4
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["allocated.yaml", "slices.yaml"]
    # What was written is what is taken the next time.
    rest = run("k8s", "allocate", DATA / "one-row.yaml", "-i", slices, "--allocated", out)
    numbers = [
        each["device"]
        for each in yaml.safe_load(rest.stdout)["status"]["allocation"]["devices"]["results"]
    ]
    assert numbers == [f"neuron-device-{n}" for n in range(4, 8)]
    free = json.loads(run("k8s", "free", "-i", slices, "--allocated", out, "--json").stdout)
    assert (free["free"], free["nodes"][0]["groups"]) == (12, {"16": 0, "8": 1, "4": 3})
    assert "12 of 16 chips free" in run("k8s", "free", "-i", slices, "--allocated", out).stdout


def test_allocate_refuses_in_one_line_and_writes_nothing(
    refused: Callable[..., str], slices: Path, tmp_path: Path
) -> None:
    claims = tmp_path / "claims.yaml"
    claims.write_text((DATA / "one-row.yaml").read_text().replace("count: 4", "count: 9"))
    out = tmp_path / "out.yaml"
    text = refused("k8s", "allocate", claims, "-i", slices, "-o", out)
    assert "ask for 4, or match resource.aws.com/devicegroup16_id" in text
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["slices", "--system", "gen9"], "no such system"),
        (
            ["slices", "--system", "gen2", "--taint", "x"],
            "--taint x: write POOL/DEVICE:KEY=VALUE:EFFECT",
        ),
        (["allocate", "missing.yaml", "-i", "missing.yaml"], "missing.yaml: No such file"),
        (["allocate", "missing.yaml"], "inventory"),
        (["class", "Not_A_Name"], "must be a DNS subdomain"),
    ],
)
def test_commands_refuse_bad_input(
    refused: Callable[..., str], arguments: list[str], message: str
) -> None:
    assert message in refused("k8s", *arguments)


def test_the_module_run_as_a_program_refuses_in_one_line() -> None:
    words = [sys.executable, "-m", "trn3", "k8s", "slices", "--system", "gen9"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("trn3: error: --system gen9: no such system")
    assert done.stderr.count("\n") == 1
