//! Configurations as users have them: whole, and wrong.

use super::*;
use crate::built_in_model;

const LLAMA: &str = r#"{"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 128256,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "rope_theta": 5e5}"#;

fn refusal(text: &str) -> String {
    model_from_json("config.json", text).expect_err(text).to_string()
}

#[test]
fn test_json_equals_the_built_in_shapes() {
    let read = model_from_json("config.json", LLAMA).expect("reads");
    assert_eq!(read.parameters(), built_in_model("llama-3-8b").expect("there").parameters());
}

#[test]
fn test_families_differ_where_their_configurations_do() {
    let qwen = LLAMA.replace("\"llama\"", "\"qwen2\"");
    let biased = model_from_json("q", &qwen).expect("reads").parameters().total();
    let plain = model_from_json("l", LLAMA).expect("reads").parameters().total();
    assert_eq!(biased - plain, 32 * (4096 + 2 * 8 * 128));
    let qwen3 = LLAMA.replace("\"llama\"", "\"qwen3\"");
    assert_eq!(model_from_json("q", &qwen3).expect("reads").parameters().total() - plain, 32 * 2 * 128);
    let mistral = LLAMA.replace("\"llama\"", "\"mistral\"").replace('}', ", \"sliding_window\": 4096}");
    assert_eq!(model_from_json("m", &mistral).expect("reads").full_layers(), 0);
    let nested = format!("{{\"model_type\": \"vision\", \"text_config\": {LLAMA}}}");
    assert_eq!(model_from_json("n", &nested).expect("reads").layers, 32);
}

#[test]
fn test_gpt2_has_its_published_parameters() {
    let small = r#"{"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
        "vocab_size": 50257}"#;
    assert_eq!(model_from_json("gpt2", small).expect("reads").parameters().total(), 124_439_808);
}

#[test]
fn test_wrong_configurations_are_refused_by_key() {
    for (text, needles) in [
        (LLAMA.replace("\"llama\"", "\"lama\""), ["lama", "\"llama\""]),
        (LLAMA.replace("num_hidden_layers", "num_layers"), ["\"num_hidden_layers\" is missing", "\"num_layers\""]),
        (LLAMA.replace("4096", "\"wide\""), ["hidden_size is \"wide\"", "whole number"]),
        (LLAMA.replace("4096", "-3"), ["hidden_size is -3", "from 1"]),
        (LLAMA.replace("4096", "1e300"), ["hidden_size", "from 1"]),
        (LLAMA.replace("\"num_key_value_heads\": 8", "\"num_key_value_heads\": 7"), ["32", "7"]),
        (LLAMA.replace("\"num_attention_heads\": 32", "\"num_attention_heads\": 24"), ["4096", "24"]),
        (LLAMA.replace("4096", "16777216").replace(": 14336", ": 16777216"), ["weights", "at most"]),
        ("[]".to_owned(), ["config.json", "object"]),
        ("{".to_owned(), ["config.json", "not JSON"]),
        ("{}".to_owned(), ["model_type", "missing"]),
        ("{\"model_type\": 3}".to_owned(), ["model_type is 3", "name"]),
    ] {
        let said = refusal(&text);
        assert!(needles.iter().all(|needle| said.contains(needle)), "{text}: {said}");
    }
}

#[test]
fn test_layers_without_experts_are_counted_one_by_one() {
    let text = |more: &str| {
        format!(
            r#"{{"model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 6, "num_attention_heads": 4,
            "intermediate_size": 96, "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2,
            "vocab_size": 100{more}}}"#
        )
    };
    let layers = |more: &str| {
        let model = model_from_json("some", &text(more)).expect("whole");
        model.experts.map_or(0, |experts| experts.layers)
    };
    assert_eq!(layers(""), 6);
    // Layers 1, 3 and 5 would have experts; of the two named, layer 0 has none anyway.
    assert_eq!(layers(r#", "decoder_sparse_step": 2, "mlp_only_layers": [0, 1]"#), 2);
    let far = model_from_json("some", &text(r#", "mlp_only_layers": [6]"#)).expect_err("no such layer").to_string();
    assert!(far.contains("mlp_only_layers") && far.contains("from 0 to 5"), "{far}");
}

#[test]
fn test_llama_3_1_reads_longer_prompts_than_llama_3() {
    let longest = |name: &str| built_in_model(name).expect(name).longest_context;
    assert_eq!(longest("meta-llama/Llama-3.1-8B-Instruct"), Some(131_072));
    assert_eq!(longest("meta-llama/Meta-Llama-3-8B"), Some(8_192));
}
