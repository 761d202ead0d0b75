//! The search for changes: each kind of them is tried where the run has something to it.

use std::collections::{BTreeMap, BTreeSet};

use trn3_machine::Result;
use trn3_machine::site::{SiteId, Sites};
use trn3_machine::trace::{Edit, Retimer, Use};

use super::pass_changes::PassChanges;
use super::{Advice, AdviceKind, KernelOutline, LEAST_GAIN, MadeTensor};

/// Steps that are timed anew at most, all changes together: beyond, what is left is not looked at.
const MOST_STEPS: usize = 20_000_000;

/// Looks for changes of one run.
pub(super) struct Search<'a> {
    pub(super) retimer: &'a Retimer,
    pub(super) outline: &'a KernelOutline,
    pub(super) base_us: f64,
    found: Vec<Advice>,
    /// Lines of the file, and their sites.
    pub(super) lines: BTreeMap<u32, Vec<SiteId>>,
    pub(super) numbers: BTreeMap<SiteId, u32>,
    pub(super) changes: PassChanges,
    /// Steps that may still be timed.
    left: usize,
}

impl<'a> Search<'a> {
    pub(super) fn of(retimer: &'a Retimer, sites: &Sites, outline: &'a KernelOutline, base_us: f64) -> Self {
        let (mut lines, mut numbers) = (BTreeMap::<u32, Vec<SiteId>>::new(), BTreeMap::new());
        for (number, site) in sites.all().iter().enumerate().filter(|(_, site)| site.file == outline.file) {
            lines.entry(site.line).or_default().push(SiteId(number as u32));
            numbers.insert(SiteId(number as u32), site.line);
        }
        let changes = PassChanges::of(retimer);
        Self { retimer, outline, base_us, found: Vec::new(), lines, numbers, changes, left: MOST_STEPS }
    }

    /// What was found.
    pub(super) fn found(self) -> Vec<Advice> {
        self.found
    }

    pub(super) fn latency(&mut self, edits: &[Edit]) -> Result<Option<f64>> {
        let steps: usize = self.retimer.traces().iter().map(|trace| trace.steps.len()).sum();
        let Some(left) = self.left.checked_sub(steps) else { return Ok(None) };
        self.left = left;
        Ok(self.retimer.latency(edits)?.map(|latency| latency.microseconds()))
    }

    /// Notes a change if it is worth its text.
    pub(super) fn consider(&mut self, kind: AdviceKind, edits: Vec<Edit>, about: About) -> Result<Option<f64>> {
        let latency = self.latency(&edits)?;
        if let Some(estimate_us) = latency.filter(|latency| *latency < self.base_us * (1.0 - LEAST_GAIN)) {
            let About { lines, engines, tensors, before } = about;
            let pass = self.changes.pass_of(kind, &lines, before, &self.numbers);
            self.found.push(Advice { kind, lines, engines, tensors, before, pass, estimate_us, edits });
        }
        Ok(latency)
    }

    /// Tensors without an address that the file makes, by site, with the lines that fill them.
    fn made(&self) -> BTreeMap<SiteId, (MadeTensor, BTreeSet<u32>)> {
        let mut made = BTreeMap::new();
        for trace in self.retimer.traces() {
            for operand in trace.steps.iter().flat_map(|step| step.writes().map(move |operand| (step, operand))) {
                let (step, operand) = operand;
                let tensor = &trace.tensors[operand.tensor as usize];
                let (Some(&line), Some(&at)) = (self.numbers.get(&tensor.site), self.numbers.get(&step.site)) else {
                    continue;
                };
                if tensor.open().is_some() {
                    let new = || (MadeTensor { name: tensor.name.to_string(), line }, BTreeSet::new());
                    made.entry(tensor.site).or_insert_with(new).1.insert(at);
                }
            }
        }
        made
    }

    /// Lines of the outermost loop around one.
    fn around(&self, line: u32) -> Vec<SiteId> {
        let span = |body: &Vec<(u32, u32)>| body.first().zip(body.last()).map(|(first, last)| first.0..=last.1);
        let around = self.outline.loops.iter().find_map(|body| span(body).filter(|span| span.contains(&line)));
        around
            .into_iter()
            .flat_map(|span| self.lines.range(span))
            .flat_map(|(_, sites)| sites.iter().copied())
            .collect()
    }

    pub(super) fn tensors(&mut self) -> Result<()> {
        let made = self.made();
        let of = |sites: &[SiteId]| About {
            lines: sites.iter().flat_map(|site| made[site].1.iter().copied()).collect(),
            tensors: sites.iter().map(|site| made[site].0.clone()).collect(),
            ..About::default()
        };
        let mut refilled = Vec::new();
        for &site in made.keys() {
            let anew = Edit::Anew { tensors: vec![site] };
            if self.retimer.edited(std::slice::from_ref(&anew)).is_some() {
                refilled.push(site);
                self.consider(AdviceKind::DoubleBuffer, vec![anew], of(&[site]))?;
            }
            let around = self.around(made[&site].0.line);
            self.consider(AdviceKind::Hoist, vec![Edit::Once { tensors: vec![site], around }], of(&[site]))?;
        }
        if refilled.len() > 1 {
            let anew = Edit::Anew { tensors: refilled.clone() };
            self.consider(AdviceKind::DoubleBuffer, vec![anew], of(&refilled))?;
        }
        Ok(())
    }

    /// Of each loop the place where its iterations are best cut in two, the first part of the next going before the second.
    pub(super) fn ahead(&mut self) -> Result<()> {
        let refilled: Vec<SiteId> = self.made().keys().copied().collect();
        let anew = Edit::Anew { tensors: refilled };
        let can_refill = self.retimer.edited(std::slice::from_ref(&anew)).is_some();
        for statements in &self.outline.loops {
            let sites = |part: &[(u32, u32)]| -> Vec<SiteId> {
                let lines = part.iter().flat_map(|&(first, last)| self.lines.range(first..=last));
                lines.flat_map(|(_, sites)| sites.iter().copied()).collect()
            };
            let mut cuts = Vec::new();
            for cut in 1..statements.len() {
                let (head, tail) = (sites(&statements[..cut]), sites(&statements[cut..]));
                if !head.is_empty() && !tail.is_empty() {
                    cuts.push((cut, head, tail));
                }
            }
            let mut best: Option<(f64, Vec<Edit>, usize)> = None;
            for (cut, head, tail) in cuts {
                let ahead = Edit::Ahead { head, tail };
                let mut edits = vec![ahead.clone()];
                let mut latency = self.latency(&edits)?;
                if latency.is_none() && can_refill {
                    edits = vec![anew.clone(), ahead];
                    latency = self.latency(&edits)?;
                }
                if let Some(latency) = latency
                    && best.as_ref().is_none_or(|(found, ..)| latency < *found)
                {
                    best = Some((latency, edits, cut));
                }
            }
            let Some((_, edits, cut)) = best else { continue };
            let anew =
                if edits.len() > 1 { self.made().into_values().map(|made| made.0).collect() } else { Vec::new() };
            let about = About {
                lines: vec![statements[0].0, statements[cut - 1].1],
                tensors: anew,
                before: Some(statements[cut].0),
                ..About::default()
            };
            self.consider(AdviceKind::Ahead, edits, about)?;
        }
        Ok(())
    }

    /// Lines none of whose results is read, directly or through others of them.
    pub(super) fn dead(&mut self) -> Result<()> {
        let mut needed: BTreeSet<SiteId> = BTreeSet::new();
        let mut all: BTreeSet<SiteId> = BTreeSet::new();
        for trace in self.retimer.traces() {
            let mut read = vec![false; trace.tensors.len()];
            for step in trace.steps.iter().rev() {
                let stays = step.marks.is_fence
                    || step.meets()
                    || (trace.draws && step.fingerprint.is_none())
                    || step.writes().next().is_none()
                    || step
                        .writes()
                        .any(|each| trace.tensors[each.tensor as usize].open().is_none() || read[each.tensor as usize]);
                if stays {
                    needed.insert(step.site);
                    let reads = step.operands.iter().filter(|each| each.usage != Use::Write);
                    reads.for_each(|each| read[each.tensor as usize] = true);
                } else {
                    all.insert(step.site);
                }
            }
        }
        let dead: Vec<SiteId> =
            all.difference(&needed).copied().filter(|site| self.numbers.contains_key(site)).collect();
        if dead.is_empty() {
            return Ok(());
        }
        let lines = dead.iter().map(|site| self.numbers[site]).collect();
        self.consider(AdviceKind::Dead, vec![Edit::Without { lines: dead }], About { lines, ..About::default() })?;
        Ok(())
    }
}

/// Lines and tensors of a change.
#[derive(Default)]
pub(super) struct About {
    pub(super) lines: Vec<u32>,
    pub(super) engines: Vec<Vec<&'static str>>,
    pub(super) tensors: Vec<MadeTensor>,
    pub(super) before: Option<u32>,
}
