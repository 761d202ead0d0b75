//! One core's part of what the cores of a logical core run together: handed in by each, then run at once.

use crate::core::NeuronCore;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::isa::Instruction;
use crate::isa::exchange::{CoreBarrier, SendRecv};
use crate::meeting::{self, Part};
use crate::view::View;

/// One core's part.
#[derive(Debug)]
pub enum Joint {
    /// Of a barrier.
    Barrier(CoreBarrier),
    /// Of an exchange of tiles.
    Exchange(SendRecv),
}

impl Joint {
    /// A part of a barrier; without an engine the usual one waits.
    pub fn barrier(data: View, engine: Option<Engine>) -> Self {
        Joint::Barrier(CoreBarrier { data, engine: engine.unwrap_or(CoreBarrier::USUAL_ENGINE) })
    }

    /// The instruction.
    pub fn instruction(&self) -> &dyn Instruction {
        match self {
            Joint::Barrier(barrier) => barrier,
            Joint::Exchange(exchange) => exchange,
        }
    }

    /// Makes what it fills unwritten: the core goes on before it has taken place, or values are skipped.
    ///
    /// # Errors
    /// Those of the memories.
    pub fn forget(&self, core: &mut NeuronCore) -> Result<()> {
        let Joint::Exchange(exchange) = self else { return Ok(()) };
        core.state.memory.forget(&exchange.dst)
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
