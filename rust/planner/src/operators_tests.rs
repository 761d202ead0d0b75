//! Operators against the counts of models, and of networks against sums by hand.

use super::*;
use crate::BUILT_IN_MODELS;
use crate::dtype::DataType;
use crate::shapes::Attention;

fn table(model: &str, more: &str) -> OperatorTable {
    let text = format!(r#"{{"model": {{"name": "{model}"}}, "system": {{"name": "gen2"}}{more}}}"#);
    OperatorRequest::parse(&text).expect("is one").table().expect(model)
}

fn refusal(model: &str, more: &str) -> String {
    let text = format!(r#"{{"model": {{"name": "{model}"}}, "system": {{"name": "gen2"}}{more}}}"#);
    OperatorRequest::parse(&text).expect("is one").table().expect_err(model).to_string()
}

#[test]
fn test_every_model_has_operators_whose_sums_are_those_of_its_passes() {
    for (name, _) in BUILT_IN_MODELS.iter() {
        for pass in table(name, "").passes {
            let sum = |value: fn(&OperatorRow) -> f64| pass.operators.iter().map(value).sum::<f64>();
            assert_eq!((pass.flops, pass.bytes), (sum(|row| row.flops), sum(|row| row.bytes)), "{name}");
            assert!(pass.seconds > 0.0 && pass.per_second > 0.0, "{name} {}", pass.name);
            for row in &pass.operators {
                assert!(row.seconds > 0.0 && row.bytes > 0.0 && row.flops >= 0.0, "{name} {row:?}");
            }
        }
    }
}

#[test]
fn test_a_decoder_has_the_operations_that_its_shapes_count() {
    for name in ["llama-3.3-70b", "gemma-2-9b", "falcon-40b", "gpt2-xl"] {
        let model = crate::built_in_model(name).expect(name);
        let found = table(name, r#", "input": 1000, "batch": 4"#);
        let [prompt, token] = &found.passes[..] else { panic!("two passes") };
        let norms_and_biases = 2e-3;
        let near = |got: f64, expected: f64| (got / expected - 1.0).abs() < norms_and_biases;
        // Logits of the last token alone.
        let idle = 2.0 * 999.0 * (model.vocabulary * model.width) as f64;
        assert!(near(prompt.flops, 4.0 * (model.flops(1000.0, 0.0) - idle)), "{name}");
        assert!(near(token.flops, 4.0 * model.flops(1.0, 1000.0)), "{name}");
        let least = crate::decode_bytes(&model, &TensorPrecision::uniform(DataType::Bf16), 4.0, 1000.0);
        if model.published_dtype != Some(DataType::Fp32) {
            assert!(token.bytes > least && token.bytes < 1.05 * least, "{name}: {} against {least}", token.bytes);
        }
    }
}

#[test]
fn test_twice_the_chips_take_half_the_time() {
    let seconds = |more: &str| table("dit-xl-2", more).passes[0].seconds;
    let (one, two) = (seconds(""), seconds(r#", "chips": 2"#));
    assert!((one / two - 2.0).abs() < 1e-12);
}

#[test]
fn test_published_operations_of_networks() {
    // Multiply-adds of one image or step as their papers count them; here two operations each.
    for (name, giga, tolerance) in [("vit-base", 17.6, 0.01), ("vit-large", 61.6, 0.01), ("dit-xl-2", 118.6, 0.02)] {
        let found = table(name, "").passes[0].flops / 2e9;
        assert!((found / giga - 1.0).abs() < tolerance, "{name}: {found}");
    }
}

#[test]
fn test_prompts_of_mamba_grow_with_their_length_alone() {
    let pass = |tokens: u64| table("mamba-2.8b", &format!(", \"input\": {tokens}")).passes;
    let (short, long) = (pass(1000), pass(2000));
    let ends = 2.0 * 50280.0 * 2560.0;
    assert!(((long[0].flops - ends) / (short[0].flops - ends) - 2.0).abs() < 1e-9);
    assert_eq!(long[1].seconds, short[1].seconds);
}

#[test]
fn test_larger_images_and_longer_recordings_take_more() {
    let seconds = |model: &str, more: &str| table(model, more).passes[0].seconds;
    assert!(seconds("vit-base", r#", "image": 384"#) > seconds("vit-base", ""));
    assert!(seconds("sdxl", r#", "image": 512"#) < seconds("sdxl", ""));
    assert!(seconds("whisper-small", r#", "frames": 1500"#) < seconds("whisper-small", ""));
}

#[test]
fn test_what_a_model_cannot_be_given_is_refused() {
    for (model, more, needles) in [
        ("llama-3-8b", r#", "image": 224"#, ["image_size is 224", "tokens alone"]),
        ("llama-3-8b", r#", "input": 9000"#, ["9000 tokens", "8192"]),
        ("vit-base", r#", "image": 3"#, ["3 pixels", "16"]),
        ("sdxl", r#", "image": 100"#, ["100 pixels", "16"]),
        ("siglip-base", r#", "input": 65"#, ["65 tokens", "64"]),
        ("vit-base", r#", "chips": 145"#, ["chips is 145", "144"]),
        ("vit-base", r#", "batch": 0"#, ["batch is 0", "from 1"]),
    ] {
        let said = refusal(model, more);
        assert!(needles.iter().all(|needle| said.contains(needle)), "{said}");
    }
}

#[test]
fn test_blocks_side_by_side_share_one_sum_over_ranks() {
    use crate::{Layout, Machine, Planner, ServingSettings, Workload};

    let machine = Machine::built_in("gen2").expect("there");
    let mut model = crate::built_in_model("gpt-neox-20b").expect("there");
    let mut counts = Vec::new();
    for parallel in [true, false] {
        model.parallel = parallel;
        let settings = ServingSettings::new(TensorPrecision::uniform(DataType::Bf16));
        let planner = Planner::new(&machine, &model, 2, settings).expect("plans");
        let split = Split { tp: 8, ..Split::WHOLE };
        let [_, decode] = planner.exchanges(&split, Workload { batch: 1, input: 1024, output: 0 });
        let plan = planner
            .evaluate(Layout { split, replicas: 1, lnc: 2 }, Workload { batch: 1, input: 1024, output: 0 })
            .expect("fits");
        counts.push((
            decode.iter().filter(|one| one.name.ends_with("all-reduce")).map(|one| one.count).sum::<f64>(),
            plan.tpot,
        ));
    }
    assert_eq!((counts[0].0, counts[1].0), (45.0, 89.0));
    assert!(counts[0].1 < counts[1].1);
}

#[test]
fn test_norms_over_all_heads_are_counted_once_for_each_element() {
    let mut model = crate::built_in_model("olmo-2-7b").expect("there");
    let with = model.parameters().total();
    let Attention::Grouped { wide_norms, heads, kv_heads, head_width, .. } = &mut model.attention else {
        panic!("plain heads")
    };
    *wide_norms = false;
    let each = (*heads + *kv_heads) * *head_width;
    assert_eq!(with - model.parameters().total(), 32 * each);
}
