//! What the time of a core's run rests on.

use crate::core::NeuronCore;
use crate::time::Picos;
use crate::timing::work::DescriptorMode;

impl NeuronCore {
    /// Bytes of the host's memory that all that is kept of its instructions takes, for reports and those who time the run
    /// anew: when each ran and why, what it cost, moved and came after, which tensors it used, what it could be instead. A
    /// [trace](NeuronCore::take_trace), which a compiler takes, is left out.
    pub fn kept_bytes(&self) -> usize {
        let noted = self.tensors.kept_bytes() + self.occupancy.kept_bytes() + self.basis.kept_bytes();
        self.timeline.kept_bytes() + noted + self.choices.as_ref().map_or(0, |choices| choices.kept_bytes())
    }

    /// How much of the critical path each figure of the machine decides, by its place among
    /// [`crate::arch::ArchSpec::entries`], in their order. What is missing to the makespan are the engines' clocks.
    pub fn latency_basis(&mut self) -> Vec<(usize, Picos)> {
        self.settle(0);
        let modes: Vec<DescriptorMode> = self.timeline.queues().iter().map(|queue| queue.mode).collect();
        let path = self.timeline.critical_path();
        self.basis.of_path(&self.state.arch, self.timeline.records(), &path, &modes)
    }
}
