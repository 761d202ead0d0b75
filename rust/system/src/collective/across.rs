//! Collectives over many equal systems on a non-blocking network: by what one of them does, whatever their number.

use super::estimate::{CollectiveEstimate, Estimator};
use super::group::RankGroup;
use super::name::Operation;
use crate::cluster::Cluster;
use crate::error::{Error, Result};

/// The network between equal systems, as every chip sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitNetwork {
    /// Number of systems.
    pub systems: u64,
    /// Bytes a second of one chip, one way.
    pub rate: f64,
    /// Seconds of a step.
    pub latency: f64,
    /// The part of the rate that collectives reach.
    pub efficiency: f64,
    /// Seconds of a step of a flat ring over all ranks, where collectives cross the network in nothing else.
    pub ring_step: Option<f64>,
    /// How many times more can enter a bottom node from below than leave it upwards.
    pub oversubscription: f64,
    /// Systems under a bottom node.
    pub under: u64,
}

impl UnitNetwork {
    /// A non-blocking network whose rate collectives reach whole.
    pub fn new(systems: u64, rate: f64, latency: f64) -> Self {
        Self { systems, rate, latency, efficiency: 1.0, ring_step: None, oversubscription: 1.0, under: systems.max(1) }
    }

    /// That of a cluster, for collectives of all its chips.
    pub fn of(cluster: &Cluster) -> Self {
        let network = cluster.network();
        Self {
            efficiency: network.efficiency,
            ring_step: network.ring_step,
            oversubscription: network.oversubscription,
            under: network.units_per_bottom_node,
            ..Self::new(cluster.live_units(), network.rate, network.latency)
        }
    }

    /// Seconds in which each chip sends so many bytes to one system so far on; all of them do so at once.
    fn seconds(&self, bytes: f64, distance: u64) -> f64 {
        bytes / (self.rate * self.efficiency).min(self.upward(distance))
    }

    /// What the uplinks leave to each chip that sends to a system so far on: as many systems under a node send out of it
    /// as the distance has, and under the one with the fewest that is the largest part.
    fn upward(&self, distance: u64) -> f64 {
        if self.systems <= self.under {
            return f64::INFINITY;
        }
        let fewest = self.fewest();
        self.rate / self.oversubscription * fewest as f64 / distance.min(fewest) as f64
    }

    /// Systems under the bottom node that has the fewest.
    fn fewest(&self) -> u64 {
        match self.systems % self.under {
            0 => self.under,
            rest => rest,
        }
    }

    /// Seconds of one phase of recursive doubling in which each chip has, or ends with, so many bytes: half of them go to
    /// the next system, a quarter to the one two further, ...
    fn doubling(&self, bytes: f64) -> f64 {
        let rounds = self.systems.next_power_of_two().ilog2();
        let mut left = bytes * (1.0 - 1.0 / self.systems as f64);
        (0..rounds).fold(0.0, |seconds, round| {
            let sent = (bytes / (2u64 << round) as f64).min(left);
            left -= sent;
            seconds + self.seconds(sent, 1 << round)
        })
    }

    /// Seconds in which each chip sends so many bytes evenly to all other systems.
    fn exchange(&self, bytes: f64) -> f64 {
        let reached = bytes / (self.rate * self.efficiency);
        if self.systems <= self.under {
            return reached;
        }
        let outside = (self.systems - self.fewest()) as f64 / (self.systems - 1) as f64;
        reached.max(bytes * outside * self.oversubscription / self.rate)
    }
}

/// What a collective over all systems costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Across {
    /// Seconds.
    pub time: f64,
    /// Steps.
    pub steps: u32,
    /// Seconds of it that steps wait.
    pub latency: f64,
    /// Bytes that each chip of the group sends over the network.
    pub network_bytes: f64,
    /// What binds, in words.
    pub binding: String,
    /// The stages within each system.
    pub inner: Vec<CollectiveEstimate>,
    /// What the estimate takes for granted.
    pub assumptions: Vec<String>,
}

impl Estimator {
    /// The cost of an operation of `bytes` bytes over the same group of ranks in each of many systems like this one:
    /// gathering goes over the network first and reducing last, in recursive doubling **(choice)**.
    ///
    /// # Errors
    /// [`Error::Value`] if the operation is another than all_reduce, all_gather, reduce_scatter or all_to_all, a number is
    /// not positive, or there is an error of [`Estimator::estimate`].
    pub fn across(&self, operation: Operation, group: &RankGroup, bytes: f64, network: UnitNetwork) -> Result<Across> {
        let UnitNetwork { systems, rate, latency, .. } = network;
        if systems == 0 || !(rate > 0.0 && latency >= 0.0 && rate.is_finite() && latency.is_finite()) {
            return Err(Error::Value(format!(
                "the network joins {systems} systems at {rate} B/s and {latency} s; needed: one or more, a positive rate"
            )));
        }
        let (count, chips) = (systems as f64, group.chips().len() as f64);
        let others = (count - 1.0) / count;
        let rounds = systems.next_power_of_two().ilog2();
        let find = |operation, bytes| self.estimate(operation, group, bytes, None);
        let (inner, passes) = match operation {
            Operation::AllGather | Operation::ReduceScatter => (vec![find(operation, bytes)?], 1.0),
            Operation::AllReduce => {
                (vec![find(Operation::ReduceScatter, bytes)?, find(Operation::AllGather, bytes)?], 2.0)
            }
            Operation::AllToAll => (vec![find(operation, bytes / count)?], group.size() as f64),
            other => {
                return Err(Error::Value(format!(
                    "operation is {other}; over systems that are no one graph allowed: all_reduce, all_gather, reduce_scatter, all_to_all"
                )));
            }
        };
        // A chip holds as many ranks' shares as it has ranks: together the buffer's part of the chip.
        let network_bytes = passes * others * bytes / chips;
        let is_exchange = operation == Operation::AllToAll;
        // One call has one start, however many stages.
        let start = self.model().starts.program;
        let inside = inner.iter().map(|one| one.time).sum::<f64>() - start * (inner.len() as f64 - 1.0);
        if let (Some(step), false) = (network.ring_step.filter(|_| systems > 1), is_exchange) {
            return Ok(self.around(group, bytes * passes, network, step * passes, inner));
        }
        let wire = if is_exchange { network.exchange(network_bytes) } else { passes * network.doubling(bytes / chips) };
        let inner_steps: u32 = inner.iter().map(|one| one.steps).sum();
        let steps = if is_exchange { rounds.min(1) } else { rounds * passes as u32 };
        let waits = f64::from(steps) * latency;
        // An all-to-all uses network and links at once; the others use one after the other.
        let time = if is_exchange { inside.max(waits + wire) } else { inside + waits + wire };
        let slowest = inner.iter().fold(None, |best: Option<&CollectiveEstimate>, one| match best {
            Some(found) if found.time >= one.time => Some(found),
            _ => Some(one),
        });
        let binding = if wire >= inside && wire >= waits {
            "network links".to_owned()
        } else if waits > inside {
            format!("latency of {steps} steps over the network")
        } else {
            slowest.map_or_else(|| "nothing".to_owned(), |one| one.binding.clone())
        };
        let mut assumptions = self.model().assumptions.clone();
        assumptions.push("the network is crossed by recursive doubling (choice)".to_owned());
        assumptions.push("timed by: one system for all, which are equal".to_owned());
        if network.oversubscription > 1.0 && systems > network.under {
            assumptions.push(format!(
                "network: {} systems under a bottom node, whose uplinks carry 1/{} of their rate",
                network.under, network.oversubscription
            ));
        }
        let inner_waits: f64 = inner.iter().map(|one| one.profile.latency).sum();
        Ok(Across {
            time,
            steps: steps + if is_exchange { 0 } else { inner_steps },
            latency: if is_exchange { waits } else { waits + inner_waits },
            network_bytes,
            binding,
            inner,
            assumptions,
        })
    }
}

impl Estimator {
    /// [`Estimator::host_start`] of a task on the same groups in each of many systems.
    pub fn host_start_across(&self, groups: &[RankGroup], network: UnitNetwork) -> f64 {
        let ranks: usize = groups.iter().map(RankGroup::size).sum();
        self.host_start_of(ranks as f64, network.systems > 1)
    }

    /// One flat ring over all ranks of all systems, whose channels leave each system over the network of every chip;
    /// `bytes` and `step` count both passes of an all_reduce.
    fn around(
        &self,
        group: &RankGroup,
        bytes: f64,
        network: UnitNetwork,
        step: f64,
        inner: Vec<CollectiveEstimate>,
    ) -> Across {
        let ranks = network.systems as f64 * group.size() as f64;
        let sent = bytes * (ranks - 1.0) / ranks;
        let network_bytes = sent / group.chips().len() as f64;
        let wire = network.seconds(network_bytes, 1);
        let inside: f64 = inner.iter().map(|one| one.time - one.profile.start - one.profile.latency).sum();
        let (start, waits) = (self.model().starts.program, step * (ranks - 1.0));
        let steps = inner.len() as f64 * (ranks - 1.0);
        let binding = match waits > wire.max(inside) {
            true => format!("latency of {steps} steps over the network"),
            false => "network links".to_owned(),
        };
        let mut assumptions = self.model().assumptions.clone();
        assumptions.push("the network is crossed by one flat ring of all ranks".to_owned());
        assumptions.push("timed by: one system for all, which are equal".to_owned());
        let time = start + waits + wire.max(inside);
        Across { time, steps: steps as u32, latency: waits, network_bytes, binding, inner, assumptions }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::collective::{Algorithm, Estimator};
    use crate::fabric::{Fabric, LinkProfile};
    use trn3_facts::Facts;

    #[test]
    fn test_two_systems_cost_what_their_graph_does() {
        let facts = Facts::built_in("trn3_gen2").expect("facts");
        let one = Arc::new(Fabric::from_facts(&facts, LinkProfile::Docs).expect("fabric"));
        let two = Arc::new(Fabric::cluster(&facts, 2, LinkProfile::Docs).expect("fabric"));
        let ranks = |chips: u32| RankGroup::new((0..chips).collect(), 1, chips as usize).expect("group");
        let (single, joined) = (Estimator::new(one).expect("one"), Estimator::new(two).expect("two"));
        let network = UnitNetwork { efficiency: 0.5, ..UnitNetwork::new(2, 25e9, 15e-6) };
        for operation in [Operation::AllGather, Operation::AllReduce] {
            let across = single.across(operation, &ranks(144), 1e9, network).expect("across");
            let graph = joined.estimate(operation, &ranks(288), 1e9, Some(Algorithm::Hierarchical)).expect("graph");
            let ratio = across.time / graph.time;
            assert!((0.9..1.1).contains(&ratio), "{operation}: {} {}", across.time, graph.time);
        }
    }

    #[test]
    fn test_many_systems_cost_no_more_work() {
        let fabric = Arc::new(Fabric::built_in("trn3_gen2", LinkProfile::Docs).expect("fabric"));
        let estimator = Estimator::new(fabric).expect("estimator");
        let group = RankGroup::new((0..576).collect(), 4, 144).expect("group");
        let time = |systems| {
            let network = UnitNetwork::new(systems, 25e9, 15e-6);
            estimator.across(Operation::AllReduce, &group, 1e9, network).expect("across").time
        };
        assert!(time(6945) > time(100) && time(100) > time(1));
    }
}
