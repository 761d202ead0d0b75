//! What is kept of each instruction: when it ran, what it waited for, what it moved and computed.

use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::site::SiteId;
use crate::time::Picos;

/// The id that names no instruction.
pub const NO_INSTRUCTION: u32 = u32::MAX;

/// The queue of instructions that are no transfers.
pub const NO_QUEUE: u16 = u16::MAX;

/// What set the moment at which an instruction started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Cause {
    /// Nothing: the first of its stream, at the start of the run.
    #[default]
    None,
    /// A result of, or a read by, an instruction of that engine.
    Engine(Engine),
    /// A transfer it depends on.
    Dma,
    /// The issue slot of its own engine.
    Order,
    /// Loading a function table into ScalarE.
    TableLoad,
    /// A PSUM bank that VectorE and ScalarE both want.
    PsumBank,
    /// A `depends_on` edge.
    DependsOn,
    /// Its DMA queue: transfers before it, their issue, a descriptor generator, or the bandwidth of the engines.
    Queue,
    /// The other core of its logical core, which came later to where they meet.
    Core,
    /// Another rank, or another core of its own, which came later to a collective.
    Rank,
}

/// One instruction of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Number in program order.
    pub id: u32,
    /// Name, as an index of the caller's table.
    pub opcode: u16,
    /// The engine that ran it.
    pub engine: Engine,
    /// DMA queue, as [`super::timeline::Timeline::queues`] lists them; [`NO_QUEUE`] for everything else.
    pub queue: u16,
    /// Line of the kernel.
    pub site: SiteId,
    /// The caller's label; 0 for none.
    pub label: u32,
    /// Start of a matmul's stationary load or of a transfer's trigger; `start` for everything else.
    pub issued: Picos,
    /// Start: of a matmul its moving pass, of a transfer its first byte.
    pub start: Picos,
    /// End of its issue slot; of a transfer its end.
    pub slot_end: Picos,
    /// When its result is visible.
    pub end: Picos,
    /// How long its in-order stream (engine or DMA queue) stood idle before it.
    pub wait: Picos,
    /// Why it did not start earlier.
    pub cause: Cause,
    /// The instruction behind the cause; [`NO_INSTRUCTION`] if there is none.
    pub waited_on: u32,
    /// Bytes the DMA engines moved.
    pub dma_bytes: u64,
    /// Bytes read from HBM.
    pub hbm_read: u64,
    /// Bytes written to HBM.
    pub hbm_write: u64,
    /// Multiply-adds it did.
    pub macs: u64,
    /// Multiply-adds a cycle that TensorE reaches at best for its type.
    pub peak_macs_per_cycle: u64,
}

/// What one DMA engine moved of a transfer at a stretch: its share, or a piece of that where another went ahead.
/// Those of one engine never overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferRecord {
    /// The transfer.
    pub id: u32,
    /// The DMA engine.
    pub dma_engine: u16,
    /// First byte.
    pub start: Picos,
    /// Last byte.
    pub end: Picos,
    /// Bytes.
    pub bytes: u64,
}

/// The issue slot a transfer's trigger took on a sequencer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggerRecord {
    /// The transfer.
    pub id: u32,
    /// The engine whose sequencer triggered it.
    pub engine: Engine,
    /// Start of the slot.
    pub start: Picos,
    /// End of the slot.
    pub slot_end: Picos,
    /// How long that engine stood idle before.
    pub wait: Picos,
    /// Why.
    pub cause: Cause,
}
