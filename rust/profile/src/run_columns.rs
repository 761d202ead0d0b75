//! What the machine records of a run on one core, as columns: the one thing that every figure is made from.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use trn3_facts::Evidence;

use crate::advice::LazyAdvice;
use crate::columns::{InstructionColumns, OccupancyColumns, TransferColumns};
use crate::lazy_recorded::LazyRecorded;
use crate::machine_figures::MachineFigures;
use crate::precision::PrecisionLoss;

/// How much of the critical path one figure of the machine's description decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BasisTime {
    /// The figure's name.
    pub constant: String,
    /// What it rests on itself.
    pub evidence: Evidence,
    /// Picoseconds of the critical path.
    pub time_ps: u64,
}

/// What a compiler made of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompileFigures {
    /// Name of its level.
    pub level: String,
    /// What the kernel takes as written, in microseconds; None where it does not fit on chip.
    pub as_written_us: Option<f64>,
    /// What it takes compiled, in microseconds.
    pub compiled_us: f64,
    /// What it takes at least, in microseconds: the longer of the critical path and the busiest engine. None where nobody
    /// looked.
    pub bound_us: Option<f64>,
    /// Bytes that were written to HBM because they did not fit on chip.
    pub spilled_bytes: u64,
    /// The passes in their order: `name`, and what each counted.
    pub passes: Vec<Map<String, Value>>,
    /// What was looked at of what came out, and found right: `passes` and `outputs`; None where nobody asked.
    #[serde(default)]
    pub verified: Option<Map<String, Value>>,
}

/// One run of a kernel on one core, as the machine records it: the `data` of `profile.json`.
#[derive(Clone, Debug, Serialize)]
pub struct RunColumns {
    /// The machine, and every figure of it.
    pub arch: MachineFigures,
    /// Name of the kernel.
    pub kernel: String,
    /// The busy window: from the first instruction's start to the last result, in picoseconds.
    pub latency_ps: u64,
    /// What starting and ending a kernel costs beside it, in picoseconds.
    pub overhead_ps: u64,
    /// Names of instructions.
    pub opcodes: Vec<String>,
    /// Names that callers gave instructions; the empty one is none.
    pub labels: Vec<String>,
    /// Lines of the kernel: file, line from 1, function. A line of 0 is unknown.
    pub sites: Vec<(String, u32, String)>,
    /// What the run found to complain of, each with at least a `message`.
    pub findings: Vec<Map<String, Value>>,
    /// Instructions.
    pub instructions: InstructionColumns,
    /// Transfers of DMA engines.
    pub transfers: TransferColumns,
    /// Memories in use.
    pub occupancy: OccupancyColumns,
    /// The instructions of the critical path, by rising start.
    pub critical: Vec<u32>,
    /// What instructions lost of their results' precision, by line; empty without a shadow run.
    pub precision: Vec<PrecisionLoss>,
    /// How much of the critical path each figure of the machine decides; empty where nobody said.
    pub basis: Vec<BasisTime>,
    /// What a compiler made of it; None of a run as written.
    pub compile: Option<CompileFigures>,
    /// What pictures need beside: tensors, texts of files, the run as written; empty where nobody kept it.
    #[serde(skip_serializing_if = "is_empty")]
    pub recorded: LazyRecorded,
    /// What would make it faster, looked for when it is first asked for.
    pub advice: LazyAdvice,
}

fn is_empty(recorded: &LazyRecorded) -> bool {
    recorded.is_empty()
}
