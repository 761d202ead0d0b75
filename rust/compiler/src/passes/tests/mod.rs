//! Passes leave values as they are: random kernels with loops are run symbol by symbol before and after.

mod kernels;
mod orders;
mod symbols;

use kernels::{Kernel, Line, Place, kernels, trace};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use symbols::results;
use trn3_machine::trace::{LoopKind, Trace, TraceOperand};

use super::{PASSES, Pass};
use crate::live_bytes::{peaks, spans};
use crate::report::PassReport;

fn pass(name: &str) -> &'static dyn Pass {
    PASSES.iter().copied().find(|pass| pass.name() == name).expect("a pass")
}

fn run(trace: &Trace, names: &[&str]) -> (Trace, Vec<PassReport>) {
    let mut trace = trace.clone();
    let run = |name: &&str| {
        let mut report = PassReport::new(name);
        pass(name).run(&mut trace, &mut report).expect("a pass without refusals");
        report
    };
    let reports = names.iter().map(run).collect();
    (trace, reports)
}

const MIDDLE: [&str; 4] = ["common_work", "copies", "dead_work", "engines"];

fn check(kernel: &Kernel, names: &[&str]) -> Result<(), TestCaseError> {
    let before = trace(kernel);
    let (after, reports) = run(&before, names);
    prop_assert_eq!(results(&before), results(&after));
    let gone: u64 = reports
        .iter()
        .filter(|report| ["common_work", "dead_work"].contains(&report.name.as_str()))
        .map(|report| report.count("steps"))
        .sum();
    let fills: u64 = reports.iter().map(|report| report.count("fills")).sum();
    prop_assert_eq!(after.steps.len() as u64 + gone + fills, before.steps.len() as u64);
    for report in &reports {
        let changed: u64 = report.changes.iter().map(|change| u64::from(change.steps)).sum();
        prop_assert_eq!(changed, report.count("steps") + report.count("fills"));
    }
    // Nobody waits for a step that is gone, or for one that comes later.
    for (number, step) in after.steps.iter().enumerate() {
        prop_assert!(step.after.iter().all(|&other| (other as usize) < number));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn test_the_check_finds_nothing_wrong_with_any_pass(kernel in kernels()) {
        let mut trace = trace(&kernel);
        for pass in PASSES {
            let before = trace.clone();
            pass.run(&mut trace, &mut PassReport::new(pass.name())).expect("a kernel that fits");
            // Copies between tiles whose cells differ in size are of these kernels alone.
            let bytes = |operand: &TraceOperand| operand.rects[0].columns.end - operand.rects[0].columns.start;
            let mut copies = before.steps.iter().filter(|step| step.marks.copies && step.operands.len() == 2);
            if pass.name() == "copies" && copies.any(|step| bytes(&step.operands[0]) != bytes(&step.operands[1])) {
                continue;
            }
            let found = super::check::check(&before, &trace);
            prop_assert!(found.is_ok(), "{}: {:?}", pass.name(), found);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn test_work_that_repeats_is_done_once(kernel in kernels()) {
        check(&kernel, &["common_work"])?;
    }

    #[test]
    fn test_copies_are_passed_by(kernel in kernels()) {
        check(&kernel, &["copies"])?;
    }

    #[test]
    fn test_dead_work_goes(kernel in kernels()) {
        check(&kernel, &["dead_work"])?;
        let (once, _) = run(&trace(&kernel), &["dead_work"]);
        let (_, reports) = run(&once, &["dead_work"]);
        prop_assert_eq!(reports[0].count("steps"), 0);
    }

    #[test]
    fn test_engines_are_those_of_the_alternatives(kernel in kernels()) {
        check(&kernel, &["engines"])?;
        let before = trace(&kernel);
        let (after, _) = run(&before, &["engines"]);
        for (one, other) in before.steps.iter().zip(&after.steps) {
            let copies = before.names.opcodes().get(usize::from(one.opcode)) == Some(&"tensor_copy");
            prop_assert!(copies || one.engine == other.engine);
            let named = one.alternatives.iter().flat_map(|other| &other.engines);
            let mut named = named.chain([(one.engine, one.work.clone())].iter()).cloned().collect::<Vec<_>>().into_iter();
            prop_assert!(named.any(|(engine, work)| engine == other.engine && work == other.work));
        }
    }

    #[test]
    fn test_middle_passes_leave_values_as_they_are(kernel in kernels()) {
        check(&kernel, &MIDDLE)?;
    }

    #[test]
    fn test_passes_run_again_and_again(kernel in kernels()) {
        check(&kernel, &["copies", "common_work", "copies", "dead_work", "common_work", "engines", "dead_work"])?;
    }

    #[test]
    fn test_what_lives_longer_fits(kernel in kernels()) {
        let before = trace(&kernel);
        let peaks = |trace: &Trace| peaks(trace, &spans(trace));
        // A copy that was passed by is dead, and gone with dead work.
        for names in [&["common_work"][..], &["copies", "dead_work"]] {
            let (after, _) = run(&before, names);
            for ((now, usable), (then, _)) in peaks(&after).into_iter().zip(peaks(&before)) {
                prop_assert!(now <= then.max(usable), "{now} bytes are live where {then} were");
            }
        }
    }

    #[test]
    fn test_random_rounding_keeps_every_step(kernel in kernels()) {
        let mut before = trace(&kernel);
        before.draws = true;
        let (after, reports) = run(&before, &MIDDLE);
        prop_assert_eq!(before.steps.len(), after.steps.len());
        prop_assert!(reports.iter().all(|report| report.counts.is_empty() && report.changes.is_empty()));
    }
}

#[test]
fn test_what_is_the_same_in_all_iterations_of_a_loop_leaves_it() {
    use LoopKind::{Affine, Dynamic, Sequential, Static};
    // Two loops, of which each runs three times; an address that is fixed, of the inner or of the outer one; loads that stay.
    for (outer, inner, from, loads) in [
        (Affine, Affine, Place::Fixed(0), 1),
        (Affine, Sequential, Place::Loop(1), 3),
        // It repeats in the outer loop alone, which it is no part of.
        (Affine, Affine, Place::Loop(0), 9),
        (Sequential, Dynamic, Place::Loop(0), 9),
        // A loop that is written out is none.
        (Affine, Static, Place::Loop(0), 3),
        (Static, Static, Place::Loop(0), 3),
        (Static, Affine, Place::Fixed(0), 1),
        (Static, Affine, Place::Loop(0), 9),
        (Dynamic, Static, Place::Loop(1), 3),
    ] {
        let anew = true;
        let compute = Line::Compute { what: 0, of: vec![0], to: 1, half: 0, anew, kind: 5 };
        let body = vec![Line::Load { to: 0, from, anew }, compute, Line::Store { from: 1, to: Place::Loop(0) }];
        let kernel = vec![Line::Loop(outer, 3, vec![Line::Loop(inner, 3, body)])];
        let (after, _) = run(&trace(&kernel), &["common_work"]);
        let stay = after.steps.iter().filter(|step| step.label == 2).count();
        assert_eq!(stay, loads, "{outer}, {inner}, {from:?}");
        let computed = after.steps.iter().filter(|step| step.label == 10).count();
        assert_eq!(computed, loads, "what is computed of it goes with it: {outer}, {inner}, {from:?}");
    }
}

#[test]
fn test_random_kernels_give_every_pass_something_to_do() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..200 {
        let kernel = kernels().new_tree(&mut runner).expect("a kernel").current();
        for report in run(&trace(&kernel), &MIDDLE).1 {
            for (what, count) in report.counts {
                *counts.entry((report.name.clone(), what)).or_insert(0) += count;
            }
        }
    }
    let count = |pass: &str, what| counts.get(&(pass.to_owned(), what)).copied().unwrap_or(0);
    for (pass, what) in [
        ("common_work", "steps"),
        ("common_work", "loads"),
        ("copies", "steps"),
        ("copies", "fills"),
        ("dead_work", "steps"),
        ("engines", "to_scalar"),
    ] {
        assert!(count(pass, what) > 5, "{pass} {what}: {counts:?}");
    }
}

/// A body that loads, computes, copies, multiplies and stores, in two loops.
fn long(trips: u32) -> Kernel {
    let anew = true;
    let compute = |what, of: &[usize], to, kind| Line::Compute { what, of: of.to_vec(), to, half: 0, anew, kind };
    let body = vec![
        Line::Load { to: 0, from: Place::Loop(0), anew },
        Line::Load { to: 1, from: Place::Loop(1), anew },
        compute(0, &[0, 1], 2, 10),
        compute(1, &[1], 3, 12),
        Line::Fill { to: 4, psum: true, anew, half: 0 },
        Line::Product { what: 0, of: [2, 3], to: 4, half: 0, anew: false, joins: true },
        Line::Copy { from: 4, to: 4, psum: false, anew },
        compute(2, &[4, 0], 2, 14),
        compute(0, &[2, 3], 3, 16),
        Line::Store { from: 2, to: Place::Loop(1) },
    ];
    vec![Line::Loop(LoopKind::Affine, trips, vec![Line::Loop(LoopKind::Sequential, 100, body)])]
}

#[test]
fn test_a_hundred_thousand_steps_take_a_moment() {
    let mut trace = trace(&long(100));
    for pass in PASSES {
        let (steps, start) = (trace.steps.len(), std::time::Instant::now());
        let mut report = PassReport::new(pass.name());
        pass.run(&mut trace, &mut report).expect("a pass without refusals");
        let seconds = start.elapsed().as_secs_f64();
        // What takes as long as there are pairs of steps takes minutes.
        assert!(seconds < 20.0, "{} took {seconds} s for {steps} steps, {:?}", pass.name(), report.counts);
    }
}
