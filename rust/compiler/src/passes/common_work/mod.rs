//! Work that repeats is done once.
//!
//! Invariant: a step goes only if an earlier one that stays gave the same bits from the same inputs, nothing wrote its
//! inputs or the earlier one's result in between, and every reader of what it made reads the earlier result instead. No
//! tensor lives on where much more were live than fits then.
//!
//! **(choice)** What the older compilers found we take to be what explains the published tutorials: they work on loops, not
//! on unrolled code. A load or computation leaves its innermost loop where it is the same in the iteration before; if it is
//! the same in all of them it has become part of the loop around, where the same is asked again. A loop that is written out
//! (`static_range`, Python's own) is no loop: what repeats is looked for across the innermost one that is, and within one
//! iteration of it. So the loads of B and C and their broadcasts leave the channel loop of the Mamba tutorial's first
//! version, the product of delta and u the loops over states and tokens of the others, and the plain product of matrices
//! keeps all of its loads: a load that repeats two loops further out only is not found.

mod loops;
mod repeats;
mod sharing;

use trn3_machine::Result;
use trn3_machine::timing::work::Work;
use trn3_machine::trace::Trace;

use super::noted::Noted;
use super::{Pass, steps};
use crate::constants::CompilerConstants;
use crate::level::CompileLevel;
use crate::producers::Producers;
use crate::report::{ChangeKind, PassReport};
use repeats::Repeats;
use sharing::Sharing;

/// Does once what repeats.
pub(super) struct CommonWorkPass;

impl Pass for CommonWorkPass {
    fn name(&self) -> &'static str {
        "common_work"
    }

    fn levels(&self) -> &'static [CompileLevel] {
        &[CompileLevel::NeuronxCc]
    }

    fn run(&self, trace: &mut Trace, report: &mut PassReport) -> Result<()> {
        if trace.draws {
            return Ok(());
        }
        let room = CompilerConstants::load()?.shared_room;
        let Sharing { instead, tensors } = {
            let producers = Producers::of(trace);
            let repeats = Repeats::of(trace, &producers);
            Sharing::of(trace, &producers, &repeats, room)
        };
        let mut noted = Noted::default();
        for (number, step) in trace.steps.iter().enumerate() {
            let other = instead[number];
            if other == number as u32 {
                continue;
            }
            let made = step.writes().next().map(|operand| operand.tensor);
            let lines = (step.site, Some(trace.steps[other as usize].site));
            noted.add(trace, ChangeKind::Repeated, lines, made, Some(step.engine));
            report.add("steps", 1);
            if let Work::Dma(transfer) = &step.work {
                report.add("loads", 1);
                report.add("bytes", transfer.hbm_read);
            }
        }
        noted.report(trace, report);
        for operand in trace.steps.iter_mut().flat_map(|step| {
            let instead = step.alternatives.iter_mut().flat_map(|other| &mut other.forwarded);
            step.operands.iter_mut().chain(instead.map(|forwarded| &mut forwarded.instead))
        }) {
            operand.tensor = tensors[operand.tensor as usize];
        }
        steps::leave_out(trace, &instead);
        Ok(())
    }
}
