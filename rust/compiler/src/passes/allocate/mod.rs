//! Allocate: every tensor without an address gets a place, and what does not fit leaves for HBM until it is needed.
//!
//! Kept true: at every step each value that it uses lies at the bytes that the step names, no two values that are still used
//! share bytes of a memory, and no value uses bytes of the author's addresses from the step that uses those first to the one
//! that uses them last. No step goes; where steps leave their order, each stays after all that it depends on, and nothing
//! crosses a fence.
//!
//! A value lives from the step that first uses it to the one that last does, not as long as the kernel refers to its tensor;
//! a tensor that is overwritten as a whole begins a new value, which may lie elsewhere. Of the free places the one that was
//! given back longest ago is taken, so that what comes next need not wait; where something would have to leave for that, the
//! smallest that fits is, and an output takes the bytes of an input that is over, if less has to leave then. Who is used last
//! leaves **(choice)**, whole: what was loaded from HBM or made of constants is loaded or made again, where that takes no
//! longer; what was stored and not written since is stored once; the rest goes to HBM, from PSUM to SBUF.
//!
//! Where values take places that others had, what comes next waits for them, and the order of the text is not always the
//! best to give places out in. So others are tried, and the one stays whose first steps list scheduling makes fastest
//! **(choice)**: the order in which steps can start while all fits, or half of what is on chip; where memory is full or nearly
//! so, outputs in the places of inputs, and PSUM of which half stays free for what comes and goes, since what waits long for
//! its next use goes to SBUF; where something leaves, loads so early that they are not waited for.

mod ahead;
mod apart;
mod plan;
mod reserved;
mod room;
mod spill;
mod walk;

use std::collections::{BTreeMap, HashMap};

use trn3_machine::memory::Placer;
use trn3_machine::storage::Buffer;
use trn3_machine::trace::{Trace, TraceTensor};
use trn3_machine::{Error, Result};

use super::Pass;
use crate::level::CompileLevel;
use crate::report::{Change, ChangeKind, PassReport};
use crate::webs::Webs;
use ahead::{ahead, pace};
use apart::as_soon_as_they_can;
use plan::Plan;
use reserved::reserved;
use room::Choice;
use spill::Makers;
use walk::{Full, Walk, Way};

/// Which places are taken, and whether outputs take those of inputs that are over: tried in this order until nothing leaves.
const WAYS: [Way; 4] = [
    Way { choice: Choice::Oldest, in_place: false, is_roomy: false },
    Way { choice: Choice::Tightest, in_place: false, is_roomy: false },
    Way { choice: Choice::Oldest, in_place: true, is_roomy: false },
    Way { choice: Choice::Tightest, in_place: true, is_roomy: false },
];
/// Of which the fastest is taken where memory is full, or nearly so.
const FAST: [Way; 3] = [WAYS[0], WAYS[2], Way { choice: Choice::Oldest, in_place: false, is_roomy: true }];
/// Steps of traces that are placed in several ways.
const TRIED: usize = 200_000;
/// Of what is on chip, one of how many parts orders may fill.
const PARTS: [u64; 2] = [1, 2];

/// Places tensors without an address.
pub(super) struct AllocatePass;

impl Pass for AllocatePass {
    fn name(&self) -> &'static str {
        "allocate"
    }

    fn levels(&self) -> &'static [CompileLevel] {
        &[CompileLevel::Nki, CompileLevel::NeuronxCc]
    }

    fn run(&self, trace: &mut Trace, report: &mut PassReport) -> Result<()> {
        let webs = Webs::of(trace);
        if webs.len() == 0 {
            return Ok(());
        }
        let least = find_places(trace, &webs)?;
        let is_full = !least.left.is_empty();
        if !is_crowded(trace, &webs) || (!is_full && trace.steps.len() > TRIED) {
            note(trace, &webs, &least, report);
            note_rotated(trace, &webs, report);
            least.apply(trace, &webs);
            return Ok(());
        }
        let mut best = Best { made: made(trace, &webs, &least), pace: None };
        best.consider_others(trace, &webs, &least)?;
        note_rotated(trace, &webs, &mut best.made.1);
        (*trace, *report) = best.made;
        Ok(())
    }
}

/// A trace with places, and what was done for that.
type Made = (Trace, PassReport);

fn made(trace: &Trace, webs: &Webs, plan: &Plan) -> Made {
    let mut report = PassReport::new(AllocatePass.name());
    note(trace, webs, plan, &mut report);
    let mut placed = trace.clone();
    plan.apply(&mut placed, webs);
    (placed, report)
}

/// The fastest of some ways to place a trace.
struct Best {
    made: Made,
    /// How fast it is, once that was asked for.
    pace: Option<f64>,
}

impl Best {
    /// Tries other places, and other orders.
    fn consider_others(&mut self, trace: &Trace, webs: &Webs, least: &Plan) -> Result<()> {
        let is_full = !least.left.is_empty();
        if is_full && let Some(order) = ahead(trace)? {
            let mut other = trace.clone();
            other.reorder(&order);
            let webs = Webs::of(&other);
            if let Ok(plan) = find_places(&other, &webs) {
                let mut made = made(&other, &webs, &plan);
                let moved = order.iter().enumerate().filter(|(now, then)| *now as u32 != **then).count();
                made.1.add("ahead", moved as u64);
                self.consider(made)?;
            }
        }
        if trace.steps.len() > TRIED {
            return Ok(());
        }
        let ways = if is_full || least.is_tight { &FAST[..] } else { &FAST[..1] };
        if ways.len() > 1 {
            self.consider_ways(trace, webs, &ways[1..])?;
        }
        for parts in PARTS {
            let soon = as_soon_as_they_can(trace, webs, parts)?;
            self.consider_ways(&soon, &Webs::of(&soon), ways)?;
        }
        Ok(())
    }

    fn consider_ways(&mut self, trace: &Trace, webs: &Webs, ways: &[Way]) -> Result<()> {
        let makers = Makers::of(trace);
        for way in ways {
            if let Ok(plan) = Walk::new(trace, webs, &makers, *way).run() {
                self.consider(made(trace, webs, &plan))?;
            }
        }
        Ok(())
    }

    /// Takes another one, if it is faster.
    fn consider(&mut self, other: Made) -> Result<()> {
        if self.pace.is_none() {
            self.pace = pace(&self.made.0)?;
        }
        if let (Some(own), Some(faster)) = (self.pace, pace(&other.0)?)
            && faster < own
        {
            *self = Self { made: other, pace: Some(faster) };
        }
        Ok(())
    }
}

/// Whether values take places that others had.
fn is_crowded(trace: &Trace, webs: &Webs) -> bool {
    let extents = extents(trace);
    let tensors = || (0..webs.len() as u32).map(|web| webs.get(web).tensor as usize);
    [Buffer::Sbuf, Buffer::Psum].into_iter().any(|buffer| {
        let there = tensors().filter(|&tensor| trace.tensors[tensor].open() == Some(buffer));
        there.map(|tensor| extents[tensor]).sum::<u64>() > capacity(trace, buffer)
    })
}

/// Places in the order that there is: those from which least has to leave.
fn find_places(trace: &Trace, webs: &Webs) -> Result<Plan> {
    let makers = Makers::of(trace);
    let walk = |way| Walk::new(trace, webs, &makers, way).run();
    let mut best: std::result::Result<Plan, (u32, Full)> = walk(WAYS[0]);
    for way in &WAYS[1..] {
        if best.as_ref().is_ok_and(|best| best.left.is_empty()) {
            break;
        }
        let other = walk(*way);
        let is_better = match (&other, &best) {
            (Ok(other), Ok(best)) => other.moved_bytes() < best.moved_bytes(),
            (Ok(_), Err(_)) => true,
            (Err(_), _) => false,
        };
        if is_better {
            best = other;
        }
    }
    best.map_err(|(step, full)| capacity_error(trace, webs, step, full))
}

/// Bytes of a partition that each tensor without an address takes; 0 of others.
pub(super) fn extents(trace: &Trace) -> Vec<u64> {
    let placers = [Buffer::Sbuf, Buffer::Psum].map(|buffer| Placer::new(&trace.arch, buffer));
    let extent = |tensor: &TraceTensor| {
        tensor.open().map_or(0, |buffer| placers[usize::from(buffer == Buffer::Psum)].extent(tensor.bytes))
    };
    trace.tensors.iter().map(extent).collect()
}

/// Bytes of a partition that tensors without an address may use while the author uses all of his.
pub(super) fn capacity(trace: &Trace, buffer: Buffer) -> u64 {
    let placer = Placer::new(&trace.arch, buffer);
    let taken = reserved(trace, buffer, placer.unit());
    let taken: u64 =
        taken.iter().map(|taken| taken.bytes.end.min(placer.usable()).saturating_sub(taken.bytes.start)).sum();
    placer.usable().saturating_sub(taken)
}

fn change(kind: ChangeKind, site: u32, name: &str, steps: u32) -> Change {
    let tensor = (!name.is_empty()).then(|| name.to_owned());
    Change { kind, site: trn3_machine::site::SiteId(site), other: None, steps, tensor, engine: None }
}

/// Says what was done.
fn note(trace: &Trace, webs: &Webs, plan: &Plan, report: &mut PassReport) {
    report.add("tensors", webs.len() as u64);
    report.add("spills", plan.spills);
    report.add("spilled_bytes", plan.spilled_bytes);
    report.add("reloaded_bytes", plan.reloaded_bytes);
    report.add("remade", plan.remade);
    let mut left: BTreeMap<(u32, &str, bool), u32> = BTreeMap::new();
    for &(tensor, is_remade) in &plan.left {
        let tensor = &trace.tensors[tensor as usize];
        *left.entry((tensor.site.0, &tensor.name, is_remade)).or_default() += 1;
    }
    for ((site, name, is_remade), steps) in left {
        let kind = if is_remade { ChangeKind::Rematerialised } else { ChangeKind::Spilled };
        report.changes.push(change(kind, site, name, steps));
    }
}

/// Says which tensors are several values, each of which may lie elsewhere.
fn note_rotated(trace: &Trace, webs: &Webs, report: &mut PassReport) {
    let mut turns: HashMap<u32, u32> = HashMap::new();
    for web in (0..webs.len() as u32).map(|web| webs.get(web)).filter(|web| !web.is_first) {
        *turns.entry(web.tensor).or_insert(1) += 1;
    }
    let mut rotated: BTreeMap<(u32, &str), u32> = BTreeMap::new();
    for (tensor, values) in turns {
        let tensor = &trace.tensors[tensor as usize];
        *rotated.entry((tensor.site.0, &tensor.name)).or_default() += values;
    }
    report.add("rotated", rotated.values().map(|&values| u64::from(values)).sum());
    for ((site, name), steps) in rotated {
        report.changes.push(change(ChangeKind::Rotated, site, name, steps));
    }
}

/// The operands of one step do not fit.
fn capacity_error(trace: &Trace, webs: &Webs, step: u32, full: Full) -> Error {
    let placer = Placer::new(&trace.arch, full.0);
    let taken = reserved(trace, full.0, placer.unit());
    let taken = taken.iter().filter(|taken| (taken.first..=taken.last).contains(&step));
    let taken: u64 = taken.map(|taken| taken.bytes.end - taken.bytes.start).sum();
    let used = webs.at(step as usize).iter().map(|&web| &trace.tensors[webs.get(web).tensor as usize]);
    let of_memory: Vec<_> = used.filter(|tensor| tensor.open() == Some(full.0)).collect();
    let needed: u64 = of_memory.iter().map(|tensor| placer.extent(tensor.bytes)).sum();
    let step = &trace.steps[step as usize];
    let memory = if full.0 == Buffer::Psum { "PSUM" } else { "SBUF" };
    let instruction = trace.names.opcodes().get(usize::from(step.opcode)).copied().unwrap_or("an instruction");
    let mut text = format!(
        "{memory} cannot hold the operands of {instruction} at once: they need {needed} bytes per partition, {} are usable",
        placer.usable()
    );
    if taken > 0 {
        text.push_str(&format!(", of which {taken} are in use by address"));
    }
    text.push_str("\noperands (bytes per partition, tensor, line that made it):");
    for tensor in &of_memory {
        let line = format!("\n{:>12}  `{}`  {}", tensor.bytes, tensor.name, trace.sites.text(tensor.site));
        text.push_str(line.trim_end());
    }
    text.push_str("\nhint: split them into tiles");
    let line = trace.sites.text(step.site);
    let text = if line.is_empty() { text } else { format!("{line}: {text}") };
    if full.0 == Buffer::Psum { Error::PsumCapacity(text) } else { Error::SbufCapacity(text) }
}
