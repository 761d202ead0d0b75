use proptest::prelude::*;
use rand::RngExt;
use rand_pcg::Pcg64;

use super::parts::PartEffect;
use super::simulate::{FleetModel, Hazard};
use super::*;

const STOP: PartEffect = PartEffect::Stops { replaces: true };

/// A job whose one kind of failure stops it every `mtbf` seconds, and that needs `restart` seconds to go on.
fn job(mtbf: f64, interval: f64, write: f64, restart: f64) -> FleetModel {
    FleetModel {
        horizon: 4e6,
        hazards: vec![Hazard { rate: 1.0 / mtbf, effect: STOP, detection: restart }],
        shape: 1.0,
        interval,
        blocking: write,
        write,
        load: 0.0,
        warm_up: 0.0,
        swap: 0.0,
        cold_swap: 0.0,
        hot: u64::MAX / 2,
        cold: 0,
        repair: 3600.0,
        straggler_detection: 3600.0,
        jitter: 1.0,
        comm_share: 0.5,
    }
}

/// The mean effective time of some runs, and its standard error.
fn effective(model: &FleetModel, runs: u64) -> (f64, f64) {
    let one = |number| model.run(7, number).expect("runs").times;
    let shares: Vec<f64> = (0..runs).map(one).map(|times| times.training / times.total()).collect();
    let mean = shares.iter().sum::<f64>() / runs as f64;
    let variance = shares.iter().map(|share| (share - mean).powi(2)).sum::<f64>() / (runs as f64 - 1.0);
    (mean, (variance / runs as f64).sqrt())
}

fn training(text: &str) -> TrainingFleet {
    let FleetAnswer::Training(found) = FleetRequest::parse(text).expect("parses").answer().expect("answers") else {
        panic!("not of training")
    };
    *found
}

fn serving(text: &str) -> ServingFleet {
    let FleetAnswer::Serving(found) = FleetRequest::parse(text).expect("parses").answer().expect("answers") else {
        panic!("not of serving")
    };
    *found
}

#[test]
fn test_simulated_efficiency_is_the_closed_form() {
    for (mtbf, interval, write, restart) in
        [(1000.0, 100.0, 5.0, 30.0), (3000.0, 900.0, 60.0, 300.0), (500.0, 500.0, 20.0, 200.0)]
    {
        let (mean, error) = effective(&job(mtbf, interval, write, restart), 24);
        let expected = expected_efficiency(interval, write, mtbf, restart);
        assert!((mean - expected).abs() < 4.0 * error + 1e-4, "{mean} is not {expected} within {error}");
    }
}

#[test]
fn test_dalys_interval_is_the_best_of_those_simulated() {
    let (mtbf, write, restart) = (1000.0, 8.0, 60.0);
    let best = daly_higher_order(write, mtbf);
    let (at_best, error) = effective(&job(mtbf, best, write, restart), 16);
    for factor in [0.2, 0.4, 0.7, 1.4, 2.5, 5.0] {
        let (other, _) = effective(&job(mtbf, best * factor, write, restart), 16);
        assert!(at_best > other - 3.0 * error, "{factor} times the interval: {other} against {at_best}");
    }
    // Far from it the difference is no luck.
    for factor in [0.2, 5.0] {
        assert!(at_best > effective(&job(mtbf, best * factor, write, restart), 16).0 + 5.0 * error);
    }
}

#[test]
fn test_closed_forms_agree_where_failures_are_rare_and_differ_where_they_are_not() {
    let numeric = |write: f64, mtbf: f64| {
        // The best of a fine grid, by the formula of efficiency alone.
        let of = |interval: f64| expected_efficiency(interval, write, mtbf, 50.0);
        (1..40_000).map(|at| f64::from(at) * mtbf / 10_000.0).max_by(|a, b| of(*a).total_cmp(&of(*b))).expect("some")
    };
    for (write, mtbf) in [(1.0, 1e4), (30.0, 1e4), (300.0, 1e4), (3000.0, 1e4)] {
        let best = numeric(write, mtbf);
        assert!((daly_higher_order(write, mtbf) / best - 1.0).abs() < 0.02, "{write}: {best}");
        let is_rare = write < 0.001 * mtbf;
        assert_eq!((young(write, mtbf) / best - 1.0).abs() < 0.02, is_rare, "{write}");
    }
}

#[test]
fn test_failures_are_as_many_as_expected_whatever_the_shape() {
    for shape in [1.0, 0.7, 1.6] {
        let model = FleetModel { shape, ..job(2000.0, 200.0, 1.0, 10.0) };
        let count: u64 = (0..8).map(|number| model.run(3, number).expect("runs").interruptions).sum();
        let expected = 8.0 * model.horizon / 2000.0;
        assert!((count as f64 - expected).abs() < 4.0 * expected.sqrt(), "{shape}: {count} against {expected}");
    }
    // Infant mortality: more than half of them in the first half.
    let half = |shape| {
        let model = FleetModel { shape, ..job(2000.0, 200.0, 1.0, 10.0) };
        let whole = model.hazards[0].rate * model.horizon;
        whole * 0.5_f64.powf(shape) / whole
    };
    assert!(half(0.7) > 0.6 && half(1.6) < 0.34);
}

#[test]
fn test_without_failures_only_checkpoints_cost() {
    let mut model = FleetModel { horizon: 1000.0 * 105.0, ..job(1.0, 100.0, 5.0, 30.0) };
    model.hazards.clear();
    let times = model.run(1, 0).expect("runs").times;
    assert_eq!((times.training, times.checkpoints, times.total()), (100_000.0, 5_000.0, 105_000.0));
    assert_eq!(times.ideal, times.training);
}

#[test]
fn test_a_repair_holds_up_a_job_without_spares() {
    // Failures every hour, repairs of an hour: up and down alternate, and the job is up half of the time.
    let model = FleetModel { hot: 0, repair: 3600.0, ..job(3600.0, 1e5, 0.0, 0.0) };
    let runs: Vec<_> = (0..12).map(|number| model.run(5, number).expect("runs").times).collect();
    let waiting = runs.iter().map(|times| times.waiting_for_repair / times.total()).sum::<f64>() / 12.0;
    // Systems that stand fail too: one failure during a repair adds another, and the first one back is taken.
    assert!(waiting > 0.4 && waiting < 0.75, "{waiting}");
    let (none, _) = effective(&model, 12);
    let (one, _) = effective(&FleetModel { hot: 1, ..model.clone() }, 12);
    let (many, _) = effective(&FleetModel { hot: 9, ..model }, 12);
    assert!(none < one && one < many);
}

#[test]
fn test_slow_parts_slow_the_job_and_do_not_stop_it() {
    let mut model = job(1e4, 500.0, 1.0, 10.0);
    model.hazards = vec![Hazard { rate: 0.05, effect: PartEffect::SlowsCollectives { factor: 2.0 }, detection: 0.0 }];
    let run = model.run(1, 0).expect("runs");
    // One is always down: half of a step takes twice as long.
    assert_eq!(run.interruptions, 0);
    assert!((run.times.training / run.times.ideal - 1.5).abs() < 0.01, "{:?}", run.times);
    model.hazards[0] = Hazard { rate: 1e-4, effect: PartEffect::SlowsSteps { factor: 1.3 }, detection: 0.0 };
    let run = model.run(1, 0).expect("runs");
    // Each is found after an hour on average, in which it lasts, and is replaced.
    assert!(run.pauses > 100 && run.interruptions == 0);
    assert!(run.times.training > run.times.ideal && run.times.training < 1.3 * run.times.ideal);
}

#[test]
fn test_checkpoints_in_the_background_cost_less_and_lose_more() {
    let blocking = job(2000.0, 400.0, 60.0, 30.0);
    let behind = FleetModel { blocking: 2.0, ..blocking.clone() };
    let of = |model: &FleetModel| {
        (0..8).map(|n| model.run(2, n).expect("runs").times).fold((0.0, 0.0), |sum, times| {
            (sum.0 + times.checkpoints / times.total(), sum.1 + times.lost_work / times.total())
        })
    };
    let (blocked, background) = (of(&blocking), of(&behind));
    assert!(background.0 < blocked.0 / 5.0 && background.1 > blocked.1);
    assert!(effective(&behind, 8).0 > effective(&blocking, 8).0);
}

#[test]
fn test_the_largest_of_normals_is_that_of_tables_and_draws() {
    // Tables of order statistics.
    for (n, expected) in [(10, 1.538_753), (100, 2.507_594), (1000, 3.241_436)] {
        assert!((largest_of_normals(n) - expected).abs() < 2e-6, "{n}: {}", largest_of_normals(n));
    }
    let mut random = Pcg64::new(1, 1);
    let mut normal = || {
        let (u, v): (f64, f64) = (1.0 - random.random::<f64>(), random.random());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    };
    let drawn = (0..4000).map(|_| (0..64).map(|_| normal()).fold(f64::MIN, f64::max)).sum::<f64>() / 4000.0;
    assert!((drawn - largest_of_normals(64)).abs() < 0.03, "{drawn}");
}

/// The chance that at least `needed` are up, over all states of all domains and replicas.
fn by_states(domains: &[usize], single: f64, domain: f64, needed: usize) -> f64 {
    let replicas: usize = domains.iter().sum();
    let mut enough = 0.0;
    for lost in 0..1_u32 << domains.len() {
        for down in 0..1_u32 << replicas {
            let (mut chance, mut up, mut at) = (1.0, 0, 0);
            for (index, size) in domains.iter().enumerate() {
                let is_lost = lost >> index & 1 == 1;
                chance *= if is_lost { domain } else { 1.0 - domain };
                for replica in at..at + size {
                    let is_down = down >> replica & 1 == 1;
                    chance *= if is_down { single } else { 1.0 - single };
                    up += usize::from(!is_down && !is_lost);
                }
                at += size;
            }
            enough += if up >= needed { chance } else { 0.0 };
        }
    }
    enough
}

proptest! {
    #[test]
    fn test_spares_follow_the_binomial(needed in 1_usize..40, spares in 0_usize..12, down in 0.001_f64..0.5) {
        let total = needed + spares;
        let mut chance = (1.0 - down).powi(total as i32);
        let mut expected = chance;
        for lost in 1..=spares {
            chance *= (total - lost + 1) as f64 / lost as f64 * down / (1.0 - down);
            expected += chance;
        }
        prop_assert!((chance_of_enough(needed, spares, down, &[]) - expected).abs() < 1e-9);
    }

    #[test]
    fn test_domains_are_those_of_all_states(whole in 1_usize..3, rest in 0_usize..3, single in 0.0_f64..0.5, domain in 0.0_f64..0.5, needed in 1_usize..6) {
        let size = 3;
        let mut domains = vec![size; whole];
        if rest > 0 { domains.push(rest); }
        let total: usize = domains.iter().sum();
        prop_assume!(needed <= total);
        // What is left over has no domain of its own: the rest is at the edge of one that others fill.
        let mut by_hand = by_states(&domains[..whole], single, domain, 0);
        prop_assert!((by_hand - 1.0).abs() < 1e-9);
        if rest == 0 {
            by_hand = by_states(&domains, single, domain, needed);
            let made = chance_of_enough(needed, total - needed, single, &[FailureDomain { replicas: size, unavailability: domain }]);
            prop_assert!((made - by_hand).abs() < 1e-9, "{made} {by_hand}");
        }
    }

    #[test]
    fn test_times_are_the_whole_run(mtbf in 300.0_f64..1e5, interval in 50.0_f64..3000.0, write in 0.0_f64..100.0, seed: u64) {
        let mut model = FleetModel { horizon: 2e5, hot: 2, swap: 20.0, load: 5.0, warm_up: 50.0, ..job(mtbf, interval, write, 30.0) };
        model.hazards.push(Hazard { rate: 0.5 / mtbf, effect: PartEffect::Pauses, detection: 0.0 });
        model.hazards.push(Hazard { rate: 1.0 / mtbf, effect: PartEffect::SlowsSteps { factor: 1.2 }, detection: 0.0 });
        model.blocking = write / 3.0;
        model.interval = interval.max(write);
        let run = model.run(seed, 0).expect("runs");
        prop_assert!((run.times.total() - model.horizon).abs() < 1e-3);
        prop_assert!(run.times.ideal <= run.times.training + 1e-6 && run.times.ideal >= 0.0);
        prop_assert_eq!(run, model.run(seed, 0).expect("runs"));
    }
}

const COUNTED: &str = r#""of": "training", "system": {"name": "h100"}, "days": 54"#;

#[test]
fn test_the_counted_fleet_gives_its_own_count() {
    let found = training(&format!(r#"{{{COUNTED}, "chips": 16384, "model": {{"name": "llama-3.1-405b"}}}}"#));
    assert!((found.interruptions_expected - 419.0).abs() < 1e-6);
    assert!((found.interruptions / 419.0 - 1.0).abs() < 4.0 / (419.0_f64 * 16.0).sqrt());
    assert!(found.effective_time > 0.9 && found.effective_time < 0.97);
    assert!(found.effective_time_low < found.effective_time && found.effective_time < found.effective_time_high);
    assert_eq!(found.band.class, "published");
}

#[test]
fn test_failures_grow_with_chips_and_a_million_take_seconds() {
    let start = std::time::Instant::now();
    let mut last = 1.0;
    for chips in [1000, 10_000, 100_000, 1_000_000] {
        let found = training(&format!(r#"{{{COUNTED}, "chips": {chips}, "runs": 2}}"#));
        assert!((found.interruptions_expected / chips as f64 - 419.0 / 16_384.0).abs() < 1e-6);
        assert!(found.effective_time < last, "{chips}");
        last = found.effective_time;
    }
    assert!(start.elapsed().as_secs() < 30);
}

#[test]
fn test_better_parts_and_more_spares_never_hurt() {
    let of = |more: &str| training(&format!(r#"{{{COUNTED}, "chips": 16384, "runs": 12{more}}}"#)).effective_time;
    let noise = 0.004;
    assert!(of(r#", "mtbf": {"chip": 1e6}"#) > of("") - noise);
    assert!(of(r#", "mtbf": {"chip": 1e6, "hbm": 1e8}"#) > of(r#", "mtbf": {"chip": 1e6}"#) - noise);
    let spares: Vec<f64> = [0, 2, 8, 32].iter().map(|count| of(&format!(r#", "spares": {count}"#))).collect();
    assert!(spares.windows(2).all(|pair| pair[1] > pair[0] - noise), "{spares:?}");
    assert!(spares[0] < spares[3] - 0.1);
}

#[test]
fn test_parts_that_never_fail_leave_the_checkpoints() {
    let mtbf = super::parts::KINDS.map(|kind| format!("\"{kind}\": null")).join(", ");
    let found = training(&format!(
        r#"{{{COUNTED}, "chips": 4096, "checkpoint_interval": 600, "jitter": 0, "mtbf": {{{mtbf}}}}}"#
    ));
    let write = found.checkpoint.write_seconds;
    // 54 days are no whole number of intervals.
    assert!((found.effective_time - 600.0 / (600.0 + write)).abs() < 600.0 / (54.0 * 86_400.0));
    assert_eq!((found.interruptions, found.goodput, found.mtbi_hours), (0.0, found.effective_time, None));
}

#[test]
fn test_lost_links_slow_what_the_graph_says() {
    let found =
        training(r#"{"of": "training", "system": {"name": "trn3_gen2"}, "chips": 14400, "days": 30, "runs": 2}"#);
    let factor = |name: &str| match found.parts.iter().find(|part| part.name == name).expect(name).effect {
        PartEffect::SlowsCollectives { factor } => factor,
        other => panic!("{other:?}"),
    };
    // One of a chip's 4, 5 and 2 links: a domain of the level moves at the pace of what is left.
    assert!((factor("link (server)") - 4.0 / 3.0).abs() < 1e-9);
    assert!((factor("link (cross-rack)") - 2.0).abs() < 1e-9);
    assert!(factor("link (rack)") > 1.0 && factor("link (rack)") <= 5.0 / 4.0 + 1e-9);
    let stopped = training(
        r#"{"of": "training", "system": {"name": "trn3_gen2"}, "chips": 14400, "days": 30, "runs": 2, "degrades": false}"#,
    );
    assert!(stopped.interruptions_expected > found.interruptions_expected);
    assert_eq!(found.band.class, "assumed");
}

#[test]
fn test_replicas_on_one_host_need_more_spares_than_apart() {
    let of = |chips: u64, availability: f64| {
        serving(&format!(
            r#"{{"of": "serving", "system": {{"name": "trn3_gen2"}}, "replicas": 64, "replica_chips": {chips}, "availability": {availability}}}"#
        ))
    };
    let (small, large) = (of(1, 0.999), of(16, 0.999));
    // A host of four chips takes four replicas of one chip.
    assert_eq!(small.blast.iter().find(|blast| blast.part == "host").map(|blast| blast.replicas), Some(4));
    assert_eq!(large.blast.iter().find(|blast| blast.part == "host").map(|blast| blast.replicas), Some(1));
    for found in [&small, &large] {
        assert!(found.availability >= 0.999 && found.table[found.spares as usize - 1].availability < 0.999);
        assert!(found.table.windows(2).all(|rows| rows[0].availability <= rows[1].availability));
        assert!(found.spares_low <= found.spares && Some(found.spares) <= found.spares_high);
    }
    assert!(of(16, 0.99999).spares > large.spares);
}

#[test]
fn test_wrong_requests_are_refused_by_name() {
    for (more, needle) in [
        (r#", "chips": 0"#, "chips is 0"),
        (r#", "chips": 10, "mtbf": {"chp": 1}"#, "\"chip\""),
        (r#", "chips": 10, "mtbf": {"chip": 0}"#, "mtbf of chip is 0"),
        (r#", "chips": 10, "checkpoint_interval": -1"#, "checkpoint_interval is -1"),
        (r#", "chips": 10, "comm_share": 2"#, "comm_share is 2"),
        (r#", "chips": 10, "warm_up": -3"#, "warm_up is -3"),
        (r#", "chips": 1000, "asynchronous": true, "checkpoint_interval": 1"#, "in the background"),
        (r#", "chips": 10, "checkpoint_bytes": 1, "model": {"name": "llama-3-8b"}"#, "give one"),
    ] {
        let asked = FleetRequest::parse(&format!("{{{COUNTED}{more}}}")).expect(more);
        let error = asked.answer().expect_err(more).to_string();
        assert!(error.contains(needle), "{more}: {error}");
    }
    let text =
        r#"{"of": "serving", "system": {"name": "gen2"}, "replicas": 4, "replica_chips": 4, "availability": 1.0}"#;
    let error = FleetRequest::parse(text).expect("parses").answer().expect_err("1").to_string();
    assert!(error.contains("availability is 1"), "{error}");
}

#[test]
fn test_derived_rates_give_their_values() {
    let facts = trn3_facts::parameters("reliability").expect("loads");
    for (key, source, value) in facts.derived().expect("arithmetic") {
        let said = source.value.number().expect("a number");
        assert!((value / said - 1.0).abs() < 1e-9, "{key}: {} is {value}, not {said}", source.source);
    }
}
