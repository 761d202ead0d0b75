"""Figures from parts: exact arithmetic, agreement with what is published, overrides."""

from __future__ import annotations

import json

import pytest

from trn3 import facts
from trn3.facts.spec import as_json, formulas, spec_of

# Rows x columns x multiply and add x clock, by hand.
MXFP8 = 512 * 128 * 2 * 2.4e9
BF16 = 128 * 128 * 2 * 2.4e9


@pytest.mark.parametrize(
    ("system", "key", "si"),
    [
        ("neuroncore_v4", "tflops_mxfp8", MXFP8),
        ("neuroncore_v4", "tflops_bf16", BF16),
        ("neuroncore_v4", "tflops_fp32", BF16 / 4),
        ("neuroncore_v4", "tflops_sparse_bf16", 4 * BF16),
        ("neuroncore_v4", "dma_bw_core", 16 * 33e9),
        ("neuroncore_v3", "tflops_fp8", 2 * BF16),
        ("trainium3", "tflops_mxfp8", 8 * MXFP8),
        ("trainium3", "tflops_mxfp4", 8 * MXFP8),
        ("trainium3", "tflops_bf16", 8 * BF16),
        ("trainium3", "tflops_sparse", 32 * BF16),
        ("trainium3", "sbuf_total", 8 * 32 * 2**20),
        ("trainium3", "dma_bandwidth", 128 * 33e9),
        ("trainium3", "hbm_bandwidth", 4.9e12),
        ("trainium3", "tdp", 1000),
        ("trainium3", "cc_cores", 16),
        ("trn3_gen2", "pflops_mxfp8", 144 * 8 * MXFP8),
        ("trn3_gen2", "hbm_capacity", 144 * 144 * 2**30),
        ("trn3_gen2", "hbm_bandwidth", 144 * 4.9e12),
        ("trn3_gen2", "efa", 144 * 25e9),
        ("trn3_gen1", "pflops_mxfp8", 64 * 8 * MXFP8),
        ("trn2_ultraserver", "host_vcpus", 4 * 192),
        ("gb300_nvl72", "pflops_fp4", 72 * 15e15),
        ("tpu_v7", "pod_eflops_fp8", 9216 * 4614e12),
        ("trainium4", "tflops_fp4", 6 * 8 * MXFP8),
        ("trainium4", "hbm_bandwidth", 4 * 4.9e12),
    ],
)
def test_figures_follow_from_the_parts(system: str, key: str, si: float) -> None:
    assert spec_of(system)[key].si == pytest.approx(si, rel=1e-9)


@pytest.mark.parametrize("name", facts.names())
def test_specs_have_every_published_figure_and_say_whether_it_agrees(name: str) -> None:
    spec = spec_of(name)
    for key, published in facts.load(name).items():
        figure = spec[key]
        assert figure.sources == published.sources
        if figure.published is not None:
            assert figure.published == published.value
            ratio = figure.number / published.number
            assert figure.agrees is not None
            if abs(ratio - 1) <= 0.006:
                assert figure.agrees or "=" in (figure.formula or "")
            assert figure.agrees or figure.conflict
    for key, figure in spec.items():
        assert figure.sources or figure.formula, key


def test_disagreements_are_the_known_ones() -> None:
    """A formula or a figure that changes shows here."""
    found = {
        f"{name}.{key}"
        for name in facts.names()
        for key, figure in spec_of(name).items()
        if figure.agrees is False
    }
    peaks = {
        f"{system}.{prefix}flops_{dtype}"
        for system, prefix in (
            ("inferentia2", "t"), ("trainium1", "t"), ("trainium2", "t"), ("trainium3", "t"),
            ("trn2_ultraserver", "p"), ("trn3_gen1", "p"), ("trn3_gen2", "p"),
        )
        for dtype in ("bf16", "fp32")
    }  # fmt: skip
    assert found == peaks | {
        "trainium1.dma_bandwidth", "trainium2.dma_bandwidth", "trainium3.dma_bandwidth",
        "inferentia2.dma_bandwidth",
        "trainium2.tflops_fp8", "trainium2.tflops_sparse", "trn2_instance.pflops_bf16",
        "trn2_instance.pflops_fp8", "trn2_ultraserver.pflops_fp8",
        "trn2_ultraserver.pflops_sparse", "trn3_gen2.neuronlink_aggregate",
        "trn3_gen2.vs_trn2_compute",
    }  # fmt: skip


def test_formula_says_the_arithmetic_with_its_numbers() -> None:
    spec = spec_of("neuroncore_v4")
    assert spec["tflops_mxfp8"].formula == (
        "pe_rows * pe_cols * mx_k_per_pe * 2 * clock_tensor "
        "= 128 x 128 x 4 x 2 x 2.4 GHz = 314.57 TFLOPS"
    )


def test_overrides_hold_for_the_system_and_its_parts() -> None:
    assert spec_of("trainium3", overrides={"tdp": 500})["tdp"].value == 500
    slow = spec_of("gen2", overrides={"chip.core.clock_tensor": 1.2})
    assert slow["pflops_mxfp8"].si == pytest.approx(144 * 8 * MXFP8 / 2)
    cold = spec_of("gen2", overrides={"chip.tdp": 500})
    assert cold["chip_power_total"].value == 72
    assert spec_of("gen2")["chip_power_total"].value == 144
    fixed = spec_of("trainium3", overrides={"tflops_bf16": 700})["tflops_bf16"]
    assert (fixed.value, fixed.why, fixed.sources[-1].source) == (
        700,
        "set by the caller",
        "override",
    )


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"tdq": 500}, "trainium3 has no tdq; the nearest is 'tdp'"),
        ({"tdp": -1}, "tdp is -1 W; must be finite and not negative"),
        ({"hbm_bandwidth": 0}, "hbm_bandwidth is 0 TB/s; must be finite and positive"),
        ({"hbm_bandwidth": float("nan")}, "must be finite"),
        ({"tdp": "hot"}, "tdp is 'hot'; must be a number of W"),
        ({"process": 3}, "process is 3; must be a text or a list"),
        ({"chip.tdp": 3}, "trainium3 has no part 'chip'; the nearest is 'core'"),
    ],
)
def test_overrides_that_cannot_be_are_refused(overrides: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        spec_of("trainium3", overrides=overrides)  # type: ignore[arg-type]


def test_specs_are_mappings_that_name_the_nearest() -> None:
    spec = spec_of("gen2")
    assert "efa" in spec
    assert dict(spec)["efa"] is spec["efa"]
    with pytest.raises(KeyError, match="trn3_gen2 has no efas; the nearest is 'efa'"):
        spec["efas"]


@pytest.mark.parametrize("name", facts.names())
def test_json_has_every_figure(name: str) -> None:
    document = json.loads(json.dumps(as_json(spec_of(name)), allow_nan=False))
    assert document["name"] == name
    for key, figure in spec_of(name).items():
        entry = document["quantities"][key]
        assert entry["status"] == figure.status
        assert len(entry["sources"]) == len(figure.sources)


def test_formulas_are_used_by_some_system() -> None:
    used = {
        key
        for name in facts.names()
        for key, figure in spec_of(name).items()
        if figure.formula is not None and " = " in figure.formula
    }
    assert {rule for table in formulas().values() for rule in table} == used
