//! Work that another engine could do, and tiles that are wider than their values.

use std::collections::BTreeMap;

use trn3_machine::engine::Engine;
use trn3_machine::site::SiteId;

use super::search::{AdviceSearch, Offer, heaviest};

/// Lines of an engine that are timed elsewhere.
const MOST_LINES: usize = 3;

/// How the vendor writes engines.
fn long_name(engine: Engine) -> &'static str {
    match engine {
        Engine::Tensor => "TensorE",
        Engine::Vector => "VectorE",
        Engine::Scalar => "ScalarE",
        Engine::GpSimd => "GpSimdE",
        Engine::Sync | Engine::Dma => "DMA",
    }
}

impl AdviceSearch<'_> {
    /// Lines that an engine which is in the way could leave to another one.
    pub(super) fn engines(&mut self) {
        let Some(choices) = self.run.choices() else { return };
        for engine in [Engine::Vector, Engine::Scalar, Engine::GpSimd] {
            let steps = self.steps_on(engine);
            let mut held = BTreeMap::<SiteId, u64>::new();
            for &step in &steps {
                let place = step as usize;
                if !choices.of(place).engines.is_empty() {
                    let slot = self.base.slot_end[place].since(self.base.start[place]).0;
                    *held.entry(self.run.graph.steps().at(place).site).or_default() += slot.max(1);
                }
            }
            if held.is_empty() {
                continue;
            }
            let mut free = self.variant();
            steps.iter().for_each(|&step| free.free(step as usize));
            if !self.is_worth(&free) {
                continue;
            }
            for site in heaviest(held, MOST_LINES) {
                for other in [Engine::Vector, Engine::Scalar, Engine::GpSimd] {
                    self.try_engine(site, engine, other);
                }
            }
        }
    }

    fn try_engine(&mut self, site: SiteId, own: Engine, other: Engine) {
        let Some(choices) = self.run.choices() else { return };
        let steps = self.run.steps_of(site);
        let mut variant = self.variant();
        for &step in steps.iter().filter(|step| self.run.graph.steps().at(**step as usize).engine == own) {
            let found = choices.of(step as usize).engines.iter().find(|(engine, _)| *engine == other);
            let Some((_, work)) = found else { return };
            variant.give_work(step as usize, work, other);
        }
        let gain = self.gain(&variant);
        let step = steps[0];
        let run = self.run;
        let times = if steps.len() == 1 { "once".to_owned() } else { format!("{} times", steps.len()) };
        let why = format!("{} holds {} {times}", run.called(step), long_name(own));
        let change = format!("give {} to {}: engine=nisa.{}_engine", run.words(site), long_name(other), other.name());
        self.offer(gain, Offer { step, cause: "engine", why, change });
    }

    /// Tiles of 32-bit elements whose values are those of a 16-bit type.
    pub(super) fn narrow(&mut self) {
        let Some(choices) = self.run.choices() else { return };
        let tiles = choices.narrow_tiles();
        let Some(&(_, dtype)) = tiles.first().filter(|first| tiles.iter().all(|tile| tile.1 == first.1)) else {
            return;
        };
        let mut variant = self.variant();
        let mut most: Option<(u64, u32)> = None;
        for (place, step) in self.run.graph.steps().iter().enumerate() {
            if !choices.uses(place, &tiles) {
                continue;
            }
            let Some(work) = &choices.of(place).narrow else { return };
            variant.give_work(place, work, step.engine);
            let held = self.base.slot_end[place].since(self.base.start[place]).0;
            if most.is_none_or(|(most, _)| held > most) {
                most = Some((held, place as u32));
            }
        }
        let Some((_, step)) = most else { return };
        let gain = self.gain(&variant);
        let run = self.run;
        let places: Vec<String> = tiles.iter().map(|(site, _)| run.words(*site)).collect();
        let why = format!("{} takes float32 tiles whose values are {dtype}'s", run.called(step));
        let change = format!("make the tiles of {} {dtype}", places.join(" and "));
        self.offer(gain, Offer { step, cause: "wide operands", why, change });
    }
}
