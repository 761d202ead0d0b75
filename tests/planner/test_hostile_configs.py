"""Configurations from elsewhere: what is not understood is said, what lies is refused."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import trn3

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "vocab_size": 1000,
}
PLAN: dict[str, Any] = {"context": 128, "tp": 1, "batch": 1}


@pytest.mark.parametrize(
    ("published", "said"),
    [
        (
            {"quantization_config": {"quant_method": "gptq", "bits": 4}, "torch_dtype": "float16"},
            'quantization_config is "gptq" of 4 bits',
        ),
        ({"quantization_config": {"load_in_8bit": True}}, "quantization_config is {"),
        ({"quantization_config": "x" * 9999}, 'quantization_config is "xxx'),
        ({"torch_dtype": "int3"}, 'torch_dtype is "int3"'),
        ({"dtype": "float64"}, 'dtype is "float64"'),
        ({"torch_dtype": 16}, "torch_dtype is 16"),
    ],
)
def test_formats_that_nobody_here_knows(published: dict[str, Any], said: str) -> None:
    config = {**LLAMA, **published, "name": "odd"}
    with pytest.raises(ValueError, match="whose products and bytes are not known") as caught:
        trn3.plan(config, "gen2", **PLAN)
    text = str(caught.value)
    assert text.startswith(f"odd: {said}")
    assert "understood: fp32, bf16, fp16, fp8, mxfp8, mxfp4, int8; give a dtype" in text
    assert len(text) < 600
    # Told to go on, it does, and says so.
    plan = trn3.plan(config, "gen2", dtype="bf16", **PLAN)
    assert any(said in assumed and "not understood" in assumed for assumed in plan.assumptions)


@pytest.mark.parametrize(
    ("published", "dtype"),
    [
        ({}, "bf16"),
        ({"torch_dtype": None}, "bf16"),
        ({"torch_dtype": "float32"}, "fp32"),
        ({"torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8"}}, "fp8"),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "mxfp4"),
    ],
)
def test_formats_that_are_known_stay(published: dict[str, Any], dtype: str) -> None:
    plan = trn3.plan({**LLAMA, **published}, "gen2", **PLAN)
    assert plan.dtypes["dense"] == dtype
    assert not any("not understood" in assumed for assumed in plan.assumptions)


def test_told_on_the_command_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from trn3.__main__ import main

    path = tmp_path / "odd.json"
    quantized = {"quant_method": "awq", "bits": 4}
    path.write_text(json.dumps({**LLAMA, "quantization_config": quantized}))
    assert main(["plan", str(path)]) == 2
    assert 'odd: quantization_config is "awq" of 4 bits' in capfd.readouterr().err
    assert main(["plan", str(path), "--dtype", "mxfp4"]) == 0
    assert 'its quantization_config is "awq"' in capfd.readouterr().out


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.integers(0, 5), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(0, 5), max_size=2),
)
KEYS = [
    *LLAMA, "num_key_value_heads", "head_dim", "sliding_window", "layer_types", "torch_dtype",
    "quantization_config", "text_config", "tie_word_embeddings", "max_position_embeddings", "name",
    "num_local_experts", "num_experts_per_tok", "q_lora_rank", "parameters", "source", "n_embd",
]  # fmt: skip


@settings(max_examples=300)
@given(
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4),
    st.sampled_from(["llama", "mixtral", "deepseek_v3", "gpt2", "bert", "qwen3_moe", "gpt_oss"]),
)
def test_any_configuration_is_planned_or_refused(changes: dict[str, Any], family: str) -> None:
    config = {**LLAMA, "model_type": family, **changes}
    with contextlib.suppress(ValueError, TypeError):
        assert trn3.plan(config, "gen2", **PLAN).tpot > 0
