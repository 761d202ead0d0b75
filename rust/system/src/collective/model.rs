//! The constants of the model of time: of the chip from its spec file, of collectives from `_model` in collectives.toml.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::name::{Algorithm, Operation};
use crate::error::{Error, Result};
use crate::fabric::{Fabric, Figure, LevelKind};
use trn3_facts::{Facts, Overrides, Spec, factor, is_drawing};

/// What costs are computed with, beside the fabric. Seconds, bytes a second.
#[derive(Clone, Debug, PartialEq)]
pub struct CollectiveModel {
    /// Seconds for a step within a chip.
    pub step_latency: f64,
    /// Part of the links' rate that a mesh gets on a torus.
    pub mesh_efficiency: f64,
    /// Part of the links' rate that RDH gets on a torus.
    pub rdh_efficiency: f64,
    /// Part of all accesses that reach memory.
    pub memory_share: f64,
    /// A chip's memory bandwidth.
    pub memory_rate: f64,
    /// What a chip's DMA engines move.
    pub engine_rate: f64,
    /// What a call waits for beside its steps.
    pub starts: CallStarts,
    /// What a rank sends over one channel; `None` where its links alone say.
    pub channel_rate: Option<f64>,
    /// Channels of a group that covers its systems, and of any other one.
    pub channels: (f64, f64),
    /// Algorithms by which collectives cross the network; empty: any.
    pub crossing: Vec<Algorithm>,
    /// Whether the fabric has rings, where transfers share links on their way.
    pub is_torus: bool,
    /// Each number that no vendor publishes.
    pub assumptions: Vec<String>,
}

/// What a call waits for beside its steps, in seconds; nothing on chips without NeuronCores.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallStarts {
    /// Of a call in a program that runs: a CC-core is triggered, and answers.
    pub program: f64,
    /// Of a call of its own, which the host starts.
    pub host: f64,
    /// The same for each of its ranks on the system that has most of them.
    pub host_rank: f64,
    /// The same once if it crosses the network.
    pub host_network: f64,
}

impl CallStarts {
    /// Those of Neuron's runtime, with their sources in `collectives._model`.
    ///
    /// # Errors
    /// None in practice: the file is part of the crate and tested.
    pub fn neuron() -> Result<Self> {
        Ok(Self {
            program: constant("program_start")?,
            host: constant("host_start")?,
            host_rank: constant("host_rank_start")?,
            host_network: constant("host_network_start")?,
        })
    }
}

/// Channels of a collective whose group covers its systems, and of any other one.
///
/// # Errors
/// None in practice: the file is part of the crate and tested.
pub fn channels() -> Result<(f64, f64)> {
    Ok((constant("channels_of_instances")?, constant("channels_of_parts")?))
}

impl CollectiveModel {
    /// The model for a fabric and its chip.
    ///
    /// # Errors
    /// [`Error::Spec`] if the constants or the chip's rates are missing.
    pub fn of(fabric: &Fabric) -> Result<Self> {
        let Some(chip) = fabric.chip() else {
            return Err(Error::Spec(format!(
                "{}._fabric names no chip, whose memory and DMA rates collectives need: chip = \"trainium3\"",
                fabric.name()
            )));
        };
        let is_torus = fabric.levels().iter().any(|level| level.kind == LevelKind::Ring);
        let chip_rates = match fabric.chip_facts() {
            Some(facts) => rates_of(facts)?,
            None => rates_of(&Facts::built_in(chip)?)?,
        };
        let names = fabric.network().map_or(&[][..], |network| &network.algorithms);
        let crossing = names.iter().map(|name| name.parse()).collect::<Result<Vec<Algorithm>>>()?;
        let starts = if chip_rates.is_neuron { CallStarts::neuron()? } else { CallStarts::default() };
        let step_latency = constant("step_latency")?;
        let mut assumptions = vec![
            format!("a step within a chip takes {} us (choice)", step_latency * 1e6),
            match chip_rates.is_neuron {
                true => format!(
                    "a call in a program starts in {} us (fitted); one from the host in {} us more, {} us a rank and {} us over a network (fitted)",
                    starts.program * 1e6,
                    starts.host * 1e6,
                    starts.host_rank * 1e6,
                    starts.host_network * 1e6
                ),
                false => "a call starts in no time: nothing is published for this chip (choice)".to_owned(),
            },
            format!("{} of all accesses reach memory (fitted on Trainium2)", constant("memory_share")?),
            "a transfer costs nothing beside its bytes and its step (choice)".to_owned(),
            "steps of a collective overlap in memory and DMA engines, not on wires (choice)".to_owned(),
            "a step waits once for each level on its way: hops of a torus are forwarded without a stop (choice)"
                .to_owned(),
        ];
        if is_torus {
            assumptions.push(format!(
                "on a torus mesh gets {:.3} and rdh {:.3} of its links (fitted on 16 chips of Trainium2)",
                constant("mesh_rate")? / constant("mesh_bound")?,
                constant("rdh_rate")? / constant("rdh_bound")?,
            ));
        } else {
            assumptions.push("switches let every schedule use its links whole (choice)".to_owned());
        }
        for level in fabric.levels().iter().filter(|level| level.efficiency < 1.0) {
            assumptions.push(format!("collectives reach {} of the rate of {} (fitted)", level.efficiency, level.name));
        }
        if let Some(rate) = fabric.channel_rate() {
            assumptions.push(format!("a rank sends {} GB/s over one channel (fitted)", rate / 1e9));
        }
        assumptions.extend(chip_rates.assumption.clone());
        assumptions.extend_from_slice(fabric.assumptions());
        Ok(Self {
            step_latency,
            mesh_efficiency: constant("mesh_rate")? / constant("mesh_bound")?,
            rdh_efficiency: constant("rdh_rate")? / constant("rdh_bound")?,
            memory_share: constant("memory_share")?,
            memory_rate: chip_rates.memory,
            engine_rate: chip_rates.engines,
            starts,
            channel_rate: fabric.channel_rate(),
            channels: channels()?,
            crossing,
            is_torus,
            assumptions,
        })
    }

    /// The part of links' rates that an operation gets by an algorithm: what a permutation sends straight to one target
    /// shares no link with others', as the parts of an exchange do.
    pub fn share_of_links(&self, operation: Operation, algorithm: Algorithm) -> f64 {
        if operation == Operation::Permute { 1.0 } else { self.efficiency(algorithm) }
    }

    /// The part of links' rates that an algorithm gets.
    pub fn efficiency(&self, algorithm: Algorithm) -> f64 {
        match algorithm {
            _ if !self.is_torus => 1.0,
            Algorithm::Mesh | Algorithm::SingleStepMesh | Algorithm::HierarchicalMesh | Algorithm::Direct => {
                self.mesh_efficiency
            }
            Algorithm::Rdh => self.rdh_efficiency,
            _ => 1.0,
        }
    }
}

#[derive(Clone)]
struct Rates {
    memory: f64,
    engines: f64,
    is_neuron: bool,
    assumption: Option<String>,
}

fn rates_of(chip: &Facts) -> Result<Rates> {
    let spec = Spec::of(chip, Overrides::new())?;
    let memory = spec.si("hbm_bandwidth")?;
    if spec.parts.contains_key("core") {
        return Ok(Rates { memory, engines: spec.si("dma_bandwidth")?, is_neuron: true, assumption: None });
    }
    let assumption =
        format!("{} moves data as fast as its memory is: it has no spec of copy engines (choice)", chip.name);
    Ok(Rates { memory, engines: memory, is_neuron: false, assumption: Some(assumption) })
}

fn constant(key: &str) -> Result<f64> {
    constants()?.get(key).copied().ok_or_else(|| Error::Spec(format!("collectives._model has no {key}")))
}

type Constants = BTreeMap<String, f64>;

fn constants() -> Result<Constants> {
    static CONSTANTS: OnceLock<Result<Constants>> = OnceLock::new();
    if is_drawing() { read() } else { CONSTANTS.get_or_init(read).clone() }
}

fn read() -> Result<Constants> {
    let facts = Facts::built_in("collectives")?;
    let wrong = |why: &str| Error::Spec(format!("collectives._model: {why}"));
    let table = facts.parts.get("model").and_then(|part| part.as_table()).ok_or_else(|| wrong("is missing"))?;
    let number = |(key, entry): (&String, &toml::Value)| {
        let figure: Figure = entry.clone().try_into().map_err(|_| wrong(&format!("{key} is no figure")))?;
        let scale = factor(&figure.unit).ok_or_else(|| wrong(&format!("{key} has no known unit")))?;
        Ok((key.clone(), figure.value * scale))
    };
    table.iter().map(number).collect()
}
