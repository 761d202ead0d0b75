//! Kernels side by side on the cores of a chip: one start, one HBM.
//!
//! Each kernel runs as if it were alone, which gives its values: what other kernels do changes no bit of them. What its
//! time is made of is kept, and then all cores are timed once more, transfers in the order of time, under one ceiling of
//! HBM bandwidth.

use crate::core::NeuronCore;
use crate::core::again::Timed;
use crate::error::{Error, Result};
use crate::timing::ceiling::HbmCeiling;
use crate::timing::timeline::{TimedInstruction, Timeline};

/// A core that is timed again.
struct Lane {
    timed: std::vec::IntoIter<Timed>,
    next: Option<Timed>,
    timeline: Timeline,
    /// When the next one could start, as far as its own core knows.
    arrival: u64,
}

impl Lane {
    /// Times what no other core can slow, up to what one can.
    fn go_on(&mut self) {
        self.next = self.timed.next();
        while let Some(next) = self.next.as_ref().filter(|next| next.met.is_none() && !next.draws()) {
            self.timeline.issue(&next.issue());
            self.next = self.timed.next();
        }
        self.arrival = self.next.as_ref().map_or(0, |next| self.timeline.arrival(&next.issue()).at);
    }
}

/// Times the cores of a chip together: their transfers share the bandwidth of its HBM. Of cores that
/// [keep](NeuronCore::keep_timed) what their time is made of, all that met one another; their order changes nothing but
/// who comes first of transfers at one moment.
///
/// ```
/// use std::sync::Arc;
/// use trn3_machine::arch::ArchSpec;
/// use trn3_machine::chip;
/// use trn3_machine::core::{CoreOptions, NeuronCore};
///
/// let arch = Arc::new(ArchSpec::load("trn3")?);
/// let mut cores = [0, 1].map(|_| NeuronCore::new(Arc::clone(&arch), CoreOptions::default()));
/// let [Ok(first), Ok(second)] = &mut cores else { return Ok(()) };
/// first.keep_timed();
/// second.keep_timed();
/// chip::time_together(&mut [first, second])?;
/// # Ok::<(), trn3_machine::Error>(())
/// ```
///
/// # Errors
/// [`Error::Value`] for a core that kept nothing, and where one met a core that is missing here.
pub fn time_together(cores: &mut [&mut NeuronCore]) -> Result<()> {
    let Some(first) = cores.first() else { return Ok(()) };
    let ceiling = HbmCeiling::new(first.arch().hbm_gbps);
    let mut lanes = Vec::with_capacity(cores.len());
    for core in cores.iter_mut() {
        let Some((timed, timeline)) = core.rewind(&ceiling) else {
            return Err(Error::Value("a core did not keep what its time is made of: call keep_timed first".to_owned()));
        };
        let mut lane = Lane { timed: timed.into_iter(), next: None, timeline, arrival: 0 };
        lane.go_on();
        lanes.push(lane);
    }
    while let Some(group) = earliest(&lanes) {
        let mut parts: Vec<Timed> = Vec::with_capacity(group.len());
        for &lane in &group {
            parts.extend(lanes[lane].next.take());
        }
        match parts.first().and_then(|part| part.met.clone()) {
            None => {
                for (part, &lane) in parts.iter().zip(&group) {
                    lanes[lane].timeline.issue(&part.issue());
                }
            }
            Some(met) => {
                let mut members: Vec<(usize, &mut Timeline)> = lanes
                    .iter_mut()
                    .enumerate()
                    .filter_map(|(lane, each)| {
                        let place = group.iter().position(|member| *member == lane)?;
                        Some((place, &mut each.timeline))
                    })
                    .collect();
                members.sort_by_key(|(place, _)| *place);
                let mut issues: Vec<(&mut Timeline, TimedInstruction<'_>)> =
                    members.into_iter().zip(&parts).map(|((_, timeline), part)| (timeline, part.issue())).collect();
                met.meeting.run(&mut issues);
            }
        }
        for lane in group {
            lanes[lane].go_on();
        }
    }
    if lanes.iter().any(|lane| lane.next.is_some()) {
        return Err(Error::Value("a core met one that is not timed with it".to_owned()));
    }
    for (core, lane) in cores.iter_mut().zip(lanes) {
        core.timeline = lane.timeline;
    }
    Ok(())
}

/// The lanes whose next comes first: one, or all of a meeting to which all have come, in the order of their places.
fn earliest(lanes: &[Lane]) -> Option<Vec<usize>> {
    let mut best: Option<(u64, Vec<usize>)> = None;
    for (number, lane) in lanes.iter().enumerate() {
        let Some(next) = &lane.next else { continue };
        let (at, group) = match &next.met {
            None => (lane.arrival, vec![number]),
            Some(met) => {
                let mut came: Vec<(usize, usize)> = Vec::with_capacity(met.meeting.cores);
                let mut at = 0;
                for (other, lane) in lanes.iter().enumerate() {
                    let theirs = lane.next.as_ref().and_then(|next| next.met.as_ref());
                    if let Some(theirs) = theirs.filter(|theirs| std::sync::Arc::ptr_eq(&theirs.meeting, &met.meeting))
                    {
                        came.push((theirs.place, other));
                        at = at.max(lane.arrival);
                    }
                }
                if came.len() < met.meeting.cores {
                    continue;
                }
                came.sort_unstable();
                (at, came.into_iter().map(|(_, lane)| lane).collect())
            }
        };
        if best.as_ref().is_none_or(|(earliest, _)| at < *earliest) {
            best = Some((at, group));
        }
    }
    best.map(|(_, group)| group)
}
