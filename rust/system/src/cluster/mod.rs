//! UltraClusters: many equal units (instances, UltraServers) on one network, kept by roles, never chip by chip.
//!
//! All units have the same [`Fabric`], so it is stored once. Units differ only in how many others are alive under their
//! network nodes; units that agree in that have one [`ClusterRole`]. A whole cluster of any size has at most three, and each
//! failed unit adds at most two. So what a cluster costs to build and to ask grows with its roles.
//!
//! The network is a fat tree of three layers of network nodes, as EC2 names them. Each chip hangs on it with its own
//! share of the unit's EFA. Oversubscription narrows the links above the bottom layer, nothing else **(choice)**; the
//! documented latency holds whichever layers a message crosses **(choice: one figure is published)**.
//!
//! ```
//! use trn3_system::cluster::{Cluster, NetworkOptions};
//! use trn3_system::fabric::LinkProfile;
//! use trn3_facts::Facts;
//!
//! let unit = Facts::built_in("trn3_gen2").unwrap();
//! let cluster = Cluster::new(&unit, 6_944, LinkProfile::Docs, &NetworkOptions::default()).unwrap();
//! assert_eq!(cluster.chips(), 999_936);
//! assert!(cluster.roles().len() <= 3);
//! let bound = cluster.all_to_all().unwrap();
//! assert!((bound.per_chip / 25e9 - 1.0).abs() < 1e-3);
//! assert_eq!(bound.binding, "efa");
//! ```

mod bound;
mod exchange;
mod inside;
mod network;
mod role;
mod route;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use bound::ClusterBound;
pub use exchange::{Between, ClusterExchange, ExchangeOperation, ExchangePhase, ExchangeTime, StepTime};
pub use network::{ClusterNetwork, NetworkOptions};
pub use role::ClusterRole;
pub use route::ClusterRoute;

use crate::error::{Error, Result};
use crate::fabric::{Fabric, FabricSpec, LinkProfile};
use trn3_facts::Facts;

/// More units than anyone can mean, and few enough to count in floats exactly.
const MOST_UNITS: u64 = 1 << 32;

/// Equal units on one network.
#[derive(Clone, Debug)]
pub struct Cluster {
    unit: Arc<Fabric>,
    units: u64,
    network: ClusterNetwork,
    failed: BTreeSet<u64>,
    roles: Vec<ClusterRole>,
    inside: Arc<inside::Inside>,
    assumptions: Vec<String>,
}

impl Cluster {
    /// `units` systems of a kind, on the network of its spec file.
    ///
    /// # Errors
    /// [`Error::Spec`] if the facts have no fabric or its table no network, [`Error::Value`] if `units` is not from 1 to
    /// 2^32 or an option is out of its range.
    pub fn new(facts: &Facts, units: u64, profile: LinkProfile, options: &NetworkOptions) -> Result<Self> {
        let spec = FabricSpec::of(facts)?;
        let unit = Fabric::from_facts(facts, profile)?;
        let (network, mut assumptions) = ClusterNetwork::new(facts, &spec, options)?;
        if !(1..=MOST_UNITS).contains(&units) {
            return Err(Error::Value(format!("units is {units}; allowed: 1 to {MOST_UNITS}")));
        }
        assumptions.splice(0..0, unit.assumptions().iter().cloned());
        let published = Facts::built_in("ultracluster3")?.si("max_chips")?;
        let chips = units * unit.chips() as u64;
        if chips as f64 > published {
            assumptions.push(format!("{chips} chips: more than the {published} that a cluster is said to reach"));
        }
        let unit = Arc::new(unit);
        let mut cluster = Self {
            inside: Arc::new(inside::Inside::new(&unit)),
            unit,
            units,
            network,
            failed: BTreeSet::new(),
            roles: Vec::new(),
            assumptions,
        };
        cluster.roles = cluster.find_roles();
        Ok(cluster)
    }

    /// The same cluster without one more unit.
    ///
    /// # Errors
    /// [`Error::Value`] if there is no such unit, it has failed already, or it is the last one alive.
    pub fn fail(&self, unit: u64) -> Result<Self> {
        self.check_unit(unit)?;
        if self.live_units() == 1 {
            return Err(Error::Value(format!("unit {unit} is the only one left; a cluster needs one")));
        }
        let mut cluster = self.clone();
        cluster.failed.insert(unit);
        cluster.roles = cluster.find_roles();
        Ok(cluster)
    }

    /// The fabric of a unit.
    pub fn unit(&self) -> &Fabric {
        &self.unit
    }

    /// Number of units, failed ones included.
    pub fn units(&self) -> u64 {
        self.units
    }

    /// Number of units that work.
    pub fn live_units(&self) -> u64 {
        self.units - self.failed.len() as u64
    }

    /// The units that failed, in ascending order.
    pub fn failed(&self) -> impl ExactSizeIterator<Item = u64> {
        self.failed.iter().copied()
    }

    /// Number of chips that work.
    pub fn chips(&self) -> u64 {
        self.live_units() * self.unit.chips() as u64
    }

    /// What joins the units.
    pub fn network(&self) -> &ClusterNetwork {
        &self.network
    }

    /// Figures that nobody published.
    pub fn assumptions(&self) -> &[String] {
        &self.assumptions
    }

    fn check_unit(&self, unit: u64) -> Result<()> {
        if unit >= self.units {
            let last = self.units - 1;
            return Err(Error::Value(format!("unit {unit} is outside the cluster; allowed: 0 to {last}")));
        }
        if self.failed.contains(&unit) {
            let near = (1..self.units).flat_map(|far| [unit.checked_sub(far), unit.checked_add(far)]).flatten();
            let next = near.filter(|other| *other < self.units).find(|other| !self.failed.contains(other));
            let hint = next.map_or(String::new(), |other| format!("; the nearest that works is {other}"));
            return Err(Error::Unreachable(format!("unit {unit} has failed{hint}")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
