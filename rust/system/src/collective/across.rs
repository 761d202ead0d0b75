//! Collectives over many equal systems on a non-blocking network: by what one of them does, whatever their number.

use super::estimate::{CollectiveEstimate, Estimator};
use super::group::RankGroup;
use super::name::Operation;
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
        let UnitNetwork { systems, rate, latency } = network;
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
        let wire = network_bytes / rate;
        let inside: f64 = inner.iter().map(|one| one.time).sum();
        let inner_steps: u32 = inner.iter().map(|one| one.steps).sum();
        let is_exchange = operation == Operation::AllToAll;
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
        let network = UnitNetwork { systems: 2, rate: 25e9, latency: 15e-6 };
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
            let network = UnitNetwork { systems, rate: 25e9, latency: 15e-6 };
            estimator.across(Operation::AllReduce, &group, 1e9, network).expect("across").time
        };
        assert!(time(6945) > time(100) && time(100) > time(1));
    }
}
