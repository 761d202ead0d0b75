//! What is held on chip after some steps, by how much of it there is: where it lies does not count.

use trn3_machine::storage::Buffer;
use trn3_machine::trace::Trace;

use super::allocate::{capacity, extents};
use crate::webs::Webs;

/// What is held on chip after some steps.
#[derive(Clone, Debug)]
pub(super) struct Held<'a> {
    webs: &'a Webs,
    /// Bytes that each value takes, and whether in PSUM.
    pub(super) extents: Vec<(u64, bool)>,
    /// Uses to come, by value.
    pub(super) left: Vec<u32>,
    pub(super) bytes: [u64; 2],
    capacity: [u64; 2],
}

impl<'a> Held<'a> {
    /// Nothing is held yet; there is room for one of so many parts of what is on chip.
    pub(super) fn new(trace: &Trace, webs: &'a Webs, parts: u64) -> Self {
        let of_tensors = extents(trace);
        let numbers = 0..webs.len() as u32;
        let extent = |web: u32| {
            let tensor = webs.get(web).tensor as usize;
            (of_tensors[tensor], trace.tensors[tensor].open() == Some(Buffer::Psum))
        };
        Self {
            webs,
            extents: numbers.clone().map(extent).collect(),
            left: numbers.map(|web| webs.uses(web).len() as u32).collect(),
            bytes: [0; 2],
            capacity: [Buffer::Sbuf, Buffer::Psum].map(|buffer| capacity(trace, buffer) / parts),
        }
    }

    pub(super) fn is_new(&self, web: u32) -> bool {
        self.left[web as usize] as usize == self.webs.uses(web).len()
    }

    /// Bytes of what a step is the first to use.
    pub(super) fn need(&self, step: u32) -> [u64; 2] {
        let mut bytes = [0; 2];
        for &web in self.webs.at(step as usize).iter().filter(|&&web| self.is_new(web)) {
            let (extent, is_psum) = self.extents[web as usize];
            bytes[usize::from(is_psum)] += extent;
        }
        bytes
    }

    /// The memory that has no room for so many bytes more.
    pub(super) fn short_of(&self, need: [u64; 2]) -> Option<usize> {
        (0..need.len()).find(|&memory| need[memory] > 0 && self.bytes[memory] + need[memory] > self.capacity[memory])
    }

    /// The memory that a step lacks room in.
    pub(super) fn lacking(&self, step: u32) -> Option<usize> {
        self.short_of(self.need(step))
    }

    /// Steps that use what a step is the first to use.
    pub(super) fn sharers(&self, step: u32) -> impl Iterator<Item = u32> {
        let new = self.webs.at(step as usize).iter().filter(|&&web| self.is_new(web));
        new.flat_map(|&web| self.webs.uses(web).iter().copied()).filter(move |&sharer| sharer != step)
    }

    /// A step ran.
    pub(super) fn take(&mut self, step: u32) {
        let need = self.need(step);
        (0..need.len()).for_each(|memory| self.bytes[memory] += need[memory]);
        for &web in self.webs.at(step as usize) {
            self.left[web as usize] -= 1;
            if self.left[web as usize] == 0 {
                let (extent, is_psum) = self.extents[web as usize];
                self.bytes[usize::from(is_psum)] -= extent;
            }
        }
    }

    /// The last step that ran did not.
    pub(super) fn take_back(&mut self, step: u32) {
        self.webs.at(step as usize).iter().for_each(|&web| self.left[web as usize] += 1);
    }
}
