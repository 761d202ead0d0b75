//! Ways between chips of a cluster.

use super::Cluster;
use crate::error::{Error, Result};
use crate::fabric::FabricRoute;

/// The way from one chip to another.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterRoute {
    /// The way through the fabric, within one unit.
    pub inside: Option<FabricRoute>,
    /// Network nodes in order, between two units: `bottom 0`, `middle 0`, `top`, `middle 3`, `bottom 50`.
    pub nodes: Vec<String>,
    /// Bytes a second, one way, for a transfer that is alone.
    pub rate: f64,
    /// Seconds for the first byte.
    pub latency: f64,
}

impl Cluster {
    /// The way between two chips, each a unit and a chip's index in it: through the fabric within a unit, else from the
    /// one chip's network interface to the other's.
    ///
    /// # Errors
    /// [`Error::Value`] if there is no such unit or chip, [`Error::Unreachable`] if a unit has failed.
    pub fn route(&self, from: (u64, usize), to: (u64, usize)) -> Result<ClusterRoute> {
        for (unit, chip) in [from, to] {
            self.check_unit(unit)?;
            if chip >= self.unit.chips() {
                let last = self.unit.chips() - 1;
                return Err(Error::Value(format!("unit {unit} has no chip number {chip}; allowed: 0 to {last}")));
            }
        }
        if from.0 == to.0 {
            let route = self.unit.route(from.1, to.1)?;
            return Ok(ClusterRoute {
                nodes: Vec::new(),
                rate: route.rate,
                latency: route.latency,
                inside: Some(route),
            });
        }
        let (up, down) = (self.network.nodes_over(from.0), self.network.nodes_over(to.0));
        let mut nodes = vec![format!("bottom {}", up.0)];
        if up.0 != down.0 {
            nodes.push(format!("middle {}", up.1));
            if up.1 != down.1 {
                nodes.push("top".to_owned());
                nodes.push(format!("middle {}", down.1));
            }
            nodes.push(format!("bottom {}", down.0));
        }
        Ok(ClusterRoute { inside: None, nodes, rate: self.network.rate, latency: self.network.latency })
    }
}
