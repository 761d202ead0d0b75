//! Steps of laid programs.

use std::sync::Arc;

use super::marks::Mark;
use crate::isa::Instruction;
use crate::isa::rank_call::RankCall;
use crate::joint::Joint;
use crate::storage::Storage;
use crate::view::Register;

/// A step, ready to be taken.
pub enum Bound {
    /// An instruction.
    Issue {
        /// The instruction.
        instruction: Box<dyn Instruction + Send + Sync>,
        /// Its label.
        label: Option<String>,
        /// Numbers of instructions that have to have finished.
        after: Vec<u32>,
    },
    /// A collective, at which the core meets others.
    Meet {
        /// What it calls.
        call: Box<RankCall>,
        /// Its label.
        label: Option<String>,
        /// Numbers of instructions that have to have finished.
        after: Vec<u32>,
    },
    /// Its part of what the cores of a logical core do together.
    Join {
        /// The part.
        part: Box<Joint>,
        /// Its label.
        label: Option<String>,
        /// Numbers of instructions that have to have finished.
        after: Vec<u32>,
    },
    /// The tensor's bytes become uninitialised.
    Fresh(Arc<Storage>),
    /// A register gets a value without an instruction.
    SetRegister(Arc<Register>, i64),
    /// Results are rounded stochastically from here on, or to nearest again: the seed, and the core's place.
    StochasticRounding(Option<u64>, usize),
    /// A loop, or what keeps its order, begins, goes on or ends.
    Mark {
        /// Which of them.
        mark: Mark,
        /// Whether what follows keeps its order.
        is_ordered: bool,
    },
}
