//! A meeting is held: who shares a transfer, what moves, how long it takes, and what each core's timeline gets.

use std::ops::Range;

use trn3_machine::core::{At, NeuronCore};
use trn3_machine::error::{Error, Result};
use trn3_machine::isa::collective::Collective;
use trn3_machine::meeting::{self, Part};
use trn3_machine::time::Picos;
use trn3_machine::view::View;

use super::operands::size_of;
use super::values::{Bytes, moved};
use super::variable::exchanged;
use super::{MeetingError, RankArrival, RankFabric};

/// A core at a meeting that all have come to.
pub struct Participant<'a> {
    /// The core.
    pub core: &'a mut NeuronCore,
    /// Its call.
    pub arrival: &'a RankArrival,
    /// Where its kernel stands.
    pub at: At<'a>,
}

impl Participant<'_> {
    fn with<R>(&mut self, work: impl FnOnce(&mut NeuronCore) -> Result<R>) -> std::result::Result<R, MeetingError> {
        self.core.state.site = self.at.site;
        self.core.state.memory.set_site(self.at.site);
        // What it writes ends when the collective does, which is the core's next instruction.
        self.core.state.memory.set_instruction(u32::try_from(self.core.issued()).unwrap_or(u32::MAX));
        work(self.core).map_err(|error| MeetingError::at(&self.arrival.place.line, error))
    }

    /// The elements of a source; None where timing-only runs do not know them.
    fn read(&mut self, view: &View) -> std::result::Result<Option<Bytes>, MeetingError> {
        self.with(|core| {
            if core.state.knows(view)? {
                return core.state.read_bytes(view).map(Some);
            }
            core.state.memory.skip_read(view)?;
            Ok(None)
        })
    }

    fn write(&mut self, view: &View, bytes: &[u8]) -> std::result::Result<(), MeetingError> {
        self.with(|core| core.write_bytes(view, bytes))
    }

    /// Makes what the collective fills unwritten: values are skipped.
    fn forget(&mut self) -> std::result::Result<(), MeetingError> {
        let dsts = self.arrival.dsts();
        self.with(|core| dsts.iter().try_for_each(|dst| core.state.memory.forget(dst)))
    }
}

/// Moves the values of all cores of a group, which stand in order of its ranks and their cores, so many a rank, and gives
/// all of them its time. Returns each core's number for it.
///
/// # Errors
/// [`MeetingError::Kernel`] where a core refuses what it reads, writes or is given, and for chunks that do not fit;
/// [`MeetingError::System`] where the system cannot do it.
pub fn hold(
    fabric: &RankFabric,
    cores: usize,
    present: &mut [Participant<'_>],
) -> std::result::Result<Vec<u32>, MeetingError> {
    let Some(first) = present.first().map(|each| each.arrival) else { return Ok(Vec::new()) };
    let is_joint = cores > 1
        && present.chunks(cores).all(|own| own.iter().all(|each| each.arrival.has_operands_of(own[0].arrival)));
    let mut sharing: Vec<Range<usize>> = Vec::new();
    if is_joint {
        sharing = (0..present.len()).step_by(cores).map(|start| start..start + cores).collect();
        meeting::synchronise(&mut present.iter_mut().map(|each| &mut *each.core).collect::<Vec<_>>())
            .map_err(|error| MeetingError::at(&first.place.line, error))?;
    }
    let mut moved: Vec<(u64, u64)> =
        present.iter().map(|each| (size_of(&each.arrival.srcs()), size_of(&each.arrival.dsts()))).collect();
    let (mut longest, mut bytes, mut pairs): (Option<f64>, f64, Vec<(u64, u64)>) = (None, 0.0, Vec::new());
    for core in 0..if is_joint { 1 } else { cores } {
        let mut lane: Vec<(usize, &mut Participant<'_>)> =
            present.iter_mut().enumerate().filter(|(number, _)| number % cores == core).collect();
        let Some((_, leader)) = lane.first() else { continue };
        let leader = leader.arrival;
        if leader.call.operation.has_metadata() {
            let seconds = move_variable(fabric, &mut lane, &mut moved)?;
            longest = Some(longest.map_or(seconds, |longest: f64| longest.max(seconds)));
            continue;
        }
        move_even(fabric, &mut lane)?;
        bytes += leader.bytes;
        for pair in &leader.pairs {
            if !pairs.contains(pair) {
                pairs.push(*pair);
            }
        }
    }
    let seconds = match longest {
        Some(seconds) => seconds,
        None => fabric.seconds(first.call.operation, bytes, &first.groups, &pairs)?,
    };
    let duration = Picos::from_nanoseconds(seconds * 1e9);
    let instruction = |(number, each): (usize, &Participant<'_>)| {
        // A transfer that cores share is the first one's.
        let (sent, received) = if is_joint && number % cores > 0 { (0, 0) } else { moved[number] };
        Collective { duration, sent, received, ..each.arrival.instruction() }
    };
    let instructions: Vec<Collective> = present.iter().enumerate().map(instruction).collect();
    let lines: Vec<&str> = present.iter().map(|each| each.arrival.place.line.as_str()).collect();
    let line = if lines.iter().all(|line| line.is_empty()) { String::new() } else { lines.join(" and ") };
    let parts = present.iter_mut().zip(&instructions);
    let mut parts: Vec<_> =
        parts.map(|(each, instruction)| Part { core: &mut *each.core, instruction, at: each.at }).collect();
    let ids = meeting::collective(&mut parts, &sharing).map_err(|error| MeetingError::at(&line, error))?;
    for each in present.iter_mut() {
        each.core.note_ranks(&each.arrival.group);
    }
    Ok(ids)
}

/// One of several participants, and its place among them.
type Lane<'l, 'p, 'a> = [(usize, &'l mut Participant<'a>)];

fn move_even(fabric: &RankFabric, lane: &mut Lane<'_, '_, '_>) -> std::result::Result<(), MeetingError> {
    let mut brought: Vec<Vec<Option<Bytes>>> = Vec::with_capacity(lane.len());
    for (_, each) in lane.iter_mut() {
        brought.push(each.arrival.srcs().iter().map(|view| each.read(view)).collect::<std::result::Result<_, _>>()?);
    }
    let Some(brought) = brought.into_iter().map(|own| own.into_iter().collect()).collect::<Option<Vec<Vec<Bytes>>>>()
    else {
        return lane.iter_mut().try_for_each(|(_, each)| each.forget());
    };
    let arrivals: Vec<&RankArrival> = lane.iter().map(|(_, each)| each.arrival).collect();
    let taken = moved(fabric, &arrivals, &brought)?;
    for ((_, each), own) in lane.iter_mut().zip(taken) {
        for (view, bytes) in each.arrival.call.dsts.iter().zip(own) {
            if let Some(bytes) = bytes {
                each.write(view, &bytes)?;
            }
        }
    }
    Ok(())
}

/// Returns the seconds it takes.
fn move_variable(
    fabric: &RankFabric,
    lane: &mut Lane<'_, '_, '_>,
    moved: &mut [(u64, u64)],
) -> std::result::Result<f64, MeetingError> {
    let mut tables = Vec::with_capacity(lane.len());
    for (_, each) in lane.iter_mut() {
        let table = match &each.arrival.call.metadata {
            Some(metadata) => each.read(&metadata.clone())?,
            None => None,
        };
        tables.push(table.ok_or_else(|| {
            let text = format!("{} needs metadata that was skipped", each.arrival.call.operation);
            MeetingError::at(&each.arrival.place.line, Error::SkippedValue(text))
        })?);
    }
    let mut brought = Vec::with_capacity(lane.len());
    for (_, each) in lane.iter_mut() {
        brought.push(each.read(&each.arrival.call.srcs[0].clone())?);
    }
    let arrivals: Vec<&RankArrival> = lane.iter().map(|(_, each)| each.arrival).collect();
    let (received, seconds) = exchanged(fabric, &arrivals, &tables, &brought)?;
    let is_known = brought.iter().all(Option::is_some);
    for ((number, each), received) in lane.iter_mut().zip(received) {
        moved[*number] = received.moved;
        if !is_known {
            each.forget()?;
        }
        let dst = &each.arrival.call.dsts[0];
        let flat =
            dst.reshape(&[dst.len() as i64]).map_err(|error| MeetingError::at(&each.arrival.place.line, error))?;
        for (place, bytes) in &received.chunks {
            let chunk = flat.slice(0, place.start as i64, place.end as i64, 1);
            let chunk = chunk.map_err(|error| MeetingError::at(&each.arrival.place.line, error))?;
            each.write(&chunk, bytes)?;
        }
        if let Some(row) = each.arrival.counts.clone() {
            let counts: Vec<u8> = received.counts.iter().flat_map(|count| count.to_le_bytes()).collect();
            each.write(&row, &counts)?;
        }
    }
    Ok(seconds)
}
