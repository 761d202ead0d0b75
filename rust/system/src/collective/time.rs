//! Times a schedule by simulating its transfers on the links, and several collectives that overlap.

use std::collections::BTreeMap;

use super::estimate::Estimator;
use super::group::Group;
use super::profile::{Profile, for_each_class};
use super::schedule::Schedule;
use crate::error::{Error, Result};
use crate::flow::{LOWEST_PRIORITY, Resource, Transfer, run};

/// Transfers of one collective that are simulated one by one **(choice)**; beyond, the busiest link of each step counts.
pub const MOST_TRANSFERS: usize = 6000;

/// How long a collective takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// Seconds.
    pub time: f64,
    /// Seconds of it that wires carry bytes.
    pub wire: f64,
    /// What was simulated, in words.
    pub path: String,
    /// What binds, in words.
    pub binding: String,
    /// The counts.
    pub profile: Profile,
}

impl Estimator {
    /// Times a schedule of `bytes` bytes: the transfers of each step begin together and share the links by max-min
    /// fairness; the next step begins when all have ended. Equal steps are simulated once.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if chips cannot reach each other.
    pub fn simulate(&self, group: &Group, schedule: &Schedule, bytes: f64) -> Result<Timing> {
        self.simulate_sized(group, schedule, bytes, None)
    }

    /// As [`Estimator::simulate`]; `size_of` gives the size of each piece in bytes.
    ///
    /// # Errors
    /// As there.
    pub fn simulate_sized(
        &self,
        group: &Group,
        schedule: &Schedule,
        bytes: f64,
        size_of: Option<&dyn Fn(u32) -> f64>,
    ) -> Result<Timing> {
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
                        resources.push(Resource::new(String::new(), fabric.links()[link as usize].rate));
                        resources.len() as u32 - 1
                    });
                    uses.push((index, share / profile.efficiency));
                }
                transfers.push(Transfer { bytes: part * bytes, uses, ..Transfer::default() });
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
        let time = profile.latency + wire.max(profile.memory * bytes).max(profile.engines * bytes);
        let binding = self.binding_of(&profile, bytes);
        Ok(Timing { time, wire, path, binding, profile })
    }
}

/// A collective that runs beside others.
#[derive(Clone, Debug, PartialEq)]
pub struct Running<'a> {
    /// What it asks for.
    pub profile: &'a Profile,
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
/// [`Profile::time`] says.
///
/// # Errors
/// [`Error::Value`] if a priority is not 0 to 3 or a size or start is negative or not finite.
pub fn overlap(estimator: &Estimator, running: &[Running<'_>]) -> Result<Vec<(f64, f64)>> {
    let (fabric, model) = (estimator.fabric(), estimator.model());
    let links = fabric.links().len() as u32;
    let chips = fabric.chips() as u32;
    let mut resources: Vec<Resource> =
        (0..links).map(|link| Resource::new(fabric.link_name(link), fabric.links()[link as usize].rate)).collect();
    resources.extend((0..chips).map(|chip| Resource::new(format!("memory of chip {chip}"), model.memory_rate)));
    resources.extend((0..chips).map(|chip| Resource::new(format!("DMA engines of chip {chip}"), model.engine_rate)));
    let mut transfers = Vec::with_capacity(running.len());
    for one in running {
        if one.priority > LOWEST_PRIORITY {
            return Err(Error::Value(format!(
                "priority is {}; allowed: 0 (served first) to {LOWEST_PRIORITY}",
                one.priority
            )));
        }
        let profile = one.profile;
        // Steps wait for each other on the wires: their times add up, whichever link each of them keeps busy.
        let whole = profile
            .links
            .iter()
            .map(|&(link, bytes)| bytes / profile.efficiency / fabric.links()[link as usize].rate)
            .fold(0.0, f64::max);
        let stretch = if whole > 0.0 { profile.wire / whole / profile.efficiency } else { 0.0 };
        let mut uses: Vec<(u32, f64)> = profile.links.iter().map(|&(link, bytes)| (link, bytes * stretch)).collect();
        for &(chip, accesses, moved) in &profile.chips {
            uses.push((links + chip, accesses * model.memory_share));
            uses.push((links + chips + chip, moved));
        }
        uses.retain(|&(_, weight)| weight > 0.0);
        let alone = profile.time(one.bytes);
        if one.bytes > 0.0 && alone > 0.0 {
            uses.push((resources.len() as u32, 1.0));
            resources.push(Resource::new("its own pace", one.bytes / alone));
        }
        transfers.push(Transfer {
            bytes: one.bytes,
            uses,
            latency: if one.bytes > 0.0 { 0.0 } else { alone },
            priority: one.priority,
            start: one.start,
            ..Transfer::default()
        });
    }
    Ok(run(&resources, &transfers)?.spans)
}
