//! Figures from parts: exact arithmetic, overrides, users' files.

use super::*;
use crate::BUILT_IN;

const MXFP8: f64 = 512.0 * 128.0 * 2.0 * 2.4e9;
const BF16: f64 = 128.0 * 128.0 * 2.0 * 2.4e9;

fn si(system: &str, key: &str) -> f64 {
    Spec::built_in(system).expect(system).si(key).expect(key)
}

fn set(key: &str, value: f64) -> Overrides {
    [(key.to_owned(), Override::Value(Value::Number(value)))].into()
}

#[test]
fn test_figures_follow_from_the_parts() {
    for (system, key, value) in [
        ("neuroncore_v4", "tflops_mxfp8", MXFP8),
        ("neuroncore_v4", "tflops_bf16", BF16),
        ("neuroncore_v4", "tflops_fp8", 2.0 * BF16),
        ("neuroncore_v4", "tflops_fp32", BF16 / 4.0),
        ("neuroncore_v3", "tflops_fp8", 2.0 * BF16),
        ("trainium3", "tflops_sparse", 32.0 * BF16),
        ("trainium3", "dma_bandwidth", 128.0 * 33e9),
        ("trainium1", "hbm_bandwidth", 820e9),
        ("trn3_gen2", "pflops_mxfp8", 144.0 * 8.0 * MXFP8),
        ("trn3_gen2", "hbm_bandwidth", 144.0 * 4.9e12),
        ("trainium4", "hbm_bandwidth", 4.0 * 4.9e12),
    ] {
        let found = si(system, key);
        assert!((found / value - 1.0).abs() < 1e-9, "{system}.{key}: {found} against {value}");
    }
}

#[test]
fn test_every_system_has_a_spec_with_all_that_is_published() {
    for (name, _) in BUILT_IN {
        let spec = Spec::built_in(name).expect(name);
        for (key, published) in &spec.facts.quantities {
            let figure = spec.quantity(key).expect("stays");
            assert_eq!(figure.sources, published.sources, "{name}.{key}");
            assert!(figure.agrees != Some(false) || figure.conflict, "{name}.{key}");
        }
        assert!(spec.quantities.values().all(|figure| !figure.sources.is_empty() || figure.formula.is_some()));
    }
}

#[test]
fn test_derived_sources_give_their_values() {
    for (name, _) in BUILT_IN {
        for (key, source, value) in Facts::built_in(name).expect(name).derived().expect(name) {
            let said = source.value.number().expect("a number");
            assert!((value / said - 1.0).abs() <= 0.006, "{name}.{key}: {} is {value}, not {said}", source.source);
        }
    }
}

#[test]
fn test_overrides_hold_for_the_system_and_its_parts() {
    let gen2 = Facts::built_in("trn3_gen2").expect("loads");
    let slow = Spec::of(&gen2, set("chip.core.clock_tensor", 1.2)).expect("allowed");
    assert_eq!(slow.si("pflops_mxfp8").expect("there"), 144.0 * 8.0 * MXFP8 / 2.0);
    assert_eq!(slow.parts["chip"].parts["core"].quantities["clock_tensor"].why.as_deref(), Some("set by the caller"));
    for (key, value, complaint) in [
        ("chip.tdq", 500.0, "trainium3 has no tdq; the nearest is 'tdp'"),
        ("chip.tdp", -1.0, "tdp is -1 W; must be finite and not negative"),
        ("chip.hbm_bandwidth", 0.0, "hbm_bandwidth is 0 TB/s; must be finite and positive"),
        ("chip.process", 3.0, "process is 3; must be a text or a list"),
        ("core.pe_rows", 3.0, "trn3_gen2 has no part 'core'"),
    ] {
        let error = Spec::of(&gen2, set(key, value)).expect_err(key).to_string();
        assert!(error.contains(complaint), "{error}");
    }
}

#[test]
fn test_parts_of_a_users_file_are_looked_up_there_first() {
    let figure = |name: &str, value: f64, unit: &str| {
        format!("{name} = {{ default = {value}, unit = \"{unit}\", sources = [{{ value = 1, source = \"me\" }}] }}\n")
    };
    let chip = figure("hbm_bandwidth", 2.0, "TB/s") + &figure("hbm_capacity", 64.0, "GiB");
    let chip = format!("[mine]\n_kind = \"chip\"\n{chip}{}", figure("tflops_bf16", 500.0, "TFLOPS"));
    let rack = |chip: &str| format!("[rack]\n_kind = \"rack\"\n_chip = \"{chip}\"\n{}", figure("chips", 3.0, "count"));
    let systems = Facts::parse("mine.toml", &(chip + &rack("mine"))).expect("reads");
    let whole = Facts::whole_of(&systems, "mine.toml").expect("one is whole");
    assert_eq!(Spec::of(&whole, Overrides::new()).expect("works").si("pflops_bf16").expect("there"), 1.5e15);
    let of_ours = Facts::parse("mine.toml", &rack("trn3")).expect("reads");
    assert_eq!(
        Spec::of(&of_ours[0], Overrides::new()).expect("works").si("hbm_bandwidth").expect("there"),
        3.0 * 4.9e12
    );
    let none = Facts::parse("mine.toml", &rack("trainium9")).expect("reads");
    let error = Spec::of(&none[0], Overrides::new()).expect_err("none").to_string();
    assert!(error.starts_with("mine.toml: rack._chip: system 'trainium9' is unknown"), "{error}");
}
