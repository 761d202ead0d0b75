//! Capacity of serving with failures: from the rates of a replica's parts to the number of spares.

use std::collections::BTreeMap;

use serde::Serialize;
use trn3_system::{Error, Result};

use super::capacity::{FailureDomain, chance_of_enough, spares_for};
use super::figures::{FleetFigures, Ranged, shown};
use super::parts::{Composition, FleetPart, HOUR, PartEffect};
use super::request::ServingFleetRequest;

/// Replicas of a fleet at most: beyond, counts are no longer exact in floating point.
const MOST_REPLICAS: u64 = 1_000_000;
/// The seconds for which failures are counted **(choice)**: 30 days.
const MONTH: f64 = 30.0 * 24.0 * HOUR;
/// Rows of the table of spares beyond those that are needed **(choice)**.
const ROWS_BEYOND: usize = 3;

/// What one failure takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlastRadius {
    /// The part that fails.
    pub part: String,
    /// Chips that work no more.
    pub chips: f64,
    /// Replicas that are down with them.
    pub replicas: u64,
    /// Hours between such failures in the whole fleet.
    pub every_hours: f64,
}

/// So many spares, and what they give.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpareRow {
    /// Replicas beyond those that have to be up.
    pub spares: u64,
    /// Part of the time in which enough are up.
    pub availability: f64,
}

/// How many replicas a fleet needs so that enough are up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServingFleet {
    /// The system.
    pub system: String,
    /// Replicas that have to be up.
    pub replicas: u64,
    /// Chips of one.
    pub replica_chips: u64,
    /// What was asked for.
    pub availability_asked: f64,
    /// The least spares that give it; the range is by the ends of all rates and repairs.
    pub spares: u64,
    /// With the fewest failures and shortest repairs.
    pub spares_low: u64,
    /// With the most and longest; none if no number is enough.
    pub spares_high: Option<u64>,
    /// Chips of all replicas, spares included.
    pub chips: u64,
    /// Part of the time in which enough are up, with these spares.
    pub availability: f64,
    /// Part of the time in which one replica is up.
    pub replica_availability: f64,
    /// Hours between failures that take one replica down; none if nothing fails.
    pub replica_mtbf_hours: Option<f64>,
    /// Hours until it is up again, on average; likewise.
    pub replica_repair_hours: Option<f64>,
    /// Replicas that are up on average.
    pub replicas_up: f64,
    /// Spares and what they give.
    pub table: Vec<SpareRow>,
    /// What one failure takes, by part.
    pub blast: Vec<BlastRadius>,
    /// The parts of the whole fleet.
    pub parts: Vec<FleetPart>,
    /// `published`, `assumed` or `given`: what rates rest on.
    pub rates: &'static str,
    /// What it rests on.
    pub assumptions: Vec<String>,
}

/// What takes a replica down, at one end of all ranges.
struct Downtime {
    single: f64,
    domains: Vec<FailureDomain>,
}

impl ServingFleetRequest {
    pub(super) fn answer(&self) -> Result<ServingFleet> {
        let whole = [("replicas", self.replicas, MOST_REPLICAS), ("replica_chips", self.replica_chips, MOST_REPLICAS)];
        for (name, value, most) in whole {
            if !(1..=most).contains(&value) {
                return Err(Error::Value(format!("{name} is {value}; needed: a whole number from 1 to {most}")));
            }
        }
        let availability = self.availability;
        if !(availability > 0.0 && availability < 1.0) {
            return Err(Error::Value(format!("availability is {availability}; needed: a number between 0 and 1")));
        }
        let (machine, figures) = (self.system.load()?, FleetFigures::load()?);
        let repair = figures.or_given("repair", self.repair.map(|hours| hours * HOUR), 0.0)?;
        let reboot = figures.ranged("reboot")?;
        let chips = self.replicas * self.replica_chips;
        let fleet = Composition::of(&machine, chips, &figures, &self.mtbf, 1.0, true)?;
        let mut parts = fleet.parts(MONTH);
        parts.retain(|part| part.is_stop() || matches!(part.effect, PartEffect::SlowsCollectives { .. }));
        let needed = self.replicas as usize;
        let of = |place: f64| self.downtime(&parts, place, repair, reboot);
        let usual = of(0.0);
        let spares = spares_for(needed, availability, usual.single, &usual.domains)?;
        let best = of(-1.0);
        let worst = of(1.0);
        let rows = (0..=spares + ROWS_BEYOND).map(|spares| SpareRow {
            spares: spares as u64,
            availability: chance_of_enough(needed, spares, usual.single, &usual.domains),
        });
        let up = usual.domains.iter().fold(1.0 - usual.single, |up, domain| up * (1.0 - domain.unavailability));
        let stops = parts.iter().filter(|part| part.is_stop());
        let share = |part: &FleetPart| part.rate(0.0) / self.replicas as f64;
        let rate: f64 = stops.clone().map(|part| share(part) * self.lost(part).max(1) as f64).sum();
        let total = self.replicas + spares as u64;
        let mut assumptions = fleet.assumptions.clone();
        assumptions.push(format!(
            "failures and repairs are independent, repairs take {} hours and as many are under way as are needed; a \
             replica whose software failed is back after {}",
            shown(repair.value / HOUR),
            shown(reboot.value / HOUR)
        ));
        assumptions.push("a replica without some link goes on slower, and counts as up (choice)".to_owned());
        assumptions.push("planned maintenance moves replicas one at a time and takes no capacity (choice)".to_owned());
        Ok(ServingFleet {
            system: machine.title.clone(),
            replicas: self.replicas,
            replica_chips: self.replica_chips,
            availability_asked: availability,
            spares: spares as u64,
            spares_low: spares_for(needed, availability, best.single, &best.domains)? as u64,
            spares_high: spares_for(needed, availability, worst.single, &worst.domains).ok().map(|most| most as u64),
            chips: total * self.replica_chips,
            availability: chance_of_enough(needed, spares, usual.single, &usual.domains),
            replica_availability: up,
            replica_mtbf_hours: (rate > 0.0).then(|| 1.0 / (rate * HOUR)),
            replica_repair_hours: (rate > 0.0).then(|| (1.0 / up - 1.0) / (rate * HOUR)),
            replicas_up: up * total as f64,
            table: rows.collect(),
            blast: stops
                .map(|part| BlastRadius {
                    part: part.name.clone(),
                    chips: part.chips_lost,
                    replicas: self.lost(part).max(1),
                    every_hours: 1.0 / (part.rate(0.0) * HOUR),
                })
                .collect(),
            rates: if !self.mtbf.is_empty() {
                "given"
            } else if fleet.is_counted() {
                "published"
            } else {
                "assumed"
            },
            parts,
            assumptions,
        })
    }

    /// Replicas that one failure takes down, of those that lie within the chips it takes.
    fn lost(&self, part: &FleetPart) -> u64 {
        (part.chips_lost / self.replica_chips as f64).floor().max(1.0) as u64
    }

    fn downtime(&self, parts: &[FleetPart], place: f64, repair: Ranged, reboot: Ranged) -> Downtime {
        let (mut single, mut domains) = (0.0, BTreeMap::<u64, f64>::new());
        for part in parts.iter().filter(|part| part.is_stop()) {
            let replaces = part.effect == PartEffect::Stops { replaces: true } || part.chips_lost > 0.0;
            // Parts of one replica, or of one domain, in the fleet of as many replicas as are needed.
            let lost = self.lost(part);
            let each = part.rate(place) / self.replicas as f64 * lost as f64;
            let down = each * if replaces { repair } else { reboot }.at(place);
            if lost > 1 { *domains.entry(lost).or_default() += down } else { single += down }
        }
        // Alternating between up and down: the odds of down are its rate times its length.
        let part = |odds: f64| odds / (1.0 + odds);
        let mut nested: Vec<FailureDomain> = Vec::new();
        for (replicas, odds) in domains {
            // Blocks hold whole numbers of the smaller ones.
            let inner = nested.last().map_or(1, |inner| inner.replicas);
            let replicas = (replicas as usize / inner).max(1) * inner;
            match nested.last_mut() {
                Some(last) if last.replicas == replicas => {
                    last.unavailability = part(last.unavailability / (1.0 - last.unavailability) + odds);
                }
                _ => nested.push(FailureDomain { replicas, unavailability: part(odds) }),
            }
        }
        Downtime { single: part(single), domains: nested }
    }
}
