//! Steps in the order in which they can start.
//!
//! Every step stays after those that it [depends](crate::dependences) on, with tensors where they lie; fences and the
//! author's orders stand. The machine's own timeline takes both orders, and the one it got stays unless another one is
//! faster.

mod changes;
mod list;

use trn3_machine::Result;
use trn3_machine::time::Picos;
use trn3_machine::trace::{StepTimer, Trace};

use super::Pass;
use super::held::Held;
use crate::dependences::Dependences;
use crate::level::CompileLevel;
use crate::report::PassReport;
use crate::webs::Webs;
use changes::changes;
use list::{AsItWas, Choice, Ordered, Problem};

/// Orders the steps.
pub(super) struct SchedulePass;

/// Steps that are issued to find an order, beyond the first two tries.
const BUDGET: usize = 400_000;
/// Tries at most.
const TRIES: usize = 24;

impl Pass for SchedulePass {
    fn name(&self) -> &'static str {
        "schedule"
    }

    fn levels(&self) -> &'static [CompileLevel] {
        &[CompileLevel::Nki, CompileLevel::NeuronxCc]
    }

    fn run(&self, trace: &mut Trace, report: &mut PassReport) -> Result<()> {
        if trace.steps.is_empty() {
            return Ok(());
        }
        let dependences = Dependences::placed(trace);
        let problem = Problem::new(trace, &dependences);
        let was = AsItWas::of(trace);
        let best = best_of(&problem);
        report.add("edges", dependences.edges() as u64);
        if best.makespan >= was.makespan {
            return Ok(());
        }
        let moved = best.order.iter().zip(0u32..).filter(|(before, now)| *before != now).count();
        report.add("moved_steps", moved as u64);
        report.add("saved_ps", was.makespan.0 - best.makespan.0);
        report.changes = changes(&problem, &was, &best.order);
        trace.reorder(&best.order);
        Ok(())
    }
}

/// What a trace takes in the order that it has.
pub(super) fn as_it_is(trace: &Trace) -> Picos {
    let mut timer = StepTimer::new(trace);
    (0..trace.steps.len()).for_each(|step| {
        timer.issue(step);
    });
    timer.makespan()
}

/// The best order that is found of a trace with these dependences.
pub(super) fn best_order(trace: &Trace, dependences: &Dependences) -> Ordered {
    best_of(&Problem::new(trace, dependences))
}

/// The order of a trace that is found at the first try.
pub(super) fn quick_order(trace: &Trace) -> Ordered {
    let dependences = Dependences::placed(trace);
    let problem = Problem::new(trace, &dependences);
    problem.run(Choice { urgency: &problem.ways_to_the_end(), patience: 0, loads: 1 })
}

/// The order in which the steps of a trace start as soon as they can, the oldest first, while what they hold on chip fits into
/// one of so many parts of it.
pub(super) fn order_within(trace: &Trace, webs: &Webs, parts: u64) -> Vec<u32> {
    let dependences = Dependences::placed(trace);
    let problem = Problem::new(trace, &dependences);
    let oldest: Vec<u64> = (0..trace.steps.len() as u64).rev().collect();
    let held = Held::new(trace, webs, parts);
    problem.run_within(Choice { urgency: &oldest, patience: 0, loads: 0 }, Some(held)).order
}

/// The fastest of some orders.
fn best_of(problem: &Problem<'_>) -> Ordered {
    let ways = problem.ways_to_the_end();
    let steps = ways.len();
    let mut best = problem.run(Choice { urgency: &ways, patience: 0, loads: 1 });
    let tries = BUDGET.checked_div(steps).unwrap_or(0).min(TRIES);
    if tries == 0 {
        return best;
    }
    let mut consider = |choice: Choice<'_>| {
        let ordered = problem.run(choice);
        if ordered.makespan < best.makespan {
            best = ordered;
        }
    };
    let oldest: Vec<u64> = (0..steps as u64).rev().collect();
    consider(Choice { urgency: &oldest, patience: 0, loads: 0 });
    for round in 1..tries as u64 {
        // By how much each counts more or less than it is, and how long it is worth waiting for it.
        let share = |step: u64| 1.0 + 0.25 * (mixed(step ^ round << 32) as f64 / u64::MAX as f64);
        let patience = [0, 100_000, 400_000][(round % 3) as usize];
        let loads = 1 + round % 2 * 3;
        if round <= 3 {
            consider(Choice { urgency: &ways, patience, loads });
            continue;
        }
        let urgency: Vec<u64> = ways.iter().zip(0..).map(|(&way, step)| (way as f64 * share(step)) as u64).collect();
        consider(Choice { urgency: &urgency, patience, loads });
    }
    best
}

/// A number that looks like no other's.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
