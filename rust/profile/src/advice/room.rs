//! Buffers that are in use, and work that is done again or for nobody.

use std::collections::{BTreeMap, HashMap, HashSet};

use trn3_machine::site::SiteId;
use trn3_machine::timing::graph::{EdgeKind, GraphEdge};
use trn3_machine::timing::work::{Route, Work};

use super::search::{AdviceSearch, Offer, UNREAD, heaviest};

/// Lines that are timed.
const MOST_LINES: usize = 3;
/// Buffers that are tried, the fewest first.
const BUFFERS: [usize; 4] = [2, 3, 4, 8];
/// Of the best gain what fewer buffers have to reach.
const GOOD_ENOUGH: f64 = 0.99;

impl AdviceSearch<'_> {
    /// Lines that fill a tile while it is in use.
    pub(super) fn buffers(&mut self) {
        let Some(choices) = self.run.choices() else { return };
        let graph = &self.run.graph;
        let mut endless = self.variant();
        endless.rebuffer(&(0..graph.steps().len() as u32).collect::<Vec<_>>(), None, 1);
        if !self.is_worth(&endless) {
            return;
        }
        // How much sooner each line could fill what it fills.
        let sooner = endless.time();
        let mut bound = BTreeMap::<SiteId, u64>::new();
        for (place, step) in graph.steps().iter().enumerate() {
            let is_refill = graph.edges(place).any(|edge| edge.kind == EdgeKind::Reuse);
            if is_refill && choices.filled(place) != 0 {
                *bound.entry(step.site).or_default() += self.base.ready[place].since(sooner.ready[place]).0;
            }
        }
        let mut known = HashSet::new();
        for site in heaviest(bound, MOST_LINES) {
            self.try_buffers(site, &mut known);
        }
    }

    /// Tries more buffers for what a line fills, unless another line's trial was about the same tensors.
    fn try_buffers(&mut self, site: SiteId, known: &mut HashSet<u64>) {
        let (Some(choices), graph) = (self.run.choices(), &self.run.graph) else { return };
        let own = self.run.steps_of(site);
        let Some((buffer, bytes)) = choices.of(own[0] as usize).fills else { return };
        let tensors: HashSet<u64> = own.iter().map(|step| choices.filled(*step as usize)).collect();
        if tensors.is_subset(known) {
            return;
        }
        known.extend(&tensors);
        // All that fills these tensors, but for what goes on from what it finds there.
        let fills = |step: &u32| {
            let tensor = choices.filled(*step as usize);
            let goes_on = graph.edges(*step as usize).any(|edge| match edge.kind {
                EdgeKind::Sum => true,
                EdgeKind::Result => choices.filled(edge.on as usize) == tensor,
                _ => false,
            });
            tensors.contains(&tensor) && !goes_on
        };
        let heads: Vec<u32> = (0..graph.steps().len() as u32).filter(fills).collect();
        let each = self.fills_together(&heads);
        let most = (self.run.spare(buffer) / bytes.max(1)) as usize + 1;
        let mut tried: Vec<(usize, f64)> = Vec::new();
        for buffers in BUFFERS.into_iter().filter(|buffers| *buffers <= most && (buffers - 1) * each < heads.len()) {
            let mut variant = self.variant();
            variant.rebuffer(&heads, Some(buffers), each);
            tried.push((buffers, self.gain(&variant)));
            // Two that gain nothing: more do not either, as a rule.
            if tried.len() == 2 && tried.iter().all(|(_, gain)| *gain < super::LEAST_GAIN) {
                break;
            }
        }
        let best = tried.iter().map(|(_, gain)| *gain).fold(1.0, f64::max);
        let Some(&(buffers, gain)) = tried.iter().find(|(_, gain)| *gain >= best * GOOD_ENOUGH) else { return };
        let waits = |step: &&u32| graph.edges(**step as usize).any(|edge| edge.kind == EdgeKind::Reuse);
        let step = own.iter().find(waits).copied().unwrap_or(own[0]);
        let why = format!("{} waits for readers of the tile that it fills again", self.run.called(step));
        let mut lines: Vec<SiteId> = heads.iter().map(|head| graph.steps().at(*head as usize).site).collect();
        lines.sort_unstable();
        lines.dedup();
        let lines: Vec<String> = lines.into_iter().map(|line| self.run.words(line)).collect();
        let change = format!("let {} fill {buffers} tiles in turn", lines.join(" and "));
        self.offer(gain, Offer { step, cause: "buffer reuse", why, change });
    }

    /// How many steps fill one buffer together: from one that overwrites what another of its line wrote back to that one.
    fn fills_together(&self, heads: &[u32]) -> usize {
        let graph = &self.run.graph;
        for (place, &step) in heads.iter().enumerate() {
            let site = graph.steps().at(step as usize).site;
            let before =
                |edge: &GraphEdge| edge.kind == EdgeKind::Reuse && graph.steps().at(edge.on as usize).site == site;
            let Some(edge) = graph.edges(step as usize).rev().find(before) else { continue };
            let head = heads.partition_point(|head| *head <= edge.on);
            return (place + 1).saturating_sub(head).max(1);
        }
        1
    }

    /// Lines whose results nothing reads.
    pub(super) fn unread(&mut self) {
        let Some(choices) = self.run.choices() else { return };
        let (read, graph) = (self.run.read(), &self.run.graph);
        let mut stays = HashSet::new();
        let mut held = BTreeMap::<SiteId, u64>::new();
        for (place, step) in graph.steps().iter().enumerate() {
            let choice = choices.of(place);
            if read[place] || !choice.is_pure || choice.fills.is_none() || choices.filled(place) == 0 {
                stays.insert(step.site);
            }
            *held.entry(step.site).or_default() += self.base.slot_end[place].since(self.base.start[place]).0.max(1);
        }
        held.retain(|site, _| !stays.contains(site));
        for site in heaviest(held, MOST_LINES) {
            let steps = self.run.steps_of(site);
            let mut variant = self.variant();
            steps.iter().for_each(|&step| variant.leave_out(step as usize));
            let gain = self.gain(&variant);
            let why = format!("nothing reads what {} writes", self.run.called(steps[0]));
            let change = format!("leave out {}", self.run.words(site));
            self.offer(gain, Offer { step: steps[0], cause: UNREAD, why, change });
        }
    }

    /// Lines that load the same elements again.
    pub(super) fn repeated(&mut self) {
        let Some(choices) = self.run.choices() else { return };
        let graph = &self.run.graph;
        let mut held = BTreeMap::<SiteId, u64>::new();
        let mut first = HashMap::<(SiteId, u64), u32>::new();
        for (place, step) in graph.steps().iter().enumerate() {
            let is_load = matches!(graph.work(place), Work::Dma(transfer) if transfer.route == Route::Load);
            if is_load && choices.source(place) != 0 {
                let known = *first.entry((step.site, choices.source(place))).or_insert(place as u32);
                let again = u64::from(known as usize != place);
                *held.entry(step.site).or_default() +=
                    again * self.base.slot_end[place].since(self.base.start[place]).0;
            }
        }
        for site in heaviest(held, MOST_LINES) {
            self.try_once(site);
        }
    }

    fn try_once(&mut self, site: SiteId) {
        let (Some(choices), graph) = (self.run.choices(), &self.run.graph) else { return };
        let steps = self.run.steps_of(site);
        let mut kept: Vec<u32> = Vec::new();
        let mut first = HashMap::<u64, u32>::new();
        let mut again: Vec<(u32, u32)> = Vec::new();
        for &step in &steps {
            let source = choices.source(step as usize);
            let comes_after = graph.edges(step as usize).any(|edge| edge.kind == EdgeKind::Result);
            if source == 0 || comes_after {
                return;
            }
            match first.get(&source) {
                Some(&known) => again.push((step, known)),
                None => {
                    first.insert(source, step);
                    kept.push(step);
                }
            }
        }
        let tensors: HashSet<u64> = steps.iter().map(|step| choices.filled(*step as usize)).collect();
        let own: HashSet<u32> = steps.iter().copied().collect();
        // Another line writes to the tile, or to what was loaded.
        let others = (0..graph.steps().len() as u32).filter(|step| !own.contains(step)).any(|step| {
            let after = |edge: GraphEdge| edge.kind == EdgeKind::Overwrite && own.contains(&edge.on);
            tensors.contains(&choices.filled(step as usize)) || graph.edges(step as usize).any(after)
        });
        let Some((buffer, bytes)) = choices.of(steps[0] as usize).fills else { return };
        let room = kept.len().saturating_sub(1) as u64 * bytes;
        if others || tensors.contains(&0) || room > self.run.spare(buffer) {
            return;
        }
        let mut variant = self.variant();
        variant.rebuffer(&kept, None, 1);
        again.iter().for_each(|&(step, by)| variant.merge(step, by));
        variant.forget_merged();
        let gain = self.gain(&variant);
        let step = again[0].0;
        let times = steps.len() / kept.len();
        let why = format!("{} loads the same elements {times} times", self.run.called(step));
        let tiles = if kept.len() > 1 { format!(" and keep its {} tiles", kept.len()) } else { String::new() };
        let change = format!("do {} once, before the loop{tiles}", self.run.words(site));
        self.offer(gain, Offer { step, cause: "repeated work", why, change });
    }
}
