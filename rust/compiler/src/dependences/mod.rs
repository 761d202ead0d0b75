//! Which steps of a trace have to come before which others.
//!
//! Two steps that use the same bytes, one of which writes them, stay in their order; so do those of which the author, a
//! fence or a generator of random numbers says so. Everything else may change places. An edge that others imply may be
//! missing: a reader comes after the last writer, which comes after the one before.

pub(crate) mod cells;

use std::collections::HashMap;

use smallvec::SmallVec;
use trn3_machine::engine::Engine;
use trn3_machine::storage::Buffer;
use trn3_machine::timing::region::{Rect, Space};
use trn3_machine::timing::work::Work;
use trn3_machine::trace::{Home, Trace, TraceOperand, Use};

use cells::Uses;

/// Why a step comes after another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DependenceKind {
    /// Only its turn counts, it waits for nothing: the author's order, and that of random numbers.
    Sequence,
    /// It adds to what that wrote in PSUM: a value of both, for whose parts the array does not wait.
    Accumulate,
    /// The author says that it waits.
    Order,
    /// It overwrites what that reads.
    Anti,
    /// It overwrites what that wrote.
    Output,
    /// It reads what that wrote.
    True,
}

impl DependenceKind {
    /// Whether it needs a value that the earlier step made.
    pub fn is_value(self) -> bool {
        matches!(self, DependenceKind::True | DependenceKind::Accumulate)
    }

    /// Whether it starts no sooner than the earlier step has ended.
    pub fn waits(self) -> bool {
        !matches!(self, DependenceKind::Sequence | DependenceKind::Accumulate)
    }
}

/// An earlier step that a step comes after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dependence {
    /// The earlier one, by its place in the trace; of [followers](Dependences::followers) the later one.
    pub step: u32,
    /// Why; of several reasons the one that says most.
    pub kind: DependenceKind,
}

/// For every step of a trace the earlier ones that it has to come after, each once, beyond what
/// [fences](Dependences::segment) say.
#[derive(Clone, Debug, Default)]
pub struct Dependences {
    offsets: Vec<u32>,
    edges: Vec<Dependence>,
    segments: Vec<u32>,
}

impl Dependences {
    /// Those of a trace whose tensors without an address share bytes with no other, wherever they lie.
    pub fn of(trace: &Trace) -> Self {
        Self::between(trace, false)
    }

    /// Those of a trace whose tensors without an address lie where they were placed, and share bytes with what lies there
    /// before and after.
    pub fn placed(trace: &Trace) -> Self {
        Self::between(trace, true)
    }

    fn between(trace: &Trace, placed: bool) -> Self {
        let homes = homes(trace, placed);
        let mut uses = Uses::new(homes.iter().map(|home| home.0 as usize + 1).max().unwrap_or(0));
        let mut found = Finder {
            edges: Vec::with_capacity(trace.steps.len() * 2),
            known: vec![u32::MAX; trace.steps.len()],
            first: 0,
        };
        let mut offsets = Vec::with_capacity(trace.steps.len() + 1);
        let mut segments = Vec::with_capacity(trace.steps.len());
        let (mut segment, mut ordered, mut drawn) = (0, None, None);
        offsets.push(0);
        for (number, step) in trace.steps.iter().enumerate() {
            let now = number as u32;
            step.after.iter().filter(|&&after| after < now).for_each(|&after| found.add(after, DependenceKind::Order));
            if step.marks.is_ordered {
                ordered.replace(now).into_iter().for_each(|before| found.add(before, DependenceKind::Sequence));
            }
            if step.marks.draws || trace.draws {
                drawn.replace(now).into_iter().for_each(|before| found.add(before, DependenceKind::Sequence));
            }
            segment += u32::from(step.marks.is_fence);
            segments.push(segment);
            segment += u32::from(step.marks.is_fence);
            let adds = matches!(step.work, Work::Matmul { accumulates: true, .. });
            let placed = |operand: &TraceOperand| {
                let (map, row, byte) = homes[operand.tensor as usize];
                let rects = operand.rects.iter().map(|rect| moved(rect, row, byte));
                (map as usize, rects.collect::<SmallVec<[Rect; 2]>>())
            };
            for operand in &step.operands {
                let (map, rects) = placed(operand);
                let writes = operand.usage == Use::Write;
                let home = trace.tensors[operand.tensor as usize].home;
                let added = adds && matches!(home, Home::Open(Buffer::Psum) | Home::Addressed(Buffer::Psum));
                uses.visit(map, &rects, now, writes, &mut |before, is_writer| {
                    let own = added && is_writer && trace.steps[before as usize].engine == Engine::Tensor;
                    let kind = match (own, writes, is_writer) {
                        (true, ..) => DependenceKind::Accumulate,
                        (_, false, _) => DependenceKind::True,
                        (_, true, true) => DependenceKind::Output,
                        (_, true, false) => DependenceKind::Anti,
                    };
                    found.add(before, kind);
                });
            }
            for is_write in [false, true] {
                for operand in step.operands.iter().filter(|operand| (operand.usage == Use::Write) == is_write) {
                    let (map, rects) = placed(operand);
                    uses.note(map, &rects, now, is_write);
                }
            }
            found.first = found.edges.len();
            offsets.push(found.edges.len() as u32);
        }
        found.edges.shrink_to_fit();
        Self { offsets, edges: found.edges, segments }
    }

    /// The earlier steps that one comes after.
    pub fn before(&self, step: usize) -> &[Dependence] {
        &self.edges[self.offsets[step] as usize..self.offsets[step + 1] as usize]
    }

    /// Steps in all.
    pub fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether there is no step.
    pub fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Edges in all.
    pub fn edges(&self) -> usize {
        self.edges.len()
    }

    /// Between which fences a step is: those of a smaller number come before it, those of a larger one after it, with no
    /// edge that says so. A fence has a number of its own.
    pub fn segment(&self, step: usize) -> u32 {
        self.segments[step]
    }

    /// The same edges the other way around: for every step the later ones that come after it.
    pub fn followers(&self) -> Followers {
        let mut offsets = vec![0u32; self.len() + 1];
        self.edges.iter().for_each(|edge| offsets[edge.step as usize + 1] += 1);
        for step in 0..self.len() {
            offsets[step + 1] += offsets[step];
        }
        let mut next = offsets.clone();
        let mut edges = vec![Dependence { step: 0, kind: DependenceKind::Sequence }; self.edges.len()];
        for step in 0..self.len() {
            for edge in self.before(step) {
                let at = &mut next[edge.step as usize];
                edges[*at as usize] = Dependence { step: step as u32, kind: edge.kind };
                *at += 1;
            }
        }
        Followers { offsets, edges }
    }
}

/// For every step of a trace the later ones that come after it.
#[derive(Clone, Debug, Default)]
pub struct Followers {
    offsets: Vec<u32>,
    edges: Vec<Dependence>,
}

impl Followers {
    /// The later steps that come after one, in their order.
    pub fn after(&self, step: usize) -> &[Dependence] {
        &self.edges[self.offsets[step] as usize..self.offsets[step + 1] as usize]
    }
}

/// Edges of the steps so far.
struct Finder {
    edges: Vec<Dependence>,
    /// Where the last edge to a step is.
    known: Vec<u32>,
    /// The first edge of the step at hand.
    first: usize,
}

impl Finder {
    fn add(&mut self, step: u32, kind: DependenceKind) {
        let known = self.known[step as usize];
        if known != u32::MAX && known as usize >= self.first {
            let edge = &mut self.edges[known as usize];
            edge.kind = edge.kind.max(kind);
            return;
        }
        self.known[step as usize] = self.edges.len() as u32;
        self.edges.push(Dependence { step, kind });
    }
}

/// What the bytes of each tensor are part of, by a number of ours, and where its first row and byte are in that.
pub(crate) fn homes(trace: &Trace, placed: bool) -> Vec<(u32, u64, u64)> {
    let mut spaces: HashMap<Space, u32> = HashMap::new();
    let mut count = 0;
    let number = |count: &mut u32| {
        *count += 1;
        *count - 1
    };
    let tensors = trace.tensors.iter().enumerate();
    let homes = tensors.map(|(tensor, known)| {
        let alone = matches!(known.home, Home::Open(_)) && !(placed && trace.places[tensor].is_some());
        if alone {
            return (number(&mut count), 0, 0);
        }
        let (space, row, byte) = trace.origin(tensor as u32);
        (*spaces.entry(space).or_insert_with(|| number(&mut count)), row, byte)
    });
    homes.collect()
}

/// A rectangle that much further down and right.
pub(crate) fn moved(rect: &Rect, row: u64, byte: u64) -> Rect {
    Rect {
        rows: rect.rows.start + row..rect.rows.end + row,
        columns: rect.columns.start + byte..rect.columns.end + byte,
    }
}
