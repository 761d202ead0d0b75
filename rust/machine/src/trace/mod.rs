//! What a run was made of, for those who make another run of it: a compiler orders its steps anew, moves them to other
//! engines and gives its tensors places; the machine says what that takes.
//!
//! A core whose places on chip are [without limit](crate::core::CoreOptions::unlimited) keeps one. A step is an instruction
//! that was issued: what it costs, which bytes of which tensors it reads and writes, what it computes
//! ([`fingerprint`](crate::isa::table::fingerprint)), what it would cost on other engines that may run it, and the iteration
//! of each loop that it belongs to. Rectangles are relative to their tensor, so that a tensor may lie anywhere.

mod as_written;
mod builder;
mod made;
mod one_by_one;
mod retime;
mod scopes;
mod time;

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::arch::ArchSpec;
pub(crate) use crate::core::again::Met;
use crate::engine::Engine;
use crate::opcode::Opcodes;
use crate::site::{SiteId, Sites};
use crate::storage::Buffer;
use crate::timing::region::{Rect, Region, Space};
use crate::timing::work::Work;

pub(crate) use builder::{Draft, DraftTime, TraceBuilder};
pub use one_by_one::StepTimer;
pub use retime::{Edit, Retimer};
pub use scopes::{LoopKind, LoopRun, LoopScope, NO_SCOPE, Scopes};
pub use time::{TimedTrace, time, time_as_written, time_cores};

/// In the place of a number: there is none.
pub const NONE: u32 = u32::MAX;

/// Where a tensor of a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Home {
    /// All of an on-chip memory that the author's addresses are of: SBUF or PSUM.
    Addressed(Buffer),
    /// A tensor on chip that has no address: SBUF or PSUM.
    Open(Buffer),
    /// An HBM tensor, by the number of its storage.
    Hbm(u64),
    /// A register, by number.
    Register(u64),
}

/// A tensor of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceTensor {
    /// Where it is.
    pub home: Home,
    /// Its name; empty if it has none.
    pub name: Box<str>,
    /// Line that made it.
    pub site: SiteId,
    /// Partitions that it takes, on chip.
    pub partitions: u32,
    /// Bytes that it takes in each of them; of an HBM tensor all its bytes.
    pub bytes: u64,
    /// Number of its storage; 0 if it has none.
    pub storage: u64,
}

impl TraceTensor {
    /// The memory that it needs a place in, where it has no address.
    pub fn open(&self) -> Option<Buffer> {
        if let Home::Open(buffer) = self.home { Some(buffer) } else { None }
    }
}

/// What a step does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Use {
    /// Reads them when it starts.
    Read,
    /// Reads them as it loads the stationary operand.
    Stationary,
    /// Writes them.
    Write,
}

/// Bytes of a tensor that a step uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOperand {
    /// The tensor, by its number in the trace.
    pub tensor: u32,
    /// What is done with them.
    pub usage: Use,
    /// First element of the view, in elements of its type.
    pub offset: i64,
    /// Rows (partitions) and bytes, counted from the tensor's first.
    pub rects: SmallVec<[Rect; 1]>,
}

/// The same step with one of its inputs read from where that was copied from.
#[derive(Clone, Debug)]
pub struct Forwarded {
    /// Which of the operands.
    pub operand: u8,
    /// What it is then.
    pub instead: TraceOperand,
    /// What the step costs then.
    pub work: Work,
    /// What it costs on each of the other engines then.
    pub engines: SmallVec<[(Engine, Work); 2]>,
}

/// What else a step could be, with the same bits.
#[derive(Clone, Debug, Default)]
pub struct Alternatives {
    /// Engines that it may move to, since nobody named one, and what it costs there.
    pub engines: SmallVec<[(Engine, Work); 2]>,
    /// Engines that its author could have named instead of the one that is named, and what it costs there.
    pub renamed: Vec<(Engine, Work)>,
    /// Inputs that are copies.
    pub forwarded: Vec<Forwarded>,
}

/// What is special of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepMarks {
    /// It fills all of its output with zeros.
    pub fills_zero: bool,
    /// It copies its input, bit for bit.
    pub copies: bool,
    /// It sets every byte of the rectangles that it writes, whatever its inputs are.
    pub overwrites: bool,
    /// A transfer whose author could have named the sequencer that triggers it, with descriptors made in hardware.
    pub takes_trigger: bool,
    /// A product that adds where one lies already, and sets all the rest of the rectangles that it writes.
    pub joins_products: bool,
    /// Nothing may move across it: what cores do together, functions of the host.
    pub is_fence: bool,
    /// Its address is known only when it executes.
    pub is_dynamic: bool,
    /// The author forbids to change its order among the steps with this mark.
    pub is_ordered: bool,
    /// It takes or sets random numbers: its order among the steps with this mark is part of its value.
    pub draws: bool,
    /// Operands, by bit, whose bytes its output may take: it reads each element before it writes the one in its place.
    pub yields: u8,
}

/// An instruction that was issued.
#[derive(Clone, Debug)]
pub struct TraceStep {
    /// Its number among the instructions of the run; [`NONE`] for one that a compiler made.
    pub source: u32,
    /// Name, by its number in [`Trace::names`].
    pub opcode: u16,
    /// Engine that runs it.
    pub engine: Engine,
    /// Line of the kernel.
    pub site: SiteId,
    /// Label, by its number in [`Trace::names`].
    pub label: u32,
    /// The innermost iteration that it is part of, by its number in [`Trace::scopes`].
    pub scope: u32,
    /// What it costs.
    pub work: Work,
    /// What it uses.
    pub operands: SmallVec<[TraceOperand; 3]>,
    /// Steps that have to have finished, by their place in the trace, beyond what data demands.
    pub after: SmallVec<[u32; 2]>,
    /// What it computes; None for what may give something else the next time.
    pub fingerprint: Option<u64>,
    /// Multiply-accumulates, and how many the array could do in a cycle.
    pub macs: (u64, u64),
    /// What is special of it.
    pub marks: StepMarks,
    /// What else it could be.
    pub alternatives: Option<Box<Alternatives>>,
    /// The meeting of cores that it is part of.
    pub(crate) met: Option<Met>,
}

impl TraceStep {
    /// A step that no instruction of the run was, and that gives the same again.
    pub fn new(engine: Engine, work: Work, operands: impl IntoIterator<Item = TraceOperand>) -> Self {
        Self {
            source: NONE,
            opcode: 0,
            engine,
            site: SiteId::default(),
            label: 0,
            scope: NO_SCOPE,
            work,
            operands: operands.into_iter().collect(),
            after: SmallVec::new(),
            fingerprint: None,
            macs: (0, 0),
            marks: StepMarks::default(),
            alternatives: None,
            met: None,
        }
    }

    /// What it reads.
    pub fn reads(&self) -> impl Iterator<Item = &TraceOperand> {
        self.operands.iter().filter(|operand| operand.usage != Use::Write)
    }

    /// What it writes.
    pub fn writes(&self) -> impl Iterator<Item = &TraceOperand> {
        self.operands.iter().filter(|operand| operand.usage == Use::Write)
    }

    /// Whether the DMA engines do it.
    pub fn is_transfer(&self) -> bool {
        matches!(self.work, Work::Dma(_))
    }

    /// Whether it is a core's part in what cores do together.
    pub fn meets(&self) -> bool {
        self.met.is_some()
    }
}

/// What a run on one core was made of.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The machine.
    pub arch: Arc<ArchSpec>,
    /// Its instructions, in the order in which they are issued.
    pub steps: Vec<TraceStep>,
    /// Its tensors.
    pub tensors: Vec<TraceTensor>,
    /// First partition and first byte of each tensor that has no address, once it has a place.
    pub places: Vec<Option<(u32, u64)>>,
    /// Iterations of loops.
    pub scopes: Scopes,
    /// Names of instructions and labels.
    pub names: Opcodes,
    /// Lines of the kernel.
    pub sites: Sites,
    /// Whether results were rounded by random numbers: a step that is left out would change those of others.
    pub draws: bool,
    /// When tensors without an address came and went, in the order of the kernel.
    pub(crate) events: Vec<as_written::Event>,
    /// Tensors that are others made anew, in the same place as written, by their numbers: the first ones.
    pub(crate) renewed: HashMap<u32, u32>,
}

impl Trace {
    /// A trace without steps.
    pub fn new(arch: Arc<ArchSpec>) -> Self {
        Self {
            arch,
            steps: Vec::new(),
            tensors: Vec::new(),
            places: Vec::new(),
            scopes: Scopes::default(),
            names: Opcodes::default(),
            sites: Sites::default(),
            draws: false,
            events: Vec::new(),
            renewed: HashMap::new(),
        }
    }

    /// Gives back the room for more steps and tensors.
    fn shrink(&mut self) {
        self.steps.shrink_to_fit();
        self.tensors.shrink_to_fit();
        self.places.shrink_to_fit();
        self.events.shrink_to_fit();
    }

    /// Adds a tensor; its number.
    pub fn add_tensor(&mut self, tensor: TraceTensor) -> u32 {
        self.tensors.push(tensor);
        self.places.push(None);
        (self.tensors.len() - 1) as u32
    }

    /// The memory that a tensor's bytes are of, and where its first one is.
    pub fn origin(&self, tensor: u32) -> (Space, u64, u64) {
        let at = tensor as usize;
        match self.tensors[at].home {
            Home::Addressed(buffer) => (space_of(buffer), 0, 0),
            Home::Open(buffer) => {
                let (partition, byte) = self.places[at].unwrap_or_default();
                (space_of(buffer), u64::from(partition), byte)
            }
            Home::Hbm(number) => (Space::Hbm(number), 0, 0),
            Home::Register(number) => (Space::Register(number), 0, 0),
        }
    }

    /// What an operand covers of its memory.
    pub fn region(&self, operand: &TraceOperand) -> Region {
        let (space, row, byte) = self.origin(operand.tensor);
        let moved = |rect: &Rect| Rect {
            rows: rect.rows.start + row..rect.rows.end + row,
            columns: rect.columns.start + byte..rect.columns.end + byte,
        };
        Region { space, rects: operand.rects.iter().map(moved).collect() }
    }

    /// Puts the steps into another order; `order` names each by its place now, and those that it does not name go.
    pub fn reorder(&mut self, order: &[u32]) {
        let mut places = vec![NONE; self.steps.len()];
        for (now, &before) in order.iter().enumerate() {
            places[before as usize] = now as u32;
        }
        // Where they are: two of all steps at once would take as much memory again.
        let mut targets = places.clone();
        let gone = targets.iter_mut().filter(|target| **target == NONE);
        for (next, target) in (order.len() as u32..).zip(gone) {
            *target = next;
        }
        for at in 0..targets.len() {
            while targets[at] as usize != at {
                let target = targets[at] as usize;
                self.steps.swap(at, target);
                targets.swap(at, target);
            }
        }
        self.steps.truncate(order.len());
        for step in &mut self.steps {
            step.after.retain(|producer| {
                *producer = places[*producer as usize];
                *producer != NONE
            });
        }
    }
}

fn space_of(buffer: Buffer) -> Space {
    if buffer == Buffer::Psum { Space::Psum } else { Space::Sbuf }
}
