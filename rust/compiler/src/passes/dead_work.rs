//! Work whose results nobody reads goes.
//!
//! Invariant: what is in HBM and in registers afterwards, and what fences and random numbers see, is as before; every step
//! that stays finds the bytes that it found. A step stays if it writes HBM or a register, is a fence, gives something else
//! the next time, or makes what one that stays needs.

use std::collections::HashSet;

use trn3_machine::Result;
use trn3_machine::timing::work::Work;
use trn3_machine::trace::{Home, NONE, Trace, Use};

use super::noted::Noted;
use super::{Pass, steps};
use crate::level::CompileLevel;
use crate::producers::Producers;
use crate::report::{ChangeKind, PassReport};

/// Leaves out what nobody reads.
pub(super) struct DeadWorkPass;

impl Pass for DeadWorkPass {
    fn name(&self) -> &'static str {
        "dead_work"
    }

    fn levels(&self) -> &'static [CompileLevel] {
        &[CompileLevel::NeuronxCc]
    }

    fn run(&self, trace: &mut Trace, report: &mut PassReport) -> Result<()> {
        // Steps that are left out would leave their random numbers to others.
        if trace.draws {
            return Ok(());
        }
        let needed = needed(trace);
        let mut noted = Noted::default();
        for (step, _) in trace.steps.iter().zip(&needed).filter(|(_, needed)| !**needed) {
            let made = step.writes().next().map(|operand| operand.tensor);
            noted.add(trace, ChangeKind::Dead, (step.site, None), made, Some(step.engine));
            report.add("steps", 1);
            if let Work::Dma(transfer) = &step.work {
                report.add("loads", 1);
                report.add("bytes", transfer.hbm_read);
            }
        }
        noted.report(trace, report);
        let stays = |(step, needed): (usize, &bool)| if *needed { step as u32 } else { NONE };
        let instead: Vec<u32> = needed.iter().enumerate().map(stays).collect();
        steps::leave_out(trace, &instead);
        Ok(())
    }
}

/// Which steps make something that is needed.
fn needed(trace: &Trace) -> Vec<bool> {
    let producers = Producers::of(trace);
    let mixed = mixed(trace, &producers);
    let home = |tensor: u32| trace.tensors[tensor as usize].home;
    let mut needed = vec![false; trace.steps.len()];
    for (number, step) in trace.steps.iter().enumerate().rev() {
        let is_product = matches!(step.work, Work::Matmul { .. });
        let lasts = step.writes().any(|operand| matches!(home(operand.tensor), Home::Hbm(_) | Home::Register(_)));
        let counts = || is_product && step.writes().any(|operand| mixed.contains(&operand.tensor));
        let marks = step.marks;
        let is_free = step.fingerprint.is_some() && !marks.is_fence && !marks.draws && !step.meets();
        if needed[number] || lasts || !is_free || step.writes().next().is_none() || counts() {
            needed[number] = true;
            producers.needed(trace, number).for_each(|write| needed[producers.writer(write) as usize] = true);
        }
    }
    needed
}

/// Tensors onto which products are added that find something else there than products: whether they add to it depends on
/// whether there has been a product before.
fn mixed(trace: &Trace, producers: &Producers) -> HashSet<u32> {
    let mut found = HashSet::new();
    for (number, step) in trace.steps.iter().enumerate().filter(|(_, step)| step.marks.joins_products) {
        for (at, operand) in step.operands.iter().enumerate().filter(|(_, operand)| operand.usage == Use::Write) {
            let is_product =
                |write: &u32| matches!(trace.steps[producers.writer(*write) as usize].work, Work::Matmul { .. });
            if !producers.behind(number, at).iter().all(is_product) {
                found.insert(operand.tensor);
            }
        }
    }
    found
}
