//! Published results, and properties that every plan has.

use proptest::prelude::*;

use super::*;
use crate::{DataType, TensorPrecision, built_in_model};
use trn3_facts::Facts;

fn evaluation(model: &str, system: &str, split: Split, workload: Workload, dtype: DataType) -> Evaluation {
    let (machine, model) = (Machine::built_in(system).expect("loads"), built_in_model(model).expect("there"));
    let settings = ServingSettings::new(TensorPrecision::named(dtype, model.experts.is_some()));
    let planner = Planner::new(&machine, &model, 2, settings).expect("allowed");
    planner.evaluate(Layout { split, replicas: 1, lnc: 2 }, workload).expect("divides")
}

/// The tutorials: 16 chips, 64 logical cores, 10,000 tokens in, 1,500 out, one request.
fn tutorial(model: &str) -> Evaluation {
    let workload = Workload { batch: 1, input: 10_000, output: 1_500 };
    evaluation(model, "trn2", Split { tp: 64, ..Split::WHOLE }, workload, DataType::Bf16)
}

#[test]
fn test_llama_on_trn2_is_within_the_bands_of_the_published_latencies() {
    let measured = Facts::built_in("measured").expect("loads");
    for (model, key) in [("llama-3.3-70b", "llama33_70b"), ("llama-3.1-405b", "llama31_405b")] {
        let plan = tutorial(model);
        for (got, key) in [(plan.tpot, format!("{key}_trn2_tpot")), (plan.ttft, format!("{key}_trn2_ttft"))] {
            let published = measured.si(&key).expect("there");
            assert!((got / published - 1.0).abs() < 0.15, "{key}: {got} against {published}");
        }
    }
}

/// A plan of a published row: system, model, tp, batch, input, output, format.
fn row(system: &str, model: &str, tp: u64, [batch, input, output]: [u64; 3], dtype: DataType) -> Evaluation {
    let (machine, model) = (Machine::built_in(system).expect("loads"), built_in_model(model).expect("there"));
    let lnc = *machine.chip.lnc_modes.last().expect("some");
    let settings = ServingSettings::new(TensorPrecision::named(dtype, model.experts.is_some()));
    let planner = Planner::new(&machine, &model, lnc, settings).expect("allowed");
    let ep = model.experts.as_ref().map_or(1, |_| tp);
    let layout = Layout { split: Split { tp, ep, ..Split::WHOLE }, replicas: 1, lnc };
    planner.evaluate(layout, Workload { batch, input, output }).expect("divides")
}

#[test]
fn test_first_tokens_of_short_and_long_prompts_are_those_published() {
    let (bf16, int8) = (DataType::Bf16, DataType::Int8);
    // Milliseconds; Neuron SDK documentation, benchmarks of the decoder on trn1.32xlarge, batch 1, TP 32.
    for (model, input, output, dtype, published) in [
        ("llama-3-8b", 128, 3_968, int8, 14.75),
        ("llama-2-7b", 128, 8_064, bf16, 13.32),
        ("llama-3.3-70b", 128, 1_024, bf16, 53.2),
        ("llama-2-70b", 256, 256, bf16, 81.88),
        ("llama-2-70b", 1_024, 1_024, bf16, 232.5),
        ("llama-2-70b", 2_048, 2_048, bf16, 691.0),
        ("llama-2-13b", 4_096, 4_096, bf16, 868.6),
        ("llama-2-13b", 8_192, 8_192, bf16, 2_368.0),
    ] {
        let got = row("trn1", model, 32, [1, input, output], dtype).ttft * 1e3;
        assert!((got / published - 1.0).abs() < 0.25, "{model} {input}: {got} against {published}");
    }
    let sparse = row("trn2", "gpt-oss-120b", 16, [1, 512, 128], bf16).ttft * 1e3;
    assert!(sparse > 252.3 / 2.0, "{sparse}");
}

#[test]
fn test_tokens_of_one_and_several_sequences_are_those_published() {
    let bf16 = DataType::Bf16;
    for (system, model, tp, [batch, input, output], published) in [
        ("trn1", "llama-2-7b", 32, [1, 128, 8_064], 6.70),
        ("trn1", "llama-2-7b", 32, [8, 128, 8_064], 10.10),
        ("trn1", "llama-2-13b", 32, [1, 8_192, 8_192], 13.41),
        ("trn1", "llama-2-13b", 32, [4, 8_192, 8_192], 21.09),
        ("trn1", "llama-2-70b", 32, [1, 256, 256], 25.27),
        ("trn1", "llama-2-70b", 32, [4, 2_048, 2_048], 31.79),
        ("trn2", "qwen3-32b", 64, [1, 128, 558], 10.77),
        ("trn2", "llama-3.1-8b", 8, [2, 512, 128], 10.52),
    ] {
        let got = row(system, model, tp, [batch, input, output], bf16).tpot * 1e3;
        assert!((got / published - 1.0).abs() < 0.25, "{system} {model} batch {batch}: {got} against {published}");
    }
}

#[test]
fn test_a_draft_pays_its_own_overhead() {
    // Published: EAGLE3 on trn2.48xlarge, tokens a step, milliseconds a token, and how much faster than without.
    for (model, tp, batch, length, accepted, published, faster) in
        [("llama-3.1-8b", 8, 2, 3, 3.22, 6.41, 1.64), ("gpt-oss-120b", 16, 1, 1, 1.68, 5.82, 1.20)]
    {
        let (machine, model) = (Machine::built_in("trn2").expect("loads"), built_in_model(model).expect("there"));
        let tpot = |speculation: Option<Speculation>| {
            let precision = TensorPrecision::uniform(DataType::Bf16);
            let settings = ServingSettings { speculation, ..ServingSettings::new(precision) };
            let planner = Planner::new(&machine, &model, 2, settings).expect("allowed");
            let ep = model.experts.as_ref().map_or(1, |_| tp);
            let layout = Layout { split: Split { tp, ep, ..Split::WHOLE }, replicas: 1, lnc: 2 };
            planner.evaluate(layout, Workload { batch, input: 512, output: 128 }).expect("divides").tpot
        };
        let (base, guessed) =
            (tpot(None), tpot(Some(Speculation { length, accepted, draft: None, draft_share: 0.05 })));
        assert!((guessed * 1e3 / published - 1.0).abs() < 0.2, "{}: {guessed}", model.name);
        assert!((base / guessed / faster - 1.0).abs() < 0.2, "{}: {}", model.name, base / guessed);
    }
}

#[test]
fn test_overheads_of_neuron_are_none_of_gpus_and_tpus() {
    let overhead = |system: &str| {
        let plan = row(system, "llama-3-8b", 2, [1, 1_000, 100], DataType::Bf16);
        plan.decode.by_resource.get("layer overhead").copied().unwrap_or(0.0) / 32.0
    };
    let near = |seconds: f64, fact: &str, key: &str| {
        let stated = trn3_facts::parameters(fact).expect("there").si(key).expect("there");
        assert!((seconds / stated - 1.0).abs() < 1e-9, "{fact}: {seconds} against {stated}");
    };
    near(overhead("trn1"), "serving_trainium1", "layer_overhead");
    near(overhead("gen2"), "serving_trainium3", "layer_overhead");
    near(overhead("h100"), "serving_gpu", "layer_overhead");
    assert_eq!(overhead("tpu_v7"), 0.0);
    let machine = Machine::built_in("tpu_v7").expect("loads");
    let model = built_in_model("llama-3-8b").expect("there");
    let lnc = machine.chip.lnc_modes[0];
    let planner = Planner::new(&machine, &model, lnc, ServingSettings::new(TensorPrecision::uniform(DataType::Bf16)));
    let said = planner.expect("allowed").assumptions().join("; ");
    assert!(said.contains("peak and floor only"), "{said}");
}

#[test]
fn test_prompts_run_at_the_next_compiled_length() {
    let ttft = |system: &str, input: u64| row(system, "llama-3-8b", 8, [1, input, 100], DataType::Bf16).ttft;
    assert_eq!(ttft("trn2", 129), ttft("trn2", 256));
    assert!(ttft("trn2", 257) > ttft("trn2", 256));
    // GPUs compile no lengths.
    assert!(ttft("h100", 256) > ttft("h100", 129));
}

#[test]
fn test_larger_models_are_never_faster() {
    for system in ["trn1", "trn2", "gen2", "h100", "tpu_v7"] {
        for sizes in [["llama-2-7b", "llama-2-13b", "llama-2-70b"], ["llama-3.2-1b", "llama-3.1-8b", "llama-3.3-70b"]] {
            for (batch, input, output) in [(1, 128, 100), (4, 2_000, 500), (16, 4_000, 1_000)] {
                let plans = sizes.map(|model| row(system, model, 8, [batch, input, output], DataType::Bf16));
                assert!(plans.is_sorted_by(|small, large| small.tpot < large.tpot), "{system} {sizes:?} {batch}");
                assert!(plans.is_sorted_by(|small, large| small.ttft < large.ttft), "{system} {sizes:?} {input}");
            }
        }
    }
}

#[test]
fn test_more_tokens_and_sequences_are_never_faster_on_any_system() {
    for (system, model) in
        [("trn1", "llama-2-13b"), ("trn2", "gpt-oss-120b"), ("gen2", "qwen3-235b-a22b"), ("h100", "llama-2-7b")]
    {
        let plan = |batch, input| row(system, model, 8, [batch, input, 100], DataType::Bf16);
        let inputs = [1, 100, 128, 129, 500, 513, 2_000, 5_000, 9_000, 12_289, 30_000].map(|input| plan(1, input).ttft);
        assert!(inputs.is_sorted(), "{system}: {inputs:?}");
        let steps = [1, 2, 3, 8, 20, 64, 200].map(|batch| plan(batch, 1_000).tpot);
        assert!(steps.is_sorted(), "{system}: {steps:?}");
        let rates = [1, 2, 3, 8, 20, 64, 200].map(|batch| plan(batch, 1_000).tokens_per_second);
        assert!(rates.is_sorted(), "{system}: {rates:?}");
    }
}

#[test]
fn test_a_plan_knows_the_class_of_its_times() {
    let (machine, model) = (Machine::built_in("gen2").expect("loads"), built_in_model("llama-3-8b").expect("there"));
    let planner = Planner::new(&machine, &model, 2, ServingSettings::new(TensorPrecision::uniform(DataType::Bf16)));
    let planner = planner.expect("allowed");
    let [first, next] = planner.classes(Workload { batch: 4, input: 100, output: 10 });
    assert_eq!((first.generation.as_str(), first.phase, first.batched), ("trainium3", ServedPhase::Prefill, false));
    assert_eq!((next.phase, next.batched), (ServedPhase::Decode, true));
    let [low, high] = planner.recipe().layer_overhead_range;
    assert!(low < planner.recipe().layer_overhead && planner.recipe().layer_overhead < high);
}

#[test]
fn test_gpt_oss_decode_floor_is_the_published_table() {
    let model = built_in_model("gpt-oss-120b").expect("there");
    let precision = |dtype| TensorPrecision::named(dtype, true);
    let rate = |chip| Facts::built_in(chip).expect("loads").si("hbm_bandwidth").expect("there");
    // GB a step and ms on two chips, Trainium3 in MXFP4 and Trainium2 in BF16, and the ratio.
    for (batch, gigabytes, milliseconds, ratio) in [
        (1.0, ["5.3", "10.6"], ["0.55", "1.83"], "3.4"),
        (8.0, ["19.7", "57.5"], ["2.0", "9.9"], "4.9"),
        (64.0, ["79.9", "226"], ["8.2", "39.0"], "4.8"),
        (256.0, ["160", "328"], ["16.3", "56.5"], "3.5"),
    ] {
        let mut seconds = [0.0; 2];
        for (side, (dtype, chip)) in
            [(DataType::MxFp4, "trainium3"), (DataType::Bf16, "trainium2")].into_iter().enumerate()
        {
            let bytes = decode_bytes(&model, &precision(dtype), batch, 10_000.0);
            seconds[side] = bytes / (2.0 * rate(chip));
            assert_eq!(digits(bytes / 1e9, gigabytes[side]), gigabytes[side], "batch {batch} on {chip}");
            let printed = digits(seconds[side] * 1e3, milliseconds[side]);
            assert_eq!(printed, milliseconds[side], "batch {batch} on {chip}");
        }
        assert_eq!(digits(seconds[1] / seconds[0], ratio), ratio);
    }
}

/// A number with as many decimals as another one is printed with.
fn digits(number: f64, like: &str) -> String {
    format!("{number:.*}", like.split_once('.').map_or(0, |(_, decimals)| decimals.len()))
}

#[test]
fn test_gpt_oss_in_bf16_does_not_fit_two_trainium2() {
    let (machine, model) = (Machine::built_in("trn2").expect("loads"), built_in_model("gpt-oss-120b").expect("there"));
    let settings = ServingSettings::new(TensorPrecision::named(DataType::MxFp4, true));
    let planner = Planner::new(&machine, &model, 2, settings).expect("allowed");
    let layout = Layout { split: Split { tp: 8, ep: 8, ..Split::WHOLE }, replicas: 1, lnc: 2 };
    let error = planner.plan(layout, Workload { batch: 1, input: 10_000, output: 0 }).expect_err("too large");
    assert!(matches!(error, Error::Memory(_)));
    let text = error.to_string();
    for needle in ["does not fit", "kv cache", "24.0 GiB", "the smallest replica that holds it has", "total"] {
        assert!(text.contains(needle), "{needle}: {text}");
    }
    assert!(planner.assumptions().iter().any(|text| text.contains("does not multiply mxfp4")));
    // The recipe on Trainium3: two chips hold it.
    let (machine, settings) = (
        Machine::built_in("gen2").expect("loads"),
        ServingSettings::new(TensorPrecision::named(DataType::MxFp4, true)),
    );
    let planner = Planner::new(&machine, &model, 2, settings).expect("allowed");
    assert!(planner.plan(layout, Workload { batch: 1, input: 10_000, output: 3_000 }).is_ok());
}

#[test]
fn test_lnc_1_shares_a_bank() {
    let (machine, model) = (Machine::built_in("gen2").expect("loads"), built_in_model("llama-3-8b").expect("there"));
    let table = |lnc: u32| {
        let planner =
            Planner::new(&machine, &model, lnc, ServingSettings::new(TensorPrecision::uniform(DataType::Bf16)));
        let split = Split { tp: 8 / u64::from(lnc), ..Split::WHOLE };
        let workload = Workload { batch: 4, input: 8_192, output: 0 };
        planner.expect("allowed").memory(&Layout { split, replicas: 1, lnc }, workload)
    };
    let (one, two) = (table(1), table(2));
    assert_eq!((one.ranks_per_bank, two.ranks_per_bank), (2, 1));
    assert_eq!(one.bank, two.bank);
    assert_eq!(two.bank, 36.0 * f64::from(1 << 30));
    // The same weights on the bank either way; microcode is per physical core.
    let row = |table: &MemoryTable, name: &str| {
        table.rows.iter().find(|row| row.category.starts_with(name)).map_or(0.0, |row| row.per_bank)
    };
    assert!((row(&one, "tensors") / row(&two, "tensors") - 1.0).abs() < 1e-3);
    assert!(row(&one, "code") > row(&two, "code"));
}

#[test]
fn test_speculation_divides_by_what_is_accepted() {
    let (machine, model) = (Machine::built_in("trn2").expect("loads"), built_in_model("llama-3.3-70b").expect("there"));
    let draft = built_in_model("llama-3.2-1b").expect("there");
    let layout = Layout { split: Split { tp: 64, ..Split::WHOLE }, replicas: 1, lnc: 2 };
    let workload = Workload { batch: 1, input: 10_000, output: 1_500 };
    let tpot = |accepted: f64| {
        let mut settings = ServingSettings::new(TensorPrecision::uniform(DataType::Bf16));
        // Heads of the draft do not divide by 64 ranks any more than published ones do; its shard rounds up.
        settings.speculation = Some(Speculation { length: 7, accepted, draft: Some(draft.clone()), draft_share: 0.0 });
        let planner = Planner::new(&machine, &model, 2, settings).expect("allowed");
        planner.evaluate(layout, workload).expect("divides").tpot
    };
    assert!((tpot(2.0) / tpot(4.0) - 2.0).abs() < 1e-9);
    // 5.3 ms are published; what is accepted is not.
    assert!(tpot(8.0) < 5.3e-3 && tpot(1.0) > 5.3e-3);
}

#[test]
fn test_measured_kernels_replace_the_roofline() {
    let (machine, model) = (Machine::built_in("gen2").expect("loads"), built_in_model("llama-3-8b").expect("there"));
    let layout = Layout { split: Split { tp: 4, ..Split::WHOLE }, replicas: 1, lnc: 2 };
    let workload = Workload { batch: 8, input: 1_000, output: 0 };
    let mut settings = ServingSettings::new(TensorPrecision::uniform(DataType::Bf16));
    let planner = Planner::new(&machine, &model, 2, settings.clone()).expect("allowed");
    let [_, decode] = planner.operations(&layout.split, workload);
    let mlp = decode.iter().find(|operation| operation.name == "mlp_in").expect("there").clone();
    settings.kernel_times.insert(mlp.key(), 1e-3);
    let measured = Planner::new(&machine, &model, 2, settings).expect("allowed");
    let plan = measured.evaluate(layout, workload).expect("divides");
    let part = plan.decode.parts.iter().find(|part| part.name == "mlp_in").expect("there");
    assert_eq!((part.seconds, part.resource.as_str()), (32.0 * 1e-3, "measured kernels"));
}

fn small(tp: u64, batch: u64, input: u64, scale: f64) -> Evaluation {
    let mut machine = Machine::built_in("gen2").expect("loads");
    machine.chip.hbm_rate *= scale;
    machine.chip.dma_rate *= scale;
    for level in &mut machine.levels {
        level.rate *= scale;
        level.uniform *= scale;
    }
    let model = built_in_model("gpt-oss-120b").expect("there");
    let planner =
        Planner::new(&machine, &model, 2, ServingSettings::new(TensorPrecision::named(DataType::MxFp4, true)));
    let layout = Layout { split: Split { tp, ep: tp, ..Split::WHOLE }, replicas: 1, lnc: 2 };
    planner.expect("allowed").evaluate(layout, Workload { batch, input, output: 100 }).expect("divides")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn test_more_bandwidth_is_never_slower(power in 0_u32..5, batch in 1_u64..512, input in 1_u64..50_000, more in 1.0..4.0_f64) {
        let (base, fast) = (small(1 << power, batch, input, 1.0), small(1 << power, batch, input, more));
        prop_assert!(fast.tpot <= base.tpot && fast.ttft <= base.ttft);
    }

    #[test]
    fn test_time_and_memory_are_monotone_in_batch_and_context(
        power in 0_u32..5, batch in 1_u64..512, input in 1_u64..50_000, more in 1_u64..512,
    ) {
        let base = small(1 << power, batch, input, 1.0);
        let (fuller, longer) = (small(1 << power, batch + more, input, 1.0), small(1 << power, batch, input + more, 1.0));
        // Sums in floating point may differ in the last digit.
        let least = |seconds: f64| seconds * (1.0 - 1e-12);
        prop_assert!(fuller.tpot >= least(base.tpot) && longer.tpot >= least(base.tpot));
        prop_assert!(longer.ttft >= least(base.ttft) && fuller.ttft == base.ttft);
        prop_assert!(fuller.memory.used >= base.memory.used && longer.memory.used >= base.memory.used);
    }

    #[test]
    fn test_plans_never_beat_the_floor(power in 0_u32..5, batch in 1_u64..512, input in 1_u64..50_000) {
        let plan = small(1 << power, batch, input, 1.0);
        prop_assert!(plan.tpot >= plan.floor_seconds);
        prop_assert!(plan.decode_mbu <= 1.0 && plan.prefill_mfu <= 1.0 && plan.prefill_mfu > 0.0);
        let parts: f64 = plan.decode.parts.iter().map(|part| part.seconds).sum();
        prop_assert!((parts / plan.decode.seconds - 1.0).abs() < 1e-12);
    }
}
