//! Transfers of neighbouring bytes that are one.

use super::generations::meet;
use super::{Draft, Item, StepSet};
use crate::site::SiteId;
use crate::timing::region::Rect;
use crate::timing::work::{Route, Transfer, Work};
use crate::trace::{TraceStep, Use};

/// Steps between transfers that are one then, at most.
const MOST_BETWEEN: usize = 4096;

/// Transfers that become one, by the places of their items.
struct Group {
    places: Vec<usize>,
    step: TraceStep,
}

impl Draft {
    /// Makes transfers of a line one that follow one another and move neighbouring bytes. False where none does.
    pub(super) fn join_transfers(&mut self, line: SiteId) -> bool {
        let mut groups: Vec<Group> = Vec::new();
        for place in 0..self.items.len() {
            let Some(step) = self.step_at(place).filter(|step| step.site == line) else { continue };
            if !is_plain(step) {
                return false;
            }
            let joined = groups.last().filter(|group| self.may_join(group, place));
            let joined = joined.and_then(|group| join(&group.step, step));
            match (joined, groups.last_mut()) {
                (Some(joined), Some(group)) => {
                    group.step = joined;
                    group.places.push(place);
                }
                _ => groups.push(Group { places: vec![place], step: step.clone() }),
            }
        }
        let mut gone = StepSet::new();
        for Group { places, step } in groups.into_iter().filter(|group| group.places.len() > 1) {
            let kept = if is_load(&step) { places.first() } else { places.last() };
            for place in &places {
                let Item::Step(number) = self.items[*place] else { continue };
                if Some(place) == kept {
                    self.trace.steps[number as usize] = step.clone();
                } else {
                    gone.insert(number);
                }
            }
        }
        !gone.is_empty() && self.retain(&|_, step| !gone.contains(&step))
    }

    fn step_at(&self, place: usize) -> Option<&TraceStep> {
        if let Item::Step(number) = self.items[place] { Some(&self.trace.steps[number as usize]) } else { None }
    }

    /// Whether nothing between a group and a transfer has to stay between: loads go to the first, stores to the last.
    fn may_join(&self, group: &Group, place: usize) -> bool {
        let (Some(&first), Some(&last), Some(step)) = (group.places.first(), group.places.last(), self.step_at(place))
        else {
            return false;
        };
        let (moved, start) = if is_load(step) { (step, first) } else { (&group.step, last) };
        if place - start > MOST_BETWEEN {
            return false;
        }
        let between = (start + 1..place).filter(|at| !group.places.contains(at)).filter_map(|at| self.step_at(at));
        between.into_iter().all(|other| {
            let clashes = other.operands.iter().any(|one| {
                let own = moved.operands.iter().filter(|own| own.tensor == one.tensor);
                own.filter(|own| own.usage == Use::Write || one.usage == Use::Write).any(|own| meet(&own.rects, one))
            });
            !clashes && !other.marks.is_fence && !other.marks.is_ordered
        })
    }
}

/// Whether a step moves one rectangle to another one and nothing orders it.
fn is_plain(step: &TraceStep) -> bool {
    let marks = step.marks;
    let is_one = step.operands.len() == 2 && step.operands.iter().all(|operand| operand.rects.len() == 1);
    let is_free = !marks.is_ordered && !marks.is_dynamic && !marks.is_fence && step.after.is_empty();
    is_one && is_free && matches!(&step.work, Work::Dma(transfer) if transfer.route != Route::Hbm)
}

fn is_load(step: &TraceStep) -> bool {
    matches!(&step.work, Work::Dma(transfer) if transfer.route != Route::Store)
}

/// Both transfers as one, where the second one's bytes follow those of the first in both tensors.
fn join(one: &TraceStep, next: &TraceStep) -> Option<TraceStep> {
    let (Work::Dma(first), Work::Dma(second)) = (&one.work, &next.work) else { return None };
    let is_alike = first.route == second.route
        && first.mode == second.mode
        && first.trigger == second.trigger
        && first.priority == second.priority;
    let pairs = || one.operands.iter().zip(&next.operands);
    let are_same = pairs().all(|(one, next)| one.tensor == next.tensor && one.usage == next.usage);
    if !is_alike || !are_same {
        return None;
    }
    let follows_in =
        |follows: fn(&Rect, &Rect) -> bool| pairs().all(|(one, next)| follows(&one.rects[0], &next.rects[0]));
    let transfer = if follows_in(in_columns) {
        // Pieces that follow one another in memory are one.
        let row_descriptors = if first.row_descriptors.max(second.row_descriptors) == 1 {
            1
        } else {
            first.row_descriptors + second.row_descriptors
        };
        Transfer { row_bytes: first.row_bytes + second.row_bytes, row_descriptors, ..first.clone() }
    } else if follows_in(in_rows) && first.row_bytes == second.row_bytes {
        Transfer { rows: first.rows + second.rows, ..first.clone() }
    } else {
        return None;
    };
    let mut joined = one.clone();
    joined.work = Work::Dma(Transfer {
        hbm_read: first.hbm_read + second.hbm_read,
        hbm_write: first.hbm_write + second.hbm_write,
        ..transfer
    });
    for (operand, next) in joined.operands.iter_mut().zip(&next.operands) {
        let (whole, last) = (&mut operand.rects[0], &next.rects[0]);
        (whole.rows.end, whole.columns.end) = (last.rows.end, last.columns.end);
    }
    joined.fingerprint = None;
    Some(joined)
}

fn in_columns(one: &Rect, next: &Rect) -> bool {
    one.rows == next.rows && one.columns.end == next.columns.start
}

fn in_rows(one: &Rect, next: &Rect) -> bool {
    one.columns == next.columns && one.rows.end == next.rows.start
}
