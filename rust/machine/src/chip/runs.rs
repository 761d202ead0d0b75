//! Runs that come and go on the cores of a chip.

use std::sync::OnceLock;

use super::lane::{Lane, run_first, run_until};
use crate::core::NeuronCore;
use crate::time::Picos;
use crate::timing::ceiling::HbmCeiling;
use crate::timing::timeline::Timeline;

/// Runs on the cores of a chip, each from a moment of its own, whose transfers share the bandwidth of its HBM.
///
/// Times are those of [`time_together`](super::time_together) where runs begin at one moment; a run that overlaps no other
/// takes what it takes alone. The end of a run is what it is if no other begins before then: one that begins while others are
/// under way changes what these have yet to transfer, never what is past.
///
/// ```
/// use std::sync::Arc;
/// use trn3_machine::arch::ArchSpec;
/// use trn3_machine::chip::ChipRuns;
/// use trn3_machine::core::{CoreOptions, NeuronCore};
/// use trn3_machine::time::Picos;
///
/// let arch = Arc::new(ArchSpec::load("trn3")?);
/// let mut core = NeuronCore::new(Arc::clone(&arch), CoreOptions::default())?;
/// let mut runs = ChipRuns::new(arch.hbm_gbps);
/// core.keep_timed();
/// core.restart();
/// core.timeline.begin_after(Picos(500));
/// runs.go_on(0, &mut core, true);
/// assert_eq!(runs.end(0), Some(Picos(500)));
/// runs.finish(0, &mut core);
/// assert_eq!(runs.end(0), None);
/// # Ok::<(), trn3_machine::Error>(())
/// ```
#[derive(Debug)]
pub struct ChipRuns {
    pub(super) gigabytes_per_second: f64,
    pub(super) ceiling: HbmCeiling,
    /// Those under way, and those that ended and are yet to be timed, in order of their cores.
    pub(super) runs: Vec<CoreRun>,
    pub(super) lanes: Vec<Lane>,
    /// Whether any two were under way at once since none was.
    pub(super) is_shared: bool,
    /// What comes if nothing else begins.
    pub(super) ahead: OnceLock<Vec<Lane>>,
    /// Runs that had ended when another began, and whose end is yet to be told.
    past: Vec<PastRun>,
}

#[derive(Debug)]
struct PastRun {
    core: usize,
    end: u64,
    timeline: Option<Timeline>,
}

/// What is known of a run beside its lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct CoreRun {
    pub(super) start: u64,
    /// When it would end alone.
    pub(super) alone: u64,
    /// Whether all of it is here.
    pub(super) is_whole: bool,
    /// Whether its end was told.
    pub(super) is_over: bool,
}

impl ChipRuns {
    /// No runs, under a ceiling of so many gigabytes a second.
    pub fn new(gigabytes_per_second: f64) -> Self {
        Self {
            gigabytes_per_second,
            ceiling: HbmCeiling::new(gigabytes_per_second),
            runs: Vec::new(),
            lanes: Vec::new(),
            is_shared: false,
            ahead: OnceLock::new(),
            past: Vec::new(),
        }
    }

    /// Takes what a core that [keeps](NeuronCore::keep_timed) it has run since the last call: a run that begins where its
    /// timeline [begins](Timeline::begin_after), or more of the one under way there; `is_whole` says that this is all.
    pub fn go_on(&mut self, core: usize, neuron_core: &mut NeuronCore, is_whole: bool) {
        self.ahead.take();
        let place = self.place(core).unwrap_or_else(|| self.begin(core, neuron_core));
        let (Some(run), Some(lane)) = (self.runs.get_mut(place), self.lanes.get_mut(place)) else { return };
        lane.extend(neuron_core.take_timed());
        (run.alone, run.is_whole) = (run.start.saturating_add(neuron_core.timeline.makespan().0), is_whole);
        if self.is_shared {
            lane.go_on();
        }
    }

    fn begin(&mut self, core: usize, neuron_core: &NeuronCore) -> usize {
        let start = neuron_core.timeline.origin();
        self.let_pass(start);
        if self.runs.iter().all(|run| run.is_over) {
            self.clear();
        } else {
            if !std::mem::replace(&mut self.is_shared, true) {
                self.lanes.iter_mut().for_each(Lane::go_on);
            }
            self.catch_up(start);
        }
        let place = self.lanes.partition_point(|lane| lane.core < core);
        self.lanes.insert(place, Lane::new(core, neuron_core.timeline_under(&self.ceiling)));
        self.runs.insert(place, CoreRun { start, alone: start, is_whole: false, is_over: false });
        self.ceiling.forget_before(self.runs.iter().map(|run| run.start).min().unwrap_or(start));
        place
    }

    /// What has ended by then overlaps nothing that begins then.
    fn let_pass(&mut self, moment: u64) {
        let may_have_ended = |run: &CoreRun| run.is_whole && !run.is_over && run.alone <= moment;
        let cores = self.runs.iter().zip(&self.lanes).filter(|(run, _)| may_have_ended(run));
        for core in cores.map(|(_, lane)| lane.core).collect::<Vec<_>>() {
            let Some(Picos(end)) = self.end(core).filter(|end| end.0 <= moment) else { continue };
            self.past.push(PastRun { core, end, timeline: self.shown(core) });
            self.set_over(core);
        }
    }

    fn set_over(&mut self, core: usize) {
        if let Some(place) = self.place(core)
            && let Some(run) = self.runs.get_mut(place)
        {
            run.is_over = true;
        }
    }

    /// Gives what could start before a moment its time for good, and forgets what ended.
    pub(super) fn catch_up(&mut self, until: u64) {
        if !self.is_shared {
            return;
        }
        self.ahead.take();
        run_until(&mut self.lanes, Some(until));
        let is_behind = |(run, lane): (&CoreRun, &Lane)| run.is_over && lane.waits();
        while self.runs.iter().zip(&self.lanes).any(is_behind) && run_first(&mut self.lanes) {}
        let mut runs = self.runs.iter();
        self.lanes.retain(|_| runs.next().is_some_and(|run| !run.is_over));
        self.runs.retain(|run| !run.is_over);
    }

    fn clear(&mut self) {
        *self = Self { past: std::mem::take(&mut self.past), ..Self::new(self.gigabytes_per_second) };
    }

    fn place(&self, core: usize) -> Option<usize> {
        self.lanes.iter().zip(&self.runs).position(|(lane, run)| lane.core == core && !run.is_over)
    }

    fn ahead(&self) -> &[Lane] {
        self.ahead.get_or_init(|| {
            let ceiling = self.ceiling.fork();
            let mut lanes: Vec<Lane> = self.lanes.iter().map(|lane| lane.fork(&ceiling)).collect();
            run_until(&mut lanes, None);
            lanes
        })
    }

    /// All lanes as they will be; None while one run is alone.
    #[cfg(test)]
    pub(super) fn worked_out(&self) -> Option<&[Lane]> {
        self.is_shared.then(|| self.ahead())
    }

    /// Whether a run is under way on a core.
    pub fn is_running(&self, core: usize) -> bool {
        self.place(core).is_some() || self.past.iter().any(|past| past.core == core)
    }

    /// When the run of a core ends if no other begins before; None where none is under way, or where it is not whole.
    pub fn end(&self, core: usize) -> Option<Picos> {
        if let Some(past) = self.past.iter().find(|past| past.core == core) {
            return Some(Picos(past.end));
        }
        let place = self.place(core)?;
        let run = self.runs.get(place).filter(|run| run.is_whole)?;
        if !self.is_shared {
            return Some(Picos(run.alone));
        }
        let lane = self.ahead().get(place)?;
        (!lane.waits()).then(|| Picos(lane.end()))
    }

    /// Whether a run may end by then: none ends sooner than it would alone.
    pub fn may_end_by(&self, until: Picos) -> bool {
        let may_end = |run: &CoreRun| run.is_whole && !run.is_over && run.alone <= until.0;
        !self.past.is_empty() || self.runs.iter().any(may_end)
    }

    /// Lets a core's timeline be as it is if no other run begins before its own ends.
    pub fn show(&self, core: usize, neuron_core: &mut NeuronCore) {
        if let Some(timeline) = self.shown(core) {
            neuron_core.timeline = timeline;
        }
    }

    fn shown(&self, core: usize) -> Option<Timeline> {
        let place = self.place(core)?;
        let is_whole = self.is_shared && self.runs.get(place)?.is_whole;
        if is_whole { self.ahead().get(place).map(|lane| lane.timeline.clone()) } else { None }
    }

    /// The run of a core has ended, at [its end](ChipRuns::end): the core's timeline is what it was.
    pub fn finish(&mut self, core: usize, neuron_core: &mut NeuronCore) {
        if let Some(place) = self.past.iter().position(|past| past.core == core) {
            if let Some(timeline) = self.past.swap_remove(place).timeline {
                neuron_core.timeline = timeline;
            }
            return;
        }
        self.show(core, neuron_core);
        self.set_over(core);
        if self.runs.iter().all(|run| run.is_over) {
            self.clear();
        }
    }
}
