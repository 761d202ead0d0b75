"""Models by name, from the local hub, and counted against an independent count."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import trn3
from trn3.planner import families, model, models

ROOT = Path(__file__).parents[2]
SMALL: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 256,
    "vocab_size": 1000,
}


def test_page_has_the_table_of_the_data() -> None:
    text = (ROOT / "docs" / "reference" / "models.md").read_text(encoding="utf-8")
    page = runpy.run_path(str(ROOT / "scripts" / "models_doc.py"))["page"]
    assert text == page(text), "run: python scripts/models_doc.py"


def test_sixty_models_are_as_large_as_published() -> None:
    assert len(models()) >= 60
    for name in models():
        one = model(name)
        assert abs(one.parameters / one.shapes["published_parameters"] - 1) <= 0.02, name
        assert 0 < one.parameters_active <= one.parameters
        assert sum(one.parameters_by_class.values()) == one.parameters
        assert one.family in families()


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    """Draw configurations of families whose layers differ in every respect that counts."""
    heads = draw(st.sampled_from([2, 4, 8]))
    head = draw(st.sampled_from([8, 16]))
    return {
        "model_type": draw(
            st.sampled_from(
                ["llama", "qwen2", "qwen3", "gemma", "gemma2", "gpt_neox", "starcoder2", "olmo",
                 "olmo2", "cohere", "falcon", "phi", "nemotron", "mixtral", "qwen3_moe", "glm4_moe"]
            )
        ),
        "hidden_size": heads * head,
        "num_hidden_layers": draw(st.integers(2, 5)),
        "num_attention_heads": heads,
        "num_key_value_heads": draw(st.sampled_from([1, 2])),
        "head_dim": head,
        "intermediate_size": draw(st.integers(8, 64)),
        "vocab_size": draw(st.integers(10, 1000)),
        "tie_word_embeddings": draw(st.booleans()),
        "num_local_experts": 4,
        "num_experts": 4,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": draw(st.integers(4, 16)),
        "n_shared_experts": draw(st.integers(0, 2)),
        "first_k_dense_replace": draw(st.integers(0, 2)),
        "multi_query": True,
    }  # fmt: skip


def count_by_hand(config: dict[str, Any]) -> int:
    """Weights of a model, by the tensors that the published code of its family allocates."""
    family = config["model_type"]
    sizes: dict[str, int] = {name: size for name, size in config.items() if name != "model_type"}
    w, layers, vocabulary = (
        sizes[name] for name in ("hidden_size", "num_hidden_layers", "vocab_size")
    )
    head, block = sizes["head_dim"], sizes["intermediate_size"]
    q = sizes["num_attention_heads"] * head
    kv = head if family == "falcon" else sizes["num_key_value_heads"] * head
    if family == "falcon":
        block = 4 * w
    shifting = family in {"gpt_neox", "starcoder2", "falcon", "phi", "nemotron"}
    norm = 2 * w if shifting else w
    norms = {"gemma2": 4, "olmo": 0, "cohere": 1, "falcon": 1, "phi": 1}.get(family, 2)
    attention = w * q + w * kv + w * kv + q * w
    if family in {"gpt_neox", "starcoder2", "phi"}:
        attention += q + kv + kv + w
    if family in {"qwen2", "glm4_moe"}:
        attention += q + kv + kv
    if family in {"qwen3", "qwen3_moe"}:
        attention += 2 * head
    if family == "olmo2":
        attention += q + kv

    def feed_forward(columns: int) -> int:
        if family in {"gpt_neox", "starcoder2", "phi"}:
            return w * columns + columns + columns * w + w
        return (2 if family in {"falcon", "nemotron"} else 3) * w * columns

    experts = sizes["num_experts"]
    total = 0
    for layer in range(layers):
        total += attention + norms * norm
        if family == "mixtral":
            total += experts * feed_forward(block) + experts * w
        elif family == "qwen3_moe":
            total += experts * feed_forward(sizes["moe_intermediate_size"]) + experts * w
        elif family == "glm4_moe" and layer >= sizes["first_k_dense_replace"]:
            one = feed_forward(sizes["moe_intermediate_size"])
            total += (experts + sizes["n_shared_experts"]) * one + experts * w + experts
        else:
            total += feed_forward(block)
    total += 0 if family == "olmo" else norm
    total += vocabulary * w * (1 if config["tie_word_embeddings"] else 2)
    return total + (vocabulary if family == "phi" else 0)


@given(configurations())
def test_parameters_are_those_of_an_independent_count(config: dict[str, Any]) -> None:
    assert model(config).parameters == count_by_hand(config)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a local hub with one model, of two revisions."""
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    monkeypatch.delenv("HF_HUB_CACHE", raising=False)
    folder = tmp_path / "hub" / "models--acme--tiny-llama"
    for revision, layers in (("0a1b", 2), ("ffee", 3)):
        snapshot = folder / "snapshots" / revision
        snapshot.mkdir(parents=True)
        config = {**SMALL, "num_hidden_layers": layers}
        (snapshot / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("ffee\n", encoding="utf-8")
    return folder


def test_models_of_the_local_hub(hub: Path) -> None:
    found = model("acme/tiny-llama")
    assert (found.name, found.layers) == ("acme/tiny-llama", 3)
    assert trn3.plan("acme/tiny-llama", "gen2", tp=1, batch=1, context=64).fits
    with pytest.raises(ValueError, match="acme/tiny-lama") as caught:
        model("acme/tiny-lama")
    assert 'the nearest is "acme/tiny-llama"' in str(caught.value)
    assert f"the local hub {hub.parent} holds acme/tiny-llama" in str(caught.value)


def test_broken_local_hubs_are_refused_with_the_reason(hub: Path) -> None:
    (hub / "snapshots" / "ffee" / "config.json").unlink()
    with pytest.raises(ValueError, match=r"acme/tiny-llama: .*config\.json"):
        model("acme/tiny-llama")
    # What is no name of a revision is not followed.
    (hub / "refs" / "main").write_text("../../elsewhere", encoding="utf-8")
    with pytest.raises(ValueError, match=r"2 snapshots and no refs/main"):
        model("acme/tiny-llama")


def test_the_same_shape_is_said(hub: Path) -> None:
    options: dict[str, Any] = {"tp": 64, "batch": 1, "context": 1024}
    plan = trn3.plan("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", "gen2", **options)
    said = "took llama-3.3-70b for deepseek-ai/DeepSeek-R1-Distill-Llama-70B: same shape"
    assert plan.assumptions[0] == said
    assert plan.to_dict()["model"]["asked"] == "deepseek-ai/DeepSeek-R1-Distill-Llama-70B"
    plan = trn3.plan("meta-llama/Llama-3.3-70B-Instruct", "gen2", **options)
    assert not any("same shape" in text for text in plan.assumptions)
    training = trn3.Training(global_batch=576, sequence=2048)
    trained = trn3.plan("unsloth/Meta-Llama-3.1-8B", "gen2", training=training)
    assert "took llama-3.1-8b for unsloth/Meta-Llama-3.1-8B: same shape" in trained.assumptions


def test_tied_tables_are_multiplied_once() -> None:
    tied, apart = (
        trn3.operators({**SMALL, "tie_word_embeddings": tied}, input_tokens=64).passes["token"][
            "flops"
        ]
        for tied in (True, False)
    )
    assert tied == apart
