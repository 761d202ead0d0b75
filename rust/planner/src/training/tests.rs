use proptest::prelude::*;

use super::*;
use crate::memory::Category;
use crate::{DataType, TensorPrecision, built_in_model};

fn trn1(instances: u32) -> Machine {
    Machine::built_in("trn1").expect("loads").cluster(instances).expect("allowed")
}

fn model(name: &str) -> Model {
    built_in_model(name).expect("there")
}

fn llama_8b() -> TrainingPlan {
    let layout = TrainingLayout { tp: 32, dp: 32, zero: 1, ..TrainingLayout::one(1) };
    plan(&model("llama-3-8b"), &trn1(32), &Recipe::new(1024, 8192), &layout).expect("fits")
}

fn llama_70b() -> TrainingPlan {
    let layout = TrainingLayout { tp: 32, pp: 8, dp: 4, zero: 1, ..TrainingLayout::one(1) };
    plan(&model("llama-3.3-70b"), &trn1(32), &Recipe::new(1024, 8192), &layout).expect("fits")
}

fn bert(instances: u32, global_batch: u64) -> TrainingPlan {
    let dp = 32 * u64::from(instances);
    let layout = TrainingLayout { dp, micro_batch: 16, recompute: Recompute::None, ..TrainingLayout::one(1) };
    plan(&model("bert-large"), &trn1(instances), &Recipe::new(global_batch, 128), &layout).expect("fits")
}

/// Published sequences a second, and the plan's where what the source does not say is searched for.
fn published_runs() -> Vec<(&'static str, f64, f64)> {
    let of = |name: &'static str, sequences, layout: TrainingLayout, moments, published: f64| {
        let [batch, tokens, chips] = sequences;
        let one = |degree| vec![degree];
        let space = LayoutSpace {
            tp: one(layout.tp),
            pp: one(layout.pp),
            dp: Some(layout.dp),
            micro_batch: one(layout.micro_batch),
            zero: if layout.tp == 1 { vec![0] } else { Vec::new() },
            ..LayoutSpace::default()
        };
        let recipe = Recipe { moments, ..Recipe::new(batch, tokens) };
        let found = search(&model(name), &trn1(chips as u32 / 16), &recipe, TrainingObjective::StepTime, &space);
        (name, published, found.expect(name).plans[0].sequences_per_second)
    };
    let one = TrainingLayout::one(1);
    let many = TrainingLayout { micro_batch: 16, ..one };
    let (adam, rounded) = (Moments::Master, Moments::StochasticRounding);
    let mut runs = vec![
        of("gpt3-23b", [1024, 2048, 512], TrainingLayout { tp: 8, pp: 4, dp: 32, ..one }, rounded, 100.0),
        of("gpt3-175b", [1024, 2048, 512], TrainingLayout { tp: 32, pp: 8, dp: 4, ..one }, rounded, 12.7),
        of("llama-2-13b", [1024, 4096, 512], TrainingLayout { tp: 8, pp: 4, dp: 32, ..one }, rounded, 60.0),
        of("bert-large", [16_384, 128, 256], TrainingLayout { dp: 512, ..many }, adam, 24_518.47),
        of("bert-large", [65_536, 128, 16], TrainingLayout { dp: 32, ..many }, rounded, 3733.0),
    ];
    for row in published().expect("computes").into_iter().filter(|row| row.unit == "sequences/s") {
        runs.push((row.name, row.published, row.computed));
    }
    runs
}

#[test]
fn test_published_rates_are_met() {
    let runs = published_runs();
    assert_eq!(runs.len(), 9);
    let mut errors: Vec<f64> = runs.iter().map(|(_, published, computed)| (computed / published).ln().abs()).collect();
    errors.sort_by(f64::total_cmp);
    assert!(errors[8] <= 1.12_f64.ln() && errors[4] <= 1.08_f64.ln(), "{runs:?}");
}

/// Of 16 times the rate of one node, 16 nodes reach 40 percent where each rank accumulates 32 sequences, 94 where it does
/// 2,048.
#[test]
fn test_scaling_is_what_the_network_leaves() {
    let one = bert(1, 16_384).sequences_per_second;
    for (batch, published) in [(16_384, 24_518.47 / 16.0 / 3826.6), (1_048_576, 0.938)] {
        let scaling = bert(16, batch).sequences_per_second / 16.0 / one;
        assert!((scaling / published - 1.0).abs() < 0.15, "{batch}: {scaling} against {published}");
    }
}

#[test]
fn test_accumulation_hides_the_reduction_of_bert() {
    // The rows differ in their global batch: 512 and 2,048 sequences a rank between reductions.
    let many = bert(16, 1_048_576);
    assert_eq!(many.micro_batches, 128);
    let reduction = many.phases.iter().find(|phase| phase.name == "data parallel").expect("there");
    assert!(reduction.seconds + reduction.hidden < 0.03 * many.step_time);
    // Without accumulation it shows.
    let bare = bert(16, 8192);
    let reduction = bare.phases.iter().find(|phase| phase.name == "data parallel").expect("there");
    assert!(reduction.seconds + reduction.hidden > 0.1 * bare.step_time, "{reduction:?}");
    assert!(bare.sequences_per_second < many.sequences_per_second);
}

#[test]
fn test_mfu_counts_six_operations_a_weight_and_token() {
    let plan = llama_8b();
    let by_hand = 6.0 * 8_030_261_248.0 * plan.tokens_per_second / plan.peak;
    assert!((plan.mfu / by_hand - 1.0).abs() < 1e-12);
    // 22.1 over 19.5 percent.
    assert!((plan.mfu_with_attention / plan.mfu - 22.1 / 19.5).abs() < 0.005);
    assert!(plan.hfu > plan.mfu_with_attention);
    let share: f64 = plan.phases.iter().map(|phase| phase.share).sum();
    assert!((share - 1.0).abs() < 1e-9);
}

#[test]
fn test_bubble_is_that_of_the_schedule() {
    let base = TrainingLayout { tp: 8, pp: 8, dp: 1, ..TrainingLayout::one(2) };
    let machine = Machine::built_in("gen2").expect("loads");
    for interleave in [1, 2, 5] {
        let layout = TrainingLayout { interleave, ..base };
        let plan = plan(&model("llama-3.3-70b"), &machine, &Recipe::new(64, 2048), &layout).expect("fits");
        assert!((plan.bubble - 7.0 / 64.0 / interleave as f64).abs() < 1e-12);
        let seconds = plan.phases.iter().find(|phase| phase.name == "pipeline bubble").expect("there").seconds;
        let work: f64 = plan
            .phases
            .iter()
            .filter(|phase| ["forward", "backward", "recompute", "tensor parallel"].contains(&phase.name))
            .map(|phase| phase.seconds)
            .sum();
        assert!((seconds / work - plan.bubble).abs() < 1e-9);
    }
}

/// Bytes of a class with weights of 8,030,261,248 / tp elements, by hand.
#[test]
fn test_memory_of_adam_is_that_of_the_textbook() {
    let chip = Machine::built_in("gen2").expect("loads").chip;
    let rank = chip.rank(2).expect("allowed");
    let of = |zero, moments, dp| {
        let layout = TrainingLayout { dp, zero, ..TrainingLayout::one(2) };
        let recipe = Recipe { moments, ..Recipe::new(64, 4096) };
        footprint(&model("llama-3-8b"), &recipe, &layout, &chip, &rank).expect("works")
    };
    let weights = 8_030_261_248.0;
    let plain = of(0, Moments::Master, 64);
    let classes = [Category::Tensors, Category::Gradients, Category::Optimizer];
    let bytes = |footprint: &crate::Footprint| classes.map(|class| footprint.of(class));
    assert_eq!(bytes(&plain), [2.0 * weights, 4.0 * weights, 12.0 * weights]);
    assert_eq!(bytes(&of(1, Moments::Master, 64)), [2.0 * weights, 4.0 * weights, 12.0 * weights / 64.0]);
    assert_eq!(bytes(&of(2, Moments::Master, 64))[1], 4.0 * weights / 64.0);
    assert_eq!(bytes(&of(3, Moments::Master, 64)), [2.0, 4.0, 12.0].map(|each| each * weights / 64.0));
    assert_eq!(bytes(&of(0, Moments::StochasticRounding, 1))[2], 8.0 * weights);
    assert_eq!(bytes(&of(0, Moments::AllBf16, 1)), [2.0, 2.0, 4.0].map(|each| each * weights));
}

/// Of GPT's layer the literature counts 34 bytes a token and width with dropout; its masks and copies are 2 of them,
/// and 5 bytes a score, of which the softmax is 2.
#[test]
fn test_activations_of_a_classic_layer_are_those_of_the_literature() {
    let bert = model("bert-large");
    let recipe = Recipe::new(1, 128);
    let kinds = activations(&bert, &recipe, &TrainingLayout::one(1));
    assert_eq!(kinds.shared + kinds.inside, 32.0 * 1024.0);
    assert_eq!(kinds.scores, 2.0 * 16.0 * 128.0);
    assert_eq!(kinds.input, 2.0 * 1024.0);
    let eight = TrainingLayout { tp: 8, sequence_parallel: false, ..TrainingLayout::one(1) };
    let split = activations(&bert, &recipe, &eight);
    assert_eq!((split.shared, split.inside), (kinds.shared, kinds.inside / 8.0));
    let along = activations(&bert, &recipe, &TrainingLayout { sequence_parallel: true, ..eight });
    assert_eq!(along.shared, kinds.shared / 8.0);
}

#[test]
fn test_plans_that_cannot_be_are_refused() {
    let machine = Machine::built_in("gen2").expect("loads");
    let base = TrainingLayout { tp: 8, dp: 8, ..TrainingLayout::one(2) };
    let llama = model("llama-3-8b");
    let recipe = Recipe::new(64, 8192);
    for (layout, recipe, needles) in [
        (TrainingLayout { tp: 5, ..base }, recipe.clone(), ["tp is 5", "1, 2, 4, 8"]),
        (TrainingLayout { pp: 3, ..base }, recipe.clone(), ["pp is 3", "1, 2, 4, 8, 16"]),
        (TrainingLayout { dp: 0, ..base }, recipe.clone(), ["dp is 0", "from 1"]),
        (TrainingLayout { zero: 4, ..base }, recipe.clone(), ["zero is 4", "0, 1, 2, 3"]),
        (TrainingLayout { ep: 2, ..base }, recipe.clone(), ["ep is 2", "no experts"]),
        (TrainingLayout { dp: 1000, ..base }, Recipe::new(1000, 8192), ["8000 ranks", "dp=72 would fit"]),
        (base, Recipe::new(60, 8192), ["global_batch is 60", "56 would"]),
        (base, Recipe::new(64, 100_000), ["sequence is 100000", "8192 would work"]),
        (base, Recipe::new(0, 8192), ["global_batch is 0", "from 1"]),
        (TrainingLayout { interleave: 3, pp: 2, ..base }, recipe.clone(), ["interleave is 3", "1, 2, 4, 8, 16"]),
        (TrainingLayout { interleave: 2, ..base }, recipe.clone(), ["interleave is 2", "what divides: 1"]),
        (
            TrainingLayout { interleave: 2, pp: 16, dp: 4, ..base },
            Recipe::new(4, 8192),
            ["1 micro-batches", "interleave=1"],
        ),
    ] {
        let text = plan(&llama, &machine, &recipe, &layout).expect_err(needles[0]).to_string();
        assert!(needles.iter().all(|needle| text.contains(needle)), "{text}");
    }
    let experts = model("mixtral-8x7b");
    let text = plan(&experts, &machine, &recipe, &TrainingLayout { ep: 16, ..base }).expect_err("16 of 8").to_string();
    assert!(text.contains("ep is 16") && text.contains("1, 2, 4, 8"), "{text}");
}

#[test]
fn test_what_does_not_fit_shows_its_table_and_what_does() {
    let machine = Machine::built_in("gen2").expect("loads");
    let layout = TrainingLayout { tp: 4, dp: 144, ..TrainingLayout::one(2) };
    let llama = model("llama-3.3-70b");
    let recipe = Recipe::new(1152, 8192);
    let text = plan(&llama, &machine, &recipe, &layout).expect_err("too large").to_string();
    for needle in ["does not fit", "optimizer states", "gradients", "activations", "would fit"] {
        assert!(text.contains(needle), "{text}");
    }
    let fixed = LayoutSpace { tp: vec![4], zero: vec![0], pp: vec![1], cp: vec![1], ..LayoutSpace::default() };
    let text = search(&llama, &machine, &recipe, TrainingObjective::StepTime, &fixed).expect_err("fixed").to_string();
    assert!(text.contains("zero 3") && text.contains("would fit"), "{text}");
    let text = search(&llama, &machine, &Recipe::new(1024, 8192), TrainingObjective::StepTime, &LayoutSpace::default());
    let text = text.expect_err("nine does not divide it").to_string();
    assert!(text.contains("chips=128") && text.contains("a batch of 1152"), "{text}");
    let fewer = LayoutSpace { chips: Some(128), ..LayoutSpace::default() };
    assert!(search(&llama, &machine, &Recipe::new(1024, 8192), TrainingObjective::StepTime, &fewer).is_ok());
    let one = Machine::built_in("trainium3").expect("loads");
    let space = LayoutSpace { keep: Some(1), ..LayoutSpace::default() };
    let text = search(&llama, &one, &recipe, TrainingObjective::StepTime, &space).expect_err("one chip").to_string();
    assert!(text.contains("chips would be needed") && text.contains("optimizer states"), "{text}");
}

#[test]
fn test_search_finds_what_is_no_slower_than_any_layout_tried() {
    let machine = trn1(32);
    let (llama, recipe) = (model("llama-3-8b"), Recipe::new(1024, 8192));
    let found = search(
        &llama,
        &machine,
        &recipe,
        TrainingObjective::StepTime,
        &LayoutSpace { keep: Some(3), ..LayoutSpace::default() },
    );
    let found = found.expect("something fits");
    assert!(found.plans[0].step_time <= llama_8b().step_time);
    assert!(found.plans.windows(2).all(|pair| pair[0].step_time <= pair[1].step_time));
    assert!(found.plans.iter().all(|plan| plan.memory.fits && plan.chips == 512));
    assert!(found.fitting <= found.evaluated && found.evaluated > 500);
    let again = search(
        &llama,
        &machine,
        &recipe,
        TrainingObjective::StepTime,
        &LayoutSpace { keep: Some(3), ..LayoutSpace::default() },
    );
    assert_eq!(again.expect("fits"), found);
    let small = search(&llama, &machine, &recipe, TrainingObjective::Memory, &LayoutSpace::default()).expect("fits");
    assert!(small.plans[0].memory.used <= found.plans[0].memory.used);
}

#[test]
fn test_sparse_models_share_their_experts_out() {
    let machine = Machine::built_in("gen2").expect("loads");
    let space = LayoutSpace { ep: vec![32], ..LayoutSpace::default() };
    let found = search(&model("gpt-oss-120b"), &machine, &Recipe::new(2304, 4096), TrainingObjective::StepTime, &space);
    let plan = &found.expect("fits").plans[0];
    assert!(plan.phases.iter().any(|phase| phase.name == "expert parallel"));
    assert_eq!(plan.layout.ep, 32);
    // Active weights alone count.
    let weights = plan.mfu * plan.peak / plan.tokens_per_second / 6.0;
    assert!((5.0e9..6.5e9).contains(&weights), "{weights}");
}

#[test]
fn test_a_million_chips_take_no_longer_to_plan_than_one_server() {
    let machine = Machine::built_in("gen2").expect("loads").cluster(6_944).expect("allowed");
    assert_eq!(machine.chips, 999_936);
    let layout = TrainingLayout { tp: 32, pp: 14, dp: 8_928, zero: 1, ..TrainingLayout::one(2) };
    let began = std::time::Instant::now();
    let plan = plan(&model("llama-3.1-405b"), &machine, &Recipe::new(8_928 * 16, 8192), &layout);
    assert!(began.elapsed().as_secs_f64() < 10.0);
    match plan {
        Ok(plan) => assert!(plan.chips > 900_000 && plan.step_time > 0.0, "{}", plan.chips),
        Err(error) => panic!("{error}"),
    }
}

/// The model of clusters by roles is another one: exchanges of all with all inside, trees between.
#[test]
fn test_gradients_of_a_million_chips_take_what_the_cluster_says() {
    use crate::{Group, StepCollective};
    use trn3_facts::Facts;
    use trn3_system::cluster::{Between, Cluster, ClusterExchange, ExchangeOperation, NetworkOptions};
    use trn3_system::fabric::LinkProfile;

    let unit = Facts::built_in("trn3_gen2").expect("loads");
    let cluster = Cluster::new(&unit, 6_944, LinkProfile::Docs, &NetworkOptions::default()).expect("allowed");
    let machine = Machine::built_in("gen2").expect("loads").cluster(6_944).expect("allowed");
    let costs = LevelCosts::new(&machine, &machine.chip.rank(2).expect("allowed")).expect("builds");
    for bytes in [4e9, 140e9] {
        let gradients = ClusterExchange {
            operation: ExchangeOperation::AllReduce,
            bytes,
            units: None,
            chips: None,
            count: 1,
            algorithm: Between::Auto,
        };
        let step = cluster.step(&[gradients]).expect("works");
        // Four ranks of a chip reduce a quarter each.
        let group = Group { ranks: 999_936, stride: 4 };
        let ours = costs.cost(StepCollective::AllReduce, group, bytes / 4.0).seconds;
        assert!((0.5..2.0).contains(&(ours / step.seconds)), "{bytes}: {ours} against {}", step.seconds);
    }
}

#[test]
fn test_energy_and_cost_come_with_what_is_missing() {
    let done = llama_8b();
    assert!(done.energy.is_none() && done.cost.is_none());
    assert!(done.not_included.iter().any(|line| line.contains("no published TDP")));
    let machine = Machine::built_in("gen2").expect("loads");
    let layout = TrainingLayout { tp: 8, dp: 64, zero: 1, ..TrainingLayout::one(2) };
    let recipe = Recipe { price: Some(1.0), ..Recipe::new(1024, 8192) };
    let done = plan(&model("llama-3-8b"), &machine, &recipe, &layout).expect("fits");
    let energy = done.energy.expect("published TDP");
    assert!(energy.watts > 300.0 && energy.watts < 1011.0);
    assert_eq!(energy.variants.len(), 2);
    assert_eq!(done.chips, 128);
    let cost = done.cost.expect("price given").per_million_tokens.expect("tokens given");
    assert!((cost / (128.0 / 3600.0 / done.tokens_per_second * 1e6) - 1.0).abs() < 1e-12);
    let doubled = Recipe { tdp: Some(500.0), ..recipe };
    let less = plan(&model("llama-3-8b"), &machine, &doubled, &layout).expect("fits").energy.expect("given");
    assert!((less.watts * 2.0 / energy.watts - 1.0).abs() < 1e-9);
}

#[test]
fn test_narrow_formats_are_faster_and_counted_against_their_peak() {
    let machine = Machine::built_in("gen2").expect("loads");
    let layout = TrainingLayout { tp: 8, dp: 64, zero: 1, ..TrainingLayout::one(2) };
    let with = |precision| {
        let recipe = Recipe { precision, ..Recipe::new(1024, 8192) };
        plan(&model("llama-3-8b"), &machine, &recipe, &layout).expect("fits")
    };
    let (wide, narrow) =
        (with(TensorPrecision::uniform(DataType::Bf16)), with(TensorPrecision::named(DataType::MxFp8, false)));
    assert!(narrow.step_time < wide.step_time);
    assert!((narrow.peak / wide.peak - 4.0).abs() < 1e-9);
}

/// A plan of Llama 3 8B on Gen2 in a format.
fn narrow(dtype: DataType) -> TrainingPlan {
    let layout = TrainingLayout { tp: 8, dp: 64, zero: 1, ..TrainingLayout::one(2) };
    let recipe = Recipe { precision: TensorPrecision::named(dtype, false), ..Recipe::new(1024, 8192) };
    plan(&model("llama-3-8b"), &Machine::built_in("gen2").expect("loads"), &recipe, &layout).expect("fits")
}

#[test]
fn test_narrow_products_keep_two_copies_of_their_weights() {
    let (wide, eight) = (narrow(DataType::Bf16), narrow(DataType::MxFp8));
    let of = |plan: &TrainingPlan, category: Category| {
        plan.memory.rows.iter().find(|row| row.category == category.name()).expect("there").per_rank
    };
    // Matrices of the layers: all weights but norms and the tables at both ends.
    let matrices = (8_030_261_248.0 - 65.0 * 4096.0 - 2.0 * 128_256.0 * 4096.0) / 8.0;
    let copies = of(&eight, Category::Tensors) - of(&wide, Category::Tensors);
    assert!((copies / (2.0 * matrices * (8.25 / 8.0)) - 1.0).abs() < 1e-6, "{copies}");
    for same in [Category::Gradients, Category::Optimizer, Category::Activations] {
        assert_eq!(of(&eight, same), of(&wide, same));
    }
    let of_weight = eight.schedule.bytes_per_weight["narrow copies"];
    assert!((of_weight * 8_030_261_248.0 / 8.0 / copies - 1.0).abs() < 1e-3);
    // Ranks that share tokens have the same weights each.
    let layout = TrainingLayout { tp: 8, dp: 32, cp: 2, zero: 1, ..TrainingLayout::one(2) };
    let recipe = Recipe { precision: TensorPrecision::named(DataType::MxFp8, false), ..Recipe::new(1024, 8192) };
    let shared =
        plan(&model("llama-3-8b"), &Machine::built_in("gen2").expect("loads"), &recipe, &layout).expect("fits");
    assert_eq!(shared.schedule.bytes_per_weight["narrow copies"], of_weight);
    assert!(!wide.schedule.bytes_per_weight.contains_key("narrow copies"));
    let formats = |class| eight.schedule.formats[class];
    assert_eq!([formats("dense"), formats("attention"), formats("norms")], ["mxfp8", "mxfp8", "bf16"]);
    // Products are four times as fast, what stays in BF16 is not.
    let forward =
        |plan: &TrainingPlan| plan.phases.iter().find(|phase| phase.name == "forward").expect("there").seconds;
    assert!(forward(&eight) < 0.6 * forward(&wide) && forward(&eight) > 0.25 * forward(&wide));
    assert!(eight.assumptions.iter().any(|text| text.contains("mxfp8 in both passes")));
    assert!(narrow(DataType::Fp8).step_time < wide.step_time && narrow(DataType::Fp8).step_time > eight.step_time);
}

#[test]
fn test_formats_that_a_chip_lacks_are_refused() {
    for (system, dtype) in [("trn1", DataType::MxFp8), ("trn2", DataType::MxFp8), ("trn2", DataType::MxFp4)] {
        let machine = Machine::built_in(system).expect("loads");
        let layout = TrainingLayout { tp: 8, dp: 4, zero: 1, ..TrainingLayout::one(1) };
        let recipe = Recipe { precision: TensorPrecision::named(dtype, false), ..Recipe::new(64, 4096) };
        let text = plan(&model("llama-3-8b"), &machine, &recipe, &layout).expect_err(system).to_string();
        assert!(
            text.contains(&format!("does not multiply {}", dtype.name())) && text.contains("bf16 would work"),
            "{text}"
        );
        let text =
            search(&model("llama-3-8b"), &machine, &recipe, TrainingObjective::StepTime, &LayoutSpace::default());
        assert!(text.expect_err(system).to_string().contains("dtype of attention"));
    }
}

#[test]
fn test_schedule_says_pipeline_recomputation_and_network() {
    let deep = llama_70b();
    let schedule = &deep.schedule;
    assert_eq!((schedule.pipeline, schedule.stages, schedule.micro_batches), ("1F1B", 8, 256));
    assert_eq!((schedule.bubble, schedule.recompute), (7.0 / 256.0, "selective"));
    let seconds = |name: &str| deep.phases.iter().find(|phase| phase.name == name).map_or(0.0, |phase| phase.seconds);
    assert_eq!(schedule.bubble_seconds, seconds("pipeline bubble"));
    assert_eq!(schedule.recompute_seconds, seconds("recompute"));
    assert_eq!(schedule.network.as_deref(), Some("efa"));
    assert_eq!(schedule.network_seconds, seconds("data parallel") + seconds("pipeline messages"));
    let said = |name: &str| &schedule.said.iter().find(|(about, _)| *about == name).expect("said").1;
    assert!(said("pipeline").starts_with("1F1B, 8 stages, 256 micro-batches: bubble 2.7% of the work"));
    assert!(said("recompute").starts_with("selective: ") && said("network").starts_with("efa alone is at work for "));
    let one = bert(1, 16_384).schedule;
    assert_eq!((one.pipeline, one.network, one.network_seconds, one.recompute_seconds), ("none", None, 0.0, 0.0));
}

/// On Trainium1 shorter sequences were not fused: a pass over all scores of a layer in FP32 is that much traffic.
#[test]
fn test_attention_that_is_not_fused_moves_its_scores() {
    let settings = TrainingSettings::load().expect("loads");
    assert!(
        !settings.clone().on("trainium1").fuses_attention(4096)
            && settings.clone().on("trainium1").fuses_attention(8192)
    );
    assert!(settings.clone().on("trainium3").fuses_attention(128));
    let (machine, llama, recipe) = (trn1(1), model("llama-2-13b"), Recipe::new(32, 4096));
    let (rank, layout) =
        (machine.chip.rank(1).expect("allowed"), TrainingLayout { tp: 8, pp: 4, ..TrainingLayout::one(1) });
    let costs = LevelCosts::new(&machine, &rank).expect("builds");
    let bytes = |settings: &TrainingSettings| step(&llama, &rank, &recipe, &layout, &costs, settings, false).hbm_bytes;
    let more = bytes(&settings.clone().on("trainium1")) - bytes(&settings);
    let scores = 32.0 * 10.0 * 5.0 * 4096.0 * 4096.0;
    assert!((more / (scores * 4.0 * 14.0) - 1.0).abs() < 1e-9, "{more}");
}

/// With the whole batch to share out, chips that do not help show that the network is why.
#[test]
fn test_more_chips_are_slower_only_where_the_network_says_so() {
    for (name, batch, tokens) in [("bert-large", 16_384, 128), ("llama-3-8b", 256, 8192), ("gpt3-23b", 256, 2048)] {
        let mut last: Option<TrainingPlan> = None;
        for nodes in [1, 2, 4, 8, 16, 32] {
            let found = search(
                &model(name),
                &trn1(nodes),
                &Recipe::new(batch, tokens),
                TrainingObjective::StepTime,
                &LayoutSpace::default(),
            );
            let Ok(found) = found else { continue };
            let plan = found.plans[0].clone();
            if let Some(fewer) = last.filter(|fewer| plan.step_time >= fewer.step_time) {
                let grown = plan.schedule.network_seconds - fewer.schedule.network_seconds;
                assert!(grown >= plan.step_time - fewer.step_time, "{name} on {nodes} nodes: {:?}", plan.phases);
                assert_eq!(plan.schedule.network.as_deref(), Some("efa"));
            }
            last = Some(plan);
        }
        assert!(last.is_some(), "{name}");
    }
}

/// Levels whose links are so many times faster.
fn faster(machine: &Machine, factor: f64) -> Machine {
    let mut machine = machine.clone();
    for level in &mut machine.levels {
        level.rate *= factor;
        level.uniform *= factor;
    }
    machine
}

/// Powers of two, small numbers, and some that nothing should survive.
fn degree() -> impl Strategy<Value = u64> {
    prop_oneof![4 => (0..6u32).prop_map(|power| 1 << power), 2 => 0..20u64, 1 => any::<u64>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn test_no_layout_panics_or_gives_nonsense(
        degrees in prop::array::uniform7(degree()), zero in 0..6u8, batch in degree(), sequence in degree(), sparse: bool,
    ) {
        let [tp, pp, dp, cp, ep, interleave, micro_batch] = degrees;
        let layout =
            TrainingLayout { tp, pp, dp, cp, ep, interleave, micro_batch, zero, ..TrainingLayout::one(2) };
        let machine = Machine::built_in("gen2").unwrap();
        let name = if sparse { "mixtral-8x7b" } else { "llama-3-8b" };
        let recipe = Recipe::new(batch, sequence);
        match plan(&model(name), &machine, &recipe, &layout) {
            Ok(plan) => {
                prop_assert!(plan.step_time.is_finite() && plan.step_time > 0.0);
                prop_assert!(plan.mfu > 0.0 && plan.mfu <= plan.mfu_with_attention && plan.hfu < 1.0);
                prop_assert!(plan.memory.fits);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
        let space = LayoutSpace {
            tp: vec![tp], pp: vec![pp], cp: vec![cp], dp: Some(dp), micro_batch: vec![micro_batch], ..LayoutSpace::default()
        };
        let found = search(&model(name), &machine, &recipe, TrainingObjective::Memory, &space);
        prop_assert!(found.is_ok() || !found.unwrap_err().to_string().is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn test_more_bandwidth_never_slows_and_more_tokens_take_longer(
        tp in 0..4u32, pp in 0..4u32, cp in 0..2u32, zero in 0..4u8, micro in 0..2u32, mode in 0..3usize, factor in 1.0..8.0f64,
    ) {
        let (tp, pp, cp, micro_batch) = (1 << (tp + 1), 1 << pp, 1 << cp, 1 << micro);
        let dp = 512 / (tp * pp * cp);
        let layout = TrainingLayout {
            tp, pp, cp, dp, zero, micro_batch, recompute: Recompute::ALL[mode], ..TrainingLayout::one(2)
        };
        let machine = Machine::built_in("gen2").unwrap();
        let rank = machine.chip.rank(2).unwrap();
        let settings = TrainingSettings::load().unwrap();
        let llama = model("llama-3-8b");
        let time = |machine: &Machine, recipe: &Recipe| {
            let costs = LevelCosts::new(machine, &rank).unwrap();
            step(&llama, &rank, recipe, &layout, &costs, &settings, true).step
        };
        let recipe = Recipe::new(1024, 4096);
        let base = time(&machine, &recipe);
        prop_assert!(time(&faster(&machine, factor), &recipe) <= base * (1.0 + 1e-12));
        prop_assert!(time(&machine, &Recipe::new(2048, 4096)) > base);
        prop_assert!(time(&machine, &Recipe::new(1024, 8192)) > base);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn test_collectives_hide_under_no_more_than_there_is(
        nodes in 0..6u32, zero in 0..4u8, micro in 0..3u32, bucket in 1e5..1e10f64, overlap in 0.0..1.0f64,
    ) {
        let machine = trn1(1 << nodes);
        let rank = machine.chip.rank(1).unwrap();
        let layout = TrainingLayout { dp: 32 << nodes, zero, micro_batch: 1 << micro, ..TrainingLayout::one(1) };
        let (bert, recipe) = (model("bert-large"), Recipe::new(16_384, 128));
        let costs = LevelCosts::new(&machine, &rank).unwrap();
        let mut settings = TrainingSettings::load().unwrap().on("trainium1");
        (settings.gradient_bucket, settings.dp_overlap) = (bucket, overlap);
        let times = step(&bert, &rank, &recipe, &layout, &costs, &settings, false);
        let micro_batches = (16_384 / layout.dp / layout.micro_batch) as f64;
        let all = times.forward + times.backward + times.recompute;
        let under = if zero < 2 { times.backward / micro_batches } else { all };
        let hidden = times.data.total - times.data.exposed;
        prop_assert!(hidden >= -1e-12 && hidden <= overlap * under * (1.0 + 1e-9), "{hidden} under {under}");
        // The last bucket shows, and so does what comes behind the optimizer.
        let buckets = (335_141_888.0 * 4.0 / bucket).ceil();
        prop_assert!(hidden <= times.data.total * (1.0 - 1.0 / buckets) + 1e-12);
        settings.dp_overlap = 1.0;
        prop_assert!(step(&bert, &rank, &recipe, &layout, &costs, &settings, false).data.exposed <= times.data.exposed + 1e-12);
        prop_assert!(times.step >= times.data.exposed + times.forward + times.backward + times.optimizer);
    }
}
