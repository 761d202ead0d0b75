//! Models by name: counts as published, and every name that leads to them.

use super::*;
use crate::{FAMILIES, NETWORKS};

/// The part by which a count may differ from a published one that is rounded.
const ROUNDED: f64 = 0.02;

fn figures(architecture: &Architecture) -> (&str, &str, &str, u64, Option<f64>) {
    match architecture {
        Architecture::Transformer(model) => {
            (&model.name, &model.family, &model.source, model.parameters().total(), model.published_parameters)
        }
        Architecture::Network(model) => {
            (&model.name, &model.family, &model.source, model.parameters, model.published_parameters)
        }
    }
}

#[test]
fn test_parameters_are_those_that_were_published() {
    let mut exact = 0;
    for (name, text) in BUILT_IN_MODELS.iter() {
        let architecture = read_toml(name, text).expect(name);
        let (_, _, _, counted, published) = figures(&architecture);
        let published = published.expect(name);
        // Counts to the last digit agree to the last digit.
        let allowed = if published % 1e6 == 0.0 { ROUNDED } else { 0.0 };
        let off = counted as f64 / published - 1.0;
        assert!(off.abs() <= allowed, "{name}: {counted} against {published}");
        exact += u64::from(off == 0.0);
    }
    assert!(BUILT_IN_MODELS.len() >= 60 && exact >= 60, "{} models, {exact} exact", BUILT_IN_MODELS.len());
}

#[test]
fn test_every_built_in_model_loads_under_its_names() {
    for (entry, (name, _)) in ENTRIES.iter().zip(BUILT_IN_MODELS.iter()) {
        let found = named(name).expect(name);
        let (known, family, source, ..) = figures(&found);
        assert_eq!(known, *name);
        // What no hub has is described by a paper or an example.
        let said = if entry.hub.is_some() { "config.json" } else { "layers, width, heads" };
        assert!(source.contains(said), "{source}");
        assert!(FAMILIES.contains(&family) || NETWORKS.contains(&family), "{family}");
        assert!(entry.hub.as_ref().is_none_or(|hub| hub.contains('/')), "{:?}", entry.hub);
        let loud = entry.hub.as_ref().map(|hub| hub.to_ascii_uppercase());
        for other in entry.aliases.iter().chain(&entry.hub).chain(&loud) {
            assert_eq!(named(other).expect(other), found, "{other}");
        }
        for other in &entry.same_shape {
            let (taken, asked) = match named(other).expect(other) {
                Architecture::Transformer(model) => (model.name, model.asked),
                Architecture::Network(network) => (network.name, network.asked),
            };
            assert_eq!((taken.as_str(), asked), (*name, Some(other.clone())));
        }
    }
    assert_eq!(built_in_model("llama-3-70b").expect("alias").name, "llama-3.3-70b");
}

#[test]
fn test_no_name_means_two_models() {
    let mut seen = std::collections::BTreeMap::new();
    for entry in ENTRIES.iter() {
        let names = entry.aliases.iter().chain(&entry.same_shape).chain(&entry.hub).map(String::as_str);
        for name in names.chain([entry.name]) {
            let before = seen.insert(name.to_owned(), entry.name);
            assert!(before.is_none_or(|before| before == entry.name), "{name}: {before:?} and {}", entry.name);
        }
    }
}

#[test]
fn test_another_owner_of_a_name_is_said() {
    let own = built_in_model("meta-llama/Llama-3.3-70B-Instruct").expect("there");
    assert_eq!(own.asked, None);
    let other = built_in_model("unsloth/Llama-3.3-70B-Instruct").expect("there");
    assert_eq!(
        (other.name.as_str(), other.asked.as_deref()),
        ("llama-3.3-70b", Some("unsloth/Llama-3.3-70B-Instruct"))
    );
    assert_eq!(
        built_in_model("deepseek-ai/DeepSeek-R1").expect("there").asked.as_deref(),
        Some("deepseek-ai/DeepSeek-R1")
    );
}

#[test]
fn test_networks_are_no_models_of_plans() {
    let said = built_in_model("openai/whisper-large-v3").expect_err("no plan").to_string();
    assert!(said.contains("whisper-large-v3") && said.contains("--ops"), "{said}");
}
