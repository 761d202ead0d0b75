//! Where tensors would lie if they were placed as the kernel makes them.

use std::collections::HashMap;

use super::Trace;
use crate::memory::Placer;
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
    /// when its last reference goes, or once nothing uses it any more where others need its bytes. False where they do not
    /// fit; places are then as before. It takes the steps in the order in which they were issued.
    pub fn place_as_written(&mut self) -> bool {
        let mut last = HashMap::new();
        for (number, step) in self.steps.iter().enumerate() {
            for operand in &step.operands {
                last.insert(self.first_of(operand.tensor), number as u32);
            }
        }
        let mut placers = [Buffer::Sbuf, Buffer::Psum].map(|buffer| Placer::new(&self.arch, buffer));
        let mut places = self.places.clone();
        for event in &self.events {
            let tensor = &self.tensors[event.tensor as usize];
            let Some(buffer) = tensor.open() else { continue };
            let placer = &mut placers[usize::from(buffer == Buffer::Psum)];
            if !event.came {
                placer.give_back(event.tensor);
                continue;
            }
            let is_over = |other: u32| last.get(&other).is_none_or(|&last| last < event.step);
            let Some(byte) = placer.place(event.tensor, tensor.bytes, is_over) else { return false };
            places[event.tensor as usize] = Some((0, byte));
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
