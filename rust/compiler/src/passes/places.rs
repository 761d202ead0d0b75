//! Tensors get places as written.

use trn3_machine::trace::Trace;
use trn3_machine::{Error, Result};

use super::Pass;
use crate::level::Level;
use crate::report::PassReport;

/// Places tensors without an address.
pub(super) struct AllocatePass;

impl Pass for AllocatePass {
    fn name(&self) -> &'static str {
        "allocate"
    }

    fn levels(&self) -> &'static [Level] {
        &[Level::Nki, Level::NeuronxCc]
    }

    fn run(&self, trace: &mut Trace, _report: &mut PassReport) -> Result<()> {
        if trace.place_as_written() { Ok(()) } else { Err(Error::SbufCapacity("does not fit".to_owned())) }
    }
}
