//! Fills with zeros under products that overwrite.

use std::collections::HashMap;

use smallvec::SmallVec;
use trn3_machine::storage::Buffer;
use trn3_machine::timing::region::Rect;
use trn3_machine::timing::work::Work;
use trn3_machine::trace::{Home, Trace, TraceOperand, Use};

use super::GONE;
use crate::passes::noted::Noted;
use crate::passes::steps;
use crate::report::{ChangeKind, PassReport};

/// Pieces of a fill that are followed at most.
const MOST_PIECES: usize = 64;

type Rects = SmallVec<[Rect; 2]>;

/// Leaves out fills of PSUM tiles with zeros that products overwrite: those add only where a product lies already, and
/// there is none yet. They are products that overwrite then, and read nothing there.
pub(super) fn drop_fills(trace: &mut Trace, noted: &mut Noted, report: &mut PassReport) {
    let mut instead: Vec<u32> = (0..trace.steps.len() as u32).collect();
    let mut uses: HashMap<u32, Vec<u32>> = HashMap::new();
    for step in trace.steps.iter().filter(|step| step.marks.fills_zero) {
        for tensor in step.writes().map(|operand| operand.tensor).filter(|tensor| is_psum(trace, *tensor)) {
            uses.entry(tensor).or_default();
        }
    }
    for (number, step) in trace.steps.iter().enumerate() {
        for operand in &step.operands {
            if let Some(own) = uses.get_mut(&operand.tensor)
                && own.last() != Some(&(number as u32))
            {
                own.push(number as u32);
            }
        }
    }
    let mut found: Vec<(u32, Vec<u32>)> = Vec::new();
    for (tensor, uses) in uses {
        for (place, &fill) in uses.iter().enumerate().filter(|(_, step)| trace.steps[**step as usize].marks.fills_zero)
        {
            if let Some(products) = overwritten(trace, tensor, &uses, place) {
                found.push((fill, products));
            }
        }
    }
    found.sort_unstable();
    for (fill, products) in found {
        let line = trace.steps[fill as usize].site;
        let made = trace.steps[fill as usize].writes().next().map(|operand| operand.tensor);
        let other = products.first().map(|product| trace.steps[*product as usize].site);
        noted.add(trace, ChangeKind::FillDropped, (line, other), made, None);
        report.add("fills", 1);
        instead[fill as usize] = GONE;
        for product in products {
            begin_sum(trace, product as usize);
        }
    }
    steps::leave_out(trace, &instead);
}

fn is_psum(trace: &Trace, tensor: u32) -> bool {
    trace.tensors[tensor as usize].home == Home::Open(Buffer::Psum)
}

/// The products that overwrite what a fill wrote; None if anything else finds it, or a product was there before.
fn overwritten(trace: &Trace, tensor: u32, uses: &[u32], place: usize) -> Option<Vec<u32>> {
    let step = |number: u32| &trace.steps[number as usize];
    let fill = step(uses[place]);
    let is_plain = fill.marks.overwrites && !fill.marks.is_ordered && fill.operands.len() == 1;
    let mut left: Rects =
        fill.writes().filter(|_| is_plain).flat_map(|operand| operand.rects.iter().cloned()).collect();
    let is_product = |number: u32| matches!(step(number).work, Work::Matmul { .. });
    if left.is_empty() || uses[..place].iter().any(|&earlier| is_product(earlier)) {
        return None;
    }
    let mut products = Vec::new();
    for &number in &uses[place + 1..] {
        let own = || step(number).operands.iter().filter(|operand| operand.tensor == tensor);
        let meets = own().any(|operand| operand.rects.iter().any(|rect| left.iter().any(|other| meet(rect, other))));
        if !meets {
            continue;
        }
        let mut written = own().filter(|operand| operand.usage == Use::Write);
        let (Some(output), None) = (written.next(), written.next()) else { return None };
        let updates = |operand: &TraceOperand| operand.usage == Use::Write || operand.rects == output.rects;
        let joins = step(number).marks.joins_products && own().all(updates) && is_product(number);
        let sets = step(number).marks.overwrites && own().count() == 1;
        if joins {
            let covered = |rect: &Rect| left.iter().any(|other| covers(other, rect));
            if !output.rects.iter().all(covered) {
                return None;
            }
            products.push(number);
        } else if !sets {
            return None;
        }
        left = output.rects.iter().fold(left, |left, rect| without(&left, rect));
        if left.len() > MOST_PIECES {
            return None;
        }
    }
    Some(products)
}

/// A product that adds overwrites: nothing is there that it could add to.
pub(crate) fn begin_sum(trace: &mut Trace, product: usize) {
    let psum = |trace: &Trace, operand: &TraceOperand| is_psum(trace, operand.tensor);
    let read =
        trace.steps[product].operands.iter().position(|operand| operand.usage == Use::Read && psum(trace, operand));
    let step = &mut trace.steps[product];
    if let Work::Matmul { accumulates, .. } = &mut step.work {
        *accumulates = false;
    }
    (step.marks.joins_products, step.marks.overwrites) = (false, true);
    // It computes something else now.
    step.fingerprint = step.fingerprint.map(|fingerprint| !fingerprint);
    let Some(read) = read else { return };
    step.operands.remove(read);
    for other in step.alternatives.iter_mut().flat_map(|alternatives| &mut alternatives.forwarded) {
        if usize::from(other.operand) > read {
            other.operand -= 1;
        }
        if let Work::Matmul { accumulates, .. } = &mut other.work {
            *accumulates = false;
        }
    }
}

fn meet(one: &Rect, other: &Rect) -> bool {
    one.rows.start < other.rows.end
        && other.rows.start < one.rows.end
        && one.columns.start < other.columns.end
        && other.columns.start < one.columns.end
}

fn covers(outer: &Rect, inner: &Rect) -> bool {
    outer.rows.start <= inner.rows.start
        && inner.rows.end <= outer.rows.end
        && outer.columns.start <= inner.columns.start
        && inner.columns.end <= outer.columns.end
}

/// What is left of rectangles beside one.
fn without(rects: &[Rect], gone: &Rect) -> Rects {
    let mut left = Rects::new();
    for rect in rects {
        if !meet(rect, gone) {
            left.push(rect.clone());
            continue;
        }
        let top = rect.rows.start..gone.rows.start.max(rect.rows.start);
        let bottom = gone.rows.end.min(rect.rows.end)..rect.rows.end;
        let rows = top.end..bottom.start;
        let before = rect.columns.start..gone.columns.start.max(rect.columns.start);
        let after = gone.columns.end.min(rect.columns.end)..rect.columns.end;
        let pieces =
            [(top, rect.columns.clone()), (bottom, rect.columns.clone()), (rows.clone(), before), (rows, after)];
        let pieces = pieces.into_iter().filter(|(rows, columns)| !rows.is_empty() && !columns.is_empty());
        left.extend(pieces.map(|(rows, columns)| Rect { rows, columns }));
    }
    left
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rect(sides: (u64, u64, u64, u64)) -> Rect {
        let (top, bottom, left, right) = sides;
        Rect { rows: top.min(bottom)..top.max(bottom) + 1, columns: left.min(right)..left.max(right) + 1 }
    }

    proptest! {
        #[test]
        fn test_what_is_left_is_the_rest(
            whole in (0u64..9, 0u64..9, 0u64..9, 0u64..9),
            gone in prop::collection::vec((0u64..9, 0u64..9, 0u64..9, 0u64..9), 0..4),
        ) {
            let gone: Vec<Rect> = gone.into_iter().map(rect).collect();
            let left = gone.iter().fold(Rects::from_iter([rect(whole)]), |left, gone| without(&left, gone));
            for (row, column) in (0..10).flat_map(|row| (0..10).map(move |column| (row, column))) {
                let holds = |rect: &Rect| rect.rows.contains(&row) && rect.columns.contains(&column);
                let expected = holds(&rect(whole)) && !gone.iter().any(holds);
                prop_assert_eq!(left.iter().filter(|rect| holds(rect)).count(), usize::from(expected));
            }
        }
    }
}
