//! Where tensors would lie if they were placed as the kernel makes them.

use std::collections::{HashMap, HashSet};

use super::{Trace, TraceStep};
use crate::memory::TenantPlaces;
use crate::storage::Buffer;

/// A tensor without an address came or went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// How many instructions were issued before.
    pub(super) step: u32,
    pub(super) tensor: u32,
    pub(super) came: bool,
}

impl Event {
    pub(super) fn made(step: u32, tensor: u32) -> Self {
        Self { step, tensor, came: true }
    }

    pub(super) fn gone(step: u32, tensor: u32) -> Self {
        Self { step, tensor, came: false }
    }
}

impl Trace {
    /// Gives every tensor without an address the place that it has as written: found when the kernel makes it, free again
    /// when its last reference goes, or once others need its bytes and those of its own line, then all others, used longest
    /// ago, give way. False where a tensor does not fit, or is used after it gave way; places are then as before. It takes the
    /// steps in the order in which they were issued.
    pub fn place_as_written(&mut self) -> bool {
        let mut memories = [Buffer::Sbuf, Buffer::Psum].map(|buffer| TenantPlaces::new(&self.arch, buffer));
        let mut places = self.places.clone();
        let (mut used, mut gone) = (HashMap::new(), HashSet::new());
        let mut uses = 0u64;
        // False: one is used that gave way.
        let mut run = |steps: &[TraceStep], used: &mut HashMap<u32, u64>, gone: &HashSet<u32>| {
            for operand in steps.iter().flat_map(|step| &step.operands) {
                let tensor = self.first_of(operand.tensor);
                uses += 1;
                used.insert(tensor, uses);
                if gone.contains(&tensor) {
                    return false;
                }
            }
            true
        };
        let mut next = 0;
        for event in &self.events {
            let now = (event.step as usize).clamp(next, self.steps.len());
            if !run(&self.steps[next..now], &mut used, &gone) {
                return false;
            }
            next = now;
            let tensor = &self.tensors[event.tensor as usize];
            let Some(buffer) = tensor.open() else { continue };
            let memory = &mut memories[usize::from(buffer == Buffer::Psum)];
            if !event.came {
                memory.give_back(event.tensor);
                continue;
            }
            let rank = |tenant: u32| {
                let own = &self.tensors[tenant as usize];
                used.get(&tenant).map(|used| (own.site != tensor.site, *used, own.storage))
            };
            let Some((byte, leaving)) = memory.place(event.tensor, tensor.bytes, rank) else { return false };
            gone.extend(leaving);
            places[event.tensor as usize] = Some((0, byte));
        }
        if !run(&self.steps[next..], &mut used, &gone) {
            return false;
        }
        for (&tensor, &first) in &self.renewed {
            places[tensor as usize] = places[first as usize];
        }
        self.places = places;
        true
    }

    /// The tensor in whose place one lies as written.
    fn first_of(&self, tensor: u32) -> u32 {
        self.renewed.get(&tensor).copied().unwrap_or(tensor)
    }
}
