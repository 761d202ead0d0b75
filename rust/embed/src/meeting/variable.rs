//! Chunks of any lengths: all_to_all_v and all_gather_v, as the metadata of each rank says.

use std::borrow::Cow;
use std::ops::Range;

use trn3_machine::error::Error;
use trn3_machine::isa::rank_call::RankOperation;
use trn3_machine::storage::{try_copy, try_zeros};
use trn3_system::collective::{CollectiveTask, Counts, Operation, Schedule, all_gather_v, all_to_all_v};

use super::values::{Bytes, room};
use super::{MeetingError, RankArrival, RankFabric};

/// Rows of the metadata.
const SEND_COUNTS: usize = 0;
const SEND_DISPLS: usize = 1;
pub(super) const RECV_COUNTS: usize = 2;
const RECV_DISPLS: usize = 3;

/// What one rank takes away.
pub(super) struct Received {
    /// Elements of its result and what they become.
    pub(super) chunks: Vec<(Range<usize>, Bytes)>,
    /// What it got from each index.
    pub(super) counts: Vec<u32>,
    /// Bytes that it sends and gets.
    pub(super) moved: (u64, u64),
}

/// The counts of a group.
struct ChunkExchange<'a> {
    lane: &'a [&'a RankArrival],
    /// `counts[i][j]` elements go from index i to j, `send[i][j]` on in i's source.
    counts: Vec<Vec<usize>>,
    send: Vec<Vec<usize>>,
    /// Where in index i's result that of j starts.
    starts: Vec<Vec<usize>>,
    /// What the metadata of each index says will come.
    expected: Vec<Vec<usize>>,
}

/// Moves chunks. `tables[i]` is the metadata of index i, `brought[i]` its source or, where values are skipped, nothing.
/// Returns what each takes away, and the seconds it took.
pub(super) fn exchanged(
    fabric: &RankFabric,
    lane: &[&RankArrival],
    tables: &[Bytes],
    brought: &[Option<Bytes>],
) -> Result<(Vec<Received>, f64), MeetingError> {
    let exchange = ChunkExchange::new(lane, tables);
    exchange.check()?;
    let ChunkExchange { counts, starts, .. } = &exchange;
    let first = &lane[0].call;
    let bytes = first.dsts[0].dtype.size();
    let flat = brought.iter().zip(lane).map(|(own, arrival)| source(own.as_ref(), arrival));
    let flat = flat.collect::<trn3_system::Result<Vec<Cow<'_, [u8]>>>>()?;
    let (outputs, seconds) = if first.operation == RankOperation::AllGatherV {
        exchange.gathered(fabric, bytes, &flat)?
    } else {
        exchange.scattered(fabric, bytes, &flat)?
    };
    let is_known = brought.iter().all(Option::is_some);
    let ranks = lane.len();
    let mut received = Vec::with_capacity(ranks);
    for (index, output) in outputs.iter().enumerate() {
        let from = |sender: usize| counts[sender][index];
        let mut at = 0;
        let mut chunks = Vec::new();
        for sender in 0..ranks {
            let (count, start) = (from(sender), starts[index][sender]);
            if is_known && count > 0 {
                let chunk = &output[at * bytes..(at + count) * bytes];
                chunks.push((start..start + count, room(try_copy(chunk, "a chunk for a rank"))?));
            }
            at += count;
        }
        let sent: usize = counts[index].iter().sum::<usize>() * bytes;
        let sent = if first.operation == RankOperation::AllGatherV { sent / ranks } else { sent };
        received.push(Received {
            chunks,
            counts: (0..ranks).map(|sender| from(sender) as u32).collect(),
            moved: (sent as u64, (at * bytes) as u64),
        });
    }
    Ok((received, seconds))
}

fn source<'a>(own: Option<&'a Bytes>, arrival: &RankArrival) -> trn3_system::Result<Cow<'a, [u8]>> {
    let view = &arrival.call.srcs[0];
    let unknown = || room(try_zeros(view.len() * view.dtype.size(), "what a rank brings to a collective"));
    own.map_or_else(|| unknown().map(Cow::Owned), |own| Ok(Cow::Borrowed(own.as_slice())))
}

impl<'a> ChunkExchange<'a> {
    fn new(lane: &'a [&'a RankArrival], tables: &[Bytes]) -> Self {
        let ranks = lane.len();
        let row = |table: &Bytes, number: usize| -> Vec<usize> {
            let words = table.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word) as usize);
            words.skip(number * ranks).take(ranks).collect()
        };
        let to_all = lane[0].call.operation == RankOperation::AllGatherV;
        // Everybody gets the same chunk: that of the first column.
        let sent = |number: usize| {
            let one = |table: &Bytes| {
                let row = row(table, number);
                if to_all { vec![row[0]; ranks] } else { row }
            };
            tables.iter().map(one).collect::<Vec<_>>()
        };
        let start = |(arrival, table): (&&RankArrival, &Bytes)| {
            let each = arrival.call.dsts[0].len() / ranks;
            if arrival.call.has_rdispls { row(table, RECV_DISPLS) } else { (0..ranks).map(|i| i * each).collect() }
        };
        Self {
            counts: sent(SEND_COUNTS),
            send: sent(SEND_DISPLS),
            starts: lane.iter().zip(tables).map(start).collect(),
            expected: tables.iter().map(|table| row(table, RECV_COUNTS)).collect(),
            lane,
        }
    }

    fn check(&self) -> Result<(), MeetingError> {
        let ranks = self.lane.len();
        for (index, arrival) in self.lane.iter().enumerate() {
            let call = &arrival.call;
            let fits = |counts: &[usize], starts: &[usize], size: usize, operand: &str, way: &'static str| {
                let outside = (0..ranks).find(|&other| counts[other] > 0 && starts[other] + counts[other] > size);
                let Some(other) = outside else { return Ok(()) };
                let (count, start) = (counts[other], starts[other]);
                let got = format!("{way}[{other}] is {count} from element {start}");
                let allowed = format!("{operand} has {size} there");
                let error = Error::validation(call.operation.name(), "", got, allowed);
                Err(MeetingError::at(&arrival.place.line, error))
            };
            fits(&self.counts[index], &self.send[index], call.srcs[0].len(), "srcs", "send_counts")?;
            let comes: Vec<usize> = (0..ranks).map(|sender| self.counts[sender][index]).collect();
            let whole = call.dsts[0].len();
            let (size, starts) =
                if call.has_rdispls { (whole, &self.starts[index][..]) } else { (whole / ranks, &vec![0; ranks][..]) };
            fits(&comes, starts, size, "dsts", "recv_counts")?;
            if call.recv_counts_known && self.expected[index] != comes {
                let (rank, expected) = (arrival.group[index], &self.expected[index]);
                let name = call.operation;
                let text = format!("{name} recv_counts of rank {rank} are {expected:?}; the ranks send {comes:?}");
                return Err(MeetingError::at(&arrival.place.line, Error::Value(text)));
            }
        }
        Ok(())
    }

    /// One chunk of each, for all, end to end.
    fn gathered(
        &self,
        fabric: &RankFabric,
        bytes: usize,
        flat: &[Cow<'_, [u8]>],
    ) -> trn3_system::Result<(Vec<Bytes>, f64)> {
        let chunks: Vec<&[u8]> = flat
            .iter()
            .enumerate()
            .map(|(index, own)| {
                let (start, count) = (self.send[index][0], self.counts[index][0]);
                // An empty chunk may be said to lie anywhere.
                if count == 0 { &[][..] } else { &own[start * bytes..(start + count) * bytes] }
            })
            .collect();
        let sizes: Vec<f64> = chunks.iter().map(|chunk| chunk.len() as f64).collect();
        let (schedule, seconds) = self.schedule(fabric, Operation::AllGatherV, &sizes)?;
        let whole = chunks.iter().map(|chunk| chunk.len()).sum();
        let outputs = flat.iter().map(|_| room(try_zeros(whole, "what a rank takes from a collective")));
        let mut outputs = outputs.collect::<trn3_system::Result<Vec<Bytes>>>()?;
        let mut places: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        all_gather_v(&schedule, bytes, &chunks, &mut places)?;
        Ok((outputs, seconds))
    }

    /// Counts from each to each; what one gets is end to end.
    fn scattered(
        &self,
        fabric: &RankFabric,
        bytes: usize,
        flat: &[Cow<'_, [u8]>],
    ) -> trn3_system::Result<(Vec<Bytes>, f64)> {
        let ranks = flat.len();
        let mut counts = Counts::default();
        let mut ends = vec![0; ranks];
        for from in 0..ranks {
            for (to, end) in ends.iter_mut().enumerate() {
                let count = self.counts[from][to];
                counts.counts.push(count as u64);
                counts.from.push(if count == 0 { 0 } else { self.send[from][to] as u64 });
                counts.to.push(*end as u64);
                *end += count;
            }
        }
        let sizes: Vec<f64> = counts.counts.iter().map(|&count| (count as usize * bytes) as f64).collect();
        let (schedule, seconds) = self.schedule(fabric, Operation::AllToAllV, &sizes)?;
        let inputs: Vec<&[u8]> = flat.iter().map(|own| &own[..]).collect();
        let outputs = ends.iter().map(|&end| room(try_zeros(end * bytes, "what a rank takes from a collective")));
        let mut outputs = outputs.collect::<trn3_system::Result<Vec<Bytes>>>()?;
        let mut places: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
        all_to_all_v(&schedule, bytes, &counts, &inputs, &mut places)?;
        Ok((outputs, seconds))
    }

    fn schedule(
        &self,
        fabric: &RankFabric,
        operation: Operation,
        sizes: &[f64],
    ) -> trn3_system::Result<(Schedule, f64)> {
        let estimator = fabric.estimator();
        let task: CollectiveTask = fabric.task(operation, std::slice::from_ref(&self.lane[0].group), &[])?;
        let cost = estimator.cost_sized(&task, sizes)?;
        let form = cost.form.parse()?;
        Ok((Schedule::new(estimator.fabric(), &task.groups[0], operation, form, &task.extra)?, cost.time))
    }
}
