//! Collectives of devices, by the one engine of [`trn3_system::collective`].
//!
//! Over links of a system, a device's own where the host gives no network, ranks meet: when the last one has come, the
//! engine moves and reduces what they brought and says how long it takes, by the fastest algorithm. Over a network of the
//! host's, every rank sends each other one its part, message by message
//! ([`trn3_system::collective::RankPart`]), and the network says when.
//!
//! Sums are added in the order of the group either way ([`trn3_system::collective::Order::Index`]), in float32 (int32 wraps), and rounded once: all
//! ranks get the same bits whatever the network does.

use crate::host::{Arrival, Message, Network};
use serde::{Deserialize, Serialize};
use trn3_machine::dtype::DType;
use trn3_machine::storage::try_zeros;
use trn3_machine::time::Picos;
use trn3_system::collective::RankBuffer;

use super::{Active, Device, State};
use crate::command::{DeviceCollective, Operation};
use crate::error::{Error, ErrorKind, Result};
use crate::links::Links;

/// Most ranks of a group.
const MOST_RANKS: usize = 4096;

/// One rank's part of a collective under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Exchange {
    part: DeviceCollective,
    rank: u32,
    /// Round of messages; None where the ranks meet.
    round: Option<u32>,
    /// What has come, by place in the group; of a meeting, the result.
    come: Vec<Option<Vec<u8>>>,
    /// When the last of them was there.
    latest: u64,
    /// When this round is complete, once all have come.
    pub(crate) ready: Option<u64>,
    /// What went wrong; it ends the collective.
    failure: Option<Error>,
}

impl Exchange {
    /// Who the messages are from, in the order of `come`.
    fn senders(&self) -> Vec<u32> {
        if self.round.is_some() { self.part.group.clone() } else { vec![self.rank] }
    }

    fn key(&self) -> u64 {
        self.part.key << 1 | u64::from(self.round.unwrap_or(0))
    }
}

impl Device {
    pub(crate) fn check_collective(&self, core: u32, part: &DeviceCollective) -> Result<()> {
        let rank = self.spec.rank + core;
        let dtype = part.element()?;
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
        let exchange = match &active.state {
            State::Exchanges(exchange) => exchange,
            State::Ends { at, .. } if *at >= now && active.start <= now => return Ok(()),
            State::Runs { .. } if active.start <= now => return Ok(()),
            State::Ends { .. } | State::Runs { .. } | State::Meets(_) => return fail(),
        };
        let core = u32::try_from(index).unwrap_or(u32::MAX);
        self.check_collective(core, &exchange.part)?;
        let rank = self.spec.rank + core;
        let rounds = exchange.part.of_rank(rank)?.rounds();
        let round_is_there = exchange.round.is_none_or(|round| round < rounds);
        if exchange.rank != rank || !round_is_there || exchange.come.len() != exchange.senders().len() {
            return fail();
        }
        Ok(())
    }

    pub(crate) fn begin_exchange(&mut self, index: usize, _sequence: u64, part: DeviceCollective) -> State {
        match self.begun(index, part) {
            Ok(exchange) => State::Exchanges(exchange),
            Err(error) => State::Ends { at: self.now.0, status: Err(error) },
        }
    }

    fn begun(&mut self, index: usize, part: DeviceCollective) -> Result<Exchange> {
        let rank = self.spec.rank.saturating_add(u32::try_from(index).unwrap_or(u32::MAX));
        let at = self.now.max(self.network_now());
        let size = part.element()?.size();
        let mut exchange =
            Exchange { part, rank, round: None, come: vec![None], latest: self.now.0, ready: None, failure: None };
        if !self.carrier()?.meets() {
            (exchange.round, exchange.come) = (Some(0), vec![None; exchange.part.group.len()]);
            self.send_round(&mut exchange)?;
            return Ok(exchange);
        }
        let count = usize::try_from(exchange.part.count).unwrap_or(usize::MAX);
        let bytes = self.bytes_at(exchange.part.src, 0..count, size)?;
        let carried = self.carrier()?.arrive(&Arrival { part: &exchange.part, rank, at, bytes: &bytes })?;
        self.stats.messages_sent += carried.messages;
        self.stats.message_bytes_sent += carried.bytes;
        Ok(exchange)
    }

    fn bytes_at(&mut self, address: u64, elements: std::ops::Range<usize>, size: usize) -> Result<Vec<u8>> {
        let mut bytes = try_zeros(elements.len().saturating_mul(size), "what a rank brings to a collective")?;
        self.hbm.read(address + (elements.start * size) as u64, &mut bytes)?;
        Ok(bytes)
    }

    fn send_round(&mut self, exchange: &mut Exchange) -> Result<()> {
        let Some(round) = exchange.round else { return Ok(()) };
        let (size, of_rank) = (exchange.part.element()?.size(), exchange.part.of_rank(exchange.rank)?);
        let at = self.now.max(self.network_now());
        for place in 0..exchange.part.group.len() {
            let (origin, elements) = of_rank.message(round, place);
            let address = if origin == RankBuffer::Source { exchange.part.src } else { exchange.part.dst };
            let bytes = self.bytes_at(address, elements, size)?;
            let (from, to, key) = (exchange.rank, exchange.part.group[place], exchange.key());
            if to == from {
                exchange.come[place] = Some(bytes);
                continue;
            }
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
        // What has come may be large: it moves.
        let come = std::mem::take(&mut exchange.come);
        let mut exchange = Exchange { come, ..exchange.clone() };
        if let Err(error) = self.take_messages(&mut exchange) {
            (exchange.failure, exchange.ready) = (Some(error), Some(self.now.0));
        }
        if let Some(active) = &mut self.cores[index].active {
            active.state = State::Exchanges(exchange);
        }
    }

    fn take_messages(&mut self, exchange: &mut Exchange) -> Result<()> {
        let (to, key) = (exchange.rank, exchange.key());
        for (place, from) in exchange.senders().into_iter().enumerate() {
            if exchange.come[place].is_some() {
                continue;
            }
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
        let size = exchange.part.element()?.size() as u64;
        let come: Vec<Vec<u8>> = std::mem::take(&mut exchange.come).into_iter().flatten().collect();
        let Some(round) = exchange.round else {
            for result in &come {
                self.hbm.write(exchange.part.dst, result)?;
            }
            return Ok(None);
        };
        let of_rank = exchange.part.of_rank(exchange.rank)?;
        let expected = |place: usize| of_rank.expected(round, place) as u64 * size;
        let wrong = (0..exchange.part.group.len())
            .find(|&place| come.get(place).map(|bytes| bytes.len() as u64) != Some(expected(place)));
        if let Some(place) = wrong {
            let (rank, bytes) = (exchange.part.group[place], expected(place));
            let got = come.get(place).map_or(0, Vec::len);
            return Err(Error::new(ErrorKind::Shape, format!("rank {rank} sent {got} bytes; {bytes} were expected")));
        }
        for (first, bytes) in of_rank.settle(round, &come)? {
            self.hbm.write(exchange.part.dst + first as u64 * size, &bytes)?;
        }
        if round + 1 == of_rank.rounds() {
            return Ok(None);
        }
        (exchange.round, exchange.come, exchange.ready) = (Some(round + 1), vec![None; come.len()], None);
        self.send_round(&mut exchange)?;
        Ok(Some(exchange))
    }
}
