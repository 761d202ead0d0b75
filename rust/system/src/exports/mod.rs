//! Systems as inputs of other simulators: ASTRA-sim's network, system and memory, Calculon's and LLMCompass's hardware.

mod astra_sim;
mod calculon;
mod dimensions;
mod llmcompass;

use serde_json::Value;
use trn3_facts::{Facts, Overrides, Spec};

pub use dimensions::Dimension;

use crate::error::{Error, Result};
use crate::fabric::Fabric;

/// An input of another simulator.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportContent {
    /// What the other simulator reads.
    pub content: Value,
    /// What was simplified, and the numbers in it that nobody has published.
    pub notes: Vec<String>,
}

/// A program that other people simulate with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// The network of ASTRA-sim's analytical backend.
    AstraSim,
    /// The system of ASTRA-sim: what a chip computes, and the algorithms of collectives by dimension.
    AstraSimSystem,
    /// The memory beyond a chip, of ASTRA-sim.
    AstraSimMemory,
    /// Calculon's system: peaks, and efficiencies by size. Efficiencies are computed, not measured: of matrices from the
    /// ramp of the tensor engine's current limit, of memory from the setup time of a DMA.
    Calculon,
    /// LLMCompass's hardware: one of its cores is one NeuronCore.
    LlmCompass,
}

impl ExportFormat {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::AstraSim, Self::AstraSimSystem, Self::AstraSimMemory, Self::Calculon, Self::LlmCompass];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AstraSim => "astra_sim",
            Self::AstraSimSystem => "astra_sim_system",
            Self::AstraSimMemory => "astra_sim_memory",
            Self::Calculon => "calculon",
            Self::LlmCompass => "llmcompass",
        }
    }

    /// The format of a name.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is none.
    pub fn parse(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|format| format.name() == name);
        found.ok_or_else(|| Error::unknown("format", name, Self::ALL.map(Self::name)))
    }
}

/// Says a system in another simulator's terms; `facts` are those that its fabric is of.
///
/// # Errors
/// [`Error::Value`] if parts of it have failed, or its chip has no cores where the format needs them; [`Error::Spec`] if a
/// figure is missing.
///
/// ```
/// use trn3_facts::Facts;
/// use trn3_system::exports::{ExportFormat, export};
/// use trn3_system::fabric::{Fabric, LinkProfile};
///
/// let facts = Facts::built_in("trn2_ultraserver")?;
/// let network = export(&Fabric::from_facts(&facts, LinkProfile::Docs)?, &facts, ExportFormat::AstraSim)?;
/// assert_eq!(network.content["npus_count"], serde_json::json!([4, 4, 4]));
/// # Ok::<(), trn3_system::Error>(())
/// ```
pub fn export(fabric: &Fabric, facts: &Facts, format: ExportFormat) -> Result<ExportContent> {
    let (dimensions, notes) = fabric.dimensions()?;
    let mut made = match format {
        ExportFormat::AstraSim => astra_sim::export(&dimensions),
        ExportFormat::AstraSimSystem => astra_sim::export_system(&dimensions, facts)?,
        ExportFormat::AstraSimMemory => astra_sim::export_memory(),
        ExportFormat::Calculon => calculon::export(&dimensions, facts)?,
        ExportFormat::LlmCompass => llmcompass::export(fabric, &dimensions, facts)?,
    };
    made.notes.extend(notes);
    Ok(made)
}

/// A system's chip, or the system where it is one.
fn chip_of(facts: &Facts) -> Result<Facts> {
    Ok(facts.part("chip")?.unwrap_or_else(|| facts.clone()))
}

/// A figure in base units by its name, or another number where there is none.
fn or(spec: &Spec, name: &str, otherwise: f64) -> f64 {
    spec.known(name).unwrap_or(otherwise)
}

fn spec_of(facts: &Facts) -> Result<std::sync::Arc<Spec>> {
    Ok(Spec::of(facts, Overrides::new())?)
}

/// So many significant digits.
fn rounded(value: f64, digits: usize) -> f64 {
    trn3_facts::general(value, digits).parse().unwrap_or(value)
}
