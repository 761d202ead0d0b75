//! What is a copy is read where it was copied from, and sums begin with their first product.
//!
//! Invariant: a step reads another place only if that holds, bit for bit, what it read before, and only as one of the
//! alternatives that were checked as the kernel ran. A fill with zeros goes only from under products that overwrite what
//! no product wrote before: they never add to it, so that not even the sign of a zero changes.
//!
//! **(choice)** A copy is passed by if all of its readers can pass it by, and together do not take longer than before by
//! more than it takes: it is gone then. What it was copied from lives longer; where that does not fit it stays. PSUM is
//! drained before the iteration ends that filled it: what is read in other iterations than that of the copy, such as what
//! was the same for all of them, is read from its copy in SBUF. Published profiles of the tutorial's version 1, whose
//! broadcasts are the same for all channel tiles, have VectorE at work for as long as it takes to read them from there.

pub(crate) mod fills;

use std::collections::HashMap;

use smallvec::SmallVec;
use trn3_machine::Result;
use trn3_machine::storage::Buffer;
use trn3_machine::time::Picos;
use trn3_machine::trace::{Alternatives, LoopKind, NONE, Trace, Use};

use super::Pass;
use super::noted::Noted;
use crate::costs::slot_of;
use crate::level::CompileLevel;
use crate::live_bytes::{LiveBytes, spans};
use crate::producers::{LastWrites, Producers, finds};
use crate::report::{ChangeKind, PassReport};

/// Reads the sources of copies.
pub(super) struct CopiesPass;

impl Pass for CopiesPass {
    fn name(&self) -> &'static str {
        "copies"
    }

    fn levels(&self) -> &'static [CompileLevel] {
        &[CompileLevel::NeuronxCc]
    }

    fn run(&self, trace: &mut Trace, report: &mut PassReport) -> Result<()> {
        if trace.draws {
            return Ok(());
        }
        let mut noted = Noted::default();
        forward(trace, &mut noted, report);
        fills::drop_fills(trace, &mut noted, report);
        noted.report(trace, report);
        Ok(())
    }
}

/// Whether two steps are of the same iteration of the innermost loop that is not written out.
fn is_in_one_iteration(trace: &Trace, one: u32, other: u32) -> bool {
    let iteration = |step: u32| {
        let mut chain = trace.scopes.chain(trace.steps[step as usize].scope);
        chain.find(|scope| trace.scopes.run(scope.run).is_some_and(|run| run.kind != LoopKind::Static))
    };
    iteration(one) == iteration(other)
}

/// A reader of a copy.
#[derive(Clone, Copy)]
struct Reader {
    step: u32,
    /// Which of its alternatives reads the source; None: none does.
    forwarded: Option<u8>,
}

fn forward(trace: &mut Trace, noted: &mut Noted, report: &mut PassReport) {
    let copies = readers(trace);
    let spans = spans(trace);
    let mut ends: Vec<u32> = spans.iter().map(|span| span.1).collect();
    let mut live = LiveBytes::of(trace, &spans);
    let mut taken = vec![false; trace.steps.len()];
    for (copy, readers) in copies {
        // What it was copied from may be gone: it copies what that was copied from.
        if taken[copy as usize] {
            continue;
        }
        let step = &trace.steps[copy as usize];
        let (Some(source), Some(target)) = (step.reads().next(), step.writes().next()) else { continue };
        let (source, target, cost) = (source.tensor, target.tensor, slot_of(&step.work));
        let may = |reader: &Reader| reader.forwarded.is_some() && !taken[reader.step as usize];
        if readers.is_empty()
            || !readers.iter().all(may)
            || reads_twice(trace, &readers)
            || more(trace, &readers) > cost
        {
            continue;
        }
        let end = readers.iter().map(|reader| reader.step).max().unwrap_or(0);
        let further = ends[source as usize] + 1..end.max(ends[source as usize]) + 1;
        let Some(buffer) = trace.tensors[source as usize].open() else { continue };
        if buffer == Buffer::Psum && !readers.iter().all(|reader| is_in_one_iteration(trace, copy, reader.step)) {
            continue;
        }
        let bytes = trace.tensors[source as usize].bytes;
        // The copy is gone then, from its first use to its last one.
        let vacated = trace.tensors[target as usize].open().map(|buffer| {
            let (first, last) = spans[target as usize];
            (buffer, trace.tensors[target as usize].bytes, first..last + 1)
        });
        let before = live.most(buffer, further.clone());
        if let Some((buffer, bytes, steps)) = vacated.clone() {
            live.add(buffer, bytes, steps, false);
        }
        live.add(buffer, bytes, further.clone(), true);
        // Where more is live than fits whatever is done, it is enough that it becomes no more.
        if !live.fits(buffer, further.clone()) && live.most(buffer, further.clone()) > before {
            live.add(buffer, bytes, further, false);
            if let Some((buffer, bytes, steps)) = vacated {
                live.add(buffer, bytes, steps, true);
            }
            continue;
        }
        ends[source as usize] = end.max(ends[source as usize]);
        let line = trace.steps[copy as usize].site;
        for reader in readers {
            if std::mem::replace(&mut taken[reader.step as usize], true) {
                // Its other operand is the same one.
                continue;
            }
            let Some(forwarded) = reader.forwarded else { continue };
            let site = trace.steps[reader.step as usize].site;
            noted.add(trace, ChangeKind::Forwarded, (site, Some(line)), Some(target), None);
            report.add("steps", 1);
            apply(trace, reader.step as usize, forwarded as usize);
        }
        report.add("copies", 1);
    }
}

/// The copies of a trace, in their order, and who reads what they made.
fn readers(trace: &Trace) -> Vec<(u32, SmallVec<[Reader; 2]>)> {
    let producers = Producers::of(trace);
    let mut last = LastWrites::of(trace);
    let mut copies: Vec<(u32, SmallVec<[Reader; 2]>)> = Vec::new();
    let mut places: HashMap<u32, usize> = HashMap::new();
    for (number, step) in trace.steps.iter().enumerate() {
        for (at, operand) in step.operands.iter().enumerate().filter(|(_, operand)| finds(trace, number, operand)) {
            let behind = producers.behind(number, at);
            for write in behind {
                let Some(&place) = places.get(write) else { continue };
                let (copy, readers) = &mut copies[place];
                let alone = behind.len() == 1 && operand.usage == Use::Read;
                let forwarded = alone.then(|| unchanged(trace, &producers, &mut last, (*copy, number, at))).flatten();
                readers.push(Reader { step: number as u32, forwarded });
            }
        }
        let first = producers.first_write(number as u32);
        if step.marks.copies && step.marks.overwrites && step.operands.len() == 2 && !step.marks.is_ordered {
            places.insert(first, copies.len());
            copies.push((number as u32, SmallVec::new()));
        }
        for (write, operand) in (first..).zip(step.writes()) {
            last.note(operand, write);
        }
    }
    copies
}

/// The alternative of a step that reads, instead of one of its operands, what that was copied from, if that still is
/// what it was.
fn unchanged(
    trace: &Trace,
    producers: &Producers,
    last: &mut LastWrites,
    (copy, step, operand): (u32, usize, usize),
) -> Option<u8> {
    let source = trace.steps[copy as usize].reads().next()?.tensor;
    let forwarded = &trace.steps[step].alternatives.as_ref()?.forwarded;
    let place = forwarded.iter().position(|other| usize::from(other.operand) == operand)?;
    let instead = &forwarded[place].instead;
    let mut behind = last.behind(instead).into_iter();
    let same = instead.tensor == source && behind.all(|write| producers.writer(write) < copy);
    same.then_some(place as u8)
}

/// Whether a step reads two parts of a copy: what was checked is that one of them is read elsewhere.
fn reads_twice(trace: &Trace, readers: &[Reader]) -> bool {
    let operand = |reader: &Reader| {
        let step = &trace.steps[reader.step as usize];
        let other = step.alternatives.as_ref()?.forwarded.get(usize::from(reader.forwarded?))?;
        step.operands.get(usize::from(other.operand))
    };
    let differ = |one: &Reader, other: &Reader| one.step == other.step && operand(one) != operand(other);
    readers.iter().enumerate().any(|(at, one)| readers[..at].iter().any(|other| differ(one, other)))
}

/// How much longer readers take that read the source.
fn more(trace: &Trace, readers: &[Reader]) -> Picos {
    let (mut before, mut after) = (Picos::ZERO, Picos::ZERO);
    for reader in readers {
        let step = &trace.steps[reader.step as usize];
        let other = reader.forwarded.and_then(|place| step.alternatives.as_ref()?.forwarded.get(usize::from(place)));
        before += slot_of(&step.work);
        after += other.map_or(slot_of(&step.work), |other| slot_of(&other.work));
    }
    after.since(before)
}

/// A step becomes one of its alternatives.
fn apply(trace: &mut Trace, step: usize, forwarded: usize) {
    let step = &mut trace.steps[step];
    let Some(mut alternatives) = step.alternatives.take() else { return };
    let other = alternatives.forwarded.swap_remove(forwarded);
    let before = step.operands[usize::from(other.operand)].clone();
    for operand in step.operands.iter_mut().filter(|operand| **operand == before) {
        *operand = other.instead.clone();
    }
    // It may lie otherwise in the tensor that it is of now.
    step.marks.yields &= !(1 << other.operand);
    step.work = other.work;
    // What was checked is this one alternative, not two at once.
    let left = Alternatives { engines: other.engines, ..Alternatives::default() };
    step.alternatives = (!left.engines.is_empty()).then(|| Box::new(left));
}

/// In the place of a step that goes for good.
pub(super) const GONE: u32 = NONE;
