//! The first part of an iteration, issued before the last part of the one before it.

use std::collections::HashMap;
use std::ops::Range;

use super::generations::meet;
use super::{Draft, Item};
use crate::site::SiteId;
use crate::trace::{TraceOperand, Use};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Head,
    Tail,
    Other,
}

impl Draft {
    /// Exchanges each last part with the first part that follows it. False where there are none, or where what the later one
    /// needs, or must not yet overwrite, is of the earlier one.
    pub(super) fn go_ahead(&mut self, head: &[SiteId], tail: &[SiteId]) -> bool {
        let runs = self.runs(head, tail);
        let mut order: Vec<Range<usize>> = Vec::with_capacity(runs.len());
        let mut exchanged = false;
        let mut number = 0;
        while let Some((part, run)) = runs.get(number) {
            number += 1;
            let follows = runs.get(number).filter(|(next, _)| *part == Part::Tail && *next == Part::Head);
            let Some((_, next)) = follows else {
                order.push(run.clone());
                continue;
            };
            if self.depends(next.clone(), run.clone()) {
                return false;
            }
            order.extend([next.clone(), run.clone()]);
            exchanged = true;
            number += 1;
        }
        self.items = order.into_iter().flatten().map(|place| self.items[place]).collect();
        exchanged
    }

    /// Neighbouring items of one part. What comes and goes is of the part of the step after it.
    fn runs(&self, head: &[SiteId], tail: &[SiteId]) -> Vec<(Part, Range<usize>)> {
        let mut runs: Vec<(Part, Range<usize>)> = Vec::new();
        let mut start = 0;
        for (place, item) in self.items.iter().enumerate() {
            let Item::Step(number) = *item else { continue };
            let site = self.trace.steps[number as usize].site;
            let part = if head.contains(&site) {
                Part::Head
            } else if tail.contains(&site) {
                Part::Tail
            } else {
                Part::Other
            };
            match runs.last_mut() {
                Some((last, run)) if *last == part => run.end = place + 1,
                _ => runs.push((part, start..place + 1)),
            }
            start = place + 1;
        }
        if start < self.items.len() {
            runs.push((Part::Other, start..self.items.len()));
        }
        runs
    }

    /// Whether steps of a later run have to come after steps of an earlier one.
    pub(super) fn depends(&self, later: Range<usize>, earlier: Range<usize>) -> bool {
        let steps = |run: Range<usize>| {
            self.items[run].iter().filter_map(|item| if let Item::Step(number) = item { Some(*number) } else { None })
        };
        let mut uses: HashMap<u32, Vec<&TraceOperand>> = HashMap::new();
        let mut fence = false;
        for number in steps(earlier.clone()) {
            let step = &self.trace.steps[number as usize];
            fence |= step.marks.is_fence || step.marks.is_ordered;
            step.operands.iter().for_each(|operand| uses.entry(operand.tensor).or_default().push(operand));
        }
        let earlier: Vec<u32> = steps(earlier).collect();
        fence
            || steps(later).any(|number| {
                let step = &self.trace.steps[number as usize];
                let meets = |operand: &TraceOperand| {
                    uses.get(&operand.tensor).is_some_and(|others| {
                        let clashes = |other: &&TraceOperand| operand.usage == Use::Write || other.usage == Use::Write;
                        others.iter().any(|other| clashes(other) && meet(&other.rects, operand))
                    })
                };
                let is_after = step.after.iter().any(|after| earlier.contains(after));
                step.marks.is_fence || step.marks.is_ordered || is_after || step.operands.iter().any(meets)
            })
    }
}
