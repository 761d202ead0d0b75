"""Every export against what the other simulator's loader asks for, and the checks themselves."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

import trn3
from support import other_simulators as others
from support.commands import ROOT
from trn3 import facts, interchange, nki
from trn3.interchange import chakra
from trn3.nki import isa, language as nl

#: All built-in systems whose chips are joined: what a fabric can be drawn of.
SYSTEMS = [name for name in facts.names() if "fabric" in facts.load(name).parts]
#: Those of which a chip of NeuronCores is known.
TRAINIUM = [name for name in SYSTEMS if name.startswith("trn")]


def calculon(system: str) -> dict[str, Any]:
    """Return what the file says, not what Python holds."""
    content: dict[str, Any] = json.loads(interchange.calculon(system).text())
    return content


def test_there_are_systems_of_every_kind() -> None:
    assert {"trn1_32xlarge", "trn3_gen2", "gb300_nvl72", "b200"} <= set(SYSTEMS)
    assert len(TRAINIUM) >= 5


@pytest.mark.parametrize("system", SYSTEMS)
def test_calculon_takes_every_system(system: str) -> None:
    facts_of = facts.load(system)
    chip = facts_of.part("chip") or facts_of
    if "tflops_bf16" in chip:
        assert others.calculon_faults(calculon(system)) == []
    else:
        with pytest.raises(interchange.ExportError, match="lacks tflops_bf16, which Calculon"):
            calculon(system)


@pytest.mark.parametrize("system", TRAINIUM)
def test_llmcompass_takes_every_system_of_neuroncores(system: str) -> None:
    assert others.llmcompass_faults(json.loads(interchange.llmcompass(system).text())) == []


@pytest.mark.parametrize("system", SYSTEMS)
def test_astra_sim_takes_every_system(system: str) -> None:
    assert others.astra_sim_faults(yaml.safe_load(interchange.astra_sim(system).text())) == []


@pytest.mark.parametrize("system", TRAINIUM)
def test_astra_sim_takes_every_chip_and_its_algorithms(system: str) -> None:
    network = interchange.astra_sim(system).content
    chip = json.loads(interchange.astra_sim(system, "system").text())
    assert others.astra_sim_system_faults(chip, network["npus_count"]) == []
    memory = json.loads(interchange.astra_sim(system, "memory").text())
    assert memory == {"memory-type": "NO_MEMORY_EXPANSION"}


def test_astra_sims_chip_is_the_spec_files() -> None:
    chip = interchange.astra_sim("trn3_gen2", part="system").content
    assert chip["peak-perf"] == pytest.approx(512 * 128 * 2 * 2.4e9 * 2 / 1e12, rel=1e-5)
    assert chip["local-mem-bw"] == 128 * 33
    # 18 servers hang on a rack's switch: no power of two.
    assert chip["all-reduce-implementation"] == ["halvingDoubling", "ring", "direct"]
    with pytest.raises(ValueError, match="part is 'chip'; allowed: network, system, memory"):
        interchange.astra_sim("trn3_gen2", part="chip")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("all-reduce-implementation/1", "halvingDoubling"),
        ("all-gather-implementation/0", "tree"),
        ("all-to-all-implementation", ["ring"]),
        ("scheduling-policy", "SJF"),
        ("collective-optimization", None),
        ("boost-mode", 0),
        ("peak-perf", 0),
        ("endpoint-delay", 0.5),
    ],
)
def test_astra_sims_system_is_rebuilt_with_its_refusals(path: str, value: object) -> None:
    sizes = interchange.astra_sim("trn3_gen2").content["npus_count"]
    content = copy.deepcopy(dict(interchange.astra_sim("trn3_gen2", "system").content))
    assert others.astra_sim_system_faults(content, sizes) == []
    set_at(content, path, value)
    assert others.astra_sim_system_faults(content, sizes)


@pytest.mark.parametrize("system", TRAINIUM)
def test_calculon_has_efa_as_its_last_network(system: str) -> None:
    document = interchange.calculon(system)
    *inner, network = document.content["networks"]
    per_chip = {"trn1_32xlarge": 50}.get(system, 200) / 8
    assert (network["bandwidth"], network["latency"]) == (per_chip, 15e-6)
    assert network["size"] > inner[-1]["size"]
    assert [tier["must_be_filled"] for tier in (*inner, network)] == [True] * len(inner) + [False]
    assert any("last network is efa" in note for note in document.notes)


def test_calculon_takes_a_ring_for_its_bytes() -> None:
    server, *_ = calculon("trn3_gen2")["networks"]
    size, ranks = 1 << 30, 4
    for operation, times in (("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)):
        seconds = others.calculon_seconds(server, operation, size, ranks)
        # Four links of 64 GB/s into the switch.
        assert seconds == pytest.approx(1.5e-6 + times * size * 3 / 4 / 256e9)
    torus, *_ = calculon("trn2_instance")["networks"]
    # A message goes over one of the two directions of a ring, a collective over both.
    assert others.calculon_seconds(torus, "p2p", size, 2) == pytest.approx(1.5e-6 + size / 128e9)
    both = others.calculon_seconds(torus, "all_gather", size, ranks)
    assert both == pytest.approx(1.5e-6 + size * 3 / 4 / 256e9)


def set_at(content: Any, path: str, value: object) -> None:
    *way, last = path.split("/")
    for each in way:
        content = content[int(each) if isinstance(content, list) else each]
    key = int(last) if isinstance(content, list) else last
    if value is None:
        del content[key]
    else:
        content[key] = value


# The three things that Calculon refused 0.1.0's files for, and one of each kind beside them.
CALCULON = {
    "matrix/tflops": 2517.0,
    "networks/0/collective_minus1_scalar": True,
    "networks/0/ops/all_reduce": 1.0,
    "networks/0/ops/all_gather": [1.0, None],
    "networks/0/ops/p2p": [1.0, 0],
    "networks/0/ops/barrier": [1.0, 0],
    "networks/0/bandwidth": 0,
    "networks/0/efficiency": 1.5,
    "networks/0/size": 2.5,
    "networks/0/processor_usage": 1.0,
    "networks/0/latency": None,
    "networks/0/size ": 3,
    "mem1/GBps": "fast",
    "mem1/MB_efficiency/0": [0.01, 0.5],
    "mem1/MB_efficiency/4": [0.01, 0.5],
    "mem2": None,
    "vector/float16/gflops_efficiency": [[0, 0.0]],
    "vector/int4": {"tflops": 1.0, "gflops_efficiency": [[0, 1.0]]},
    "processing_mode": "sum",
    "networks/1/size": 1,
}


@pytest.mark.parametrize("path", CALCULON)
def test_calculons_loader_is_rebuilt_with_its_refusals(path: str) -> None:
    content = copy.deepcopy(calculon("trn3_gen2"))
    set_at(content, path, CALCULON[path])
    assert others.calculon_faults(content)


@pytest.mark.parametrize(
    ("function", "check", "path", "value"),
    [
        (interchange.astra_sim, others.astra_sim_faults, "topology/0", "Torus"),
        (interchange.astra_sim, others.astra_sim_faults, "npus_count/0", 1),
        (interchange.astra_sim, others.astra_sim_faults, "bandwidth/1", 0),
        (interchange.astra_sim, others.astra_sim_faults, "latency/1", -1.0),
        (interchange.astra_sim, others.astra_sim_faults, "latency/1", None),
        (interchange.astra_sim, others.astra_sim_faults, "bandwidth", 5.0),
        (interchange.llmcompass, others.llmcompass_faults, "device/frequency_Hz", None),
        (interchange.llmcompass, others.llmcompass_faults, "device_count", 1.5),
        (interchange.llmcompass, others.llmcompass_faults, "interconnect/topology", "TORUS"),
        (
            interchange.llmcompass,
            others.llmcompass_faults,
            "device/compute_chiplet/core/systolic_array/data_type",
            "half",
        ),
    ],
)
def test_loaders_are_rebuilt_with_their_refusals(
    function: Callable[[str], interchange.ExportDocument],
    check: Callable[[Any], list[str]],
    path: str,
    value: object,
) -> None:
    content = copy.deepcopy(dict(function("trn3_gen2").content))
    assert check(content) == []
    set_at(content, path, value)
    assert check(content)


def test_chakra_reads_the_traces_of_plans() -> None:
    plan = trn3.plan("llama-3-8b", "gen2", tp=4, pp=2, batch=4, context=4_000)
    for trace in chakra.from_plan(plan):
        assert others.chakra_faults(chakra.dumps(trace)) == []


def test_chakra_reads_the_trace_of_a_kernel() -> None:
    def kernel() -> None:
        tile = nl.ndarray((128, 512), nl.float32, buffer=nl.sbuf)
        isa.memset(tile, 1.0)
        isa.tensor_tensor(tile, tile, tile, op=nl.add)

    _, profile = nki.profile(kernel)
    assert others.chakra_faults(chakra.dumps(chakra.from_profile(profile))) == []


def test_chakras_schema_refuses_what_it_has_no_field_for() -> None:
    newer = chakra.Node(0, "write", chakra.NodeType.STORAGE_NODE, storage=b"\x08\x01")
    lost = chakra.Node(1, "add", chakra.NodeType.COMP_NODE, data_deps=(7,))
    bare = chakra.Node(2, "sum", chakra.NodeType.COMM_COLL_NODE)
    # Trace checks its own nodes: the dependency that is not there is written by hand.
    faults = others.chakra_faults(chakra.dumps(chakra.Trace((newer, bare))))
    assert [fault.split(" ", 2)[2] for fault in faults] == [
        "has fields that the schema does not",
        "is of type 8",
        "says no comm_type or comm_size",
    ]
    data = chakra.dumps(chakra.Trace((chakra.Node(7, "a", chakra.NodeType.COMP_NODE), lost)))
    assert others.chakra_faults(data) == []
    # Without the node it waits for.
    first, wanted, *rest = list(others.messages(data))
    cut = b"".join(bytes([len(each)]) + each for each in (first, *rest))
    assert others.chakra_faults(cut) == ["node 1 waits for 7, which is not there"]
    assert wanted


def test_the_page_names_what_each_export_was_checked_against() -> None:
    page = (ROOT / "docs/how-to/interchange.md").read_text(encoding="utf-8")
    for version in others.VERSIONS.values():
        for word in version.replace(",", "").replace(":", "").split():
            if any(map(str.isdigit, word)) and len(word) == 7:
                assert word in page, word
