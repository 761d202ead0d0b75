//! What a core is made with.

use crate::memory::Precision;

/// How a core runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CoreOptions {
    /// Whether values are computed; without, only what control flow and addresses depend on.
    pub values: bool,
    /// Whether time is kept.
    pub timing: bool,
    /// Whether reading uninitialised memory is an error instead of a finding.
    pub strict: bool,
    /// Most instructions that a run may issue.
    pub max_instructions: Option<u64>,
    /// Most bytes of the host's memory that HBM tensors and results may take; None: a share of what is free.
    pub max_host_bytes: Option<u64>,
    /// Whether the current-step limit of TensorE is modelled.
    pub throttle: bool,
    /// What elements of floating-point types hold.
    pub precision: Precision,
    /// Whether NaN and infinities are followed to the instruction that wrote the first ones.
    pub nan_origin: bool,
    /// Whether a run of more precision goes along, to tell how much each instruction loses.
    pub shadow: bool,
    /// Whether tensors without an address have room on chip whatever lives there: for a compiler, which gives them places
    /// afterwards. With timing, a [trace](crate::trace::Trace) of the run is kept, and its time is open until that is timed.
    pub unlimited: bool,
}

impl Default for CoreOptions {
    fn default() -> Self {
        Self {
            values: true,
            timing: true,
            strict: false,
            max_instructions: None,
            max_host_bytes: None,
            throttle: false,
            precision: Precision::Declared,
            nan_origin: true,
            shadow: false,
            unlimited: false,
        }
    }
}
