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
    for (model, key, tpot) in [("llama-3.3-70b", "llama33_70b", 17.4e-3), ("llama-3.1-405b", "llama31_405b", 40.2e-3)] {
        let plan = tutorial(model);
        assert!((plan.tpot / tpot - 1.0).abs() < 0.025, "{model}: {}", plan.tpot);
        for (got, key) in [(plan.tpot, format!("{key}_trn2_tpot")), (plan.ttft, format!("{key}_trn2_ttft"))] {
            let published = measured.si(&key).expect("there");
            assert!((got / published - 1.0).abs() < 0.15, "{key}: {got} against {published}");
        }
    }
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
