//! How much of the memories on chip is live from step to step, in the order of a trace.

use trn3_machine::memory::Placer;
use trn3_machine::storage::Buffer;
use trn3_machine::trace::{Home, NONE, Trace};

/// Live bytes of a partition of SBUF and of PSUM at every step, and what would be if tensors lived longer.
pub(crate) struct LiveBytes {
    memories: [LiveTree; 2],
}

/// Part of a memory's usable bytes up to which a tensor counts as small, as the machine's own allocator has it.
const SMALL_SHARE: i64 = 64;

struct LiveTree {
    usable: i64,
    unit: u64,
    /// A tree over the steps: the most that is live below a node, without what all of it has in common, ...
    most: Vec<i64>,
    /// ... which is this, of nodes that have some below.
    common: Vec<i64>,
    leaves: usize,
}

/// First and last step that uses each tensor; [`NONE`] where no step does.
pub(crate) fn spans(trace: &Trace) -> Vec<(u32, u32)> {
    let mut spans = vec![(NONE, 0); trace.tensors.len()];
    for (number, step) in trace.steps.iter().enumerate() {
        for operand in &step.operands {
            let (first, last) = &mut spans[operand.tensor as usize];
            (*first, *last) = ((*first).min(number as u32), number as u32);
        }
    }
    spans
}

impl LiveBytes {
    /// Those of a trace whose tensors without an address are live from their first use to their last one, and the author's
    /// addresses always.
    pub(crate) fn of(trace: &Trace, spans: &[(u32, u32)]) -> Self {
        let mut changes = [Buffer::Sbuf, Buffer::Psum].map(|_| vec![0i64; trace.steps.len() + 1]);
        let mut memories = [Buffer::Sbuf, Buffer::Psum].map(|buffer| LiveTree::new(trace, buffer));
        for (tensor, &(first, last)) in trace.tensors.iter().zip(spans) {
            if let Some(buffer) = tensor.open().filter(|_| first != NONE) {
                let side = usize::from(buffer == Buffer::Psum);
                let bytes = memories[side].extent(tensor.bytes);
                changes[side][first as usize] += bytes;
                changes[side][last as usize + 1] -= bytes;
            }
        }
        for (memory, changes) in memories.iter_mut().zip(&changes) {
            memory.build(changes);
        }
        Self { memories }
    }

    fn memory(&mut self, buffer: Buffer) -> &mut LiveTree {
        &mut self.memories[usize::from(buffer == Buffer::Psum)]
    }

    /// A tensor of so many bytes is live at these steps too, or no longer.
    pub(crate) fn add(&mut self, buffer: Buffer, bytes: u64, steps: std::ops::Range<u32>, is_live: bool) {
        let memory = self.memory(buffer);
        let bytes = memory.extent(bytes);
        let range = steps.start as usize..steps.end as usize;
        if !range.is_empty() {
            memory.add(1, 0..memory.leaves, &range, if is_live { bytes } else { -bytes });
        }
    }

    /// The most that is live at any of these steps.
    pub(crate) fn most(&mut self, buffer: Buffer, steps: std::ops::Range<u32>) -> i64 {
        let memory = self.memory(buffer);
        let range = steps.start as usize..steps.end as usize;
        if range.is_empty() { 0 } else { memory.most(1, 0..memory.leaves, &range) }
    }

    /// Whether a tensor is so small that its place is none worth speaking of.
    pub(crate) fn is_small(&mut self, buffer: Buffer, bytes: u64) -> bool {
        let memory = self.memory(buffer);
        memory.extent(bytes) <= memory.usable / SMALL_SHARE
    }

    /// Whether what is live at these steps fits into so much more than there is.
    pub(crate) fn nearly_fits(&mut self, buffer: Buffer, steps: std::ops::Range<u32>, room: f64) -> bool {
        let usable = self.memory(buffer).usable as f64;
        self.most(buffer, steps) as f64 <= usable * room
    }

    /// Whether what is live at these steps fits.
    pub(crate) fn fits(&mut self, buffer: Buffer, steps: std::ops::Range<u32>) -> bool {
        let memory = self.memory(buffer);
        let range = steps.start as usize..steps.end as usize;
        range.is_empty() || memory.most(1, 0..memory.leaves, &range) <= memory.usable
    }
}

impl LiveTree {
    fn new(trace: &Trace, buffer: Buffer) -> Self {
        let placer = Placer::new(&trace.arch, buffer);
        let addressed = trace.tensors.iter().position(|tensor| tensor.home == Home::Addressed(buffer));
        let taken = addressed.map_or(0, |tensor| {
            let own = trace.steps.iter().flat_map(|step| &step.operands);
            let own = own.filter(|operand| operand.tensor as usize == tensor);
            own.flat_map(|operand| &operand.rects).map(|rect| rect.columns.end).max().unwrap_or(0)
        });
        let usable = placer.usable().saturating_sub(taken) as i64;
        Self { usable, unit: placer.unit(), most: Vec::new(), common: Vec::new(), leaves: 0 }
    }

    fn extent(&self, bytes: u64) -> i64 {
        bytes.max(1).next_multiple_of(self.unit) as i64
    }

    fn build(&mut self, changes: &[i64]) {
        self.leaves = changes.len().next_power_of_two();
        self.most = vec![0; 2 * self.leaves];
        self.common = vec![0; self.leaves];
        let mut live = 0;
        for (place, change) in changes.iter().enumerate() {
            live += change;
            self.most[self.leaves + place] = live;
        }
        for node in (1..self.leaves).rev() {
            self.most[node] = self.most[2 * node].max(self.most[2 * node + 1]);
        }
    }

    fn add(&mut self, node: usize, here: std::ops::Range<usize>, range: &std::ops::Range<usize>, bytes: i64) {
        if range.end <= here.start || here.end <= range.start {
            return;
        }
        if range.start <= here.start && here.end <= range.end {
            self.most[node] += bytes;
            if let Some(common) = self.common.get_mut(node) {
                *common += bytes;
            }
            return;
        }
        let middle = here.start.midpoint(here.end);
        self.add(2 * node, here.start..middle, range, bytes);
        self.add(2 * node + 1, middle..here.end, range, bytes);
        self.most[node] = self.most[2 * node].max(self.most[2 * node + 1]) + self.common[node];
    }

    fn most(&self, node: usize, here: std::ops::Range<usize>, range: &std::ops::Range<usize>) -> i64 {
        if range.end <= here.start || here.end <= range.start {
            return i64::MIN / 2;
        }
        if range.start <= here.start && here.end <= range.end {
            return self.most[node];
        }
        let middle = here.start.midpoint(here.end);
        let below = self.most(2 * node, here.start..middle, range);
        self.common[node] + below.max(self.most(2 * node + 1, middle..here.end, range))
    }
}

/// The most that is live of SBUF and of PSUM.
#[cfg(test)]
pub(crate) fn peaks(trace: &Trace, spans: &[(u32, u32)]) -> [(i64, i64); 2] {
    LiveBytes::of(trace, spans).memories.map(|memory| (memory.most[1], memory.usable))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use trn3_machine::arch::ArchSpec;

    use super::*;

    proptest! {
        #[test]
        fn test_the_most_of_a_range_is_that_of_its_steps(
            changes in prop::collection::vec((0u32..40, 0u32..40, 1u64..90_000, any::<bool>()), 1..20),
            range in (0u32..40, 0u32..40),
        ) {
            let trace = Trace::new(Arc::new(ArchSpec::load("trn2").expect("built in")));
            let mut memory = LiveTree::new(&trace, Buffer::Sbuf);
            memory.build(&[0; 40]);
            let (usable, unit) = (memory.usable, memory.unit);
            let other = LiveTree::new(&trace, Buffer::Psum);
            let mut live = LiveBytes { memories: [memory, other] };
            let mut plain = vec![0i64; 40];
            for (first, last, bytes, is_live) in changes {
                let steps = first.min(last)..first.max(last);
                live.add(Buffer::Sbuf, bytes, steps.clone(), is_live);
                let bytes = bytes.next_multiple_of(unit) as i64;
                plain[steps.start as usize..steps.end as usize]
                    .iter_mut()
                    .for_each(|held| *held += if is_live { bytes } else { -bytes });
            }
            let steps = range.0.min(range.1)..range.0.max(range.1);
            let most = plain[steps.start as usize..steps.end as usize].iter().max();
            let expected = most.is_none_or(|most| *most <= usable);
            prop_assert_eq!(live.fits(Buffer::Sbuf, steps), expected);
        }
    }
}
