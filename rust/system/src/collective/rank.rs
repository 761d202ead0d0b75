//! One rank's part of a collective whose messages somebody else carries: a simulator of networks, a host.
//!
//! *Schedule*: the mesh of one rank a chip, which asks nothing of a network but that everyone reaches everyone. all_gather,
//! reduce_scatter and all_to_all are one round of messages between all pairs, all_reduce is a reduce_scatter and an
//! all_gather. Buffers are cut as [`Schedule::range`](super::Schedule::range) cuts them, and reduced with
//! [`Order::Index`](super::Order::Index), so that all ranks get the same bits whatever the network does: those of
//! [`execute`](super::execute) with that order.

use std::ops::Range;

use super::execute::{Arithmetic, reduce};
use super::name::Operation;
use super::schedule::part;
use crate::error::{Error, Result};

/// From which buffer of the rank a message is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RankBuffer {
    /// What the rank brings.
    Source,
    /// Its result, as far as it is there.
    Result,
}

/// What one rank sends and what it makes of what it gets. Lengths and places are in elements.
///
/// ```
/// use trn3_system::collective::{Arithmetic, Operation, RankBuffer, RankPart};
///
/// let part = RankPart::new(Operation::AllReduce, Arithmetic::new("uint8".parse()?), 2, 1, 4)?;
/// assert_eq!((part.rounds(), part.message(0, 0)), (2, (RankBuffer::Source, 0..2)));
/// // What rank 0 and this rank sent of its half, and where the sum goes.
/// assert_eq!(part.settle(0, &[vec![1, 2], vec![3, 4]])?, [(2, vec![4, 6])]);
/// assert_eq!(part.message(1, 0), (RankBuffer::Result, 2..4));
/// # Ok::<(), trn3_system::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct RankPart {
    operation: Operation,
    arithmetic: Arithmetic,
    ranks: usize,
    position: usize,
    length: usize,
}

impl RankPart {
    /// The part of a position among so many ranks, each of which brings `length` elements.
    ///
    /// # Errors
    /// [`Error::Value`] for an operation that is none of all_reduce, all_gather, reduce_scatter and all_to_all, a position
    /// that there is not, and a length that the ranks would have to divide and do not.
    pub fn new(
        operation: Operation,
        arithmetic: Arithmetic,
        ranks: usize,
        position: usize,
        length: usize,
    ) -> Result<Self> {
        let allowed = [Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter, Operation::AllToAll];
        if !allowed.contains(&operation) {
            let allowed = allowed.map(Operation::name).join(", ");
            return Err(Error::Value(format!("operation is {operation}; by messages of ranks allowed: {allowed}")));
        }
        if position >= ranks {
            return Err(Error::Value(format!("position is {position}; the group has {ranks} ranks")));
        }
        let is_even = matches!(operation, Operation::ReduceScatter | Operation::AllToAll);
        if is_even && !length.is_multiple_of(ranks) {
            return Err(Error::Value(format!("{length} elements are given, which {ranks} ranks do not divide")));
        }
        Ok(Self { operation, arithmetic, ranks, position, length })
    }

    /// Rounds of messages.
    pub fn rounds(&self) -> u32 {
        1 + u32::from(self.operation == Operation::AllReduce)
    }

    fn chunk(&self, position: usize) -> Range<usize> {
        part(0..self.length, position, self.ranks)
    }

    /// What it sends a position in a round; its own position too, which is no message.
    pub fn message(&self, round: u32, to: usize) -> (RankBuffer, Range<usize>) {
        match (self.operation, round) {
            (Operation::AllGather, _) => (RankBuffer::Source, 0..self.length),
            (Operation::AllReduce, 1) => (RankBuffer::Result, self.chunk(self.position)),
            _ => (RankBuffer::Source, self.chunk(to)),
        }
    }

    /// Elements that a position sends it in a round.
    pub fn expected(&self, round: u32, from: usize) -> usize {
        match (self.operation, round) {
            (Operation::AllGather, _) => self.length,
            (Operation::AllReduce, 1) => self.chunk(from).len(),
            _ => self.chunk(self.position).len(),
        }
    }

    /// What a round's messages, by position, come to: where each piece begins in the result, and its bytes.
    ///
    /// # Errors
    /// [`Error::Value`] for messages of other lengths than [`RankPart::expected`]; errors of casts.
    pub fn settle(&self, round: u32, come: &[Vec<u8>]) -> Result<Vec<(usize, Vec<u8>)>> {
        let size = self.arithmetic.element.bytes();
        let bytes = |from: usize| self.expected(round, from) * size;
        if let Some(from) =
            (0..self.ranks.max(come.len())).find(|&from| come.get(from).map(Vec::len) != Some(bytes(from)))
        {
            let got = come.get(from).map_or(0, Vec::len);
            return Err(Error::Value(format!("position {from} sent {got} bytes; {} were expected", bytes(from))));
        }
        if matches!((self.operation, round), (Operation::AllReduce, 0) | (Operation::ReduceScatter, _)) {
            let inputs: Vec<&[u8]> = come.iter().map(Vec::as_slice).collect();
            let needed = bytes(self.position) / size * self.arithmetic.result().bytes();
            let mut sum = with_room(needed)?;
            sum.resize(needed, 0);
            reduce(&self.arithmetic, &inputs, &mut sum)?;
            let first = if self.operation == Operation::AllReduce { self.chunk(self.position).start } else { 0 };
            return Ok(vec![(first, sum)]);
        }
        let first = |from: usize| match self.operation {
            Operation::AllGather => from * self.length,
            _ => self.chunk(from).start,
        };
        let copied = |(from, bytes): (usize, &Vec<u8>)| {
            let mut copy = with_room(bytes.len())?;
            copy.extend_from_slice(bytes);
            Ok((first(from), copy))
        };
        come.iter().enumerate().map(copied).collect()
    }
}

fn with_room(bytes: usize) -> Result<Vec<u8>> {
    let mut room = Vec::new();
    let short = |_| Error::Memory(format!("a collective's result has {bytes} bytes; the host has no room for them"));
    room.try_reserve_exact(bytes).map_err(short)?;
    Ok(room)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::{Algorithm, Extra, Order, RankGroup, Reduction, Schedule, execute, output_length};
    use crate::fabric::{Fabric, LinkProfile};

    /// All ranks' parts, every message carried at once.
    fn by_messages(operation: Operation, arithmetic: Arithmetic, inputs: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let (ranks, size) = (inputs.len(), arithmetic.element.bytes());
        let parts: Vec<RankPart> = (0..ranks)
            .map(|at| RankPart::new(operation, arithmetic, ranks, at, inputs[at].len() / size).expect("fits"))
            .collect();
        let mut results: Vec<Vec<u8>> = vec![Vec::new(); ranks];
        for round in 0..parts[0].rounds() {
            let come = |to: usize| -> Vec<Vec<u8>> {
                let one = |(from, part): (usize, &RankPart)| {
                    let (origin, range) = part.message(round, to);
                    let buffer = if origin == RankBuffer::Source { &inputs[from] } else { &results[from] };
                    buffer[range.start * size..range.end * size].to_vec()
                };
                parts.iter().enumerate().map(one).collect()
            };
            let all: Vec<Vec<Vec<u8>>> = (0..ranks).map(come).collect();
            for (at, come) in all.iter().enumerate() {
                for (first, bytes) in parts[at].settle(round, come).expect("fits") {
                    let end = first * size + bytes.len();
                    let result = &mut results[at];
                    result.resize(result.len().max(end), 0);
                    result[first * size..end].copy_from_slice(&bytes);
                }
            }
        }
        results
    }

    #[test]
    fn test_messages_give_the_bits_of_the_schedule() {
        let fabric = Fabric::built_in("trn2_instance", LinkProfile::Docs).expect("builds");
        for (ranks, length) in [(1, 6), (3, 6), (5, 10), (4, 4)] {
            let group = RankGroup::new((0..ranks).collect(), 1, fabric.chips()).expect("there");
            for operation in [Operation::AllReduce, Operation::AllGather, Operation::ReduceScatter, Operation::AllToAll]
            {
                for reduction in [Reduction::Add, Reduction::Max, Reduction::Min] {
                    let element = "bfloat16".parse().expect("known");
                    let arithmetic = Arithmetic { reduction, order: Order::Index, ..Arithmetic::new(element) };
                    let length = if ranks == 4 { 4 } else { length / ranks as usize * ranks as usize };
                    let value = |rank: u32, i: usize| ((rank * 7919 + i as u32 * 104_729) % 65_536) as u16;
                    let inputs: Vec<Vec<u8>> =
                        (0..ranks).map(|r| (0..length).flat_map(|i| value(r, i).to_le_bytes()).collect()).collect();
                    let form = match operation {
                        Operation::AllToAll => Algorithm::Direct,
                        _ => Algorithm::Mesh,
                    };
                    let schedule = Schedule::new(&fabric, &group, operation, form, &Extra::default()).expect("builds");
                    let mut whole = vec![vec![0; 2 * output_length(&schedule, length)]; ranks as usize];
                    let given: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
                    let mut out: Vec<&mut [u8]> = whole.iter_mut().map(Vec::as_mut_slice).collect();
                    execute(&schedule, &arithmetic, &given, &mut out, None).expect("runs");
                    assert_eq!(by_messages(operation, arithmetic, &inputs), whole, "{operation} {reduction} {ranks}");
                    // The mesh of one rank a chip adds in that order by itself.
                    let arithmetic = Arithmetic { order: Order::Schedule, ..arithmetic };
                    let mut out: Vec<&mut [u8]> = whole.iter_mut().map(Vec::as_mut_slice).collect();
                    execute(&schedule, &arithmetic, &given, &mut out, None).expect("runs");
                    assert_eq!(by_messages(operation, arithmetic, &inputs), whole, "{operation} {reduction} {ranks}");
                }
            }
        }
    }

    #[test]
    fn test_uneven_chunks_are_those_of_the_schedule() {
        let arithmetic = Arithmetic::new("int32".parse().expect("known"));
        let inputs: Vec<Vec<u8>> =
            (0..3i32).map(|rank| (0..7).flat_map(|i| (rank * 10 + i).to_le_bytes()).collect()).collect();
        let expected: Vec<u8> = (0..7i32).flat_map(|i| (30 + 3 * i).to_le_bytes()).collect();
        assert_eq!(by_messages(Operation::AllReduce, arithmetic, &inputs), vec![expected; 3]);
    }

    #[test]
    fn test_wrong_parts_and_messages_are_refused() {
        let arithmetic = Arithmetic::new("int32".parse().expect("known"));
        let refusal = |operation, ranks, at, length| {
            RankPart::new(operation, arithmetic, ranks, at, length).expect_err("refused").to_string()
        };
        assert!(refusal(Operation::Broadcast, 2, 0, 4).contains("broadcast"));
        assert!(refusal(Operation::AllReduce, 2, 2, 4).contains("position is 2"));
        assert!(refusal(Operation::AllToAll, 3, 0, 4).contains("4 elements"));
        let part = RankPart::new(Operation::AllGather, arithmetic, 2, 0, 1).expect("fits");
        assert!(
            part.settle(0, &[vec![0; 4], vec![0; 3]]).expect_err("short").to_string().contains("position 1 sent 3")
        );
        assert!(part.settle(0, &[vec![0; 4]]).is_err());
    }
}
