//! Runs of programs whose ranks meet: a core waits at a collective until those of its group have come to theirs.
//!
//! Each core is a rank: core 0 is the device's `rank`, the others follow. Ranks fill the chips of the device's system one after
//! the other.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use trn3_machine::core::At;
use trn3_machine::isa::Instruction;
use trn3_machine::isa::rank_call::RankCall;
use trn3_machine::program::Loaded;
use trn3_system::collective::Estimator;
use trn3_system::fabric::{Fabric, LinkProfile};

use super::{Device, State};
use crate::error::{Error, ErrorKind, Result};
use crate::meeting::{MeetingError, Participant, RankArrival, RankAsk, RankFabric, RankPlace, RankRoom, hold};

/// A run that stands at a collective.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PausedRun {
    pub(crate) program: u64,
    step: usize,
    /// Whether the others know.
    has_come: bool,
}

/// Where the cores of a device meet, by how many ranks a launch has.
#[derive(Default)]
pub(crate) struct DeviceRooms {
    rooms: BTreeMap<u32, RankRoom>,
    fabrics: BTreeMap<u32, RankFabric>,
}

/// A step at which a core stands, as its program says it.
struct Call {
    call: RankCall,
    label: Option<String>,
    after: Vec<u32>,
}

impl Device {
    /// Begins a run, up to its end or its first collective.
    pub(super) fn begin_run(&mut self, index: usize, program: u64) -> State {
        let now = self.now;
        let ran = self.with_laid(index, program, |loaded, machine| {
            loaded.begin(machine);
            machine.timeline.begin_after(now);
            loaded.advance(machine, 0)
        });
        self.run_to(index, program, now.0, ran)
    }

    /// Where a run stands that went on.
    fn run_to(
        &mut self,
        index: usize,
        program: u64,
        start: u64,
        ran: Result<trn3_machine::Result<Option<usize>>>,
    ) -> State {
        match ran {
            Ok(Ok(Some(step))) => {
                self.share(index, false);
                State::Meets(PausedRun { program, step, has_come: false })
            }
            Ok(Ok(None)) => self.ended(index, Some(program), start, Ok(())),
            Ok(Err(error)) => self.ended(index, Some(program), start, Err(error.into())),
            Err(error) if self.is_sharing(index) => self.ended(index, Some(program), start, Err(error)),
            // Nothing of it ran.
            Err(error) => State::Ends { at: self.now.0, status: Err(error) },
        }
    }

    /// Brings every core that stands at a collective to the others, as far as they get.
    pub(super) fn meet(&mut self) {
        loop {
            let fresh = |core: &super::Core| matches!(core.active.as_ref().map(|active| &active.state), Some(State::Meets(run)) if !run.has_come);
            let Some(index) = self.cores.iter().position(fresh) else { return };
            let Some(mut run) = self.paused(index) else { return };
            match self.arrive(index, &run) {
                Ok(group) => {
                    run.has_come = true;
                    self.set_state(index, State::Meets(run));
                    if !group.is_empty()
                        && let Err(error) = self.meet_group(&group)
                    {
                        group.iter().for_each(|&index| self.fail(index, &error));
                    }
                }
                Err((error, waiting)) => {
                    self.fail(index, &error);
                    waiting.iter().for_each(|&index| self.fail(index, &error));
                }
            }
        }
    }

    fn paused(&self, index: usize) -> Option<PausedRun> {
        match &self.cores.get(index)?.active.as_ref()?.state {
            State::Meets(run) => Some(run.clone()),
            _ => None,
        }
    }

    fn set_state(&mut self, index: usize, state: State) {
        if let Some(active) = &mut self.cores[index].active {
            active.state = state;
        }
    }

    fn fail(&mut self, index: usize, error: &Error) {
        let Some(run) = self.paused(index) else { return };
        let start = self.cores[index].active.as_ref().map_or(self.now.0, |active| active.start);
        let state = self.ended(index, Some(run.program), start, Err(error.clone()));
        self.set_state(index, state);
    }

    /// A core comes; returns the cores of its group once all have, or why it cannot, and who waited for it.
    fn arrive(&mut self, index: usize, run: &PausedRun) -> std::result::Result<Vec<usize>, (Error, Vec<usize>)> {
        let alone = |error: Error| (error, Vec::new());
        let Call { call, .. } = self.call_of(index, run).map_err(alone)?;
        let ranks = u32::try_from(call.ranks).unwrap_or(u32::MAX);
        let arrival = self.judged(index, run, call).map_err(alone)?;
        let group = arrival.group.clone();
        let of_rank = |rank: u64| {
            let index = rank.checked_sub(self.spec.rank.into()).and_then(|index| usize::try_from(index).ok());
            index.filter(|&index| index < self.cores.len())
        };
        let indices: Option<Vec<usize>> = group.iter().map(|&rank| of_rank(rank)).collect();
        let Some(indices) = indices else {
            let (first, cores) = (self.spec.rank, self.cores.len());
            let text =
                format!("{arrival}: the device has {cores} ranks from {first}; all of the group are needed on it");
            return Err(alone(Error::new(ErrorKind::Unsupported, text)));
        };
        let room = self.rooms.rooms.entry(ranks).or_insert_with(|| RankRoom::new(ranks, 1));
        match room.arrive(arrival) {
            Ok(all) if all.is_empty() => Ok(Vec::new()),
            Ok(_) => Ok(indices),
            Err(error) => {
                // Who waits would wait for ever.
                let waiting = room.abandon(&group);
                let indices = waiting.iter().filter_map(|arrival| of_rank(arrival.place.rank.into())).collect();
                Err((error.into(), indices))
            }
        }
    }

    fn call_of(&mut self, index: usize, run: &PausedRun) -> Result<Call> {
        let of_step = |loaded: &Loaded| {
            let step = loaded.meeting(run.step)?;
            Some(Call { call: step.call.clone(), label: step.label.map(str::to_owned), after: step.after.to_vec() })
        };
        let call = self.with_laid(index, run.program, |loaded, _| of_step(loaded))?;
        call.ok_or_else(|| Error::new(ErrorKind::Internal, "a run waits at a step that meets nobody"))
    }

    fn judged(&self, index: usize, run: &PausedRun, call: RankCall) -> Result<RankArrival> {
        let name = self.loaded(run.program)?.name.clone();
        let rank = self.spec.rank.saturating_add(u32::try_from(index).unwrap_or(u32::MAX));
        let line = format!("program {name}: step {}", run.step);
        if u64::from(rank) >= call.ranks {
            let (ranks, op) = (call.ranks, call.operation);
            return Err(Error::value(format!("{line} ({op}): the core is rank {rank}; the launch has {ranks} ranks")));
        }
        let ranks = u32::try_from(call.ranks).unwrap_or(u32::MAX);
        let place = RankPlace { rank, core: 0, line: line.clone(), generation: self.arch.generation };
        let arrival = RankAsk::from(call).judge(place, &RankRoom::new(ranks, 1), None)?;
        let checked = arrival.instruction().check(&self.arch);
        checked.map_err(|error| Error::from(MeetingError::Kernel { line, error }))?;
        Ok(arrival)
    }

    /// All of a group have come, by index in it: the meeting is held, and their runs go on.
    fn meet_group(&mut self, group: &[usize]) -> Result<()> {
        let runs: Vec<PausedRun> = group.iter().filter_map(|&index| self.paused(index)).collect();
        // Laying one program may move what another lies on.
        let (calls, arrivals) = loop {
            let generation = self.hbm.generation();
            let (mut calls, mut arrivals) = (Vec::new(), Vec::new());
            for (&index, run) in group.iter().zip(&runs) {
                let call = self.call_of(index, run)?;
                arrivals.push(self.judged(index, run, call.call.clone())?);
                calls.push(call);
            }
            if self.hbm.generation() == generation {
                break (calls, arrivals);
            }
        };
        let ranks = arrivals.first().map_or(0, |arrival| u32::try_from(arrival.call.ranks).unwrap_or(u32::MAX));
        self.connect(ranks)?;
        let Some(fabric) = self.rooms.fabrics.get(&ranks) else {
            return Err(Error::new(ErrorKind::Internal, "a system was joined and is not there"));
        };
        let mut machines: Vec<_> = self.cores.iter_mut().map(|core| Some(&mut core.machine)).collect();
        let mut present = Vec::with_capacity(group.len());
        for ((&index, arrival), call) in group.iter().zip(&arrivals).zip(&calls) {
            let Some(core) = machines.get_mut(index).and_then(Option::take) else {
                return Err(Error::new(ErrorKind::Internal, "a core stands in a group twice"));
            };
            let at = At { label: call.label.as_deref(), after: &call.after, ..At::default() };
            present.push(Participant { core, arrival, at });
        }
        hold(fabric, 1, &mut present)?;
        for (&index, run) in group.iter().zip(&runs) {
            let start = self.cores[index].active.as_ref().map_or(self.now.0, |active| active.start);
            let ran = self
                .with_laid(index, run.program, |loaded, machine| loaded.advance(machine, run.step.saturating_add(1)));
            let state = self.run_to(index, run.program, start, ran);
            self.set_state(index, state);
        }
        Ok(())
    }

    fn connect(&mut self, ranks: u32) -> Result<()> {
        if self.rooms.fabrics.contains_key(&ranks) {
            return Ok(());
        }
        let name = self.spec.system(&self.arch);
        let estimator = Arc::new(Estimator::new(Arc::new(Fabric::built_in(name, LinkProfile::Docs)?))?);
        let cores = u32::try_from(self.arch.cores).unwrap_or(u32::MAX);
        let fabric = RankFabric::new(estimator, name, cores, ranks, None)?;
        self.rooms.fabrics.insert(ranks, fabric);
        Ok(())
    }

    /// Whether a run waits for other ranks.
    pub(super) fn waits_for_ranks(&self) -> Option<usize> {
        (0..self.cores.len()).find(|&index| self.paused(index).is_some())
    }

    /// Whether a run that waits for other ranks is of this program.
    pub(super) fn is_paused_in(&self, program: u64) -> bool {
        (0..self.cores.len()).any(|index| self.paused(index).is_some_and(|run| run.program == program))
    }
}
