//! Collectives of devices, message by message: every rank sends each other one its part and reduces in the order of the
//! group, so that all ranks get the same bits whatever the network does.
//!
//! **(choice)** The schedule is direct: all_gather, reduce_scatter and all_to_all are one round of messages between all
//! pairs, all_reduce is a reduce_scatter and an all_gather. Sums are of float32 (int32 wraps), in the order of the group,
//! rounded once.

use crate::host::{Message, Network};
use serde::{Deserialize, Serialize};
use trn3_machine::dtype::DType;
use trn3_machine::time::Picos;
use trn3_numerics::{ArrayMut, ArrayView, CastOptions, Draws, cast};

use crate::command::{Collective, Operation, Reduction};
use crate::device::{Active, Device, State};
use crate::error::{Error, ErrorKind, Result};
use crate::links::Links;

/// Most ranks of a group.
const MOST_RANKS: usize = 4096;

/// One rank's part of a collective under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Exchange {
    part: Collective,
    rank: u32,
    /// Round of messages.
    round: u32,
    /// What has come, by place in the group.
    come: Vec<Option<Vec<u8>>>,
    /// When the last of them was there.
    latest: u64,
    /// When this round is complete, once all have come.
    pub(crate) ready: Option<u64>,
    /// What went wrong; it ends the collective.
    failure: Option<Error>,
}

impl Exchange {
    fn place(&self) -> usize {
        self.part.group.iter().position(|&rank| rank == self.rank).unwrap_or_default()
    }

    fn key(&self) -> u64 {
        self.part.key << 1 | u64::from(self.round)
    }
}

/// Elements of chunk `place` of `count` in `parts`: as equal as they can be, longer ones first.
fn chunk(count: u64, parts: usize, place: usize) -> (u64, u64) {
    let (parts, place) = (parts as u64, place as u64);
    let (least, longer) = (count / parts, count % parts);
    (place * least + place.min(longer), least + u64::from(place < longer))
}

impl Device {
    pub(crate) fn check_collective(&self, core: u32, part: &Collective) -> Result<()> {
        let rank = self.spec.rank + core;
        let dtype: DType = part.dtype.parse()?;
        let group = &part.group;
        let mut sorted = group.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if group.is_empty() || group.len() > MOST_RANKS || sorted.len() != group.len() || !group.contains(&rank) {
            let text = format!("group {:?} of {} ranks", &group[..group.len().min(16)], group.len());
            return Err(Error::value(format!("{text}; allowed: 1 to {MOST_RANKS} different ranks, {rank} among them")));
        }
        let reduces = matches!(part.operation, Operation::AllReduce | Operation::ReduceScatter);
        let known = [DType::Float32, DType::BFloat16, DType::Float16, DType::Int32];
        if reduces && !known.contains(&dtype) {
            let known = known.map(DType::name).join(", ");
            return Err(Error::new(ErrorKind::Type, format!("dtype is {dtype}; what is reduced is one of {known}")));
        }
        let even = matches!(part.operation, Operation::ReduceScatter | Operation::AllToAll);
        if even && !part.count.is_multiple_of(group.len() as u64) {
            let text = format!("count is {}; a multiple of the {} ranks is needed", part.count, group.len());
            return Err(Error::new(ErrorKind::Shape, text));
        }
        if part.key > u64::MAX >> 1 {
            return Err(Error::value(format!("key is {}; allowed: up to {}", part.key, u64::MAX >> 1)));
        }
        let (given, got) = match part.operation {
            Operation::AllReduce | Operation::AllToAll => (part.count, part.count),
            Operation::AllGather => (part.count, part.count.saturating_mul(group.len() as u64)),
            Operation::ReduceScatter => (part.count, part.count / group.len() as u64),
        };
        for (name, address, count) in [("src", part.src, given), ("dst", part.dst, got)] {
            let end = count.checked_mul(dtype.size() as u64).and_then(|bytes| bytes.checked_add(address));
            if end.is_none_or(|end| end > self.hbm.capacity()) {
                let capacity = self.hbm.capacity();
                return Err(Error::value(format!("{name}: {count} of {dtype} at {address}; HBM has {capacity} bytes")));
            }
        }
        if given.max(got).saturating_mul(dtype.size() as u64) > self.spec.host_memory_bytes {
            let text = format!("{} of {dtype} are more than host_memory_bytes", given.max(got));
            return Err(Error::new(ErrorKind::Capacity, text));
        }
        Ok(())
    }

    /// Refuses a saved state of a command that could not be.
    pub(crate) fn check_active(&self, index: usize, active: &Active, now: u64) -> Result<()> {
        let fail = || Err(Error::value("the snapshot is damaged: a command under way could not be so"));
        let State::Exchanges(exchange) = &active.state else {
            return if active.next().is_some_and(|at| at >= now) && active.start <= now { Ok(()) } else { fail() };
        };
        let core = u32::try_from(index).unwrap_or(u32::MAX);
        self.check_collective(core, &exchange.part)?;
        let rank = self.spec.rank + core;
        if exchange.rank != rank || exchange.round > 1 || exchange.come.len() != exchange.part.group.len() {
            return fail();
        }
        Ok(())
    }

    pub(crate) fn begin_exchange(&mut self, index: usize, _sequence: u64, part: Collective) -> State {
        let rank = self.spec.rank.saturating_add(u32::try_from(index).unwrap_or(u32::MAX));
        let come = vec![None; part.group.len()];
        let mut exchange = Exchange { part, rank, round: 0, come, latest: self.now.0, ready: None, failure: None };
        match self.send_round(&mut exchange) {
            Ok(()) => State::Exchanges(exchange),
            Err(error) => State::Ends { at: self.now.0, status: Err(error) },
        }
    }

    /// Whether the round's messages are of chunks, not of the whole buffer.
    fn sends_chunks(exchange: &Exchange) -> bool {
        exchange.round == 0 && exchange.part.operation != Operation::AllGather
    }

    /// What this rank gives place `to` of the group in this round.
    fn outgoing(&mut self, exchange: &Exchange, to: usize) -> Result<Vec<u8>> {
        let part = &exchange.part;
        let size = part.dtype.parse::<DType>()?.size() as u64;
        let ranks = part.group.len();
        let (address, first, count) = if Self::sends_chunks(exchange) {
            let (first, count) = chunk(part.count, ranks, to);
            (part.src, first, count)
        } else if part.operation == Operation::AllReduce {
            // The second round gives everyone the chunk reduced here, which lies in its place already.
            let (first, count) = chunk(part.count, ranks, exchange.place());
            (part.dst, first, count)
        } else {
            (part.src, 0, part.count)
        };
        let mut bytes = vec![0; (count * size) as usize];
        self.hbm.read(address + first * size, &mut bytes)?;
        Ok(bytes)
    }

    fn send_round(&mut self, exchange: &mut Exchange) -> Result<()> {
        let own = exchange.place();
        let at = self.now.max(self.network_now());
        for place in 0..exchange.part.group.len() {
            let bytes = self.outgoing(exchange, place)?;
            if place == own {
                exchange.come[own] = Some(bytes);
                continue;
            }
            let (from, to, key) = (exchange.rank, exchange.part.group[place], exchange.key());
            self.stats.messages_sent += 1;
            self.stats.message_bytes_sent += bytes.len() as u64;
            self.carrier()?.send(&Message { from, to, key, at, bytes: &bytes })?;
        }
        Ok(())
    }

    fn network_now(&self) -> Picos {
        self.network.as_ref().map_or(Picos::ZERO, |network| network.now())
    }

    /// What carries messages.
    fn carrier(&mut self) -> Result<&mut dyn Network> {
        if let Some(network) = &mut self.network {
            return Ok(network.as_mut());
        }
        if self.links.is_none() {
            self.links = Some(Links::of_system(self.spec.system(&self.arch), &self.arch)?);
        }
        match &mut self.links {
            Some(links) => Ok(links),
            None => Err(Error::new(ErrorKind::Internal, "links were made and are not there")),
        }
    }

    /// Takes messages that have come for a core, or are known to.
    pub(crate) fn listen(&mut self, index: usize) {
        let Some(active) = &mut self.cores[index].active else { return };
        let State::Exchanges(exchange) = &mut active.state else { return };
        if exchange.ready.is_some() {
            return;
        }
        let mut exchange = exchange.clone();
        if let Err(error) = self.take_messages(&mut exchange) {
            (exchange.failure, exchange.ready) = (Some(error), Some(self.now.0));
        }
        if let Some(active) = &mut self.cores[index].active {
            active.state = State::Exchanges(exchange);
        }
    }

    fn take_messages(&mut self, exchange: &mut Exchange) -> Result<()> {
        for place in 0..exchange.come.len() {
            if exchange.come[place].is_some() {
                continue;
            }
            let (from, to, key) = (exchange.part.group[place], exchange.rank, exchange.key());
            let Some(delivery) = self.carrier()?.recv(from, to, key)? else { continue };
            exchange.latest = exchange.latest.max(delivery.at.0);
            exchange.come[place] = Some(delivery.bytes);
        }
        if exchange.come.iter().all(Option::is_some) {
            let ready = Picos(exchange.latest).max(self.now).max(self.network_now());
            exchange.ready = Some(ready.0);
            if ready > self.now && self.network.is_some() {
                self.carrier()?.schedule(ready)?;
            }
        }
        Ok(())
    }

    /// A round is complete: what came is put in its place; None if it was the last.
    pub(crate) fn go_on(&mut self, _index: usize, mut exchange: Exchange) -> Result<Option<Exchange>> {
        if let Some(failure) = exchange.failure {
            return Err(failure);
        }
        let part = exchange.part.clone();
        let dtype: DType = part.dtype.parse()?;
        let (size, ranks, own) = (dtype.size() as u64, part.group.len(), exchange.place());
        let come: Vec<Vec<u8>> = std::mem::take(&mut exchange.come).into_iter().flatten().collect();
        let chunk_of = |place: usize| chunk(part.count, ranks, place);
        let expected = |from: usize| match (part.operation, exchange.round) {
            (Operation::AllGather, _) => part.count * size,
            (Operation::AllReduce, 1) => chunk_of(from).1 * size,
            _ => chunk_of(own).1 * size,
        };
        if let Some(place) =
            (0..ranks).find(|&place| come.get(place).map(|bytes| bytes.len() as u64) != Some(expected(place)))
        {
            let (rank, bytes) = (part.group[place], expected(place));
            let got = come.get(place).map_or(0, Vec::len);
            return Err(Error::new(ErrorKind::Shape, format!("rank {rank} sent {got} bytes; {bytes} were expected")));
        }
        match (part.operation, exchange.round) {
            (Operation::AllReduce, 0) | (Operation::ReduceScatter, _) => {
                let reduced = reduce(&come, dtype, part.reduction)?;
                let is_scattered = part.operation == Operation::ReduceScatter;
                let first = if is_scattered { 0 } else { chunk_of(own).0 };
                self.hbm.write(part.dst + first * size, &reduced)?;
                if is_scattered {
                    return Ok(None);
                }
                (exchange.round, exchange.come, exchange.ready) = (1, vec![None; ranks], None);
                self.send_round(&mut exchange)?;
                Ok(Some(exchange))
            }
            _ => {
                for (place, bytes) in come.iter().enumerate() {
                    let first = match part.operation {
                        Operation::AllGather => place as u64 * part.count,
                        _ => chunk_of(place).0,
                    };
                    self.hbm.write(part.dst + first * size, bytes)?;
                }
                Ok(None)
            }
        }
    }
}

/// Buffers reduced in their order.
fn reduce(buffers: &[Vec<u8>], dtype: DType, reduction: Reduction) -> Result<Vec<u8>> {
    if dtype == DType::Int32 {
        let words =
            |bytes: &Vec<u8>| bytes.as_chunks().0.iter().map(|word| i32::from_le_bytes(*word)).collect::<Vec<_>>();
        let fold = |one: i32, other: i32| match reduction {
            Reduction::Add => one.wrapping_add(other),
            Reduction::Max => one.max(other),
            Reduction::Min => one.min(other),
        };
        return Ok(folded(buffers, words, fold).into_iter().flat_map(i32::to_le_bytes).collect());
    }
    let Some(format) = dtype.format() else {
        return Err(Error::new(ErrorKind::Type, format!("dtype is {dtype}; a floating-point type is needed")));
    };
    let mut widened = Vec::with_capacity(buffers.len());
    for bytes in buffers {
        let shape = [bytes.len() / dtype.size()];
        let mut values = vec![0f32; shape[0]];
        let source = ArrayView::from_codes(format, bytes, &shape)?;
        cast(&source.into(), ArrayMut::new(&mut values, &shape)?, CastOptions::default(), Draws::None)?;
        widened.push(values);
    }
    // NaN wins, as it does in the engines.
    let fold = |one: f32, other: f32| match reduction {
        Reduction::Add => one + other,
        Reduction::Max => {
            if one.is_nan() || one > other {
                one
            } else {
                other
            }
        }
        Reduction::Min => {
            if one.is_nan() || one < other {
                one
            } else {
                other
            }
        }
    };
    let values = trn3_numerics::with_default_environment(|| folded(&widened, |values: &Vec<f32>| values.clone(), fold));
    let shape = [values.len()];
    let mut out = vec![0; values.len() * dtype.size()];
    let source = ArrayView::new(&values, &shape)?;
    cast(&source.into(), ArrayMut::from_codes(format, &mut out, &shape)?, CastOptions::default(), Draws::None)?;
    Ok(out)
}

fn folded<B, T: Copy>(buffers: &[B], values: impl Fn(&B) -> Vec<T>, fold: impl Fn(T, T) -> T) -> Vec<T> {
    let mut all = buffers.iter().map(values);
    let Some(mut result) = all.next() else { return Vec::new() };
    for other in all {
        result.iter_mut().zip(other).for_each(|(one, other)| *one = fold(*one, other));
    }
    result
}
