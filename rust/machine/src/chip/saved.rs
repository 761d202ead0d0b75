//! Runs of a chip as data: saved, and gone on from.

use serde::{Deserialize, Serialize};

use super::lane::Lane;
use super::runs::{ChipRuns, CoreRun};
use crate::core::NeuronCore;
use crate::core::again::{MeetingTable, SavedTimed, Timed};
use crate::error::{Error, Result};
use crate::time::Picos;
use crate::timing::ceiling::SavedDraw;

/// Times up to here do not overflow when cores go on from them.
const LATEST: u64 = 1 << 62;

/// What runs are under way, what they are made of and how far they came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedRuns {
    is_shared: bool,
    /// What is drawn of HBM: from when on how many bytes a picosecond.
    drawn: Vec<(u64, f64)>,
    meetings: MeetingTable,
    runs: Vec<SavedRun>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedRun {
    core: usize,
    start: u64,
    alone: u64,
    opcodes: Vec<String>,
    labels: Vec<String>,
    parts: Vec<SavedTimed>,
    next: usize,
    draw: SavedDraw,
    held: Vec<(u64, u64)>,
}

impl SavedRuns {
    /// The cores that run.
    pub fn cores(&self) -> impl Iterator<Item = usize> + '_ {
        self.runs.iter().map(|run| run.core)
    }
}

fn damaged() -> Error {
    Error::Value("the runs under way are damaged: their parts do not fit one another".to_owned())
}

impl ChipRuns {
    /// All runs under way at a moment that is not past, each of them whole; None where there are none. What ends is what
    /// would have ended without.
    ///
    /// # Errors
    /// [`Error::Value`] for a run that is not whole, and for one on a core that is not among `cores`.
    pub fn save(&mut self, now: Picos, cores: &[&NeuronCore]) -> Result<Option<SavedRuns>> {
        self.catch_up(now.0);
        if self.runs.is_empty() {
            return Ok(None);
        }
        let mut meetings = MeetingTable::default();
        let mut runs = Vec::with_capacity(self.runs.len());
        for (run, lane) in self.runs.iter().zip(&mut self.lanes) {
            let names = cores.get(lane.core).map(|core| &core.opcodes);
            let (true, Some(names)) = (run.is_whole, names) else {
                return Err(Error::Value(format!("the run of core {} is not whole", lane.core)));
            };
            let (mut opcodes, mut labels) = (Vec::new(), Vec::new());
            let parts = Timed::save_all(&lane.parts, names, (&mut opcodes, &mut labels), &mut meetings);
            runs.push(SavedRun {
                core: lane.core,
                start: run.start,
                alone: run.alone,
                opcodes,
                labels,
                parts,
                next: lane.next,
                draw: lane.timeline.draw_mut().map(|draw| draw.save()).unwrap_or_default(),
                held: lane.held.clone(),
            });
        }
        let drawn = if self.is_shared { self.ceiling.rates() } else { Vec::new() };
        Ok(Some(SavedRuns { is_shared: self.is_shared, drawn, meetings, runs }))
    }

    /// Goes on from saved runs, on cores that have run nothing yet.
    ///
    /// # Errors
    /// [`Error::Value`] for what cannot have been saved.
    pub fn load(gigabytes_per_second: f64, saved: SavedRuns, cores: &mut [&mut NeuronCore]) -> Result<Self> {
        let mut loaded = Self::new(gigabytes_per_second);
        let is_ordered = saved.runs.windows(2).all(|pair| pair[0].core < pair[1].core);
        let is_rate = |&(at, rate): &(u64, f64)| at <= LATEST && rate.is_finite();
        if saved.runs.is_empty()
            || !is_ordered
            || !saved.drawn.iter().all(is_rate)
            || (saved.runs.len() > 1 && !saved.is_shared)
        {
            return Err(damaged());
        }
        let meetings = saved.meetings.restore();
        loaded.is_shared = saved.is_shared;
        for run in saved.runs {
            let core = cores.get_mut(run.core).ok_or_else(damaged)?;
            let in_time = [run.start, run.alone].into_iter().chain(run.held.iter().flat_map(|held| [held.0, held.1]));
            if in_time.max() > Some(LATEST)
                || run.start > run.alone
                || run.next > run.parts.len()
                || !run.draw.is_sound(LATEST)
            {
                return Err(damaged());
            }
            core.timeline.begin_after(Picos(run.start));
            let parts = Timed::restore_all(run.parts, (&run.opcodes, &run.labels), &mut core.opcodes, &meetings);
            let mut lane = Lane::new(run.core, core.timeline_under(&loaded.ceiling));
            lane.extend(parts.ok_or_else(damaged)?);
            let is_restored =
                if saved.is_shared { resume(&mut lane, run.next, run.held, run.draw) } else { rerun(&lane, core) };
            if !is_restored {
                return Err(damaged());
            }
            loaded.lanes.push(lane);
            loaded.runs.push(CoreRun { start: run.start, alone: run.alone, is_whole: true, is_over: false });
        }
        if saved.is_shared {
            loaded.ceiling.set_rates(saved.drawn);
            loaded.lanes.iter_mut().for_each(Lane::go_on);
        }
        // A meeting to which not all come would never end.
        let ends = loaded.lanes.iter().all(|lane| loaded.end(lane.core).is_some_and(|end| end.0 <= LATEST));
        if ends { Ok(loaded) } else { Err(damaged()) }
    }
}

/// Times what had its time, as it was told then.
fn resume(lane: &mut Lane, next: usize, held: Vec<(u64, u64)>, draw: SavedDraw) -> bool {
    let Some(drawn) = lane.timeline.draw_mut() else { return false };
    drawn.replay(&draw);
    let mut meetings = held.iter();
    for part in lane.parts.iter().take(next) {
        match &part.met {
            None => {
                lane.timeline.issue(&part.issue());
            }
            Some(met) => {
                let Some(&(latest, end)) = meetings.next() else { return false };
                lane.timeline.hold_again(&part.issue(), (met.meeting.hop, met.meeting.cause), latest, end);
            }
        }
    }
    let is_all = meetings.next().is_none();
    (lane.next, lane.held) = (next, held);
    is_all && lane.timeline.draw_mut().is_some_and(|drawn| drawn.resume(draw))
}

/// Times a run that is alone on its core.
fn rerun(lane: &Lane, core: &mut NeuronCore) -> bool {
    for part in lane.parts.iter() {
        if part.met.is_some() {
            return false;
        }
        core.timeline.issue(&part.issue());
    }
    true
}
