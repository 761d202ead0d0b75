//! What the time of a core's run rests on.

use crate::core::NeuronCore;
use crate::time::Picos;
use crate::timing::work::DescriptorMode;

impl NeuronCore {
    /// How much of the critical path each figure of the machine decides, by its place among
    /// [`crate::arch::ArchSpec::entries`], in their order. What is missing to the makespan are the engines' clocks.
    pub fn latency_basis(&mut self) -> Vec<(usize, Picos)> {
        self.settle(0);
        let modes: Vec<DescriptorMode> = self.timeline.queues().iter().map(|queue| queue.mode).collect();
        let path = self.timeline.critical_path();
        self.basis.of_path(&self.state.arch, self.timeline.records(), &path, &modes)
    }
}
