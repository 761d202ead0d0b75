"""Systems of one's own: a copy of one of the package answers as that one does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trn3
from trn3 import collectives, power, systems
from trn3.facts.spec import spec_of
from trn3.machine import arch
from trn3.planner.training import Training, plan_training

SPECS = Path(__file__).parents[2] / "rust" / "facts" / "specs"
COPIED = [
    ("trn3_gen2", "trainium3", "neuroncore_v4"),
    ("trn2_instance", "trainium2", "neuroncore_v3"),
    ("gb200_nvl72", "b200"),
    ("h100",),
]


def answers(system: str) -> dict[str, Any]:
    """Return what a plan, a training step, a collective, a bound and the power of a system are."""
    serving = trn3.plan("llama-3-8b", system, tp=4, batch=8, context=4_000)
    step = plan_training("llama-3-8b", system, Training(64, 4096, tp=4, pp=1, dp=2))
    whole = systems.load(system)
    document = serving.to_dict()
    return {
        "memory": document["memory"],
        "ttft": serving.ttft,
        "tpot": serving.tpot,
        "tpot_high": serving.tpot_high,
        "energy": document["energy"] and document["energy"]["watts"],
        "cost": document["cost"] and document["cost"]["per_million_tokens"],
        "step": step.step_time,
        "watts": step.watts,
        "all_reduce": collectives.time("all_reduce", 2**20, whole).time,
        "bound": whole.bound("all_to_all").per_chip,
        "power": power.power(system, dtype="bf16").watts,
        "pflops": trn3.cost.rental(1.0, 1, 1.0, system=system).per_pflop_hour,
    }


@pytest.mark.parametrize("names", COPIED, ids=lambda names: names[0])
def test_a_copy_answers_as_the_original(names: tuple[str, ...], tmp_path: Path) -> None:
    text = "\n".join((SPECS / f"{name}.toml").read_text(encoding="utf-8") for name in names)
    file = tmp_path / "mine.toml"
    file.write_text(text.replace("\nschema = 1\n", "\n"), encoding="utf-8")
    (tmp_path / "base.toml").write_text(f'[mine]\n_base = "{names[0]}"\n', encoding="utf-8")
    original = answers(names[0])
    assert answers(f"{file}:{names[0]}") == original
    assert answers(str(tmp_path / "base.toml")) == original


@pytest.mark.parametrize(
    ("system", "figures"),
    [
        (
            "trn3_gen2",
            ("hbm_bandwidth", "dma_bandwidth", "tflops_bf16", "tdp", "core.clock_tensor"),
        ),
        ("trn2_ultraserver", ("hbm_capacity", "tflops_fp8", "neuronlink_bandwidth")),
        ("gb300_nvl72", ("tflops_fp4", "hbm_bandwidth", "nvlink")),
        ("tpu_v7", ("tflops_fp8", "hbm_capacity")),
    ],
)
def test_a_change_to_what_a_figure_is_changes_no_plan(
    system: str, figures: tuple[str, ...]
) -> None:
    spec = systems.load(system).spec()
    chip = spec.parts.get("chip", spec)
    values = {
        figure: chip.parts["core"][figure[5:]] if figure.startswith("core.") else chip[figure]
        for figure in figures
    }
    # What is no change is none; next to nothing changes next to nothing.
    near = ",".join(f"{figure}=+0.0000001%" for figure in figures)
    same = ",".join(f"{figure}={quantity.number!r}" for figure, quantity in values.items())
    chips = f"chips={systems.load(system).num_chips},{same}"
    asked = {"tp": 4, "batch": 4, "context": 2_000}
    names = (system, f"{system}:{chips}", f"{system}:{near}")
    one, other, third = (trn3.plan("llama-3-8b", name, **asked) for name in names)
    assert (other.ttft, other.tpot) == (one.ttft, one.tpot)
    assert (third.ttft, third.tpot) == pytest.approx((one.ttft, one.tpot), rel=1e-6)
    assert (other.chips, other.largest_batch) == (one.chips, one.largest_batch)
    assert (other.energy is None) == (one.energy is None)
    if one.energy is not None and other.energy is not None:
        assert other.energy.watts == one.energy.watts


def test_more_of_a_figure_never_costs() -> None:
    asked = {"tp": 8, "batch": 4, "context": 2_000}
    plain = trn3.plan("llama-3-8b", "gen2", **asked)
    for figure in ("hbm_bandwidth", "dma_bandwidth", "tflops_bf16", "levels.server.rate"):
        more = trn3.plan("llama-3-8b", f"gen2:{figure}=+50%", **asked)
        assert more.tpot <= plain.tpot, figure
        assert more.ttft <= plain.ttft, figure


def test_the_what_if_of_trainium4_has_the_announced_multiples() -> None:
    chip, known = (spec_of(name) for name in ("trainium4_whatif", "trainium3"))
    ratios = {
        key: chip[key].si / known[key].si
        for key in ("tflops_mxfp4", "tflops_mxfp8", "hbm_bandwidth")
    }
    assert ratios == {"tflops_mxfp4": 6, "tflops_mxfp8": 3, "hbm_bandwidth": 4}
    guesses = [quantity for key, quantity in chip.items() if key in chip.facts.parts["set"]]
    for quantity in guesses:
        assert quantity.sources[0].source.startswith(("announced: ", "choice: "))
    plan = trn3.plan("llama-3.1-8b", "trainium4_whatif", tp=8, batch=8)
    assert plan.tpot < trn3.plan("llama-3.1-8b", "gen2", tp=8, batch=8).tpot
    core, before = (arch(name) for name in ("trainium4_whatif", "trn3"))
    assert core["hbm_gbps"] == 4 * before["hbm_gbps"]
    assert core["vector_clock_mhz"] == before["vector_clock_mhz"]


def test_gpu_racks_scale_out_and_slices_are_tori() -> None:
    two = systems.cluster(2, "gb200_nvl72")
    assert (two.network, two.network_rate, two.num_chips) == ("infiniband", 50e9, 144)
    assert systems.cluster(2, "gb300_nvl72").network_rate == 2 * two.network_rate
    cube, pod = systems.load("tpu_v7:chips=64"), systems.tpu_v7_pod()
    assert cube.chips[-1] == (3, 3, 3)
    assert cube.hops((0, 0, 0), (3, 0, 0)) == 1
    assert cube.bound("all_to_all").per_chip > 3 * pod.bound("all_to_all").per_chip
    ring = systems.load("inf2")
    assert (ring.num_chips, ring.hops(0, 6), ring.hops(0, 11)) == (12, 6, 1)
    assert systems.load("h200").num_chips == 8


@pytest.mark.parametrize(
    ("name", "needle"),
    [
        ("gen2:chips=70", "do not divide"),
        ("tpu_v7:chips=32", "allowed, as slices of tpu_v7: 4, 8, 64"),
        ("gen2:hbm_bandwith=+1%", 'the nearest is "hbm_bandwidth"'),
        ("gen2:axes.rack=0", "axes.rack=0"),
        ("nowhere.toml:rack", "No such file"),
    ],
)
def test_wrong_names_say_what_would_work(name: str, needle: str) -> None:
    with pytest.raises((ValueError, OSError), match=needle):
        systems.load(name)
