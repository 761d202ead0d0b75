//! What is kept of each instruction: when it ran, what it waited for, what it moved and computed.

use serde::{Deserialize, Serialize};

use crate::engine::Engine;
use crate::packed::{PackedRow, unzigzag, zigzag};
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

/// Causes without an engine, in the order of their numbers; those with one come after them.
const ALONE: [Cause; 9] = [
    Cause::None,
    Cause::Dma,
    Cause::Order,
    Cause::TableLoad,
    Cause::PsumBank,
    Cause::DependsOn,
    Cause::Queue,
    Cause::Core,
    Cause::Rank,
];

impl Cause {
    fn number(self) -> u64 {
        match self {
            Cause::Engine(engine) => (ALONE.len() + engine as usize) as u64,
            Cause::None => 0,
            Cause::Dma => 1,
            Cause::Order => 2,
            Cause::TableLoad => 3,
            Cause::PsumBank => 4,
            Cause::DependsOn => 5,
            Cause::Queue => 6,
            Cause::Core => 7,
            Cause::Rank => 8,
        }
    }

    fn of_number(number: u64) -> Self {
        let number = number as usize;
        ALONE.get(number).copied().unwrap_or_else(|| Cause::Engine(Engine::ALL[number - ALONE.len()]))
    }
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

impl PackedRow for Record {
    type Words = [u64; 17];

    fn words(&self, place: u64) -> [u64; 17] {
        // Times lie near one another, and what it waited for near itself.
        let after = |time: Picos, start: Picos| zigzag(time.0.wrapping_sub(start.0));
        let back = |id: u32| if id == NO_INSTRUCTION { 0 } else { zigzag(place.wrapping_sub(u64::from(id))) + 1 };
        [
            zigzag(u64::from(self.id).wrapping_sub(place)),
            u64::from(self.opcode),
            self.engine as u64,
            u64::from(self.queue),
            u64::from(self.site.0),
            u64::from(self.label),
            self.start.0,
            after(self.issued, self.start),
            after(self.slot_end, self.start),
            after(self.end, self.start),
            self.wait.0,
            self.cause.number() | back(self.waited_on) << 8,
            self.dma_bytes,
            self.hbm_read,
            self.hbm_write,
            self.macs,
            self.peak_macs_per_cycle,
        ]
    }

    fn of_words(words: [u64; 17], place: u64) -> Self {
        let [id, opcode, engine, queue, site, label, start, issued, slot_end, end, wait, why, moved @ ..] = words;
        let [dma_bytes, hbm_read, hbm_write, macs, peak_macs_per_cycle] = moved;
        let at = |word: u64| Picos(start.wrapping_add(unzigzag(word)));
        let waited_on = match why >> 8 {
            0 => NO_INSTRUCTION,
            back => place.wrapping_sub(unzigzag(back - 1)) as u32,
        };
        Self {
            id: place.wrapping_add(unzigzag(id)) as u32,
            opcode: opcode as u16,
            engine: Engine::ALL[engine as usize],
            queue: queue as u16,
            site: SiteId(site as u32),
            label: label as u32,
            issued: at(issued),
            start: Picos(start),
            slot_end: at(slot_end),
            end: at(end),
            wait: Picos(wait),
            cause: Cause::of_number(why & 0xff),
            waited_on,
            dma_bytes,
            hbm_read,
            hbm_write,
            macs,
            peak_macs_per_cycle,
        }
    }
}

/// When an instruction was done, and what ran it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finished {
    pub(super) end: u64,
    pub(super) engine: Engine,
}

impl PackedRow for Finished {
    type Words = [u64; 2];

    fn words(&self, _: u64) -> [u64; 2] {
        [self.end, self.engine as u64]
    }

    fn of_words([end, engine]: [u64; 2], _: u64) -> Self {
        Self { end, engine: Engine::ALL[engine as usize] }
    }
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
