//! Cores that run at once share the bandwidth of HBM: their ends are known as far as what begins meanwhile lets them be.

use trn3_machine::chip::{ChipRuns, SavedRuns};
use trn3_machine::time::Picos;

use super::run::{count_time, show};
use super::snapshot::damaged;
use super::{Active, Core, Device, State};
use crate::error::Result;
use crate::spec::DeviceSpec;

/// Whether the cores of a device can slow one another.
pub(super) fn shares_hbm(spec: &DeviceSpec) -> bool {
    spec.share_hbm_bandwidth && spec.timing && spec.cores > 1
}

impl Device {
    /// When the command under way on a core changes next by itself.
    pub(super) fn next_of(&self, index: usize) -> Option<u64> {
        match &self.cores.get(index)?.active.as_ref()?.state {
            State::Ends { at, .. } => Some(*at),
            State::Runs { .. } => self.runs.as_ref()?.end(index).map(|end| end.0),
            State::Exchanges(exchange) => exchange.ready,
            // Others change it.
            State::Meets(_) => None,
        }
    }

    /// As [`Device::next_of`], where that may be by then; spares working out ends that are not.
    pub(super) fn next_by(&self, index: usize, until: Picos) -> Option<u64> {
        let is_run = matches!(self.cores.get(index)?.active.as_ref()?.state, State::Runs { .. });
        let can_wait = until <= self.now && !self.runs.as_ref().is_some_and(|runs| runs.may_end_by(until));
        if is_run && can_wait { None } else { self.next_of(index) }
    }

    /// Has what a core ran since the last time share HBM with what others run; `is_whole`: its command runs no more.
    pub(super) fn share(&mut self, index: usize, is_whole: bool) {
        if let (Some(runs), Some(core)) = (&mut self.runs, self.cores.get_mut(index)) {
            runs.go_on(index, &mut core.machine, is_whole);
        }
    }

    /// Whether part of a command of a core shares HBM already.
    pub(super) fn is_sharing(&self, index: usize) -> bool {
        self.runs.as_ref().is_some_and(|runs| runs.is_running(index))
    }

    /// A run has come to its end: its times are what they were.
    pub(super) fn settle_run(&mut self, index: usize, name: &str, start: u64) {
        let (Some(runs), Some(core)) = (&mut self.runs, self.cores.get_mut(index)) else { return };
        runs.finish(index, &mut core.machine);
        count_time(&mut self.stats, &mut core.machine);
        if let Some(trace) = &mut self.trace {
            show(trace.as_mut(), index, name, start, &mut core.machine);
        }
    }

    /// Lets the timeline of a core be what its profile is to show.
    pub(crate) fn show_run(&mut self, index: usize) {
        if let (Some(runs), Some(core)) = (&self.runs, self.cores.get_mut(index)) {
            runs.show(index, &mut core.machine);
        }
    }

    /// Runs of a snapshot, on cores that are built beside the device; `active` is what each of them does.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Value`] where they do not fit these.
    pub(super) fn restored_runs<'a>(
        &self,
        saved: Option<SavedRuns>,
        active: impl Iterator<Item = Option<&'a Active>>,
        cores: &mut [Core],
    ) -> Result<Option<ChipRuns>> {
        let runs = active
            .enumerate()
            .filter(|(_, active)| matches!(active.map(|active| &active.state), Some(State::Runs { .. })));
        let runs: Vec<usize> = runs.map(|(index, _)| index).collect();
        if runs != saved.iter().flat_map(SavedRuns::cores).collect::<Vec<_>>() {
            return Err(damaged());
        }
        match (saved, shares_hbm(&self.spec)) {
            (None, shares) => Ok(shares.then(|| ChipRuns::new(self.arch.hbm_gbps))),
            (Some(_), false) => Err(damaged()),
            (Some(saved), true) => {
                let mut machines: Vec<_> = cores.iter_mut().map(|core| &mut core.machine).collect();
                Ok(Some(ChipRuns::load(self.arch.hbm_gbps, saved, &mut machines)?))
            }
        }
    }
}
