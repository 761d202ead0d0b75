//! Which steps of a trace have to come before which others.

use std::collections::HashMap;

use smallvec::SmallVec;
use trn3_machine::timing::region::Rect;
use trn3_machine::trace::{Trace, TraceOperand, Use};

/// Why a step comes after another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DependenceKind {
    /// It reads what that wrote.
    True,
    /// It overwrites what that reads.
    Anti,
    /// It overwrites what that wrote.
    Output,
    /// The author, or a fence, says so.
    Order,
}

/// An earlier step that a step comes after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependence {
    /// The earlier one, by its place in the trace.
    pub step: u32,
    /// Why.
    pub kind: DependenceKind,
}

/// For every step of a trace the earlier ones that it has to come after.
#[derive(Clone, Debug, Default)]
pub struct Dependences {
    edges: Vec<SmallVec<[Dependence; 4]>>,
}

/// Uses of one tensor's bytes.
#[derive(Default)]
struct Uses {
    writers: Vec<(u32, SmallVec<[Rect; 1]>)>,
    readers: Vec<(u32, SmallVec<[Rect; 1]>)>,
}

impl Dependences {
    /// Those of a trace whose tensors without an address share bytes with no other.
    pub fn of(trace: &Trace) -> Self {
        let mut uses: HashMap<u32, Uses> = HashMap::new();
        let mut edges = Vec::with_capacity(trace.steps.len());
        for (number, step) in trace.steps.iter().enumerate() {
            let mut found: SmallVec<[Dependence; 4]> = SmallVec::new();
            let mut add = |step: u32, kind| {
                if !found.iter().any(|edge: &Dependence| edge.step == step && edge.kind == kind) {
                    found.push(Dependence { step, kind });
                }
            };
            step.after.iter().for_each(|&after| add(after, DependenceKind::Order));
            for operand in &step.operands {
                let Some(uses) = uses.get(&operand.tensor) else { continue };
                let writes = operand.usage == Use::Write;
                let kind = if writes { DependenceKind::Output } else { DependenceKind::True };
                overlapping(&uses.writers, operand).for_each(|step| add(step, kind));
                if writes {
                    overlapping(&uses.readers, operand).for_each(|step| add(step, DependenceKind::Anti));
                }
            }
            for operand in &step.operands {
                let uses = uses.entry(operand.tensor).or_default();
                if operand.usage == Use::Write {
                    uses.writers.retain(|(_, rects)| !covers(&operand.rects, rects));
                    uses.readers.retain(|(_, rects)| !covers(&operand.rects, rects));
                    uses.writers.push((number as u32, operand.rects.clone()));
                } else {
                    uses.readers.push((number as u32, operand.rects.clone()));
                }
            }
            edges.push(found);
        }
        Self { edges }
    }

    /// The earlier steps that one comes after.
    pub fn before(&self, step: usize) -> &[Dependence] {
        &self.edges[step]
    }
}

fn overlapping<'a>(
    uses: &'a [(u32, SmallVec<[Rect; 1]>)],
    operand: &'a TraceOperand,
) -> impl Iterator<Item = u32> + 'a {
    let meets = |rects: &[Rect]| rects.iter().any(|one| operand.rects.iter().any(|other| overlap(one, other)));
    uses.iter().filter(move |(_, rects)| meets(rects)).map(|(step, _)| *step)
}

fn overlap(one: &Rect, other: &Rect) -> bool {
    let meets =
        |one: &std::ops::Range<u64>, other: &std::ops::Range<u64>| one.start < other.end && other.start < one.end;
    meets(&one.rows, &other.rows) && meets(&one.columns, &other.columns)
}

fn covers(outer: &[Rect], inner: &[Rect]) -> bool {
    let within = |inner: &Rect, outer: &Rect| {
        outer.rows.start <= inner.rows.start
            && inner.rows.end <= outer.rows.end
            && outer.columns.start <= inner.columns.start
            && inner.columns.end <= outer.columns.end
    };
    inner.iter().all(|inner| outer.iter().any(|outer| within(inner, outer)))
}
