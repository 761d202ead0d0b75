//! From event to event: transfers become ready, move and end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use trn3_numerics::check_interrupt;

use super::critical::{self, Bottlenecks};
use super::network::Network;
use super::paths::Paths;
use super::{FlowTransfer, Outcome, Resource, TIE, check};
use crate::error::{Error, Result};

/// A simulation on its way.
pub(super) struct Engine<'a> {
    resources: &'a [Resource],
    transfers: &'a [FlowTransfer],
    followers: Followers,
    waiting_for: Vec<u32>,
    spans: Vec<(f64, f64)>,
    ended: Vec<bool>,
    bottlenecks: Bottlenecks,
    /// Moments at which transfers have paid their latency.
    arrivals: BinaryHeap<Reverse<(u64, u32)>>,
    queues: Queues<'a>,
}

/// Transfers that run one at a time, in the order in which they become ready.
struct Queues<'a> {
    /// The queue of each transfer; empty if there is none.
    of: &'a [Option<u32>],
    /// For each queue, what is ready: the moment, and the transfer.
    ready: Vec<BinaryHeap<Reverse<(u64, u32)>>>,
    running: Vec<bool>,
    last: Vec<Option<u32>>,
    /// Queues in which something became ready or ended.
    touched: Vec<u32>,
    behind: Vec<Option<u32>>,
}

impl<'a> Queues<'a> {
    fn new(of: &'a [Option<u32>]) -> Self {
        let count = of.iter().flatten().max().map_or(0, |last| *last as usize + 1);
        Self {
            of,
            ready: vec![BinaryHeap::new(); count],
            running: vec![false; count],
            last: vec![None; count],
            touched: Vec::new(),
            behind: vec![None; of.len()],
        }
    }

    fn of(&self, transfer: u32) -> Option<u32> {
        self.of.get(transfer as usize).copied().flatten()
    }
}

/// For each transfer, those that come after it.
struct Followers {
    first: Vec<u32>,
    list: Vec<u32>,
}

impl Followers {
    fn new(transfers: &[FlowTransfer]) -> Self {
        let mut first = vec![0u32; transfers.len() + 1];
        for before in transfers.iter().flat_map(|transfer| &transfer.after) {
            first[*before as usize + 1] += 1;
        }
        for i in 1..first.len() {
            first[i] += first[i - 1];
        }
        let mut list = vec![0u32; first[transfers.len()] as usize];
        let mut next = first.clone();
        for (index, transfer) in (0u32..).zip(transfers) {
            for &before in &transfer.after {
                list[next[before as usize] as usize] = index;
                next[before as usize] += 1;
            }
        }
        Self { first, list }
    }

    fn range(&self, transfer: u32) -> std::ops::Range<usize> {
        self.first[transfer as usize] as usize..self.first[transfer as usize + 1] as usize
    }
}

impl<'a> Engine<'a> {
    pub(super) fn new(resources: &'a [Resource], transfers: &'a [FlowTransfer], queues: &'a [Option<u32>]) -> Self {
        Self {
            resources,
            transfers,
            followers: Followers::new(transfers),
            waiting_for: transfers.iter().map(|transfer| transfer.after.len() as u32).collect(),
            // The begin is the latest end met so far, until the last predecessor has ended.
            spans: transfers.iter().map(|transfer| (transfer.start, 0.0)).collect(),
            ended: vec![false; transfers.len()],
            bottlenecks: Bottlenecks::new(transfers.len()),
            arrivals: BinaryHeap::new(),
            queues: Queues::new(queues),
        }
    }

    pub(super) fn run(mut self) -> Result<Outcome> {
        let paths = Paths::new(self.transfers);
        let mut network = Network::new(self.resources, &paths);
        for index in (0u32..).zip(self.transfers).filter(|(_, transfer)| transfer.after.is_empty()) {
            self.is_ready(index.0);
        }
        self.admit();
        let mut arrived: Vec<u32> = Vec::new();
        let mut ended: Vec<u32> = Vec::new();
        loop {
            check_interrupt()?;
            let arrival = self.arrivals.peek().map(|Reverse((moment, _))| f64::from_bits(*moment));
            let end = network.next_end();
            let now = match (arrival, end) {
                (None, None) => break,
                (Some(moment), None) | (None, Some(moment)) => moment,
                (Some(arrival), Some(end)) => arrival.min(end),
            };
            if !now.is_finite() {
                return Err(Error::Value(
                    "transfers: one would end later than any number of seconds; its bytes are too many or a rate too low"
                        .to_owned(),
                ));
            }
            let limit = now + now * TIE;
            while network.next_end().is_some_and(|end| end <= limit) {
                let (members, names) = network.end_next(now);
                self.bottlenecks.set(members, &names);
                ended.extend_from_slice(members);
            }
            for &transfer in &ended {
                self.ends(transfer, now);
            }
            ended.clear();
            loop {
                let due = self.arrivals.peek().filter(|Reverse((moment, _))| f64::from_bits(*moment) <= limit);
                let Some(&Reverse((moment, transfer))) = due else {
                    // Only now is everything known that became ready at this moment.
                    if self.admit() {
                        continue;
                    }
                    break;
                };
                self.arrivals.pop();
                if self.transfers[transfer as usize].bytes > 0.0 && !paths.uses(paths.of(transfer)).is_empty() {
                    arrived.push(transfer);
                } else {
                    self.ends(transfer, f64::from_bits(moment));
                }
            }
            let key = |&transfer: &u32| (paths.of(transfer), self.transfers[transfer as usize].bytes.to_bits());
            arrived.sort_unstable_by_key(|transfer| (key(transfer), *transfer));
            for equal in arrived.chunk_by(|a, b| key(a) == key(b)) {
                let first = equal[0];
                network.add(paths.of(first), equal.iter().copied(), self.transfers[first as usize].bytes, now);
            }
            arrived.clear();
            network.refill(now);
        }
        if let Some(stuck) = network.stuck() {
            return Err(Error::Value(format!(
                "transfer {stuck}: its rate is too small to compute; its share or weights lie too far from the others'"
            )));
        }
        if self.ended.contains(&false) {
            return Err(check::cycle(self.transfers, |transfer| !self.ended[transfer as usize]));
        }
        Ok(self.outcome(&network))
    }

    /// All predecessors have ended.
    fn is_ready(&mut self, transfer: u32) {
        if let Some(queue) = self.queues.of(transfer) {
            let ready = self.spans[transfer as usize].0;
            self.queues.ready[queue as usize].push(Reverse((ready.to_bits(), transfer)));
            self.queues.touched.push(queue);
        } else {
            self.begins(transfer);
        }
    }

    /// Lets the first of each free queue begin; whether any did.
    fn admit(&mut self) -> bool {
        let mut touched = std::mem::take(&mut self.queues.touched);
        touched.sort_unstable();
        touched.dedup();
        let mut is_any = false;
        for &queue in &touched {
            let at = queue as usize;
            if self.queues.running[at] {
                continue;
            }
            let Some(Reverse((_, transfer))) = self.queues.ready[at].pop() else { continue };
            if let Some(last) = self.queues.last[at] {
                let free = self.spans[last as usize].1;
                if free > self.spans[transfer as usize].0 {
                    self.spans[transfer as usize].0 = free;
                    self.queues.behind[transfer as usize] = Some(last);
                }
            }
            self.queues.running[at] = true;
            self.begins(transfer);
            is_any = true;
        }
        touched.clear();
        // Nothing was touched meanwhile: what begins ends later.
        self.queues.touched = touched;
        is_any
    }

    fn begins(&mut self, transfer: u32) {
        let moment = self.spans[transfer as usize].0 + self.transfers[transfer as usize].latency;
        self.arrivals.push(Reverse((moment.to_bits(), transfer)));
    }

    fn ends(&mut self, transfer: u32, now: f64) {
        let span = &mut self.spans[transfer as usize];
        // An event within the tie of another is counted to it, which may lie an instant before this begin.
        span.1 = now.max(span.0);
        let end = span.1;
        self.ended[transfer as usize] = true;
        if let Some(queue) = self.queues.of(transfer) {
            self.queues.running[queue as usize] = false;
            self.queues.last[queue as usize] = Some(transfer);
            self.queues.touched.push(queue);
        }
        for at in self.followers.range(transfer) {
            let follower = self.followers.list[at];
            let begin = &mut self.spans[follower as usize].0;
            *begin = begin.max(end);
            self.waiting_for[follower as usize] -= 1;
            if self.waiting_for[follower as usize] == 0 {
                self.is_ready(follower);
            }
        }
    }

    fn outcome(self, network: &Network) -> Outcome {
        let mut carried = vec![0.0; self.resources.len()];
        for transfer in self.transfers {
            for &(resource, weight) in &transfer.uses {
                carried[resource as usize] += transfer.bytes * weight;
            }
        }
        let finish = self.spans.iter().map(|span| span.1).fold(0.0, f64::max);
        let resources = self.resources.len();
        let behind = self.queues.behind;
        let binding = critical::binding(self.transfers, &self.spans, &self.bottlenecks, &behind, finish, resources);
        let first = |transfer| self.bottlenecks.of(transfer).first().copied();
        let bottleneck = (0..self.transfers.len() as u32).map(first).collect();
        Outcome { spans: self.spans, finish, carried, busy: network.busy(), bottleneck, binding, behind }
    }
}
