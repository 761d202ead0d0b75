//! What a host asks a device to do, and what it hears when that is done.

use serde::{Deserialize, Serialize};
use trn3_machine::dtype::DType;
use trn3_machine::time::Picos;
use trn3_system::collective::{self as engine, Arithmetic, Order, RankPart};

use crate::error::Result;

/// A memory of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemorySpace {
    /// HBM, one for all cores of the device.
    Hbm,
    /// A core's SBUF: address `partition * bytes of a partition + byte`.
    Sbuf,
    /// A core's PSUM, addressed as SBUF is.
    Psum,
}

/// A place in a memory of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Address {
    /// Which memory.
    pub space: MemorySpace,
    /// First byte.
    pub address: u64,
}

/// What ranks do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Every rank gets the reduction of all ranks' buffers.
    AllReduce,
    /// Every rank gets all ranks' buffers, in order of the group.
    AllGather,
    /// Place i of the group gets chunk i of the reduction.
    ReduceScatter,
    /// Place i of the group gets chunk i of every rank, in order of the group.
    AllToAll,
}

/// How elements are reduced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CollectiveReduction {
    /// Sums.
    #[default]
    Add,
    /// Largest.
    Max,
    /// Smallest.
    Min,
}

/// One rank's part of a collective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceCollective {
    /// What is done.
    pub operation: Operation,
    /// How, where something is reduced.
    #[serde(default)]
    pub reduction: CollectiveReduction,
    /// Ranks, in an order that is the same for all of them.
    pub group: Vec<u32>,
    /// What tells it from other collectives of the group under way; the same for all ranks.
    pub key: u64,
    /// What this rank gives: HBM address.
    pub src: u64,
    /// Where the result goes: HBM address.
    pub dst: u64,
    /// Elements that this rank gives.
    pub count: u64,
    /// Element type: float32, bfloat16, float16, int32; any type where nothing is reduced.
    pub dtype: String,
}

impl DeviceCollective {
    pub(crate) fn element(&self) -> Result<DType> {
        Ok(self.dtype.parse()?)
    }

    /// How it is computed.
    pub(crate) fn arithmetic(&self) -> Result<Arithmetic> {
        let dtype = self.element()?;
        let reduces = matches!(self.operation, Operation::AllReduce | Operation::ReduceScatter);
        // What only moves may be of types that have no arithmetic.
        let element = if reduces { dtype.name().parse()? } else { engine::ElementType::Opaque { bytes: dtype.size() } };
        let reduction = match self.reduction {
            CollectiveReduction::Add => engine::Reduction::Add,
            CollectiveReduction::Max => engine::Reduction::Max,
            CollectiveReduction::Min => engine::Reduction::Min,
        };
        Ok(Arithmetic { reduction, order: Order::Index, ..Arithmetic::new(element) })
    }

    /// What a rank sends and gets.
    pub(crate) fn of_rank(&self, rank: u32) -> Result<RankPart> {
        let position = self.group.iter().position(|&other| other == rank).unwrap_or(self.group.len());
        let length = usize::try_from(self.count).unwrap_or(usize::MAX);
        Ok(RankPart::new(self.operation.into(), self.arithmetic()?, self.group.len(), position, length)?)
    }
}

impl From<Operation> for engine::Operation {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::AllReduce => Self::AllReduce,
            Operation::AllGather => Self::AllGather,
            Operation::ReduceScatter => Self::ReduceScatter,
            Operation::AllToAll => Self::AllToAll,
        }
    }
}

/// Something for a core to do. A core does one command after the other, in the order in which they were submitted, each
/// from idle engines **(choice)**.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Nothing; takes no time.
    Nop {
        /// Core.
        core: u32,
    },
    /// Runs a loaded program.
    Run {
        /// Core.
        core: u32,
        /// The program's number.
        program: u64,
    },
    /// Runs one step of a loaded program, on what earlier steps and runs left.
    Step {
        /// Core.
        core: u32,
        /// The program's number.
        program: u64,
        /// The step's number, from 0.
        step: u64,
    },
    /// Copies bytes between HBM and SBUF, or within one of them. On chip row i lies in partition i from the address's
    /// on; in HBM rows follow one another.
    Copy {
        /// Core.
        core: u32,
        /// Where to.
        dst: Address,
        /// Where from.
        src: Address,
        /// Rows.
        rows: u64,
        /// Bytes of each row.
        row_bytes: u64,
    },
    /// This core's part of a collective.
    Collective {
        /// Core.
        core: u32,
        /// Its part.
        part: DeviceCollective,
    },
}

impl Command {
    /// The core that does it.
    pub fn core(&self) -> u32 {
        match self {
            Command::Nop { core }
            | Command::Run { core, .. }
            | Command::Step { core, .. }
            | Command::Copy { core, .. }
            | Command::Collective { core, .. } => *core,
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Command::Nop { .. } => "nop",
            Command::Run { .. } => "run",
            Command::Step { .. } => "step",
            Command::Copy { .. } => "copy",
            Command::Collective { .. } => "collective",
        }
    }
}

/// A command that is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// What the host gave with it.
    pub tag: u64,
    /// Core that did it.
    pub core: u32,
    /// When it started, in picoseconds.
    #[serde(with = "picos")]
    pub start: Picos,
    /// When it was done.
    #[serde(with = "picos")]
    pub end: Picos,
    /// What went wrong, if something did; memories are then as far as the command came.
    pub status: Result<()>,
}

/// Times as plain numbers.
pub(crate) mod picos {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use trn3_machine::time::Picos;

    pub(crate) fn serialize<S: Serializer>(time: &Picos, serializer: S) -> Result<S::Ok, S::Error> {
        time.0.serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Picos, D::Error> {
        u64::deserialize(deserializer).map(Picos)
    }
}
