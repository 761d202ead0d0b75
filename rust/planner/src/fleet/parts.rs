//! The parts of a fleet: how many, how often each fails, and what that does.

use std::collections::BTreeMap;

use serde::Serialize;
use trn3_system::{Error, Result};

use super::degraded::{AlikeParts, alike_parts};
use super::figures::{FleetFigures, Ranged};
use crate::hardware::Machine;

/// Seconds of an hour.
pub(super) const HOUR: f64 = 3600.0;

/// What a part's failure does to a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "does", rename_all = "snake_case")]
pub enum PartEffect {
    /// Work since the last checkpoint is lost; `replaces`: the system that it is in gives way to a spare.
    Stops {
        /// Whether a system is lost with it.
        replaces: bool,
    },
    /// The job writes a checkpoint and stops.
    Pauses,
    /// Collectives take so many times as long until it is repaired.
    SlowsCollectives {
        /// How many times.
        factor: f64,
    },
    /// A step takes so many times as long until somebody finds out and replaces the system.
    SlowsSteps {
        /// How many times.
        factor: f64,
    },
}

/// Parts of a fleet that are alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FleetPart {
    /// `chip`, `hbm`, `link (rack)`, `host`, ...
    pub name: String,
    /// The name under which a rate is given: that without the level.
    pub kind: &'static str,
    /// How many the job has.
    pub count: f64,
    /// Hours between failures of one.
    pub mtbf_hours: Ranged,
    /// `published`, `assumed` or `given`.
    pub rates: &'static str,
    /// Who says so.
    pub source: String,
    /// What its failure does.
    pub effect: PartEffect,
    /// Chips that work without it no more.
    pub chips_lost: f64,
    /// Failures that are expected of all of them in the time, and the range of the rate.
    pub expected: Ranged,
    /// Whether its failure shows as a collective that does not end.
    #[serde(skip)]
    pub hangs: bool,
}

impl FleetPart {
    /// Failures a second of all of them; `place` is that in the range of rates: 1 is the most failures.
    pub(super) fn rate(&self, place: f64) -> f64 {
        self.count / (self.mtbf_hours.at(-place) * HOUR)
    }

    /// Whether its failure interrupts the job without warning.
    pub(super) fn is_stop(&self) -> bool {
        matches!(self.effect, PartEffect::Stops { .. })
    }
}

/// What a fleet is made of.
#[derive(Clone, Debug)]
pub(super) struct Composition {
    /// Chips of the job.
    pub chips: f64,
    /// Chips of one system, which a spare replaces as a whole.
    pub unit_chips: f64,
    /// Whether rates were counted on this chip.
    is_counted: bool,
    parts: Vec<FleetPart>,
    /// What had to be assumed.
    pub assumptions: Vec<String>,
}

/// The kinds of parts whose rates can be given.
pub(super) const KINDS: [&str; 10] =
    ["chip", "hbm", "link", "switch", "network_link", "network_switch", "host", "software", "planned", "straggler"];

impl Composition {
    /// The parts of `chips` chips of a system, whose rates `given` sets in hours.
    ///
    /// # Errors
    /// [`Error::Value`] if a rate is given of no such part, or is not above 0; one without hours never fails.
    pub(super) fn of(
        machine: &Machine,
        chips: u64,
        figures: &FleetFigures,
        given: &BTreeMap<String, Option<f64>>,
        straggler: f64,
        degrades: bool,
    ) -> Result<Self> {
        for (kind, hours) in given {
            if !KINDS.contains(&kind.as_str()) {
                return Err(Error::unknown("part", kind, KINDS));
            }
            if let Some(hours) = hours.filter(|hours| !(hours.is_finite() && *hours > 0.0)) {
                return Err(Error::Value(format!("mtbf of {kind} is {hours} hours; needed: hours above 0, or none")));
            }
        }
        let host_chips = host_chips(machine).map_or_else(|| figures.si("cluster_chips_per_host"), Ok)?;
        let stacks = machine.chip.facts.si("hbm_stacks").or_else(|_| figures.si("cluster_hbm_stacks"))?;
        let unit_chips = if machine.chips > 1 { f64::from(machine.chips) } else { host_chips };
        let is_counted = machine.chip.measured_as() == figures.measured_on();
        let mut made = Self { chips: chips as f64, unit_chips, is_counted, parts: Vec::new(), assumptions: Vec::new() };
        let (chips, stop) = (chips as f64, PartEffect::Stops { replaces: true });
        let port = figures.si("cluster_chips_per_switch")?;
        let hosts = chips / host_chips;
        let mut add = |kind, level: Option<&str>, count, effect, lost, hangs| {
            made.add(figures, given, (kind, level), count, effect, lost, hangs)
        };
        add("chip", None, chips, stop, 1.0, false)?;
        add("hbm", None, chips * stacks, stop, 1.0, false)?;
        // Where a fleet was counted, links inside of its systems are counted under the chip.
        let is_apart = |of: &AlikeParts| !is_counted || given.contains_key(of.kind);
        for of in alike_parts(machine)?.into_iter().filter(is_apart) {
            let effect = match of.slowdown {
                Some(factor) if degrades => PartEffect::SlowsCollectives { factor },
                _ => PartEffect::Stops { replaces: !degrades || of.slowdown.is_none() },
            };
            let lost = if of.slowdown.is_none() { of.cut_off as f64 } else { 0.0 };
            add(of.kind, Some(&of.level), of.count * chips / unit_chips, effect, lost, true)?;
        }
        let restart = PartEffect::Stops { replaces: false };
        add("network_link", None, chips, stop, 1.0, true)?;
        add("network_switch", None, chips / port, restart, port, true)?;
        add("host", None, hosts, stop, host_chips, false)?;
        add("software", None, chips, restart, 0.0, true)?;
        add("planned", None, chips, PartEffect::Pauses, 0.0, false)?;
        add("straggler", None, chips, PartEffect::SlowsSteps { factor: straggler }, 1.0, false)?;
        made.assumptions.push(format!(
            "{unit_chips} chips are replaced together by a spare; {host_chips} share a host; a switch of the network for every \
             {port} chips (choice)"
        ));
        if is_counted {
            made.assumptions.push("links within a system are counted under its chips".to_owned());
        } else {
            if machine.graph().is_some() {
                let said = "a switch of the system's graph stands for as many as a chip has links to it (choice)";
                made.assumptions.push(said.to_owned());
            }
            made.assumptions.push(format!(
                "nobody publishes failure rates of {}: those of a fleet of GPUs by part, in a range {} times as wide (assumed)",
                machine.chip.title,
                figures.si("assumed_spread")?
            ));
        }
        Ok(made)
    }

    fn add(
        &mut self,
        figures: &FleetFigures,
        given: &BTreeMap<String, Option<f64>>,
        (kind, level): (&'static str, Option<&str>),
        count: f64,
        effect: PartEffect,
        chips_lost: f64,
        hangs: bool,
    ) -> Result<()> {
        let key = format!("{kind}_mtbf");
        let (mtbf_hours, rates, source) = match given.get(kind) {
            Some(None) => {
                let said = format!("a {kind} never fails (given)");
                if !self.assumptions.contains(&said) {
                    self.assumptions.push(said);
                }
                return Ok(());
            }
            Some(Some(hours)) => (Ranged::given(*hours), "given", "given".to_owned()),
            None => {
                let source = figures.source(&key)?;
                let seconds = figures.ranged(&key)?;
                let hours = Ranged { value: seconds.value / HOUR, low: seconds.low / HOUR, high: seconds.high / HOUR };
                let is_published = self.is_counted && !source.starts_with("choice");
                let wider = if self.is_counted { 1.0 } else { figures.si("assumed_spread")? };
                (hours.wider(wider), if is_published { "published" } else { "assumed" }, source)
            }
        };
        let name = level.map_or_else(|| kind.to_owned(), |level| format!("{kind} ({level})"));
        let expected = Ranged::given(0.0);
        self.parts.push(FleetPart {
            name,
            kind,
            count,
            mtbf_hours,
            rates,
            source,
            effect,
            chips_lost,
            expected,
            hangs,
        });
        Ok(())
    }

    /// The parts, with what is expected of each in so many seconds.
    pub(super) fn parts(&self, seconds: f64) -> Vec<FleetPart> {
        let of = |part: &FleetPart| {
            let [value, low, high] = [0.0, -1.0, 1.0].map(|place| part.rate(place) * seconds);
            FleetPart { expected: Ranged { value, low, high }, ..part.clone() }
        };
        self.parts.iter().map(of).collect()
    }

    /// Whether every rate was counted on this chip.
    pub(super) fn is_counted(&self) -> bool {
        self.is_counted
    }

    /// Systems that the job fills.
    pub(super) fn units(&self) -> u64 {
        (self.chips / self.unit_chips).ceil() as u64
    }
}

/// Chips of a server, where the spec file says.
fn host_chips(machine: &Machine) -> Option<f64> {
    let (facts, _) = machine.graph()?;
    let figure = |key: &str| facts.si(key).ok();
    let of_servers = || Some(f64::from(machine.chips) / figure("servers")?);
    let whole = || (facts.kind == "server").then_some(f64::from(machine.chips));
    figure("chips_per_server").or_else(of_servers).or_else(whole)
}
