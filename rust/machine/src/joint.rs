//! One core's part of whatever cores or ranks run together: handed in by each, then run at once.

use crate::core::NeuronCore;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::isa::Instruction;
use crate::isa::collective::{Collective, NAMES};
use crate::isa::exchange::{CoreBarrier, SendRecv};
use crate::meeting::{self, Part};
use crate::time::Picos;
use crate::view::View;

/// One core's part.
#[derive(Debug)]
pub enum Joint {
    /// Of a barrier.
    Barrier(CoreBarrier),
    /// Of an exchange of tiles.
    Exchange(SendRecv),
    /// Of a collective of ranks.
    Collective(Collective),
}

impl Joint {
    /// A part of a barrier; without an engine the usual one waits.
    pub fn barrier(data: View, engine: Option<Engine>) -> Self {
        Joint::Barrier(CoreBarrier { data, engine: engine.unwrap_or(CoreBarrier::USUAL_ENGINE) })
    }

    /// A part of a collective, whose time is not known yet.
    ///
    /// # Errors
    /// [`Error::Value`] for an operation that there is not.
    pub fn collective(operation: &str, srcs: Vec<View>, dsts: Vec<View>, priority: Option<u8>) -> Result<Self> {
        let name = NAMES
            .into_iter()
            .find(|name| *name == operation)
            .ok_or_else(|| Error::Value(format!("operation is {operation:?}; allowed: {}", NAMES.join(", "))))?;
        Ok(Joint::Collective(Collective { name, srcs, dsts, duration: Picos::ZERO, priority, sent: 0, received: 0 }))
    }

    /// The instruction.
    pub fn instruction(&self) -> &dyn Instruction {
        match self {
            Joint::Barrier(barrier) => barrier,
            Joint::Exchange(exchange) => exchange,
            Joint::Collective(collective) => collective,
        }
    }

    /// Makes what it fills unwritten: the core goes on before it has taken place, or values are skipped.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn forget(&self, core: &mut NeuronCore) -> Result<()> {
        let dsts = match self {
            Joint::Barrier(_) => return Ok(()),
            Joint::Exchange(exchange) => std::slice::from_ref(&exchange.dst),
            Joint::Collective(collective) => &collective.dsts[..],
        };
        dsts.iter().try_for_each(|dst| core.state.memory.forget(dst))
    }

    /// The elements of a collective's source in C order, as bytes; None where timing-only runs do not know them.
    ///
    /// # Errors
    /// [`Error::Value`] for a source that there is not; those of the memories.
    pub fn read(&self, core: &mut NeuronCore, source: usize) -> Result<Option<Vec<u8>>> {
        let view = self.operand(|collective| &collective.srcs, source)?;
        if core.state.knows(view)? {
            return core.state.read_bytes(view).map(Some);
        }
        core.state.memory.skip_read(view)?;
        Ok(None)
    }

    /// Sets the elements of a collective's result, in C order.
    ///
    /// # Errors
    /// [`Error::Value`] for a result that there is not; those of the memories.
    pub fn write(&self, core: &mut NeuronCore, result: usize, bytes: &[u8]) -> Result<()> {
        core.write_bytes(self.operand(|collective| &collective.dsts, result)?, bytes)
    }

    /// The part of a collective that takes so long, and in which this core sends and receives so many bytes.
    ///
    /// # Errors
    /// [`Error::Value`] for what is no collective.
    pub fn timed(&self, duration: Picos, (sent, received): (u64, u64)) -> Result<Collective> {
        match self {
            Joint::Collective(collective) => Ok(Collective { duration, sent, received, ..collective.clone() }),
            _ => Err(Error::Value("ranks meet in collectives alone".to_owned())),
        }
    }

    fn operand(&self, of: impl Fn(&Collective) -> &Vec<View>, place: usize) -> Result<&View> {
        let found = match self {
            Joint::Collective(collective) => of(collective).get(place),
            _ => None,
        };
        found.ok_or_else(|| Error::Value(format!("the instruction has no operand {place} of that kind")))
    }
}

/// Runs the parts of the cores of a logical core: a barrier of all, or an exchange of two. Each core's number for it.
///
/// # Errors
/// [`Error::Value`] for parts that do not belong together; as [`meeting::core_barrier`] and [`meeting::sendrecv`].
pub fn meet(parts: Vec<Part<'_, Joint>>) -> Result<Vec<u32>> {
    let (mut barriers, mut exchanges) = (Vec::new(), Vec::new());
    for Part { core, instruction, at } in parts {
        match instruction {
            Joint::Barrier(instruction) => barriers.push(Part { core, instruction, at }),
            Joint::Exchange(instruction) => exchanges.push(Part { core, instruction, at }),
            Joint::Collective(_) => return Err(Error::Value("collectives are met by ranks".to_owned())),
        }
    }
    if exchanges.is_empty() {
        return meeting::core_barrier(&mut barriers);
    }
    match <&mut [_; 2]>::try_from(&mut exchanges[..]) {
        Ok(pair) if barriers.is_empty() => meeting::sendrecv(pair),
        _ => Err(Error::Value("cores meet in barriers, or two of them in an exchange".to_owned())),
    }
}
