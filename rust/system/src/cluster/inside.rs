//! What groups of chips within one unit can exchange, all groups at once; found once for each size of group.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};
use crate::fabric::{Fabric, bound};

/// Above, a matrix of all pairs would not fit.
const MOST_CHIPS: usize = 2048;

/// Rate and latency of an exchange within units, and what binds it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rate {
    /// Bytes a second that each chip sends.
    pub(super) rate: f64,
    /// The longest of its messages' latencies.
    pub(super) latency: f64,
    /// Name of the level whose links are full.
    pub(super) level: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pattern {
    /// Each chip of a group to each other one, in equal parts.
    Exchange,
    /// Each chip to the one that many places on.
    Shift,
}

#[derive(Debug)]
pub(super) struct Inside {
    chips: usize,
    found: Mutex<BTreeMap<(Pattern, usize), Rate>>,
}

impl Inside {
    pub(super) fn new(unit: &Fabric) -> Self {
        Self { chips: unit.chips(), found: Mutex::new(BTreeMap::new()) }
    }

    /// The rate at which groups of `size` chips with consecutive indices, which fill the unit, exchange.
    pub(super) fn rate(&self, unit: &Fabric, pattern: Pattern, size: usize) -> Result<Rate> {
        let found = || self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(rate) = found().get(&(pattern, size)) {
            return Ok(rate.clone());
        }
        let rate = self.find(unit, pattern, size)?;
        found().insert((pattern, size), rate.clone());
        Ok(rate)
    }

    fn find(&self, unit: &Fabric, pattern: Pattern, size: usize) -> Result<Rate> {
        let chips = self.chips;
        let whole = pattern == Pattern::Exchange && size == chips;
        if !whole && chips > MOST_CHIPS {
            return Err(Error::Value(format!(
                "{}: groups of {size} of its {chips} chips; above {MOST_CHIPS} chips allowed is: chips = {chips}",
                unit.name()
            )));
        }
        let peers = |chip: usize| match pattern {
            Pattern::Exchange => (chip / size * size..(chip / size + 1) * size, chip),
            Pattern::Shift => ((chip + size) % chips..(chip + size) % chips + 1, chip),
        };
        let bound = if whole {
            bound::all_to_all(unit, None)?
        } else {
            let mut bytes = vec![0.0; chips * chips];
            for chip in 0..chips {
                let (peers, own) = peers(chip);
                for peer in peers.filter(|&peer| peer != own) {
                    bytes[chip * chips + peer] = 1.0;
                }
            }
            bound::traffic(unit, &bytes)?
        };
        // The first group stands for all: units are alike along their axes.
        let firsts = if pattern == Pattern::Exchange { 0..size } else { 0..chips };
        let mut latency = 0.0f64;
        for chip in if whole { 0..1 } else { firsts } {
            let (peers, own) = peers(chip);
            for peer in peers.filter(|&peer| peer != own) {
                latency = latency.max(unit.route(chip, peer)?.latency);
            }
        }
        let level =
            bound.levels.first().map_or(String::new(), |(level, _)| unit.levels()[*level as usize].name.clone());
        Ok(Rate { rate: bound.per_chip, latency, level })
    }
}
