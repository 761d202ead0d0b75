//! Transfers that are too short for their queue, or too many for it.

use std::collections::BTreeMap;

use trn3_machine::engine::Engine;
use trn3_machine::site::SiteId;
use trn3_machine::timing::graph::{BoundBy, EdgeKind, GraphEdge};
use trn3_machine::timing::work::{Route, Transfer, Work};

use super::search::{AdviceSearch, Offer, heaviest};

/// Lines that are timed.
const MOST_LINES: usize = 2;
/// How many transfers are made one.
const TOGETHER: [usize; 4] = [2, 4, 8, 16];
/// Of the best gain what fewer have to reach.
const GOOD_ENOUGH: f64 = 0.99;

impl AdviceSearch<'_> {
    fn load(&self, step: u32) -> Option<&Transfer> {
        match self.run.graph.work(step as usize) {
            Work::Dma(transfer) if transfer.route == Route::Load => Some(transfer),
            _ => None,
        }
    }

    /// Lines whose loads wait for their queue, by how often.
    fn queued(&self) -> BTreeMap<SiteId, u64> {
        let mut queued = BTreeMap::new();
        for (place, step) in self.run.graph.steps().iter().enumerate() {
            let waits = matches!(step.bound, BoundBy::Queue | BoundBy::Bandwidth);
            if waits && self.load(place as u32).is_some() {
                *queued.entry(step.site).or_default() += 1;
            }
        }
        queued
    }

    /// Loads of a line that could be fewer and longer.
    pub(super) fn transfers(&mut self) {
        let queued = self.queued();
        if queued.is_empty() {
            return;
        }
        let mut quick = self.variant();
        quick.drop_dma_floor();
        if !self.is_worth(&quick) {
            return;
        }
        for site in heaviest(queued, MOST_LINES) {
            let steps: Vec<u32> =
                self.run.steps_of(site).into_iter().filter(|step| self.load(*step).is_some()).collect();
            let mut tried: Vec<(usize, f64)> = Vec::new();
            for together in TOGETHER.into_iter().filter(|together| *together <= steps.len()) {
                if let Some(gain) = self.gain_together(&steps, together) {
                    tried.push((together, gain));
                }
            }
            let best = tried.iter().map(|(_, gain)| *gain).fold(1.0, f64::max);
            let Some(&(together, gain)) = tried.iter().find(|(_, gain)| *gain >= best * GOOD_ENOUGH) else { continue };
            let bytes = self.load(steps[0]).map_or(0, |load| load.row_bytes);
            let called = self.run.called(steps[0]);
            let why = format!(
                "{called} starts {} loads of {bytes} bytes a partition, and a queue starts one only every so often",
                steps.len()
            );
            let change = format!(
                "let {} load {together} of them at once, into a tile as many times as wide",
                self.run.words(site)
            );
            self.offer(gain, Offer { step: steps[0], cause: "DMA floor", why, change });
        }
    }

    /// What it gains to make as many loads one; None where they are not alike, or there is no room.
    fn gain_together(&mut self, steps: &[u32], together: usize) -> Option<f64> {
        let graph = &self.run.graph;
        let one = self.load(steps[0])?.clone();
        if steps.iter().any(|step| self.load(*step) != Some(&one)) {
            return None;
        }
        let choices = self.run.choices();
        if let Some((buffer, bytes)) = choices.and_then(|choices| choices.of(steps[0] as usize).fills) {
            // The tile, and the one that is filled while it is read.
            if 2 * (together as u64 - 1) * bytes > self.run.spare(buffer) {
                return None;
            }
        }
        let mut variant = self.variant();
        for group in steps.chunks(together) {
            let later = |edge: GraphEdge| edge.kind != EdgeKind::Reuse && edge.on >= group[0];
            if group.iter().any(|step| graph.edges(*step as usize).any(later)) {
                return None;
            }
            let is_run = choices.is_some_and(|choices| {
                let run = choices.of(group[0] as usize).run;
                run > 0
                    && group
                        .windows(2)
                        .all(|pair| choices.offset(pair[1] as usize) - choices.offset(pair[0] as usize) == run)
            });
            let count = group.len() as u64;
            let work = Work::Dma(Transfer {
                row_bytes: one.row_bytes * count,
                row_descriptors: if is_run { one.row_descriptors } else { one.row_descriptors * count },
                hbm_read: one.hbm_read * count,
                ..one.clone()
            });
            variant.give_work(group[0] as usize, &work, Engine::Dma);
            group[1..].iter().for_each(|&step| variant.merge(step, group[0]));
        }
        Some(self.gain(&variant))
    }

    /// Loads of a line that another queue could take, all or every second one.
    pub(super) fn queues(&mut self) {
        let Some(choices) = self.run.choices() else { return };
        for site in heaviest(self.queued(), MOST_LINES) {
            let steps: Vec<u32> =
                self.run.steps_of(site).into_iter().filter(|step| self.load(*step).is_some()).collect();
            let count = steps.iter().map(|step| choices.of(*step as usize).queues.len()).min().unwrap_or(0);
            for (queue, every) in (0..count).flat_map(|queue| [(queue, 1), (queue, 2)]) {
                let mut variant = self.variant();
                let mut through = None;
                for &step in steps.iter().skip(every - 1).step_by(every) {
                    let work = &choices.of(step as usize).queues[queue];
                    if let Work::Dma(Transfer { trigger: Some(engine), .. }) = work {
                        through = Some(*engine);
                    }
                    variant.give_work(step as usize, work, Engine::Dma);
                }
                let Some(engine) = through else { continue };
                let gain = self.gain(&variant);
                let run = self.run;
                let why = format!("{} waits for loads ahead of it in its queue", run.called(steps[0]));
                let which = if every == 1 { "the loads" } else { "every second load" };
                let change = format!(
                    "give {which} of {} a queue of their own: nisa.dma_copy(..., dge_mode=nisa.dge_mode.hwdge, engine=nisa.{}_engine)",
                    run.words(site),
                    engine.name()
                );
                self.offer(gain, Offer { step: steps[0], cause: "DMA queue", why, change });
            }
        }
    }
}
