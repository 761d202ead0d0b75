//! Steps of a trace one by one, in any order: what a compiler asks before it decides on one.

use std::sync::Arc;

use smallvec::SmallVec;

use super::time::Scratch;
use super::{NONE, Trace};
use crate::time::Picos;
use crate::timing::timeline::{Span, Timeline, TimelineOptions};

/// A timeline that takes the steps of a trace in whatever order they are given. A core's part in a meeting takes what it
/// would if the others had come.
#[derive(Clone, Debug)]
pub struct StepTimer<'t> {
    trace: &'t Trace,
    timeline: Timeline,
    scratch: Scratch,
    /// The number of each step on the timeline.
    numbers: Vec<u32>,
    after: SmallVec<[u32; 2]>,
}

impl<'t> StepTimer<'t> {
    /// Of a trace of which no step has been issued. Tensors without a place lie at the start of their memory.
    pub fn new(trace: &'t Trace) -> Self {
        let options = TimelineOptions { throttle: false, keep_records: false };
        Self {
            trace,
            timeline: Timeline::new(Arc::clone(&trace.arch), options),
            scratch: Scratch::default(),
            numbers: vec![NONE; trace.steps.len()],
            after: SmallVec::new(),
        }
    }

    /// Issues a step, by its place in the trace, after those that were issued before.
    pub fn issue(&mut self, step: usize) -> Span {
        let known = self.trace.steps[step].after.iter().map(|&after| self.numbers[after as usize]);
        self.after = known.filter(|&number| number != NONE).collect();
        let issue = self.scratch.issue(self.trace, step, &self.after);
        let span = self.timeline.issue(&issue);
        self.numbers[step] = span.id;
        span
    }

    /// When the last result of what was issued is visible.
    pub fn makespan(&self) -> Picos {
        self.timeline.makespan()
    }
}
