//! Orders for values that lie apart: where places are given out in the order in which steps can start, what runs together has
//! places of its own.

use trn3_machine::Result;
use trn3_machine::trace::Trace;

use super::plan::{Added, Plan};
use crate::passes::queues::spread;
use crate::passes::schedule::order_within;
use crate::webs::Webs;

/// The trace with a tensor for every value, which lie one behind the other, as if memory had no end.
fn apart(trace: &Trace, webs: &Webs) -> Trace {
    let mut plan = Plan::new(trace, webs);
    let mut end = 0;
    let tensors: Vec<u32> = (0..webs.len() as u32)
        .map(|web| {
            let web = webs.get(web);
            let tensor = if web.is_first { web.tensor } else { plan.add(Added::Again(web.tensor)) };
            plan.places[tensor as usize] = Some(end);
            end += trace.tensors[web.tensor as usize].bytes.next_multiple_of(APART);
            tensor
        })
        .collect();
    for step in 0..trace.steps.len() {
        for (use_, &web) in webs.at(step).iter().enumerate() {
            plan.tensors[webs.first(step) + use_] = tensors[web as usize];
        }
    }
    let mut apart = trace.clone();
    plan.apply(&mut apart, webs);
    apart
}

/// What tensors that lie apart begin on: more than any instruction reads beyond its operands.
const APART: u64 = 1 << 12;

/// The trace in the order in which its steps can start while they hold no more than one of `parts` parts of what is on chip;
/// its tensors have no places.
pub(super) fn as_soon_as_they_can(trace: &Trace, webs: &Webs, parts: u64) -> Result<Trace> {
    let mut apart = apart(trace, webs);
    let order = {
        let mut timed = apart.clone();
        spread(&mut timed)?;
        order_within(&timed, &Webs::of(&timed), parts)
    };
    apart.places.fill(None);
    apart.reorder(&order);
    Ok(apart)
}
