//! How far times of collectives may be off.

use serde::Serialize;
use trn3_facts::PredictionBand;

use super::estimate::Estimator;
use super::group::RankGroup;
use crate::error::Result;

/// Between which times a collective's is expected, seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CollectiveBand {
    /// The least.
    pub time_low: f64,
    /// The largest.
    pub time_high: f64,
    /// What says so.
    pub band: PredictionBand,
}

impl CollectiveBand {
    /// The band of a time on systems of a chip; `is_network`: whether it crosses the network between systems.
    pub(super) fn of(chip: &str, is_network: bool, time: f64) -> Result<Self> {
        let phase = if is_network { "collectives network" } else { "collectives 1 node" };
        let band = PredictionBand::of(chip, phase)?;
        let (time_low, time_high) = band.around(time);
        Ok(Self { time_low, time_high, band })
    }

    /// Puts the bounds around another time.
    pub(super) fn move_to(&mut self, time: f64) {
        (self.time_low, self.time_high) = self.band.around(time);
    }
}

impl Estimator {
    /// The band of a time of groups, of which one that lies in several systems of a cluster crosses its network.
    pub(super) fn band(&self, groups: &[RankGroup], time: f64) -> Result<CollectiveBand> {
        let fabric = self.fabric();
        let has_systems = fabric.axes().first().is_some_and(|axis| axis.name == crate::fabric::SYSTEM_AXIS);
        let is_network = has_systems
            && groups.iter().any(|group| {
                let mut systems = group.chips().into_iter().map(|members| fabric.chip_id(members.chip as usize)[0]);
                let first = systems.next();
                systems.any(|system| Some(system) != first)
            });
        CollectiveBand::of(fabric.chip().unwrap_or_default(), is_network, time)
    }
}
