//! Tensors that are refilled, each fill of which could be a tensor of its own.

use smallvec::SmallVec;

use super::{Draft, Item};
use crate::site::SiteId;
use crate::timing::region::Rect;
use crate::trace::{TraceOperand, Use};

/// Bytes that a use wrote and nothing has written over since.
struct Written {
    place: usize,
    rects: SmallVec<[Rect; 1]>,
}

impl Draft {
    /// Makes tensors of chosen lines anew wherever the line that filled them first fills them again and nothing that they
    /// held is read later. False where none of them is refilled.
    pub(super) fn make_anew(&mut self, chosen: &dyn Fn(SiteId) -> bool) -> bool {
        let tensors = &self.trace.tensors;
        let is_chosen: Vec<bool> =
            tensors.iter().map(|tensor| tensor.open().is_some() && chosen(tensor.site)).collect();
        let mut uses: Vec<Vec<usize>> = vec![Vec::new(); tensors.len()];
        for (place, item) in self.items.iter().enumerate() {
            let Item::Step(number) = *item else { continue };
            for operand in &self.trace.steps[number as usize].operands {
                let of = &mut uses[operand.tensor as usize];
                if is_chosen[operand.tensor as usize] && of.last() != Some(&place) {
                    of.push(place);
                }
            }
        }
        let mut came: Vec<(usize, u32, u32)> = Vec::new();
        for (tensor, uses) in uses.iter().enumerate().filter(|(_, uses)| uses.len() > 1) {
            let mut now = tensor as u32;
            let mut starts = self.starts(tensor as u32, uses).into_iter().peekable();
            for &place in uses {
                if starts.next_if(|start| *start == place).is_some() {
                    let made = self.trace.add_tensor(self.trace.tensors[tensor].clone());
                    came.push((place, made, now));
                    now = made;
                }
                let Item::Step(number) = self.items[place] else { continue };
                for operand in &mut self.trace.steps[number as usize].operands {
                    if operand.tensor == tensor as u32 {
                        operand.tensor = now;
                    }
                }
            }
        }
        if came.is_empty() {
            return false;
        }
        came.sort_unstable();
        // The last of them goes where the one of the text went.
        let mut latest: Vec<u32> = (0..self.trace.tensors.len() as u32).collect();
        for &(_, made, before) in came.iter().rev() {
            latest[before as usize] = latest[made as usize];
        }
        let mut coming = came.iter().peekable();
        let mut items = Vec::with_capacity(self.items.len() + 2 * came.len());
        for (place, item) in self.items.iter().enumerate() {
            while let Some(&(_, made, before)) = coming.next_if(|each| each.0 == place) {
                items.extend([Item::Came(made), Item::Gone(before)]);
            }
            items.push(if let Item::Gone(tensor) = *item { Item::Gone(latest[tensor as usize]) } else { *item });
        }
        self.items = items;
        true
    }

    /// Where new fills of a tensor begin, but for the first.
    fn starts(&self, tensor: u32, uses: &[usize]) -> Vec<usize> {
        let step_at = |place: usize| {
            let Item::Step(number) = self.items[place] else { return None };
            Some(&self.trace.steps[number as usize])
        };
        let Some(first) = uses.first().and_then(|&place| step_at(place)).map(|step| step.site) else {
            return Vec::new();
        };
        let mut live: Vec<Written> = Vec::new();
        // The last read of what was written by the uses up to each one.
        let mut until = vec![0usize; uses.len()];
        let mut starts = Vec::new();
        for (number, &place) in uses.iter().enumerate() {
            let Some(step) = step_at(place) else { continue };
            let own = || step.operands.iter().filter(move |operand| operand.tensor == tensor);
            for read in own().filter(|operand| operand.usage != Use::Write) {
                for written in live.iter().filter(|written| meet(&written.rects, read)) {
                    until[written.place] = number;
                }
            }
            for write in own().filter(|operand| operand.usage == Use::Write) {
                live.retain(|written| !covers(&write.rects, &written.rects));
                live.push(Written { place: number, rects: write.rects.clone() });
            }
        }
        let mut latest = 0;
        for (number, &place) in uses.iter().enumerate() {
            let Some(step) = step_at(place) else { continue };
            let reads = step.operands.iter().any(|each| each.tensor == tensor && each.usage != Use::Write);
            if number > 0 && latest < number && step.site == first && !reads {
                starts.push(place);
            }
            latest = latest.max(until[number]);
        }
        starts
    }
}

pub(super) fn meet(rects: &[Rect], operand: &TraceOperand) -> bool {
    let over =
        |one: &std::ops::Range<u64>, other: &std::ops::Range<u64>| one.start < other.end && other.start < one.end;
    rects
        .iter()
        .any(|one| operand.rects.iter().any(|other| over(&one.rows, &other.rows) && over(&one.columns, &other.columns)))
}

pub(super) fn covers(outer: &[Rect], inner: &[Rect]) -> bool {
    let within = |inner: &Rect, outer: &Rect| {
        outer.rows.start <= inner.rows.start
            && inner.rows.end <= outer.rows.end
            && outer.columns.start <= inner.columns.start
            && inner.columns.end <= outer.columns.end
    };
    inner.iter().all(|inner| outer.iter().any(|outer| within(inner, outer)))
}
