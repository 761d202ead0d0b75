"""Systems as inputs of other simulators."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

import trn3
from trn3 import interchange

FABRICS = {
    "trn1_32xlarge": 16,
    "trn2_instance": 16,
    "trn2_ultraserver": 64,
    "trn3_gen1": 64,
    "trn3_gen2": 144,
    "gb200_nvl72": 72,
    "gb300_nvl72": 72,
}


@pytest.mark.parametrize(("system", "chips"), FABRICS.items())
def test_astra_sim_says_every_chip_once(system: str, chips: int) -> None:
    document = interchange.astra_sim(system)
    loaded = yaml.safe_load(document.text())
    assert loaded == document.content
    assert int(np.prod(loaded["npus_count"])) == chips
    assert {len(value) for value in loaded.values()} == {len(loaded["topology"])}
    assert set(loaded["topology"]) <= {"Ring", "Switch", "FullyConnected"}
    assert all(rate > 0 for rate in loaded["bandwidth"])


def test_astra_sim_has_the_documented_rates() -> None:
    torus = interchange.astra_sim("trn2_ultraserver").content
    assert torus["topology"] == ["Ring"] * 3
    assert torus["npus_count"] == [4, 4, 4]
    assert torus["bandwidth"] == [128.0, 128.0, 64.0]
    switched = interchange.astra_sim("trn3_gen2")
    assert switched.content["topology"] == ["Switch", "Switch", "FullyConnected"]
    assert switched.content["npus_count"] == [4, 18, 2]
    assert switched.content["bandwidth"] == [256.0, 320.0, 128.0]
    assert any("rack switch also joins" in note for note in switched.notes)


@pytest.mark.parametrize("system", FABRICS)
def test_calculon_tables_cover_every_size(system: str) -> None:
    document = interchange.calculon(system)
    content = json.loads(document.text())
    assert content == document.content
    engines = [*content["matrix"].values(), *content["vector"].values()]
    tables = [engine["gflops_efficiency"] for engine in engines]
    tables += [content["mem1"]["MB_efficiency"], content["mem2"]["MB_efficiency"]]
    for table in tables:
        sizes = [size for size, _ in table]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-1] == 0
        assert all(0 < efficiency <= 1 for _, efficiency in table)
        assert [e for _, e in table] == sorted((e for _, e in table), reverse=True)
    sizes = [network["size"] for network in content["networks"]]
    assert sizes == sorted(sizes)
    # Of a system with a network beyond it, the last tier is that.
    assert FABRICS[system] in sizes[-2:]


def test_calculon_has_the_slower_of_memory_and_dma() -> None:
    content = interchange.calculon("trn3_gen2").content
    assert content["mem1"]["GBps"] == 128 * 33
    assert content["mem1"]["GiB"] == 144
    matrix = content["matrix"]
    eight = 512 * 128 * 2 * 2.4e9 * 8 / 1e12
    assert matrix["float8"]["tflops"] == pytest.approx(eight, rel=1e-5)
    # The array's bf16 rate is a quarter of that, its float32 rate a quarter of bf16's.
    assert matrix["bfloat16"]["tflops"] == pytest.approx(eight / 4, rel=1e-5)
    assert matrix["float32"]["tflops"] == pytest.approx(eight / 16, rel=1e-5)
    for engine in matrix.values():
        # Large operations outlast the ramp of the current limit.
        assert engine["gflops_efficiency"][0][1] == pytest.approx(1, rel=5e-3)
    assert set(content["vector"]) == set(matrix)


def test_llmcompass_multiplies_up_to_the_chip() -> None:
    content = json.loads(interchange.llmcompass("trn3_gen2").text())
    device = content["device"]
    chiplet = device["compute_chiplet"]
    array = chiplet["core"]["systolic_array"]
    cores = device["compute_chiplet_count"] * chiplet["core_count"]
    peak = cores * array["array_width"] * array["array_height"] * 2 * device["frequency_Hz"]
    assert peak == pytest.approx(629.1e12, rel=1e-3)
    io = device["io"]
    rate = io["memory_channel_active_count"] * io["pin_count_per_channel"]
    assert rate * io["bandwidth_per_pin_bit"] / 8 == pytest.approx(4.9e12)
    assert chiplet["core"]["SRAM_KB"] == 32 * 1024
    assert device["memory"]["total_capacity_GB"] == 144
    assert content["device_count"] == 144
    link = content["interconnect"]
    assert link["link"]["bandwidth_per_direction_byte"] * link["link_count_per_device"] == 256e9


def test_llmcompass_refuses_chips_without_cores() -> None:
    with pytest.raises(interchange.ExportError, match="allowed: systems of Trainium chips"):
        interchange.llmcompass("gb300_nvl72")


@pytest.mark.parametrize(
    "function", [interchange.astra_sim, interchange.calculon, interchange.llmcompass]
)
def test_exports_refuse_what_is_no_system(function: object) -> None:
    assert callable(function)
    with pytest.raises(ValueError, match="nearest"):
        function("trn3_gen9")
    with pytest.raises(TypeError, match="system is 7"):
        function(7)
    with pytest.raises(ValueError, match="no system that chips are joined in"):
        function("neuroncore_v4")
    with pytest.raises(interchange.ExportError, match="0/0/1"):
        function(trn3.UltraServer.gen2().fail((0, 0, 1)))


def test_exports_scale_to_the_headline() -> None:
    headline = interchange.astra_sim(trn3.UltraServer.gen2(links="headline")).content["bandwidth"]
    # The three levels add up to what the headline says, 2,560 GB/s in both directions.
    assert sum(headline) == pytest.approx(1280)


def test_document_appears_whole(tmp_path: Path) -> None:
    path = tmp_path / "network.yml"
    document = interchange.astra_sim("gen2")
    document.write(path)
    assert path.read_text() == document.text()
    with pytest.raises(FileNotFoundError):
        document.write(tmp_path / "absent" / "network.yml")
