//! What would make a kernel faster, found in the trace of its run: every change that the text allows is timed alone by the
//! machine's [re-timer](trn3_machine::trace::Retimer), and ranked by what it saves.

mod words;

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use serde::Serialize;
use trn3_machine::Error;
use trn3_machine::Result;
use trn3_machine::engine::Engine;
use trn3_machine::site::{SiteId, Sites};
use trn3_machine::trace::{Edit, Retimer, Use};

pub use words::{AdviceWords, words};

/// Share of the latency below which a change is not worth a line of text.
pub const LEAST_GAIN: f64 = 0.005;
/// Steps that are timed anew at most, all changes together: beyond, what is left is not looked at.
const MOST_STEPS: usize = 20_000_000;

/// What kind of a change is advised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdviceKind {
    /// What fills tensors the same way again is done once, before the loop or in its first iteration.
    Hoist,
    /// Tensors that are refilled in a loop are made in it.
    DoubleBuffer,
    /// Lines go to other engines.
    Engine,
    /// The first lines of an iteration are issued before the last ones of the iteration before.
    Ahead,
    /// Lines whose results nothing reads.
    Dead,
}

impl AdviceKind {
    /// Every kind.
    pub const ALL: [AdviceKind; 5] =
        [AdviceKind::Hoist, AdviceKind::DoubleBuffer, AdviceKind::Engine, AdviceKind::Ahead, AdviceKind::Dead];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            AdviceKind::Hoist => "hoist",
            AdviceKind::DoubleBuffer => "double-buffer",
            AdviceKind::Engine => "engine",
            AdviceKind::Ahead => "ahead",
            AdviceKind::Dead => "dead",
        }
    }
}

impl FromStr for AdviceKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = AdviceKind::ALL.into_iter().find(|kind| kind.name() == name);
        let all = || AdviceKind::ALL.map(AdviceKind::name).join(", ");
        found.ok_or_else(|| Error::Value(format!("kind of advice is {name:?}; allowed: {}", all())))
    }
}

/// A tensor, by the line that makes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MadeTensor {
    /// Its name; empty if it has none.
    pub name: String,
    /// The line.
    pub line: u32,
}

/// A change, and what it saves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// What it is.
    pub kind: AdviceKind,
    /// Lines of the kernel that it is about.
    pub lines: Vec<u32>,
    /// Engines of each line, which its steps take in turn; empty where engines stay.
    pub engines: Vec<Vec<&'static str>>,
    /// Tensors that it is about.
    pub tensors: Vec<MadeTensor>,
    /// The line that the lines overtake; of the loop that both are in.
    pub before: Option<u32>,
    /// The latency with it, in microseconds.
    pub estimate_us: f64,
    #[serde(skip)]
    edits: Vec<Edit>,
}

/// What the text of a kernel says of its loops.
#[derive(Clone, Debug, Default)]
pub struct KernelOutline {
    /// The file, as sites name it.
    pub file: String,
    /// First and last line of each statement of each loop.
    pub loops: Vec<Vec<(u32, u32)>>,
}

/// What is advised for a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AdviceReport {
    /// Its latency, in microseconds, with tensors placed as written.
    pub as_written_us: Option<f64>,
    /// Changes that save at least [`LEAST_GAIN`], the best first.
    pub advice: Vec<Advice>,
}

/// Finds what would make a run faster.
///
/// # Errors
/// Those of [`Retimer::latency`].
pub fn advise(retimer: &Retimer, sites: &Sites, outline: &KernelOutline) -> Result<AdviceReport> {
    let Some(base) = retimer.latency(&[])? else {
        return Ok(AdviceReport { as_written_us: None, advice: Vec::new() });
    };
    let mut search = Search::of(retimer, sites, outline, base.microseconds());
    search.dead()?;
    search.tensors()?;
    search.engines()?;
    search.ahead()?;
    let mut advice = search.found;
    advice.sort_by(|one, other| one.estimate_us.total_cmp(&other.estimate_us));
    Ok(AdviceReport { as_written_us: Some(base.microseconds()), advice })
}

/// Changes that still save something after those before them, with the latency of all up to each: each is made on top of
/// those kept so far.
///
/// # Errors
/// As [`advise`].
pub fn combine(retimer: &Retimer, advice: &[Advice]) -> Result<Vec<Option<f64>>> {
    let Some(base) = retimer.latency(&[])? else { return Ok(vec![None; advice.len()]) };
    let (mut best, mut kept, mut reached) = (base.microseconds(), Vec::new(), Vec::with_capacity(advice.len()));
    for each in advice {
        let together: Vec<Edit> = kept.iter().chain(&each.edits).cloned().collect();
        let latency = retimer.latency(&together)?.map(|latency| latency.microseconds());
        let better = latency.filter(|latency| *latency < best * (1.0 - LEAST_GAIN));
        if let Some(latency) = better {
            (best, kept) = (latency, together);
        }
        reached.push(better);
    }
    Ok(reached)
}

struct Search<'a> {
    retimer: &'a Retimer,
    outline: &'a KernelOutline,
    base_us: f64,
    found: Vec<Advice>,
    /// Lines of the file, and their sites.
    lines: BTreeMap<u32, Vec<SiteId>>,
    numbers: BTreeMap<SiteId, u32>,
    /// Steps that may still be timed.
    left: usize,
}

impl<'a> Search<'a> {
    fn of(retimer: &'a Retimer, sites: &Sites, outline: &'a KernelOutline, base_us: f64) -> Self {
        let (mut lines, mut numbers) = (BTreeMap::<u32, Vec<SiteId>>::new(), BTreeMap::new());
        for (number, site) in sites.all().iter().enumerate().filter(|(_, site)| site.file == outline.file) {
            lines.entry(site.line).or_default().push(SiteId(number as u32));
            numbers.insert(SiteId(number as u32), site.line);
        }
        Self { retimer, outline, base_us, found: Vec::new(), lines, numbers, left: MOST_STEPS }
    }

    fn latency(&mut self, edits: &[Edit]) -> Result<Option<f64>> {
        let steps: usize = self.retimer.traces().iter().map(|trace| trace.steps.len()).sum();
        let Some(left) = self.left.checked_sub(steps) else { return Ok(None) };
        self.left = left;
        Ok(self.retimer.latency(edits)?.map(|latency| latency.microseconds()))
    }

    /// Notes a change if it is worth its text.
    fn consider(&mut self, kind: AdviceKind, edits: Vec<Edit>, about: About) -> Result<Option<f64>> {
        let latency = self.latency(&edits)?;
        if let Some(estimate_us) = latency.filter(|latency| *latency < self.base_us * (1.0 - LEAST_GAIN)) {
            let About { lines, engines, tensors, before } = about;
            self.found.push(Advice { kind, lines, engines, tensors, before, estimate_us, edits });
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

    fn tensors(&mut self) -> Result<()> {
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
            self.consider(AdviceKind::Hoist, vec![Edit::Once { tensors: vec![site] }], of(&[site]))?;
        }
        if refilled.len() > 1 {
            let anew = Edit::Anew { tensors: refilled.clone() };
            self.consider(AdviceKind::DoubleBuffer, vec![anew], of(&refilled))?;
        }
        Ok(())
    }

    /// Lines all of whose steps may run elsewhere, with the engines that they may be given.
    fn open_lines(&self) -> BTreeMap<u32, (SiteId, Engine, Vec<Engine>)> {
        let mut open: BTreeMap<SiteId, Option<(Engine, Vec<Engine>)>> = BTreeMap::new();
        for step in self.retimer.traces().iter().flat_map(|trace| &trace.steps) {
            let others: Vec<Engine> =
                step.alternatives.iter().flat_map(|all| all.engines.iter().map(|each| each.0)).collect();
            let found = open.entry(step.site).or_insert_with(|| Some((step.engine, others.clone())));
            if let Some((engine, known)) = found {
                known.retain(|engine| others.contains(engine));
                if known.is_empty() || *engine != step.engine {
                    *found = None;
                }
            }
        }
        let of_line = |(site, found): (SiteId, Option<(Engine, Vec<Engine>)>)| {
            let line = *self.numbers.get(&site)?;
            let (engine, others) = found?;
            (self.lines[&line].len() == 1).then_some((line, (site, engine, others)))
        };
        open.into_iter().filter_map(of_line).collect()
    }

    /// Gives lines to other engines, the best one first, as long as that saves something.
    fn engines(&mut self) -> Result<()> {
        let mut open = self.open_lines();
        let (mut given, mut best) = (Vec::<(u32, SiteId, Vec<Engine>)>::new(), self.base_us);
        let edits = |given: &[(u32, SiteId, Vec<Engine>)]| -> Vec<Edit> {
            given.iter().map(|(_, line, engines)| Edit::Engines { line: *line, engines: engines.clone() }).collect()
        };
        loop {
            let mut next: Option<(f64, (u32, SiteId, Vec<Engine>))> = None;
            for (&line, (site, own, others)) in &open {
                let alone = others.iter().map(|&other| vec![other]);
                let in_turn = others.iter().map(|&other| vec![*own, other]);
                for engines in alone.chain(in_turn).collect::<Vec<_>>() {
                    given.push((line, *site, engines));
                    let latency = self.latency(&edits(&given))?;
                    let tried = given.pop();
                    if let (Some(latency), Some(tried)) = (latency, tried)
                        && latency < best * (1.0 - LEAST_GAIN)
                        && next.as_ref().is_none_or(|(found, _)| latency < *found)
                    {
                        next = Some((latency, tried));
                    }
                }
            }
            let Some((latency, chosen)) = next else { break };
            open.remove(&chosen.0);
            best = latency;
            given.push(chosen);
        }
        if given.is_empty() {
            return Ok(());
        }
        let about = About {
            lines: given.iter().map(|each| each.0).collect(),
            engines: given.iter().map(|each| each.2.iter().map(|engine| engine.name()).collect()).collect(),
            ..About::default()
        };
        self.consider(AdviceKind::Engine, edits(&given), about)?;
        Ok(())
    }

    /// Of each loop the place where its iterations are best cut in two, the first part of the next going before the second.
    fn ahead(&mut self) -> Result<()> {
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
    fn dead(&mut self) -> Result<()> {
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
struct About {
    lines: Vec<u32>,
    engines: Vec<Vec<&'static str>>,
    tensors: Vec<MadeTensor>,
    before: Option<u32>,
}
