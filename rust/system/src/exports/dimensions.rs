//! The levels of a fabric, as dimensions of one size each.

use std::collections::BTreeSet;

use trn3_facts::{Facts, factor};

use crate::error::{Error, Result};
use crate::fabric::{Fabric, FabricSpec, Figure, LevelKind};

/// One dimension of a fabric.
#[derive(Clone, Debug, PartialEq)]
pub struct Dimension {
    /// Of the level, and of the axis where the level has several.
    pub name: String,
    /// How its chips are joined.
    pub kind: LevelKind,
    /// How many chips differ in it only.
    pub size: u32,
    /// Bytes a second, one way: to each neighbour of a ring or of direct links, into a switch.
    pub rate: f64,
    /// Seconds from chip to chip.
    pub latency: f64,
}

impl Dimension {
    /// The network beyond a system, which joins each chip of several of them; none where its facts have none. Its size
    /// is 1: how many it joins is not known of any.
    ///
    /// # Errors
    /// [`Error::Spec`] if the facts describe no fabric.
    pub fn beyond(facts: &Facts) -> Result<Option<Self>> {
        // Units were checked when the description was read.
        let si = |figure: &Figure| figure.value * factor(&figure.unit).unwrap_or(1.0);
        Ok(FabricSpec::of(facts)?.network.map(|network| Self {
            kind: LevelKind::Switch,
            size: 1,
            rate: si(&network.rate),
            latency: si(&network.latency),
            name: network.name,
        }))
    }
}

impl Fabric {
    /// Its dimensions, the innermost first, and what was left out of them. A switch that joins chips which a level before
    /// it joins already counts for the axes it adds.
    ///
    /// # Errors
    /// [`Error::Value`] if chips or links have failed.
    pub fn dimensions(&self) -> Result<(Vec<Dimension>, Vec<String>)> {
        if !self.faults().is_empty() {
            let (name, failed) = (self.name(), self.faults().join(", "));
            return Err(Error::Value(format!(
                "{name} has failed parts ({failed}), which the format cannot say; export the whole system"
            )));
        }
        let mut covered: BTreeSet<usize> = BTreeSet::new();
        let (mut found, mut notes): (Vec<Dimension>, Vec<String>) = (Vec::new(), Vec::new());
        for level in self.levels() {
            let fresh: Vec<usize> = level.over.iter().copied().filter(|axis| covered.insert(*axis)).collect();
            let axes = fresh.iter().map(|&axis| &self.axes()[axis]);
            let of = |name: &str, size: u32| Dimension {
                name: name.to_owned(),
                kind: level.kind,
                size,
                rate: level.rate,
                latency: level.latency,
            };
            if level.kind == LevelKind::Ring {
                found.extend(axes.map(|axis| of(&axis.name, axis.size)));
                continue;
            }
            if let Some(inner) = found.last().filter(|_| fresh.len() < level.over.len()) {
                let names: Vec<&str> = axes.clone().map(|axis| axis.name.as_str()).collect();
                notes.push(format!(
                    "the {} switch also joins the chips of a {}; here it joins {} only",
                    level.name,
                    inner.name,
                    names.join(" and ")
                ));
            }
            found.push(of(&level.name, axes.map(|axis| axis.size).product()));
        }
        Ok((found, notes))
    }
}
