//! Levels of links, from a system's description: what they join, how fast, and what collectives reach of it.

use std::collections::BTreeSet;

use serde::Serialize;

use trn3_facts::factor;
use trn3_system::fabric::{FabricSpec, Figure, LevelKind, LinkProfile, NetworkSpec};

/// Links of one kind, and the chips that they bring together with those of the levels inside.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkLevel {
    /// What the links join: `server`, `rack`, `cross-rack`, ...
    pub name: String,
    /// Chips within reach over this level and those inside.
    pub chips: u32,
    /// Bytes a second that a chip sends into it, one way, if only neighbours talk.
    pub rate: f64,
    /// What a chip sends evenly to all that this level alone brings within reach, at most: rings carry others' too.
    pub uniform: f64,
    /// Seconds of one step over it.
    pub latency: f64,
    /// Whether its links join chips of the same position alone, so that others are reached over an inner level too.
    pub aligned: bool,
    /// Whether it is made of rings, of which a group of few chips uses few links.
    pub rings: bool,
    /// The part of its rates that collectives reach.
    #[serde(skip)]
    pub efficiency: f64,
    /// Seconds of one step of a ring over it.
    #[serde(skip)]
    pub ring_step: f64,
    /// Whether it joins systems, as the network does.
    #[serde(skip)]
    pub is_network: bool,
    /// Whether collectives cross it in one flat ring of all ranks, not level by level.
    #[serde(skip)]
    pub flat: bool,
}

/// The network between several systems; `chips` is the cluster's to say.
pub(super) fn network(spec: &NetworkSpec) -> LinkLevel {
    let (rate, latency) = (si(&spec.rate), si(&spec.latency));
    LinkLevel {
        name: spec.name.clone(),
        chips: 0,
        rate,
        uniform: rate,
        latency,
        aligned: false,
        rings: false,
        efficiency: spec.efficiency.as_ref().map_or(1.0, si),
        ring_step: spec.ring_step.as_ref().map_or(latency, si),
        is_network: true,
        flat: spec.is_flat(),
    }
}

/// A figure in SI units.
pub(super) fn si(figure: &Figure) -> f64 {
    // The specification was checked, units included.
    figure.value * factor(&figure.unit).unwrap_or(f64::NAN)
}

/// Those of a system, from the inside out.
pub(super) fn levels(spec: &FabricSpec, profile: LinkProfile) -> Vec<LinkLevel> {
    let mut within: BTreeSet<&str> = BTreeSet::new();
    let mut levels = Vec::new();
    let size = |axis: &str| spec.axes.iter().find(|known| known.name == axis).map_or(1.0, |known| known.size.value);
    for level in &spec.levels {
        let inside: f64 = within.iter().map(|axis| size(axis)).product();
        let aligned = within.iter().any(|axis| !level.over.iter().any(|over| over == axis));
        within.extend(level.over.iter().map(String::as_str));
        let chips: f64 = within.iter().map(|axis| size(axis)).product();
        let one = si(&level.links) * si(&level.rate);
        let sizes = || level.over.iter().map(|axis| size(axis));
        let neighbours = |size: f64| (size - 1.0).min(2.0);
        let (rate, uniform) = match level.kind {
            LevelKind::Switch => (one, one),
            LevelKind::Direct => (one * (sizes().product::<f64>() - 1.0), one * (sizes().product::<f64>() - 1.0)),
            LevelKind::Ring => {
                // Each axis carries the mean distance along it; the slowest one binds. What stays inside of the level
                // does not count.
                let distance = |size: f64| (size * size / 4.0).floor() / size * chips / (chips - inside);
                let bound = sizes().map(|size| one * neighbours(size) / distance(size)).fold(f64::INFINITY, f64::min);
                (sizes().map(|size| one * neighbours(size)).sum(), bound)
            }
        };
        let latency = si(&level.latency);
        let (name, rings) = (level.name.clone(), level.kind == LevelKind::Ring);
        let (efficiency, ring_step) = (level.efficiency.as_ref().map_or(1.0, si), latency);
        let chips = chips as u32;
        levels.push(LinkLevel {
            name,
            chips,
            rate,
            uniform,
            latency,
            aligned,
            rings,
            efficiency,
            ring_step,
            is_network: false,
            flat: false,
        });
    }
    let total: f64 = levels.iter().map(|level| level.rate).sum();
    if let (LinkProfile::Headline, Some(headline)) = (profile, &spec.headline) {
        // Headline figures count both directions.
        let scale = si(headline) / 2.0 / total;
        for level in &mut levels {
            level.rate *= scale;
            level.uniform *= scale;
        }
    }
    levels
}
