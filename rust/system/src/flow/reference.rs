//! The same by the textbook: every event refills everything, stream by stream. Slow; tests hold the fast one to it.
//!
//! Ends of transfers agree with [`run`](super::run) to 1e-9 of the finish. Fills are in steps: raise all rates until the
//! first resource is full, stop the streams on it, go on.

use super::{FlowTransfer, LOWEST_PRIORITY, Resource, check};
use crate::error::Result;

/// What is left of a full resource, or of an ended transfer, is nothing below this part of the whole.
const NOTHING: f64 = 1e-12;

/// Begin and end of each transfer.
///
/// # Errors
/// As [`run`](super::run).
pub fn spans(resources: &[Resource], transfers: &[FlowTransfer]) -> Result<Vec<(f64, f64)>> {
    check::check(resources, transfers)?;
    let count = transfers.len();
    let mut end: Vec<Option<f64>> = vec![None; count];
    let mut left: Vec<f64> = transfers.iter().map(|transfer| transfer.bytes).collect();
    let mut now = 0.0;
    loop {
        let begin = |i: usize| {
            let mut begin = transfers[i].start;
            for &before in &transfers[i].after {
                begin = f64::max(begin, end[before as usize]?);
            }
            Some(begin)
        };
        let begins: Vec<Option<f64>> = (0..count).map(begin).collect();
        if end.iter().all(Option::is_some) {
            return Ok((0..count).map(|i| (begins[i].unwrap_or(0.0), end[i].unwrap_or(0.0))).collect());
        }
        let arrival = |i: usize| Some(begins[i]? + transfers[i].latency).filter(|_| end[i].is_none());
        let moving: Vec<usize> = (0..count).filter(|&i| arrival(i).is_some_and(|moment| moment <= now)).collect();
        let rates = rates(resources, transfers, &moving);
        let mut step = f64::INFINITY;
        for moment in (0..count).filter_map(arrival).filter(|moment| *moment > now) {
            step = step.min(moment - now);
        }
        for (&i, &rate) in moving.iter().zip(&rates) {
            step = step.min(if left[i] == 0.0 { 0.0 } else { left[i] / rate });
        }
        if !step.is_finite() {
            return Err(check::cycle(transfers, |i| end[i as usize].is_none()));
        }
        let next = now + step;
        for (&i, &rate) in moving.iter().zip(&rates) {
            // An infinite rate times no time at all is no number.
            let moved = if rate.is_finite() { rate * step } else { left[i] };
            left[i] -= moved;
            if left[i] <= transfers[i].bytes * NOTHING {
                end[i] = Some(next);
            }
        }
        now = next;
    }
}

/// Rates of the streams that move, in their order.
pub fn rates(resources: &[Resource], transfers: &[FlowTransfer], moving: &[usize]) -> Vec<f64> {
    let mut rates = vec![0.0; moving.len()];
    let mut left: Vec<f64> = resources.iter().map(|resource| resource.rate).collect();
    for priority in 0..=LOWEST_PRIORITY {
        let mut rising: Vec<usize> = (0..moving.len()).filter(|&k| transfers[moving[k]].priority == priority).collect();
        while !rising.is_empty() {
            let mut load = vec![0.0; resources.len()];
            for &k in &rising {
                for &(resource, weight) in &transfers[moving[k]].uses {
                    load[resource as usize] += weight * transfers[moving[k]].share;
                }
            }
            let rise =
                (0..load.len()).filter(|&r| load[r] > 0.0).map(|r| left[r] / load[r]).fold(f64::INFINITY, f64::min);
            for &k in &rising {
                rates[k] += rise * transfers[moving[k]].share;
            }
            for r in (0..load.len()).filter(|&r| load[r] > 0.0) {
                left[r] -= load[r] * rise;
                if left[r] <= resources[r].rate * NOTHING {
                    left[r] = 0.0;
                }
            }
            let stops = |k: usize| {
                rise.is_infinite()
                    || transfers[moving[k]].uses.iter().any(|&(r, weight)| weight > 0.0 && left[r as usize] == 0.0)
            };
            rising.retain(|&k| !stops(k));
        }
    }
    rates
}
