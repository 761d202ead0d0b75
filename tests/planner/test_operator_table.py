"""`trn3.operators`: the same operations as plans, and models that plans refuse."""

from __future__ import annotations

from typing import Any

import pytest

import trn3


@pytest.mark.parametrize("name", ["llama-3-8b", "gpt-oss-20b", "gemma-2-9b", "falcon-7b"])
def test_a_decoder_has_the_operations_of_its_plan(name: str) -> None:
    layout: dict[str, Any] = {"tp": 1, "replicas": 1, "batch": 4, "input_tokens": 1000}
    plan = trn3.plan(name, "gen2", **layout, dtype="bf16", calibration="peak", on_overflow="report")
    table = trn3.operators(name, "gen2", batch=1, input_tokens=1000, dtype="bf16")
    cores = 8 // plan.layout.lnc
    four = trn3.operators(name, "gen2", batch=4, input_tokens=1000, dtype="bf16")
    for phase, found in (
        (plan.prefill, table.passes["prompt"]),
        (plan.decode, four.passes["token"]),
    ):
        assert sum(phase.flops.values()) == pytest.approx(cores * found["flops"], rel=1e-9)
        assert phase.hbm_bytes == pytest.approx(cores * found["bytes"], rel=1e-9)
        # One logical core alone takes as many times longer as the chip has of them.
        operations = [
            part for part in phase.parts if part.resource in {"TensorEngine", "DMA engines"}
        ]
        seconds = sum(part.seconds for part in operations)
        assert seconds == pytest.approx(cores * found["seconds"], rel=1e-9)


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("openai/whisper-large-v3", {"encoder", "decoder"}),
        ("google-t5/t5-11b", {"encoder", "decoder"}),
        ("state-spaces/mamba-2.8b-hf", {"prompt", "token"}),
        ("ai21labs/Jamba-v0.1", {"prompt", "token"}),
        ("openai/clip-vit-large-patch14", {"image", "text"}),
        ("black-forest-labs/FLUX.1-dev", {"denoising step"}),
        ("bert-large", {"sequence"}),
    ],
)
def test_models_that_plans_refuse_have_operators(name: str, passes: set[str]) -> None:
    with pytest.raises(ValueError, match=r"--ops|generates nothing"):
        trn3.plan(name, "gen2")
    table = trn3.operators(name, "gen2", batch=2)
    assert set(table.passes) == passes
    for one in table.passes.values():
        rows = one["operators"]
        assert one["seconds"] == pytest.approx(sum(row["seconds"] for row in rows))
        assert one["per_second"] > 0
        for row in rows:
            assert row["intensity"] * row["bytes"] == pytest.approx(row["flops"])
    assert table.to_dict()["batch"] == 2
    assert "total" in str(table)
    assert any("no overheads" in text for text in table.assumptions)


def test_other_systems_and_formats() -> None:
    seconds = {
        (system, dtype): trn3.operators("flux.1-dev", system, dtype=dtype).passes["denoising step"][
            "seconds"
        ]
        for system in ("gen2", "trn2", "h100")
        for dtype in ("bf16", "fp8")
    }
    assert seconds["h100", "bf16"] < seconds["gen2", "bf16"]
    assert all(
        seconds[system, "fp8"] < seconds[system, "bf16"] for system in ("gen2", "trn2", "h100")
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"batch": 0}, "batch is 0"),
        ({"batch": 1.5}, "batch"),
        ({"image_size": -1}, "image"),
        ({"chips": 1000}, "chips is 1000"),
        ({"dtype": "int3"}, "int3"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        trn3.operators("vit-base", "gen2", **options)
