//! Steps on other engines, and transfers that other sequencers trigger.

use super::{Draft, Item};
use crate::engine::Engine;
use crate::site::SiteId;
use crate::timing::work::{DescriptorMode, Work};

impl Draft {
    /// Moves steps of a line to engines, in turn. False where one of them may not run there, or all do already.
    pub(super) fn give_engines(&mut self, line: SiteId, engines: &[Engine]) -> bool {
        let mut turn = 0;
        let mut moved = false;
        for item in &self.items {
            let Item::Step(number) = *item else { continue };
            let step = &mut self.trace.steps[number as usize];
            if step.site != line {
                continue;
            }
            let engine = engines[turn % engines.len()];
            turn += 1;
            if engine == step.engine {
                continue;
            }
            let mut others = step.alternatives.iter().flat_map(|all| all.engines.iter().chain(&all.renamed));
            let Some((_, work)) = others.find(|each| each.0 == engine) else { return false };
            (step.work, step.engine) = (work.clone(), engine);
            moved = true;
        }
        moved
    }

    /// Has sequencers trigger transfers of a line, in turn. False where one of them is no such transfer.
    pub(super) fn give_triggers(&mut self, line: SiteId, sequencers: &[Engine]) -> bool {
        let mut turn = 0;
        for item in &self.items {
            let Item::Step(number) = *item else { continue };
            let step = &mut self.trace.steps[number as usize];
            if step.site != line {
                continue;
            }
            let Work::Dma(transfer) = &mut step.work else { return false };
            if !step.marks.takes_trigger {
                return false;
            }
            transfer.trigger = Some(sequencers[turn % sequencers.len()]);
            transfer.mode = DescriptorMode::Hardware;
            turn += 1;
        }
        turn > 0
    }
}
