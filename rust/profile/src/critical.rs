//! The instructions that decide the latency.

use serde::Serialize;

use crate::cause::ENGINES;
use crate::core_profile::CoreProfile;
use crate::rows::PS_PER_US;
use crate::text::location;

/// One instruction of the critical path; times in microseconds from the start of the busy window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CriticalStep {
    /// Number of the instruction on its core.
    pub instruction: u32,
    /// Name of its engine.
    pub engine: &'static str,
    /// Its name.
    pub opcode: String,
    /// `file:line`, or `unknown line`.
    pub location: String,
    /// When it started.
    pub start_us: f64,
    /// When its result was visible.
    pub end_us: f64,
}

impl CriticalStep {
    pub(crate) fn of(core: &CoreProfile, instruction: u32) -> Self {
        let (columns, row) = (core.columns(), instruction as usize);
        let (file, line, _) = columns.site_of(row);
        Self {
            instruction,
            engine: ENGINES[usize::from(columns.instructions.engine[row])],
            opcode: columns.opcode_of(row).to_owned(),
            location: location(file, *line),
            start_us: columns.instructions.start_ps[row] as f64 / PS_PER_US,
            end_us: columns.instructions.end_ps[row] as f64 / PS_PER_US,
        }
    }
}
