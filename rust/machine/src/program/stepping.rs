//! Runs of laid programs that stop where the core meets others.

use super::bind::{Bound, Loaded};
use crate::core::NeuronCore;
use crate::error::{Error, Result};
use crate::isa::rank_call::RankCall;

/// A step at which a core meets others.
#[derive(Clone, Copy, Debug)]
pub struct MeetingStep<'a> {
    /// What it calls.
    pub call: &'a RankCall,
    /// Its label.
    pub label: Option<&'a str>,
    /// Numbers of instructions that have to have finished.
    pub after: &'a [u32],
}

impl Loaded {
    /// What a core calls at a step, where it meets others there.
    pub fn meeting(&self, number: usize) -> Option<MeetingStep<'_>> {
        match self.steps.get(number)? {
            Bound::Meet { call, label, after } => Some(MeetingStep { call, label: label.as_deref(), after }),
            _ => None,
        }
    }

    /// Takes steps from `number` on up to the next one at which the core meets others, which is returned, or to the end.
    ///
    /// # Errors
    /// As [`Loaded::run`].
    pub fn advance(&self, core: &mut NeuronCore, number: usize) -> Result<Option<usize>> {
        for number in number..self.steps.len() {
            if self.meeting(number).is_some() {
                return Ok(Some(number));
            }
            trn3_numerics::check_interrupt()?;
            self.take(core, number)?;
        }
        Ok(None)
    }

    /// Why a core cannot take such a step alone.
    pub(super) fn alone(&self, number: usize, call: &RankCall) -> Error {
        let (name, op) = (&self.name, call.operation);
        Error::NotModelled(format!(
            "program {name}: step {number} ({op}) meets other ranks, which a core alone has not; a device runs it"
        ))
    }
}
