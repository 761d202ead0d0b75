//! How fast all chips of a cluster can send to all others, and what forbids more.

use super::Cluster;
use super::inside::Pattern;
use crate::error::{Error, Result};

/// The bound of a traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterBound {
    /// Bytes a second, one way, that each chip sends.
    pub per_chip: f64,
    /// What is full: the network's name for the chips' own links to it, `bottom uplinks`, `middle uplinks`, or the name
    /// of a level of the fabric.
    pub binding: String,
    /// What `per_chip` would be if only this bound, for each; the tightest first.
    pub levels: Vec<(String, f64)>,
}

impl Cluster {
    /// Uniform all-to-all over all live chips.
    ///
    /// # Errors
    /// [`Error::Value`] if there is only one chip.
    pub fn all_to_all(&self) -> Result<ClusterBound> {
        let unit = self.unit.chips() as f64;
        let others = self.chips() as f64 - 1.0;
        if others == 0.0 {
            return Err(Error::Value("all_to_all: the cluster has one chip; needed: at least two".to_owned()));
        }
        let mut levels = Vec::new();
        // Of what a chip sends, the part that goes to chips outside a set which has so many.
        let outside = |inside: f64| (others + 1.0 - inside) / others;
        if unit > 1.0 {
            let inside = self.inside.rate(&self.unit, Pattern::Exchange, self.unit.chips())?;
            levels.push((inside.level, inside.rate * others / (unit - 1.0)));
        }
        if outside(unit) > 0.0 {
            levels.push((self.network.name.clone(), self.network.rate / outside(unit)));
        }
        for (name, ports) in [("bottom uplinks", 0), ("middle uplinks", 1)] {
            let limit = self.roles.iter().filter_map(|role| {
                let (places, live) = [role.bottom, role.middle][ports];
                let sent = live as f64 * outside(unit * live as f64);
                (sent > 0.0).then(|| self.network.upward_rate() * places as f64 / sent)
            });
            if let Some(limit) = limit.reduce(f64::min) {
                levels.push((name.to_owned(), limit));
            }
        }
        levels.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (binding, per_chip) = levels[0].clone();
        Ok(ClusterBound { per_chip, binding, levels })
    }
}
