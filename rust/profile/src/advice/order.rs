//! Instructions that were ready while one that was not stood ahead of them.

use std::collections::{BTreeMap, HashSet};

use trn3_machine::engine::Engine;
use trn3_machine::site::SiteId;
use trn3_machine::time::Picos;

use super::search::{AdviceSearch, Offer, heaviest, time_words};

/// How far behind one that waits others are looked at, in instructions of its engine.
const WINDOW: usize = 48;
/// Instructions that go along at most with one that goes ahead.
const MOST_ALONG: usize = 24;
/// Pairs of lines that are timed.
const MOST_PAIRS: usize = 3;

/// A line that goes ahead of another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    ahead: SiteId,
    of: SiteId,
}

impl AdviceSearch<'_> {
    pub(super) fn order(&mut self) {
        for engine in [Engine::Tensor, Engine::Vector, Engine::Scalar, Engine::GpSimd] {
            let steps = self.steps_on(engine);
            let waits = self.waits(&steps);
            if waits.is_empty() {
                continue;
            }
            let mut as_ready = self.variant();
            as_ready.issue_as_ready(engine);
            if !self.is_worth(&as_ready) {
                continue;
            }
            for pair in heaviest(waits, MOST_PAIRS) {
                self.try_pair(&steps, pair);
            }
        }
    }

    /// Of each pair of lines how long the engine stood idle before the second while the first was ready behind it.
    fn waits(&self, steps: &[u32]) -> BTreeMap<Pair, u64> {
        let (base, graph) = (&self.base, &self.run.graph);
        let mut waits = BTreeMap::new();
        for (place, &step) in steps.iter().enumerate() {
            let free = place.checked_sub(1).map_or(Picos::ZERO, |before| base.slot_end[steps[before] as usize]);
            let idle = base.start[step as usize].since(free).0;
            if idle == 0 {
                continue;
            }
            let of = graph.steps().at(step as usize).site;
            let mut seen: Vec<SiteId> = vec![of];
            for &behind in steps[place + 1..].iter().take(WINDOW) {
                let ahead = graph.steps().at(behind as usize).site;
                if seen.contains(&ahead) || base.ready[behind as usize] >= base.start[step as usize] {
                    continue;
                }
                seen.push(ahead);
                let held = base.slot_end[behind as usize].since(base.start[behind as usize]).0;
                *waits.entry(Pair { ahead, of }).or_default() += idle.min(held.max(1));
            }
        }
        waits
    }

    fn try_pair(&mut self, steps: &[u32], pair: Pair) {
        let Some((order, first, along)) = self.ahead(steps, pair) else { return };
        let mut variant = self.variant();
        variant.reorder(order);
        let gain = self.gain(&variant);
        let (step, of) = first;
        let lead = self.base.start[of as usize].since(self.base.ready[step as usize]);
        let run = self.run;
        let names = (run.called(step), run.called(of));
        let why = format!("{} was ready {} before {} that stands ahead of it", names.0, time_words(lead), names.1);
        let mut lines: Vec<u32> = along.iter().map(|site| run.line(*site)).collect();
        lines.sort_unstable();
        let with = match lines[..] {
            [] => String::new(),
            [line] => format!(" with line {line}, which it needs,"),
            _ => {
                let lines: Vec<String> = lines.iter().map(u32::to_string).collect();
                format!(" with lines {}, which it needs,", lines.join(", "))
            }
        };
        let is_next = run.line(pair.ahead) < run.line(pair.of);
        let next =
            if is_next { format!(" of the next iteration before {}", run.words(pair.of)) } else { " first".to_owned() };
        let change = format!("issue {}{with}{next}", run.words(pair.ahead));
        self.offer(gain, Offer { step, cause: "queue order", why, change });
    }

    /// The order in which one line goes ahead of another wherever it stands behind it, the first such place, and lines that
    /// go along; None where values forbid that.
    fn ahead(&self, steps: &[u32], pair: Pair) -> Option<(Vec<u32>, (u32, u32), Vec<SiteId>)> {
        let all = self.run.graph.steps();
        let (mut moved, mut goes) = (BTreeMap::<u32, Vec<u32>>::new(), HashSet::new());
        let (mut first, mut along) = (None, Vec::<SiteId>::new());
        // The last run of the other line that none has gone ahead of: its first step, and where it ends.
        let mut of: Option<(u32, usize)> = None;
        for (place, &step) in steps.iter().enumerate() {
            let site = all.at(step as usize).site;
            if site == pair.of {
                let run = of.filter(|(_, last)| last + 1 == place);
                of = Some((run.map_or(step, |(first, _)| first), place));
            }
            if site != pair.ahead {
                continue;
            }
            let Some((other, _)) = of.filter(|(_, last)| place - last <= WINDOW) else { continue };
            let slice = self.slice(other, step, &goes)?;
            for &part in &slice {
                let site = all.at(part as usize).site;
                if site != pair.ahead && !along.contains(&site) {
                    along.push(site);
                }
                goes.insert(part);
            }
            moved.entry(other).or_default().extend(slice);
            let before = self.base.start[other as usize].since(self.base.ready[step as usize]);
            let lead = |(step, of): (u32, u32)| self.base.start[of as usize].since(self.base.ready[step as usize]);
            if first.is_none_or(|known| before > lead(known)) {
                first = Some((step, other));
            }
            if steps.get(place + 1).is_none_or(|next| all.at(*next as usize).site != pair.ahead) {
                of = None;
            }
        }
        let mut order = Vec::with_capacity(all.len());
        for step in 0..all.len() as u32 {
            if let Some(parts) = moved.get(&step) {
                order.extend(parts);
            }
            if !goes.contains(&step) {
                order.push(step);
            }
        }
        Some((order, first?, along))
    }

    /// A step and what it needs from another step on, in their order; None where that needs the other one.
    fn slice(&self, other: u32, step: u32, gone: &HashSet<u32>) -> Option<Vec<u32>> {
        let mut slice = vec![step];
        let mut needed: HashSet<u32> = self.run.graph.edges(step as usize).map(|edge| edge.on).collect();
        for before in (other..step).rev() {
            if gone.contains(&before) || !needed.contains(&before) {
                continue;
            }
            if before == other || slice.len() == MOST_ALONG {
                return None;
            }
            slice.push(before);
            needed.extend(self.run.graph.edges(before as usize).map(|edge| edge.on));
        }
        slice.reverse();
        Some(slice)
    }
}
