//! What a walk over a trace decided, and the trace that comes of it.

use smallvec::SmallVec;
use trn3_machine::site::SiteId;
use trn3_machine::trace::{NONE, Trace, TraceStep};

use crate::webs::Webs;

/// A tensor that the trace has not yet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Added {
    /// Like one that it has, elsewhere on chip.
    Again(u32),
    /// In HBM, for what one holds.
    InHbm(u32),
    /// In SBUF, for what one in PSUM holds.
    InSbuf(u32),
}

/// A step that the trace has not.
#[derive(Clone, Copy, Debug)]
pub(super) enum Made {
    /// All of one tensor goes to another one.
    Move { dst: u32, src: u32 },
    /// A step is done again, into another tensor.
    Again { step: u32, dst: u32 },
}

/// What becomes of a trace.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Tensors that the trace has.
    pub(super) known: u32,
    pub(super) added: Vec<Added>,
    /// First byte of each tensor on chip.
    pub(super) places: Vec<Option<u64>>,
    /// The tensor of each use of a value, in the order of [`Webs::at`].
    pub(super) tensors: Vec<u32>,
    /// Made steps, each with the step that it comes before.
    pub(super) made: Vec<(u32, Made)>,
    pub(super) spills: u64,
    pub(super) spilled_bytes: u64,
    pub(super) reloaded_bytes: u64,
    pub(super) remade: u64,
    /// Values that left, by tensor, and whether they were made again.
    pub(super) left: Vec<(u32, bool)>,
    /// Whether more than half of a memory was held at once.
    pub(super) is_tight: bool,
}

impl Plan {
    pub(super) fn new(trace: &Trace, webs: &Webs) -> Self {
        Self {
            known: trace.tensors.len() as u32,
            places: vec![None; trace.tensors.len()],
            tensors: vec![NONE; webs.all_uses()],
            ..Self::default()
        }
    }

    /// The number of a tensor that is to be added.
    pub(super) fn add(&mut self, added: Added) -> u32 {
        self.added.push(added);
        self.places.push(None);
        self.known + self.added.len() as u32 - 1
    }

    /// Bytes that move because something did not fit.
    pub(super) fn moved_bytes(&self) -> u64 {
        self.spilled_bytes + self.reloaded_bytes
    }

    /// Does what was decided.
    pub(super) fn apply(&self, trace: &mut Trace, webs: &Webs) {
        for added in &self.added {
            let tensor = match *added {
                Added::Again(tensor) => trace.tensors[tensor as usize].clone(),
                Added::InHbm(tensor) => trace.in_hbm(tensor),
                Added::InSbuf(tensor) => trace.in_sbuf(tensor),
            };
            trace.add_tensor(tensor);
        }
        for (place, found) in trace.places.iter_mut().zip(&self.places) {
            *place = found.map(|byte| (0, byte));
        }
        for number in 0..trace.steps.len() {
            self.rename(trace, webs, number);
        }
        if !self.made.is_empty() {
            self.insert(trace);
        }
    }

    /// Gives the values that a step uses their tensors.
    fn rename(&self, trace: &mut Trace, webs: &Webs, number: usize) {
        let used = webs.at(number);
        let tensors = &self.tensors[webs.first(number)..];
        let step = &mut trace.steps[number];
        for operand in &mut step.operands {
            let place = used.iter().position(|&web| webs.get(web).tensor == operand.tensor);
            if let Some(place) = place {
                operand.tensor = tensors[place];
            }
        }
        // Where copies came from may be elsewhere by now.
        if let Some(alternatives) = &mut step.alternatives {
            alternatives.forwarded.clear();
        }
    }

    fn insert(&self, trace: &mut Trace) {
        let own = trace.steps.len();
        trace.steps.reserve_exact(self.made.len());
        for &(at, what) in &self.made {
            let (site, scope) = (trace.steps[at as usize].site, trace.steps[at as usize].scope);
            let made = match what {
                Made::Move { dst, src } => trace.movement(dst, src, site, scope),
                Made::Again { step, dst } => again(trace, &trace.steps[step as usize], dst, site, scope),
            };
            trace.steps.push(made);
        }
        let mut made = (own as u32..).zip(&self.made).peekable();
        let mut order = Vec::with_capacity(trace.steps.len());
        for number in 0..own as u32 {
            while let Some((made, _)) = made.next_if(|(_, made)| made.0 == number) {
                order.push(made);
            }
            order.push(number);
        }
        trace.reorder(&order);
    }
}

/// A step whose one output on chip is another tensor.
fn again(trace: &Trace, step: &TraceStep, dst: u32, site: SiteId, scope: u32) -> TraceStep {
    let mut again = step.clone();
    (again.site, again.scope, again.after) = (site, scope, SmallVec::new());
    for operand in again.operands.iter_mut().filter(|operand| trace.tensors[operand.tensor as usize].open().is_some()) {
        operand.tensor = dst;
    }
    again
}
