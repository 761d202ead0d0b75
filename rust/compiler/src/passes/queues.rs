//! Queues: transfers are spread over rings.
//!
//! Kept true: every transfer stays where it is, moves what it moved, and waits for what it waited for; one that the author
//! gave a sequencer keeps its queue.
//!
//! Transfers on one ring start one after another, no sooner than the issue floor after the one before. Compiled kernels have
//! their descriptors laid out in rings ahead of the run, and their transfers take those in turn **(choice)**. What is not
//! done, since it gains nothing here: a large transfer is dealt to all DMA engines by partition as it is, and the parts of one
//! that lies in few partitions would go to the same engine; small neighbours that would be one transfer go to different
//! rings, and cost a descriptor each either way.

use trn3_machine::Result;
use trn3_machine::timing::work::Work;
use trn3_machine::trace::Trace;

use super::Pass;
use super::noted::Noted;
use crate::constants::CompilerConstants;
use crate::level::CompileLevel;
use crate::report::{ChangeKind, PassReport};

/// Spreads transfers over rings.
pub(super) struct QueuesPass;

impl Pass for QueuesPass {
    fn name(&self) -> &'static str {
        "queues"
    }

    fn levels(&self) -> &'static [CompileLevel] {
        &[CompileLevel::NeuronxCc]
    }

    fn run(&self, trace: &mut Trace, report: &mut PassReport) -> Result<()> {
        report.add("spread", spread(trace)?);
        let mut noted = Noted::default();
        for step in trace.steps.iter().filter(|step| matches!(&step.work, Work::Dma(each) if each.trigger.is_none())) {
            noted.add(trace, ChangeKind::Transferred, (step.site, None), None, None);
        }
        noted.report(trace, report);
        Ok(())
    }
}

/// Gives transfers their rings and what they reach of the engines' rate; how many were spread.
pub(super) fn spread(trace: &mut Trace) -> Result<u64> {
    let constants = CompilerConstants::load()?;
    let share = constants.dma_share(&trace.arch);
    let mut transfers = 0u64;
    for step in &mut trace.steps {
        let Work::Dma(transfer) = &mut step.work else { continue };
        transfer.rate_share *= share;
        if transfer.trigger.is_none() {
            transfer.ring = (transfers % u64::from(constants.dma_rings.max(1))) as u8;
            transfers += 1;
        }
    }
    Ok(transfers)
}
