//! The passes: one a file, each with what it keeps true in its first lines.

mod allocate;
pub mod check;
mod common_work;
pub(crate) mod copies;
mod dead_work;
mod engines;
mod held;
mod interleave;
mod noted;
mod queues;
mod schedule;
mod steps;
mod structure;
#[cfg(test)]
mod tests;

use trn3_machine::Result;
use trn3_machine::trace::Trace;

use crate::level::CompileLevel;
use crate::report::PassReport;

/// What changes a trace and leaves its values as they are.
pub trait Pass: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Levels that it is part of.
    fn levels(&self) -> &'static [CompileLevel];

    /// Changes a trace, and notes what it did.
    ///
    /// # Errors
    /// The capacity errors where the operands of one instruction do not fit.
    fn run(&self, trace: &mut Trace, report: &mut PassReport) -> Result<()>;
}

/// The passes of a level, in their order.
pub fn passes_of(level: CompileLevel) -> Vec<&'static dyn Pass> {
    PASSES.iter().copied().filter(|pass| pass.levels().contains(&level)).collect()
}

/// Every pass, in the order in which they run.
pub const PASSES: &[&dyn Pass] = &[
    &common_work::CommonWorkPass,
    &copies::CopiesPass,
    &dead_work::DeadWorkPass,
    &engines::EnginesPass,
    &interleave::InterleavePass,
    &allocate::AllocatePass,
    &queues::QueuesPass,
    &structure::StructurePass,
    &schedule::SchedulePass,
];
