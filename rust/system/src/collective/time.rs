//! Times a schedule by simulating its transfers on the links, and several collectives that overlap.

use std::collections::BTreeMap;

use super::estimate::Estimator;
use super::group::RankGroup;
use super::profile::{ScheduleDemand, for_each_class};
use super::schedule::Schedule;
use crate::error::{Error, Result};
use crate::flow::{FlowTransfer, LOWEST_PRIORITY, Resource, run};

/// Transfers of one collective that are simulated one by one **(choice)**; beyond, the busiest link of each step counts.
pub const MOST_TRANSFERS: usize = 6000;

/// Name of the resource that keeps a collective from being faster than alone.
pub const OWN_PACE: &str = "its own pace";

/// How long a collective takes.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveTiming {
    /// Seconds.
    pub time: f64,
    /// Seconds of it that wires carry bytes.
    pub wire: f64,
    /// What was simulated, in words.
    pub path: String,
    /// What binds, in words.
    pub binding: String,
    /// The counts.
    pub profile: ScheduleDemand,
}

impl Estimator {
    /// Bytes a second that collectives reach on a link.
    fn reached(&self, link: u32) -> f64 {
        let link = &self.fabric().links()[link as usize];
        link.rate * self.fabric().levels()[link.level as usize].efficiency
    }

    /// What collectives share: the links of the fabric in its order, the memory of each chip, the DMA engines of each chip.
    pub fn resources(&self) -> Vec<Resource> {
        let (fabric, model) = (self.fabric(), self.model());
        let (links, chips) = (fabric.links().len() as u32, fabric.chips() as u32);
        let link = |link| Resource::new(fabric.link_name(link), self.reached(link));
        let memory = |chip| Resource::new(format!("memory of chip {chip}"), model.memory_rate);
        let engines = |chip| Resource::new(format!("DMA engines of chip {chip}"), model.engine_rate);
        (0..links).map(link).chain((0..chips).map(memory)).chain((0..chips).map(engines)).collect()
    }

    /// A collective of `bytes` bytes as one stream through all of [`Estimator::resources`] that it uses, in proportion to
    /// what it needs there, and through one more, its own pace, which is added to `resources`: alone it takes what
    /// [`ScheduleDemand::time`] says.
    pub fn stream(&self, profile: &ScheduleDemand, bytes: f64, resources: &mut Vec<Resource>) -> FlowTransfer {
        let fabric = self.fabric();
        let (links, chips) = (fabric.links().len() as u32, fabric.chips() as u32);
        // Steps wait for each other on the wires: their times add up, whichever link each of them keeps busy.
        let whole = profile
            .links
            .iter()
            .map(|&(link, bytes)| bytes / profile.efficiency / self.reached(link))
            .fold(0.0, f64::max);
        let stretch = if whole > 0.0 { profile.wire / whole / profile.efficiency } else { 0.0 };
        let mut uses: Vec<(u32, f64)> = profile.links.iter().map(|&(link, bytes)| (link, bytes * stretch)).collect();
        for &(chip, accesses, moved) in &profile.chips {
            uses.push((links + chip, accesses * self.model().memory_share));
            uses.push((links + chips + chip, moved));
        }
        uses.retain(|&(_, weight)| weight > 0.0);
        let alone = profile.time(bytes);
        if bytes > 0.0 && alone > 0.0 {
            uses.push((resources.len() as u32, 1.0));
            resources.push(Resource::new(OWN_PACE, bytes / alone));
        }
        let latency = if bytes > 0.0 { 0.0 } else { alone };
        FlowTransfer { bytes, uses, latency, ..FlowTransfer::default() }
    }

    /// Times a schedule of `bytes` bytes: the transfers of each step begin together and share the links by max-min
    /// fairness; the next step begins when all have ended. Equal steps are simulated once.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if chips cannot reach each other.
    pub fn simulate(&self, group: &RankGroup, schedule: &Schedule, bytes: f64) -> Result<CollectiveTiming> {
        self.simulate_sized(group, schedule, bytes, None)
    }

    /// As [`Estimator::simulate`]; `size_of` gives the size of each piece in bytes.
    ///
    /// # Errors
    /// As there.
    pub fn simulate_sized(
        &self,
        group: &RankGroup,
        schedule: &Schedule,
        bytes: f64,
        size_of: Option<&dyn Fn(u32) -> f64>,
    ) -> Result<CollectiveTiming> {
        let profile = match size_of {
            None => self.profile(group, schedule)?,
            Some(size_of) => self.profile_of(group, schedule, size_of)?,
        };
        let bytes = if size_of.is_some() { 1.0 } else { bytes };
        let fabric = self.fabric();
        let mut is_small = true;
        let (mut total, mut wire) = (0, 0.0);
        for_each_class(group, schedule, size_of, |times, _, traffic| {
            total += traffic.len();
            is_small &= total <= MOST_TRANSFERS;
            if !is_small || traffic.is_empty() {
                return Ok(());
            }
            // Only the links that this step uses, numbered anew.
            let mut number: BTreeMap<u32, u32> = BTreeMap::new();
            let mut resources = Vec::new();
            let mut transfers = Vec::with_capacity(traffic.len());
            for &((from, to), part) in traffic {
                let way = self.ways.between(fabric, from, to)?;
                let mut uses = Vec::with_capacity(way.shares.len());
                for &(link, share) in &way.shares {
                    let index = *number.entry(link).or_insert_with(|| {
                        resources.push(Resource::new(String::new(), self.reached(link)));
                        resources.len() as u32 - 1
                    });
                    uses.push((index, share / profile.efficiency));
                }
                transfers.push(FlowTransfer { bytes: part * bytes, uses, ..FlowTransfer::default() });
            }
            wire += run(&resources, &transfers)?.finish * f64::from(times);
            Ok(())
        })?;
        let path = if is_small {
            "flows of every kind of step, max-min fair".to_owned()
        } else {
            wire = profile.wire * bytes;
            format!("busiest link of every kind of step: more than {MOST_TRANSFERS} transfers between chips")
        };
        let time = profile.start + profile.latency + wire.max(profile.beside_wires() * bytes);
        let binding = self.binding_of(&profile, bytes);
        Ok(CollectiveTiming { time, wire, path, binding, profile })
    }
}

/// A collective that runs beside others.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningCollective<'a> {
    /// What it asks for.
    pub profile: &'a ScheduleDemand,
    /// Its size in bytes.
    pub bytes: f64,
    /// Class of its DMA transfers: 0 is served first, up to 3.
    pub priority: u8,
    /// When it may begin, in seconds.
    pub start: f64,
}

/// Begin and end of collectives that overlap, in seconds. Each is one stream through all that it uses, in proportion to
/// what it needs there, and no faster than alone: the waits of its steps lie between its bytes. Streams share links,
/// memories and DMA engines by max-min fairness within strict classes. One that runs alone takes what
/// [`ScheduleDemand::time`] says.
///
/// # Errors
/// [`Error::Value`] if a priority is not 0 to 3 or a size or start is negative or not finite.
pub fn overlap(estimator: &Estimator, running: &[RunningCollective<'_>]) -> Result<Vec<(f64, f64)>> {
    let mut resources = estimator.resources();
    let mut transfers = Vec::with_capacity(running.len());
    for one in running {
        if one.priority > LOWEST_PRIORITY {
            return Err(Error::Value(format!(
                "priority is {}; allowed: 0 (served first) to {LOWEST_PRIORITY}",
                one.priority
            )));
        }
        let stream = estimator.stream(one.profile, one.bytes, &mut resources);
        transfers.push(FlowTransfer { priority: one.priority, start: one.start, ..stream });
    }
    Ok(run(&resources, &transfers)?.spans)
}
