//! Copies that are passed by: what they were copied from is read instead.

use std::collections::HashMap;

use super::generations::meet;
use super::{Draft, Item, StepSet};
use crate::site::SiteId;
use crate::trace::Use;

/// A copy whose tensor has not been written since.
struct Copy {
    source: u32,
    /// Places of what was written to the source since.
    written: Vec<(u32, usize)>,
}

impl Draft {
    /// Has all readers of copies made at a line read what was copied, and leaves these out. False where there are none, and
    /// where one reads what may not, or no longer, be read there.
    pub(super) fn read_sources(&mut self, line: SiteId) -> bool {
        let mut copies: HashMap<u32, Copy> = HashMap::new();
        let mut gone = StepSet::new();
        let mut readers: Vec<(u32, usize)> = Vec::new();
        for item in &self.items {
            let Item::Step(number) = *item else { continue };
            let step = &self.trace.steps[number as usize];
            if !copies.is_empty() {
                let reads = step.operands.iter().enumerate().filter(|(_, operand)| operand.usage != Use::Write);
                for (place, operand) in reads {
                    let Some(copy) = copies.get(&operand.tensor) else { continue };
                    let others = step.alternatives.iter().flat_map(|all| all.forwarded.iter().enumerate());
                    let mut of = others.filter(|(_, other)| usize::from(other.operand) == place);
                    let Some((other, forwarded)) = of.next() else { return false };
                    let is_there = |(writer, at): &(u32, usize)| {
                        let written = &self.trace.steps[*writer as usize].operands[*at];
                        !meet(&written.rects, &forwarded.instead)
                    };
                    if forwarded.instead.tensor != copy.source || !copy.written.iter().all(is_there) {
                        return false;
                    }
                    match readers.last() {
                        // Two of its operands at once: that nobody checked.
                        Some((last, _)) if *last == number => return false,
                        _ => readers.push((number, other)),
                    }
                }
            }
            for (place, operand) in step.operands.iter().enumerate().filter(|(_, each)| each.usage == Use::Write) {
                if copies.remove(&operand.tensor).is_some() && step.site != line {
                    // Of some of its bytes perhaps: what is left of the copy would be gone.
                    return false;
                }
                for copy in copies.values_mut().filter(|copy| copy.source == operand.tensor) {
                    copy.written.push((number, place));
                }
            }
            if step.site != line {
                continue;
            }
            let (mut from, mut to) = (step.reads(), step.writes());
            let (Some(source), Some(target), None, None) = (from.next(), to.next(), from.next(), to.next()) else {
                return false;
            };
            if !step.marks.copies || !step.marks.overwrites || step.marks.is_ordered {
                return false;
            }
            copies.insert(target.tensor, Copy { source: source.tensor, written: Vec::new() });
            gone.insert(number);
        }
        if readers.is_empty() {
            return false;
        }
        for (reader, other) in readers {
            let step = &mut self.trace.steps[reader as usize];
            let Some(mut all) = step.alternatives.take() else { return false };
            let forwarded = all.forwarded.swap_remove(other);
            step.operands[usize::from(forwarded.operand)] = forwarded.instead;
            step.work = forwarded.work;
            all.engines = forwarded.engines;
            (all.renamed, all.forwarded) = (Vec::new(), Vec::new());
            step.alternatives = Some(all);
        }
        self.retain(&|_, step| !gone.contains(&step))
    }
}
