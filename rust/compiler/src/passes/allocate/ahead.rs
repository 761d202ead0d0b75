//! Loads, issued as late as they may be and yet not be waited for.

use std::sync::Arc;

use trn3_machine::Result;
use trn3_machine::engine::Engine;
use trn3_machine::trace::{NONE, Trace, TraceStep, Use};

use super::spill::duration;
use crate::constants::CompilerConstants;
use crate::costs::slot_of;
use crate::dependences::Dependences;
use crate::passes::queues::spread;
use crate::passes::schedule::quick_order;

/// An order in which each load from HBM comes so much before its first use that the engines can do all of them by then, one
/// after another, while the others work; None where that is the order there is. Where memory is full a place has to be free
/// that early, which only whoever gives out places can see to.
pub(super) fn ahead(trace: &Trace) -> Result<Option<Vec<u32>>> {
    let share = CompilerConstants::load()?.dma_share(&trace.arch);
    let steps = trace.steps.len();
    // When each step could begin if only the engines' own work counted.
    let mut busy = [0u64; Engine::ALL.len()];
    let mut now = 0;
    let begin = |step: &TraceStep| {
        let engine = &mut busy[step.engine as usize];
        *engine += slot_of(&step.work).0;
        let begin = now;
        now = now.max(*engine);
        begin
    };
    let begins: Vec<u64> = trace.steps.iter().map(begin).collect();
    let mut used = vec![NONE; trace.tensors.len()];
    let mut free = u64::MAX;
    let mut starts: Vec<Option<u64>> = vec![None; steps];
    for (number, step) in trace.steps.iter().enumerate().rev() {
        let is_load = step.is_transfer() && !step.marks.is_ordered && !step.marks.is_dynamic;
        let into = step.writes().next().filter(|_| is_load);
        if let Some(into) = into.filter(|into| trace.tensors[into.tensor as usize].open().is_some())
            && used[into.tensor as usize] != NONE
        {
            let takes = (duration(trace, step) as f64 / share) as u64;
            free = free.min(begins[used[into.tensor as usize] as usize]).saturating_sub(takes);
            starts[number] = Some(free);
        }
        for operand in step.operands.iter().filter(|operand| operand.usage != Use::Write || !is_load) {
            used[operand.tensor as usize] = number as u32;
        }
    }
    let dependences = Dependences::of(trace);
    let mut keys: Vec<(u64, u32)> = Vec::with_capacity(steps);
    let mut placed = vec![0u64; steps];
    let (mut most, mut latest, mut segment) = (0, 0, 0);
    for number in 0..steps {
        // Nothing goes before a fence, nor before what it depends on.
        if dependences.segment(number) != segment {
            segment = dependences.segment(number);
            latest = most;
        }
        let after = dependences.before(number).iter().map(|edge| placed[edge.step as usize]).max().unwrap_or(0);
        let wanted = starts[number].map_or(begins[number], |start| start.min(begins[number]));
        placed[number] = wanted.max(after).max(latest);
        most = most.max(placed[number]);
        keys.push((placed[number], number as u32));
    }
    keys.sort_unstable();
    let order: Vec<u32> = keys.into_iter().map(|key| key.1).collect();
    Ok((!order.is_sorted()).then_some(order))
}

/// Steps that are timed to see which of two ways is faster.
const TIMED: usize = 8192;

/// Picoseconds that a step of the kernel takes in the mean, among the first ones of a placed trace in the order in which they
/// can start; None where its core meets others at once.
pub(super) fn pace(trace: &Trace) -> Result<Option<f64>> {
    let alone = trace.steps.iter().take(TIMED).take_while(|step| !step.meets());
    let mut first = Trace::new(Arc::clone(&trace.arch));
    first.steps = alone.cloned().collect();
    (first.tensors, first.places) = (trace.tensors.clone(), trace.places.clone());
    let own = first.steps.iter().filter(|step| step.source != NONE).count();
    spread(&mut first)?;
    Ok((own > 0).then(|| quick_order(&first).makespan.0 as f64 / own as f64))
}
