//! Schedules are legal, no slower than what they are made from, and no faster than the bound.

mod support;

use proptest::prelude::*;
use support::{Plan, bank, compute, load, matmul, plans, store, tile, trace};
use trn3_compiler::dependences::{DependenceKind, Dependences};
use trn3_compiler::passes::check::check;
use trn3_compiler::{ChangeKind, CompileOptions, PassReport, lower_bound};
use trn3_machine::engine::Engine;
use trn3_machine::site::SiteId;
use trn3_machine::timing::timeline::TimelineOptions;
use trn3_machine::trace::{Trace, Use, time};

fn takes(trace: &Trace) -> u64 {
    time(trace, TimelineOptions::default()).expect("a trace of one core").latency.0
}

fn scheduled(trace: &Trace) -> (Trace, PassReport) {
    passed("schedule", trace)
}

fn passed(name: &str, trace: &Trace) -> (Trace, PassReport) {
    let options = CompileOptions { passes: Some(vec![name.to_owned()]), ..Default::default() };
    let (mut done, mut report) = (trace.clone(), PassReport::new(name));
    for pass in options.pipeline().expect("a pass") {
        pass.run(&mut done, &mut report).expect("a schedule");
    }
    (done, report)
}

/// An order that dependences allow: of the steps that need nothing more the one that a list of numbers picks.
fn any_order(trace: &Trace, picks: &[usize]) -> Vec<u32> {
    let dependences = Dependences::placed(trace);
    let followers = dependences.followers();
    let mut missing: Vec<usize> = (0..trace.steps.len()).map(|step| dependences.before(step).len()).collect();
    let mut order: Vec<u32> = Vec::new();
    while order.len() < trace.steps.len() {
        let waiting = (0..trace.steps.len()).filter(|step| !order.contains(&(*step as u32)));
        let segment = waiting.clone().map(|step| dependences.segment(step)).min();
        let free: Vec<usize> =
            waiting.filter(|&step| missing[step] == 0 && Some(dependences.segment(step)) == segment).collect();
        let next = free[picks[order.len() % picks.len()] % free.len()];
        order.push(next as u32);
        followers.after(next).iter().for_each(|edge| missing[edge.step as usize] -= 1);
    }
    order
}

fn adjacent(plans: &[Plan], at: usize) -> Result<(), TestCaseError> {
    let before = trace(plans);
    let at = at % (before.steps.len() - 1);
    let mut order: Vec<u32> = (0..before.steps.len() as u32).collect();
    order.swap(at, at + 1);
    let mut after = before.clone();
    after.reorder(&order);
    let dependences = Dependences::placed(&before);
    let edge = dependences.before(at + 1).iter().find(|edge| edge.step as usize == at);
    let found = check(&before, &after);
    if dependences.segment(at) != dependences.segment(at + 1) {
        prop_assert!(found.is_err(), "a fence was crossed");
        return Ok(());
    }
    match edge.map(|edge| edge.kind) {
        None => prop_assert!(found.is_ok(), "{:?}", found),
        // What nobody reads may be overwritten in any order.
        Some(DependenceKind::Output) => {}
        Some(kind) => prop_assert!(found.is_err(), "{:?} was broken", kind),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn test_a_schedule_is_legal_and_no_slower(plans in plans(1..60), draws in prop::bool::weighted(0.05)) {
        let mut before = trace(&plans);
        before.draws = draws;
        let (after, report) = scheduled(&before);
        check(&before, &after).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let (was, is) = (takes(&before), takes(&after));
        prop_assert!(is <= was);
        prop_assert_eq!(report.count("saved_ps"), was - is);
    }

    #[test]
    fn test_no_order_beats_the_bound(plans in plans(1..40), picks in prop::collection::vec(0usize..64, 1..50)) {
        let before = trace(&plans);
        let mut after = before.clone();
        after.reorder(&any_order(&before, &picks));
        check(&before, &after).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert!(lower_bound(&before).0 <= takes(&after));
        prop_assert!(lower_bound(&before).0 <= takes(&scheduled(&before).0));
    }

    #[test]
    fn test_the_checker_sees_what_an_order_breaks(plans in plans(2..40), at in 0usize..1000) {
        adjacent(&plans, at)?;
    }
}

/// A tile is loaded, added to what a matmul gives, and stored, the same places each time but one.
fn plain_loop(rounds: u64) -> Trace {
    let mut trace = support::empty();
    for round in 0..rounds {
        let (here, there) = (tile(3 + round % 2, 0, Use::Write), tile(5, 0, Use::Write));
        let reads = |operand: &trn3_machine::trace::TraceOperand, usage| {
            let mut read = operand.clone();
            read.usage = usage;
            read
        };
        trace.steps.push(load(round, here.clone()));
        let inputs = vec![reads(&here, Use::Stationary), reads(&here, Use::Read), bank(round, Use::Write)];
        trace.steps.push(matmul(400, false, inputs));
        trace.steps.push(compute(
            Engine::Vector,
            400,
            vec![bank(round, Use::Read), reads(&here, Use::Read), there.clone()],
        ));
        trace.steps.push(store(round, reads(&there, Use::Read)));
    }
    for (step, number) in trace.steps.iter_mut().zip(0u32..) {
        (step.source, step.fingerprint) = (number, Some(u64::from(number)));
    }
    for place in trace.places.iter_mut().take(3) {
        *place = Some((0, 0));
    }
    trace
}

#[test]
fn test_loads_are_issued_before_the_stores_that_wait() {
    let before = plain_loop(16);
    let (after, _) = scheduled(&before);
    check(&before, &after).expect("a legal schedule");
    assert!(takes(&after) * 10 < takes(&before) * 9, "{} of {}", takes(&after), takes(&before));
}

#[test]
fn test_a_step_that_goes_a_place_outside_and_an_engine_that_was_not_open_are_seen() {
    let before = plain_loop(2);
    let mut after = before.clone();
    after.steps.remove(0);
    assert!(check(&before, &after).expect_err("a load is missing").to_string().contains("reads something else"));
    let mut after = before.clone();
    after.steps.pop();
    assert!(check(&before, &after).expect_err("a store is missing").to_string().contains("does not hold in the end"));
    let mut after = before.clone();
    after.steps[2].engine = Engine::GpSimd;
    assert!(check(&before, &after).expect_err("another engine").to_string().contains("was not open"));
    let mut after = before.clone();
    after.places[0] = Some((0, 1 << 20));
    assert!(check(&before, &after).expect_err("no such place").to_string().contains("its memory has"));
}

#[test]
fn test_the_lines_that_change_places_are_named() {
    let mut before = plain_loop(16);
    for (step, number) in before.steps.iter_mut().zip(0u32..) {
        step.site = SiteId(10 + number % 4);
    }
    let (_, report) = scheduled(&before);
    let first = &report.changes[0];
    assert_eq!((first.kind, first.site, first.other), (ChangeKind::Earlier, SiteId(10), Some(SiteId(13))));
    assert!(report.changes.iter().all(|change| change.steps > 0 && change.steps <= 16));
}

#[test]
fn test_bodies_of_a_long_loop_are_ordered_as_a_few_of_them() {
    let before = support::tiled(40_000);
    let (after, report) = passed("structure", &before);
    check(&before, &after).expect("a legal order");
    assert_eq!((report.count("bodies"), report.count("trips")), (1, 3637));
    assert_eq!(report.count("repeated_steps"), before.steps.len() as u64);
    let (was, is) = (takes(&before), takes(&after));
    assert_eq!(report.count("saved_ps"), was - is);
    let few = support::tiled(400);
    let (whole, part) = (is as f64 / was as f64, takes(&scheduled(&few).0) as f64 / takes(&few) as f64);
    assert!(whole < 0.95 && whole < part + 0.05, "{whole} of the time, a few bodies {part}");
}
