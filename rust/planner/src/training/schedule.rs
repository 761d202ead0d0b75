//! In which order a step's work is done, and what that costs: pipeline, recomputation, formats, network.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::layout::TrainingLayout;
use super::memory::narrow_copies;
use super::recipe::{Recipe, TrainingSettings};
use super::step::Times;
use crate::dtype::{DataType, TensorPrecision};
use crate::hardware::Machine;
use crate::memory::weight_bytes;
use crate::shapes::Model;

/// The schedule of a step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrainingSchedule {
    /// `none`, `1F1B` or `interleaved 1F1B`.
    pub pipeline: &'static str,
    /// Stages of the pipeline.
    pub stages: u64,
    /// Parts of the model on each stage.
    pub interleave: u64,
    /// Micro-batches that each replica accumulates.
    pub micro_batches: u64,
    /// Waiting of stages over their work: `(stages - 1) / (interleave * micro_batches)`.
    pub bubble: f64,
    /// Seconds of it.
    pub bubble_seconds: f64,
    /// What is computed again: `none`, `selective`, `full`.
    pub recompute: &'static str,
    /// Seconds of it.
    pub recompute_seconds: f64,
    /// Whether attention is one kernel; else its scores pass through memory.
    pub fused_attention: bool,
    /// Formats of products by class of weights, where a model has such weights.
    pub formats: BTreeMap<&'static str, &'static str>,
    /// Bytes that a rank keeps of each of its weights before any sharding: `weights`, `narrow copies`, `gradients`,
    /// `optimizer states`.
    pub bytes_per_weight: BTreeMap<&'static str, f64>,
    /// The network between systems, if the job crosses it.
    pub network: Option<String>,
    /// Seconds of a step in which nothing but that network is at work.
    pub network_seconds: f64,
    /// Seconds of its traffic that run under other work.
    pub network_hidden: f64,
    /// All of it in words, by `pipeline`, `recompute`, `formats` and `network`.
    pub said: Vec<(&'static str, String)>,
}

impl TrainingSchedule {
    pub(super) fn of(
        model: &Model,
        machine: &Machine,
        recipe: &Recipe,
        layout: &TrainingLayout,
        times: &Times,
        settings: &TrainingSettings,
    ) -> Self {
        let per_chip = machine.chip.rank(layout.lnc).map_or(1, |rank| u64::from(rank.per_chip));
        let network = machine.network.as_ref().filter(|_| machine.graph().is_none());
        // Ranks beyond the outermost level of one system are reached over the network alone.
        let inside = machine.levels.iter().filter(|level| network.is_none_or(|network| network.name != level.name));
        let system = inside.map(|level| u64::from(level.chips)).max().unwrap_or(1) * per_chip;
        let network = network.filter(|_| layout.ranks() > system).map(|network| network.name.clone());
        let groups = [
            (&times.tensor, layout.tp),
            (&times.context, layout.tp * layout.cp),
            (&times.experts, layout.ep),
            (&times.data, layout.tp * layout.cp * layout.dp),
            (&times.pipeline, layout.ranks()),
        ];
        let crossing = groups.into_iter().filter(|(_, reach)| network.is_some() && *reach > system);
        let (shown, all) =
            crossing.fold((0.0, 0.0), |(shown, all), (part, _)| (shown + part.exposed, all + part.total));
        let parameters = model.parameters();
        let classes = crate::tensor_class::TensorClass::ALL.into_iter().filter(|class| parameters.of(*class) > 0);
        let mut bytes_per_weight = BTreeMap::from([
            ("weights", DataType::Bf16.bytes()),
            ("gradients", recipe.moments.gradient_bytes()),
            ("optimizer states", recipe.moments.state_bytes()),
        ]);
        let wide = weight_bytes(model, &TensorPrecision::uniform(DataType::Bf16), &layout.split());
        let copies = narrow_copies(model, recipe, layout).bytes / (wide / DataType::Bf16.bytes());
        if copies > 0.0 {
            bytes_per_weight.insert("narrow copies", copies);
        }
        let mut this = Self {
            pipeline: match (layout.pp, layout.interleave) {
                (1, _) => "none",
                (_, 1) => "1F1B",
                _ => "interleaved 1F1B",
            },
            stages: layout.pp,
            interleave: layout.interleave,
            micro_batches: layout.micro_batches(recipe),
            bubble: layout.bubble(recipe),
            bubble_seconds: times.bubble,
            recompute: layout.recompute.name(),
            recompute_seconds: times.recompute,
            fused_attention: settings.fuses_attention(recipe.sequence),
            formats: classes.map(|class| (class.name(), recipe.precision.of(class).name())).collect(),
            bytes_per_weight,
            network,
            network_seconds: shown,
            network_hidden: all - shown,
            said: Vec::new(),
        };
        this.said = this.words();
        this
    }

    fn words(&self) -> Vec<(&'static str, String)> {
        let parts = if self.interleave > 1 { format!(" x {} parts", self.interleave) } else { String::new() };
        let stages = if self.stages > 1 { format!(", {} stages{parts}", self.stages) } else { String::new() };
        let products: BTreeSet<&str> = self.formats.values().copied().collect();
        let products = products.into_iter().collect::<Vec<_>>().join(", ");
        let bytes = |(name, bytes): (&&str, &f64)| format!("{name} {}", (bytes * 1e3).round() / 1e3);
        let mut said = vec![
            (
                "pipeline",
                format!(
                    "{}{stages}, {} micro-batches: bubble {:.1}% of the work, {:.3} s",
                    self.pipeline,
                    self.micro_batches,
                    self.bubble * 100.0,
                    self.bubble_seconds
                ),
            ),
            (
                "recompute",
                format!(
                    "{}: {:.3} s; attention {}",
                    self.recompute,
                    self.recompute_seconds,
                    if self.fused_attention { "fused" } else { "not fused: its scores pass through memory" }
                ),
            ),
            (
                "formats",
                format!(
                    "products {products}; bytes a weight: {}",
                    self.bytes_per_weight.iter().map(bytes).collect::<Vec<_>>().join(", ")
                ),
            ),
        ];
        if let Some(network) = &self.network {
            said.push((
                "network",
                format!(
                    "{network} alone is at work for {:.3} s, under other work for {:.3} s",
                    self.network_seconds, self.network_hidden
                ),
            ));
        }
        said
    }
}
