//! Ranks that meet in a collective on a system: the one engine moves what they brought and says how long it takes.

use serde::{Deserialize, Serialize};
use trn3_machine::storage::{try_copy, try_zeros};
use trn3_machine::time::Picos;
use trn3_system::collective::{
    CollectiveTask, Estimator, Extra, PieceCut, RankGroup, Schedule, execute, output_length,
};

use crate::command::{DeviceCollective, Operation};
use crate::error::{Error, Result};
use crate::host::{Arrival, Carried};

/// A collective whose ranks come one by one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Meeting {
    /// As the first of them said.
    part: DeviceCollective,
    /// What each rank sends to others, by place in the group.
    carried: Vec<Carried>,
    come: Vec<Come>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Come {
    rank: u32,
    at: u64,
    part: DeviceCollective,
    bytes: Vec<u8>,
}

/// What a rank takes away, and when.
pub(crate) struct Outcome {
    pub(crate) rank: u32,
    pub(crate) at: Picos,
    pub(crate) result: Result<Vec<u8>>,
}

/// How a collective is done on a system.
struct Plan {
    schedule: Schedule,
    task: CollectiveTask,
    /// Bytes of the operation, as its cost counts them.
    bytes: f64,
    /// Elements that a rank brings.
    length: usize,
}

impl Plan {
    fn new(estimator: &Estimator, ranks_per_chip: u32, part: &DeviceCollective) -> Result<Self> {
        let (operation, extra) = (part.operation.into(), Extra::default());
        let group = RankGroup::new(part.group.clone(), ranks_per_chip, estimator.fabric().chips())?;
        let given = part.count as f64 * part.element()?.size() as f64;
        let gathers = part.operation == Operation::AllGather;
        let bytes = if gathers { given * group.size() as f64 } else { given };
        let form = estimator.estimate(operation, &group, bytes, None)?.algorithm;
        let schedule = Schedule::new(estimator.fabric(), &group, operation, form, &extra)?;
        let task = CollectiveTask { operation, algorithm: Some(form), groups: vec![group], extra };
        let length = usize::try_from(part.count).map_err(|_| Error::value(format!("count is {}", part.count)))?;
        Ok(Self { schedule, task, bytes, length })
    }

    /// What each place of the group sends.
    fn carried(&self, size: usize) -> Vec<Carried> {
        let schedule = &self.schedule;
        let length = output_length(schedule, self.length).max(self.length);
        let elements = |piece: u32| match schedule.cut {
            PieceCut::Buffer => schedule.range(piece, length).len(),
            PieceCut::Pairs => self.length / schedule.ranks as usize,
            PieceCut::Whole => self.length,
        };
        let mut carried = vec![Carried::default(); schedule.ranks as usize];
        for stage in &schedule.stages {
            for step in 0..stage.steps() {
                stage.for_each(step, |action| {
                    let sent = &mut carried[action.from as usize];
                    sent.messages += 1;
                    sent.bytes += action.pieces.iter().map(|&piece| (elements(piece) * size) as u64).sum::<u64>();
                });
            }
        }
        carried
    }

    fn run(&self, estimator: &Estimator, part: &DeviceCollective, inputs: &[&[u8]]) -> Result<(Picos, Vec<Vec<u8>>)> {
        let seconds = estimator.cost(&self.task, self.bytes, true)?.time;
        let arithmetic = part.arithmetic()?;
        let length = output_length(&self.schedule, self.length) * arithmetic.result().bytes();
        let mut outputs = inputs
            .iter()
            .map(|_| try_zeros(length, "what a rank takes from a collective"))
            .collect::<trn3_machine::Result<Vec<Vec<u8>>>>()?;
        let mut places: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        execute(&self.schedule, &arithmetic, inputs, &mut places, None)?;
        Ok((Picos::from_nanoseconds(seconds * 1e9), outputs))
    }
}

/// Where ranks meet.
pub(crate) struct Place<'a> {
    pub(crate) estimator: &'a Estimator,
    pub(crate) ranks_per_chip: u32,
}

impl Place<'_> {
    /// A rank comes; says what it sends, and what all of them take away once the last has come.
    pub(crate) fn arrive(&self, meetings: &mut Vec<Meeting>, arrival: &Arrival<'_>) -> Result<(Carried, Vec<Outcome>)> {
        let Arrival { part, rank, at, bytes } = *arrival;
        let bytes = try_copy(bytes, "what a rank brings to a collective")?;
        let is_same = |one: &Meeting| one.part.key == part.key && one.part.group == part.group;
        let index = match meetings.iter().position(is_same) {
            Some(index) => index,
            None => {
                let carried = Plan::new(self.estimator, self.ranks_per_chip, part)?.carried(part.element()?.size());
                meetings.push(Meeting { part: part.clone(), carried, come: Vec::new() });
                meetings.len() - 1
            }
        };
        let meeting = &mut meetings[index];
        let Some(position) = part.group.iter().position(|&other| other == rank) else {
            return Err(Error::value(format!("rank {rank} is not in the group {:?}", part.group)));
        };
        if meeting.come.iter().any(|come| come.rank == rank) {
            return Err(Error::value(format!("rank {rank} comes twice to the collective of key {}", part.key)));
        }
        meeting.come.push(Come { rank, at: at.0, part: part.clone(), bytes });
        let carried = meeting.carried.get(position).copied().unwrap_or_default();
        if meeting.come.len() < part.group.len() {
            return Ok((carried, Vec::new()));
        }
        Ok((carried, self.held(meetings.swap_remove(index))))
    }

    /// All have come.
    fn held(&self, mut meeting: Meeting) -> Vec<Outcome> {
        let last = meeting.come.iter().map(|come| come.at).max().unwrap_or(0);
        let place = |rank: u32| meeting.part.group.iter().position(|&other| other == rank);
        meeting.come.sort_by_key(|come| place(come.rank));
        let ranks: Vec<u32> = meeting.come.iter().map(|come| come.rank).collect();
        let (took, results) = match self.run(&meeting) {
            Ok((took, outputs)) => (took, outputs.into_iter().map(Ok).collect::<Vec<_>>()),
            Err(error) => (Picos::ZERO, vec![Err(error); ranks.len()]),
        };
        let at = Picos(last.saturating_add(took.0));
        ranks.into_iter().zip(results).map(|(rank, result)| Outcome { rank, at, result }).collect()
    }

    fn run(&self, meeting: &Meeting) -> Result<(Picos, Vec<Vec<u8>>)> {
        let Meeting { part, come, .. } = meeting;
        let says = |of: &DeviceCollective| {
            let how = if of.operation == Operation::AllGather || of.operation == Operation::AllToAll {
                String::new()
            } else {
                format!(" by {:?}", of.reduction).to_lowercase()
            };
            format!("{} of {} {}{how}", trn3_system::collective::Operation::from(of.operation), of.count, of.dtype)
        };
        if let Some(other) = come.iter().find(|other| says(&other.part) != says(&come[0].part)) {
            let (first, one, two) = (come[0].rank, says(&come[0].part), says(&other.part));
            let rank = other.rank;
            return Err(Error::value(format!(
                "rank {rank} brings {two} and rank {first} {one}; all must bring the same"
            )));
        }
        let inputs: Vec<&[u8]> = come.iter().map(|come| come.bytes.as_slice()).collect();
        Plan::new(self.estimator, self.ranks_per_chip, part)?.run(self.estimator, part, &inputs)
    }
}
