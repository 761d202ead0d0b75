//! What a timeline takes and gives: an instruction, when it runs, how it is kept.

use super::region::Region;
use super::work::Work;
use crate::engine::Engine;
use crate::site::SiteId;
use crate::time::Picos;

/// One instruction, as the timeline needs it.
#[derive(Clone, Debug)]
pub struct TimedInstruction<'a> {
    /// Name, as an index of a table the caller keeps.
    pub opcode: u16,
    /// The engine of a [`Work::Compute`]; matmuls run on TensorE and transfers on the DMA engines whatever stands here.
    pub engine: Engine,
    /// Line of the kernel.
    pub site: SiteId,
    /// The caller's label; 0 for none.
    pub label: u32,
    /// Its cost.
    pub work: Work,
    /// What it reads.
    pub reads: &'a [Region],
    /// What a matmul's stationary load reads: the load alone waits for it.
    pub stationary_reads: &'a [Region],
    /// What it writes.
    pub writes: &'a [Region],
    /// Instructions it has to follow. Numbers not issued yet name nothing and are passed over.
    pub after: &'a [u32],
    /// Whether an address comes from a register: its issue slot is `dynamic_interval_cycles` at least.
    pub dynamic: bool,
    /// Multiply-adds it does.
    pub macs: u64,
    /// Multiply-adds a cycle that TensorE reaches at best for its type.
    pub peak_macs_per_cycle: u64,
}

/// When an instruction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its number in program order.
    pub id: u32,
    /// Start: of a matmul its moving pass, of a transfer the latest moment for its first byte: when that moves, only the
    /// whole program tells, and the records say.
    pub start: Picos,
    /// End of its issue slot; of a transfer its end.
    pub slot_end: Picos,
    /// When its result is visible.
    pub end: Picos,
}

/// How a timeline is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineOptions {
    /// Whether TensorE's current-step limit applies. Under it, a delay may make what follows faster: a pause resets
    /// the limit, a shorter one may not.
    pub throttle: bool,
    /// Whether records are kept; without them there are spans, the makespan and nothing else.
    pub keep_records: bool,
}

impl Default for TimelineOptions {
    fn default() -> Self {
        Self { throttle: false, keep_records: true }
    }
}
