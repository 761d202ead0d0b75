//! Interleave: where the order of the text holds more than fits, what was made is used up before more is made.
//!
//! Kept true: every step stays, and comes after all that it depends on; nothing crosses a fence, and steps that the author
//! ordered stay in his order. Where the text fits nothing moves.
//!
//! Steps go in the order of the text. Where a new value finds no room, one that is there is chosen, those with the fewest
//! uses left first **(choice)**: if all of them, with whatever they still need, can go now without more room than there is,
//! and less is held afterwards, they do. So a loop that makes tiles and one that uses them take turns, tile by tile.

use std::collections::BTreeMap;

use trn3_machine::Result;
use trn3_machine::site::SiteId;
use trn3_machine::trace::{NONE, Trace};

use super::Pass;
use super::held::Held;
use crate::dependences::Dependences;
use crate::level::CompileLevel;
use crate::report::{Change, ChangeKind, PassReport};
use crate::webs::Webs;

/// Shortens the time for which values are held.
pub(super) struct InterleavePass;

impl Pass for InterleavePass {
    fn name(&self) -> &'static str {
        "interleave"
    }

    fn levels(&self) -> &'static [CompileLevel] {
        &[CompileLevel::Nki, CompileLevel::NeuronxCc]
    }

    fn run(&self, trace: &mut Trace, report: &mut PassReport) -> Result<()> {
        let webs = Webs::of(trace);
        let mut text = Held::new(trace, &webs, 1);
        let fits = (0..trace.steps.len() as u32).all(|step| {
            let fits = text.lacking(step).is_none();
            text.take(step);
            fits
        });
        if fits {
            return Ok(());
        }
        let dependences = Dependences::of(trace);
        let order = Interleaving::new(trace, &webs, &dependences).run();
        note(trace, &order, report);
        trace.reorder(&order);
        Ok(())
    }
}

/// Values tried when one has to go.
const TRIED: usize = 16;
/// Steps that go together at most.
const MOST: usize = 2048;
/// Steps looked at in vain, for each step of the trace.
const PATIENCE: usize = 16;

/// An order in the making.
struct Interleaving<'a> {
    webs: &'a Webs,
    dependences: &'a Dependences,
    held: Held<'a>,
    order: Vec<u32>,
    is_done: Vec<bool>,
    /// Values held, by memory, and where each is among them.
    live: [Vec<u32>; 2],
    places: Vec<u32>,
    /// The last search that found a step.
    seen: Vec<u32>,
    searches: u32,
    patience: usize,
}

impl<'a> Interleaving<'a> {
    fn new(trace: &Trace, webs: &'a Webs, dependences: &'a Dependences) -> Self {
        let steps = trace.steps.len();
        Self {
            webs,
            dependences,
            held: Held::new(trace, webs, 1),
            order: Vec::with_capacity(steps),
            is_done: vec![false; steps],
            live: Default::default(),
            places: vec![NONE; webs.len()],
            seen: vec![0; steps],
            searches: 0,
            patience: PATIENCE * steps,
        }
    }

    fn run(mut self) -> Vec<u32> {
        for step in 0..self.is_done.len() as u32 {
            if self.is_done[step as usize] {
                continue;
            }
            while let Some(memory) = self.held.lacking(step)
                && self.free_some(memory, step)
            {}
            self.emit(step);
        }
        self.order
    }

    fn emit(&mut self, step: u32) {
        for &web in self.webs.at(step as usize) {
            let live = &mut self.live[usize::from(self.held.extents[web as usize].1)];
            if self.held.is_new(web) {
                self.places[web as usize] = live.len() as u32;
                live.push(web);
            }
            if self.held.left[web as usize] == 1 {
                let place = self.places[web as usize] as usize;
                live.swap_remove(place);
                if let Some(&moved) = live.get(place) {
                    self.places[moved as usize] = place as u32;
                }
            }
        }
        self.held.take(step);
        self.is_done[step as usize] = true;
        self.order.push(step);
    }

    /// Uses up a value of a memory before a step runs; false where none can.
    fn free_some(&mut self, memory: usize, step: u32) -> bool {
        self.patience = self.patience.saturating_sub(self.live[memory].len() / TRIED + 1);
        let mut tried: Vec<(u32, u32)> = Vec::with_capacity(TRIED + 1);
        for &web in &self.live[memory] {
            let key = (self.held.left[web as usize], web);
            if tried.len() == TRIED && tried.last().is_some_and(|last| *last <= key) {
                continue;
            }
            let place = tried.partition_point(|other| *other < key);
            tried.insert(place, key);
            tried.truncate(TRIED);
        }
        for (_, web) in tried {
            if self.patience == 0 {
                return false;
            }
            if let Some(steps) = self.needed(web, step)
                && self.frees(&steps, memory)
            {
                steps.into_iter().for_each(|step| self.emit(step));
                return true;
            }
        }
        false
    }

    /// The steps that use a value up, with those that they depend on, in the order of the text; None where they are many, or
    /// cannot go before a step.
    fn needed(&mut self, web: u32, step: u32) -> Option<Vec<u32>> {
        self.searches += 1;
        let segment = self.dependences.segment(step as usize);
        let uses = self.webs.uses(web);
        let mut found: Vec<u32> = Vec::new();
        let mut next: Vec<u32> = uses.iter().copied().filter(|&user| !self.is_done[user as usize]).collect();
        while let Some(number) = next.pop() {
            if self.is_done[number as usize] || self.seen[number as usize] == self.searches {
                continue;
            }
            self.patience = self.patience.saturating_sub(1);
            let is_far = self.dependences.segment(number as usize) != segment;
            if number == step || is_far || found.len() == MOST || self.patience == 0 {
                return None;
            }
            self.seen[number as usize] = self.searches;
            found.push(number);
            next.extend(self.dependences.before(number as usize).iter().map(|edge| edge.step));
        }
        found.sort_unstable();
        Some(found)
    }

    /// Whether some steps can run now without lack of room, and less of a memory is held afterwards.
    fn frees(&mut self, steps: &[u32], memory: usize) -> bool {
        let before = self.held.bytes;
        let mut ran = 0;
        for &step in steps {
            if self.held.lacking(step).is_some() {
                break;
            }
            self.held.take(step);
            ran += 1;
        }
        let frees = ran == steps.len() && self.held.bytes[memory] < before[memory];
        steps[..ran].iter().rev().for_each(|&step| self.held.take_back(step));
        self.held.bytes = before;
        frees
    }
}

/// Says which lines moved ahead of which.
fn note(trace: &Trace, order: &[u32], report: &mut PassReport) {
    let mut lines: BTreeMap<(SiteId, SiteId), u32> = BTreeMap::new();
    let mut next = 0;
    let mut passed = vec![false; order.len()];
    for &step in order {
        while passed.get(next).is_some_and(|passed| *passed) {
            next += 1;
        }
        passed[step as usize] = true;
        if step as usize != next {
            let line = (trace.steps[step as usize].site, trace.steps[next].site);
            *lines.entry(line).or_default() += 1;
        }
    }
    report.add("moved", lines.values().map(|&steps| u64::from(steps)).sum());
    for ((site, other), steps) in lines {
        let (other, tensor, engine) = (Some(other), None, None);
        report.changes.push(Change { kind: ChangeKind::Earlier, site, other, steps, tensor, engine });
    }
}
