//! The network between units: rates, latency, and the shape of its fat tree.

use serde::Deserialize;
use toml::Value as Toml;

use crate::error::{Error, Result};
use crate::fabric::{FabricSpec, Figure};
use trn3_facts::{Facts, factor};

/// What a study may change about the network; `None` takes the figure of the spec files.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkOptions {
    /// How many times more can enter a bottom node from below than leave it upwards; at least 1.
    pub oversubscription: Option<f64>,
    /// Units under one network node of the bottom layer.
    pub units_per_bottom_node: Option<u64>,
    /// Bottom nodes under one network node of the middle layer.
    pub bottom_per_middle_node: Option<u64>,
    /// Bytes a second of one chip's share, one way.
    pub rate: Option<f64>,
    /// Seconds from chip to chip, for the first byte.
    pub latency: Option<f64>,
}

/// A fat tree of three layers over units whose chips hang on it one by one.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterNetwork {
    /// Its name: `efa`.
    pub name: String,
    /// Bytes a second of one chip's share, one way.
    pub rate: f64,
    /// Seconds from chip to chip, for the first byte.
    pub latency: f64,
    /// The part of the rate that collectives reach.
    pub efficiency: f64,
    /// Seconds of one step of a flat ring of all ranks, where collectives cross it in nothing else.
    pub ring_step: Option<f64>,
    /// How many times more can enter a bottom node from below than leave it upwards.
    pub oversubscription: f64,
    /// Units under one network node of the bottom layer.
    pub units_per_bottom_node: u64,
    /// Bottom nodes under one network node of the middle layer.
    pub bottom_per_middle_node: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Shape {
    layers: Figure,
    units_per_bottom_node: Figure,
    bottom_per_middle_node: Figure,
    oversubscription: Figure,
}

impl ClusterNetwork {
    /// The network of a unit's spec file in the shape of the cluster's, and which of its figures are choices.
    pub(super) fn new(facts: &Facts, spec: &FabricSpec, options: &NetworkOptions) -> Result<(Self, Vec<String>)> {
        let name = &facts.name;
        let Some(network) = &spec.network else {
            return Err(Error::Spec(format!(
                "{name}._fabric has no network table, so nothing can join several of them; needed: name, rate, latency"
            )));
        };
        let cluster = Facts::built_in("ultracluster3")?;
        let table = cluster.parts.get("network").cloned();
        let table = table.ok_or_else(|| Error::Spec("ultracluster3 lacks its _network table".to_owned()))?;
        let shape: Shape = Toml::try_into(table)
            .map_err(|error: toml::de::Error| Error::Spec(format!("ultracluster3._network: {}", error.message())))?;
        if shape.layers.value != 3.0 {
            let layers = shape.layers.value;
            return Err(Error::Spec(format!("ultracluster3._network: layers is {layers}; allowed: 3")));
        }
        let mut assumptions = Vec::new();
        let mut note = |key: &str, figure: &Figure, chosen: bool| {
            if !chosen && figure.source.contains("choice:") {
                assumptions.push(format!("{key} {} ({})", figure.value, figure.source));
            }
        };
        note("units_per_bottom_node", &shape.units_per_bottom_node, options.units_per_bottom_node.is_some());
        note("bottom_per_middle_node", &shape.bottom_per_middle_node, options.bottom_per_middle_node.is_some());
        assumptions.push(
            "oversubscription narrows the links above the bottom layer only, and the latency is the same across all \
             layers (choice: neither is published)"
                .to_owned(),
        );
        let si = |figure: &Figure| figure.value * factor(&figure.unit).unwrap_or(1.0);
        let network = Self {
            name: network.name.clone(),
            rate: options.rate.unwrap_or(si(&network.rate)),
            latency: options.latency.unwrap_or(si(&network.latency)),
            efficiency: network.efficiency.as_ref().map_or(1.0, si),
            ring_step: network.is_flat().then(|| si(network.ring_step.as_ref().unwrap_or(&network.latency))),
            oversubscription: options.oversubscription.unwrap_or(shape.oversubscription.value),
            units_per_bottom_node: options.units_per_bottom_node.unwrap_or(shape.units_per_bottom_node.value as u64),
            bottom_per_middle_node: options.bottom_per_middle_node.unwrap_or(shape.bottom_per_middle_node.value as u64),
        };
        network.check()?;
        Ok((network, assumptions))
    }

    fn check(&self) -> Result<()> {
        let refuse = |what: &str, got: String, allowed: &str| {
            Err(Error::Value(format!("network {what} is {got}; allowed: {allowed}")))
        };
        if !(self.rate.is_finite() && self.rate > 0.0) {
            return refuse("rate", format!("{} B/s", self.rate), "finite and positive");
        }
        if !(0.0..=1.0).contains(&self.latency) {
            return refuse("latency", format!("{} s", self.latency), "0 to 1 s");
        }
        if !(self.oversubscription.is_finite() && self.oversubscription >= 1.0) {
            return refuse("oversubscription", self.oversubscription.to_string(), "1 (non-blocking) or more");
        }
        for (what, count) in [
            ("units_per_bottom_node", self.units_per_bottom_node),
            ("bottom_per_middle_node", self.bottom_per_middle_node),
        ] {
            if !(1..=1 << 20).contains(&count) {
                return refuse(what, count.to_string(), "1 to 1048576");
            }
        }
        Ok(())
    }

    /// The bottom and the middle node over a unit.
    pub fn nodes_over(&self, unit: u64) -> (u64, u64) {
        let bottom = unit / self.units_per_bottom_node;
        (bottom, bottom / self.bottom_per_middle_node)
    }

    /// Bytes a second for each chip of a bottom node when all of them send out of it at once.
    pub fn upward_rate(&self) -> f64 {
        self.rate / self.oversubscription
    }
}
