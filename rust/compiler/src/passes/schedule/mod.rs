//! Steps in the order in which they can start.
//!
//! Every step stays after those that it [depends](crate::dependences) on, with tensors where they lie; fences and the
//! author's orders stand. The machine's own timeline takes both orders, and the one it got stays unless another one is
//! faster.

mod list;

use trn3_machine::Result;
use trn3_machine::trace::Trace;

use super::Pass;
use crate::dependences::Dependences;
use crate::level::Level;
use crate::report::PassReport;
use list::{Choice, Ordered, Problem};

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

    fn levels(&self) -> &'static [Level] {
        &[Level::Nki, Level::NeuronxCc]
    }

    fn run(&self, trace: &mut Trace, report: &mut PassReport) -> Result<()> {
        if trace.steps.is_empty() {
            return Ok(());
        }
        let dependences = Dependences::placed(trace);
        let problem = Problem::new(trace, &dependences);
        let before = problem.as_it_is();
        let best = best_order(&problem, &before);
        report.add("edges", dependences.edges() as u64);
        let moved = best.order.iter().enumerate().filter(|(now, before)| *now as u32 != **before).count();
        report.add("moved_steps", moved as u64);
        report.add("saved_ps", before.makespan.0 - best.makespan.0);
        if moved > 0 {
            trace.reorder(&best.order);
        }
        Ok(())
    }
}

/// The fastest of some orders, the one that there is among them.
fn best_order(problem: &Problem<'_>, before: &Ordered) -> Ordered {
    let ways = problem.ways_to_the_end();
    let steps = ways.len();
    let mut best = before.clone();
    let mut consider = |choice: Choice<'_>| {
        let ordered = problem.run(choice);
        if ordered.makespan < best.makespan {
            best = ordered;
        }
    };
    consider(Choice { urgency: &ways, patience: 0, loads: 1 });
    let tries = (BUDGET / steps).min(TRIES);
    if tries == 0 {
        return best;
    }
    let oldest: Vec<u64> = (0..steps as u64).rev().collect();
    consider(Choice { urgency: &oldest, patience: 0, loads: 0 });
    for round in 1..tries as u64 {
        // By how much each counts more or less than it is, and how long it is worth waiting for it.
        let share = |step: u64| 1.0 + 0.25 * (mixed(step ^ round << 32) as f64 / u64::MAX as f64);
        let urgency: Vec<u64> = ways.iter().zip(0..).map(|(&way, step)| (way as f64 * share(step)) as u64).collect();
        let patience = [0, 100_000, 400_000][(round % 3) as usize];
        let urgency = if round <= 3 { &ways } else { &urgency };
        consider(Choice { urgency, patience, loads: 1 + round % 2 * 3 });
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
