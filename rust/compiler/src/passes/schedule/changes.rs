//! Which lines are issued before which others, and what that is worth: the time for which a step that could have started
//! stood behind one that waited.

use std::collections::HashMap;

use trn3_machine::site::SiteId;

use super::list::{AsItWas, Problem};
use crate::report::{Change, ChangeKind};

/// Steps before one on its stream that are looked at.
const NEAR: usize = 64;
/// Pairs of lines that are named.
const MOST: usize = 16;

/// The pairs of lines whose steps changed places, those first that gain most.
pub(super) fn changes(problem: &Problem<'_>, was: &AsItWas, order: &[u32]) -> Vec<Change> {
    let mut turns = vec![0u32; order.len()];
    for (now, &step) in order.iter().enumerate() {
        turns[step as usize] = now as u32;
    }
    let mut streams: HashMap<u8, Vec<(u32, u64)>> = HashMap::new();
    let mut pairs: HashMap<(SiteId, SiteId), (u64, u32)> = HashMap::new();
    let site = |step: u32| problem.trace.steps[step as usize].site;
    for step in 0..order.len() as u32 {
        let stream = streams.entry(problem.streams[step as usize]).or_default();
        let ready = problem.ready(step as usize, &was.ends);
        // Its stream has been there for it since the one before had started.
        let free = stream.last().map_or(0, |&(last, _)| was.starts[last as usize]);
        for &(other, free) in stream.iter().rev().take(NEAR) {
            if turns[other as usize] < turns[step as usize] {
                continue;
            }
            let stood = was.starts[other as usize].saturating_sub(ready.max(free));
            if stood > 0 && site(other) != site(step) {
                let (gain, steps) = pairs.entry((site(step), site(other))).or_default();
                (*gain, *steps) = (*gain + stood, *steps + 1);
            }
        }
        stream.push((step, free));
    }
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_unstable_by_key(|&((site, other), (gain, _))| (std::cmp::Reverse(gain), site.0, other.0));
    let named = pairs.into_iter().take(MOST).map(|((site, other), (_, steps))| Change {
        kind: ChangeKind::Earlier,
        site,
        other: Some(other),
        steps,
        tensor: None,
        engine: None,
    });
    named.collect()
}
