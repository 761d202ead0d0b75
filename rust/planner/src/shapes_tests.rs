//! Counts of published models, by their own publishers' numbers.

use super::*;
use crate::built_in_model;

fn model(name: &str) -> Model {
    built_in_model(name).expect(name)
}

#[test]
fn test_parameters_equal_the_published_totals() {
    for name in [
        "bert-large",
        "deepseek-v3",
        "gpt-oss-120b",
        "gpt-oss-20b",
        "gpt3-175b",
        "gpt3-23b",
        "llama-3-8b",
        "llama-3.1-405b",
        "llama-3.1-8b",
        "llama-3.2-1b",
        "llama-3.3-70b",
        "mixtral-8x22b",
        "mixtral-8x7b",
        "qwen3-235b-a22b",
    ] {
        let model = model(name);
        let published = model.published_parameters.expect("published");
        let counted = model.parameters().total() as f64;
        // Totals of papers are rounded to billions, of pages to millions or not at all.
        let digits = match name.strip_prefix("gpt3-") {
            Some(_) => 0.5e9 / published,
            None if published % 1e6 == 0.0 => 1e-3,
            None => 0.0,
        };
        assert!((counted / published - 1.0).abs() <= digits, "{name}: {counted} against {published}");
    }
}

#[test]
fn test_active_parameters_are_those_of_the_model_cards() {
    for (name, billions, tolerance) in [
        ("gpt-oss-120b", 5.13, 0.005),
        ("gpt-oss-20b", 3.61, 0.005),
        ("deepseek-v3", 37.0, 0.02),
        ("qwen3-235b-a22b", 22.0, 0.03),
        ("mixtral-8x7b", 12.9, 0.02),
        ("mixtral-8x22b", 39.0, 0.02),
    ] {
        let active = model(name).parameters().active as f64 / 1e9;
        assert!((active / billions - 1.0).abs() < tolerance, "{name}: {active}");
    }
}

#[test]
fn test_gpt_oss_classes_are_those_of_its_card() {
    let parameters = model("gpt-oss-120b").parameters();
    let billions = |class| parameters.of(class) as f64 / 1e9;
    assert_eq!(format!("{:.1}", billions(TensorClass::Experts)), "114.7");
    assert_eq!(format!("{:.2}", billions(TensorClass::Experts) * 4.0 / 128.0), "3.58");
    assert_eq!(format!("{:.2}", billions(TensorClass::Attention)), "0.96");
    assert_eq!(format!("{:.2}", billions(TensorClass::Unembedding)), "0.58");
}

#[test]
fn test_kv_bytes_follow_groups_latents_and_windows() {
    assert_eq!(model("llama-3-8b").kv_bytes_per_token_per_layer(DataType::Bf16), 4096.0);
    assert_eq!(model("deepseek-v3").attention.kv_elements(), 576);
    let gpt = model("gpt-oss-120b");
    assert_eq!(gpt.kv_tokens(10_000.0), 18.0 * 10_000.0 + 18.0 * 128.0);
    assert_eq!(gpt.kv_tokens(100.0), 36.0 * 100.0);
}

#[test]
fn test_pairs_count_what_causal_windows_let_through() {
    let gpt = model("gpt-oss-120b");
    for (tokens, past, window) in
        [(7_u64, 0_u64, None), (7, 5, None), (9, 0, Some(4)), (9, 2, Some(4)), (3, 50, Some(4))]
    {
        let count = (past..past + tokens).map(|at| (at + 1).min(window.unwrap_or(u64::MAX))).sum::<u64>();
        assert_eq!(gpt.pairs(tokens as f64, past as f64, window), count as f64, "{tokens} {past} {window:?}");
    }
}

#[test]
fn test_flops_are_twice_the_active_weights_and_grow_with_context() {
    let llama = model("llama-3-8b");
    let short = llama.decode_flops_per_token(0);
    assert!((short / (2.0 * llama.parameters().active as f64) - 1.0).abs() < 1e-3);
    // Scores and values: 2 x 2 x heads x head width for each earlier token and layer.
    let grown = llama.decode_flops_per_token(1000) - llama.decode_flops_per_token(0);
    assert_eq!(grown, 1000.0 * 4.0 * 4096.0 * 32.0);
    assert!(llama.prefill_flops_per_token(8192) < llama.decode_flops_per_token(8191));
}

#[test]
fn test_experts_touched_saturate() {
    let experts = model("gpt-oss-120b").experts.expect("some");
    assert_eq!(experts.touched(0.0), 0.0);
    assert!((experts.touched(1.0) - 4.0 / 128.0).abs() < 1e-15);
    assert!(experts.touched(1e5) > 0.999_999);
}
