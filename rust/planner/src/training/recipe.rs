//! What is trained: batch, sequences, what is kept and what is computed again, the optimizer.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::dtype::{DataType, TensorPrecision};
use crate::hardware::Chip;
use crate::shapes::Model;
use crate::tensor_class::TensorClass;
use trn3_facts::Facts;
use trn3_system::{Error, Result};

/// What of the forward pass is computed again in the backward pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recompute {
    /// Nothing: scores of attention are kept.
    None,
    /// Scores and weighted values of attention.
    #[default]
    Selective,
    /// Whole layers; only their inputs are kept.
    Full,
}

impl Recompute {
    /// Every mode, from the most memory to the least.
    pub const ALL: [Self; 3] = [Self::None, Self::Selective, Self::Full];

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Selective => "selective",
            Self::Full => "full",
        }
    }
}

/// How the optimizer keeps its state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Moments {
    /// Adam: two moments in FP32, and a master copy of the weights in FP32.
    #[default]
    Master,
    /// Adam: two moments in FP32; BF16 weights are updated with stochastic rounding, without a master copy.
    StochasticRounding,
    /// As [`Moments::StochasticRounding`], with moments and gradients in BF16 too.
    AllBf16,
}

impl Moments {
    /// Bytes of optimizer state for one weight.
    pub fn state_bytes(self) -> f64 {
        match self {
            Self::Master => 12.0,
            Self::StochasticRounding => 8.0,
            Self::AllBf16 => 4.0,
        }
    }

    /// Bytes of a gradient.
    pub fn gradient_bytes(self) -> f64 {
        if self == Self::AllBf16 { 2.0 } else { 4.0 }
    }

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Master => "master",
            Self::StochasticRounding => "stochastic_rounding",
            Self::AllBf16 => "all_bf16",
        }
    }
}

/// What is trained.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recipe {
    /// Sequences of a step, over all replicas.
    pub global_batch: u64,
    /// Tokens of a sequence.
    pub sequence: u64,
    /// Formats in which products are done; weights are kept in BF16 whatever they are.
    pub precision: TensorPrecision,
    /// The optimizer.
    pub moments: Moments,
    /// Assumed TDP of a chip, watts; the facts' choice without.
    pub tdp: Option<f64>,
    /// US dollars for a chip and hour; no cost without.
    pub price: Option<f64>,
}

impl Recipe {
    /// BF16 and Adam with master weights.
    pub fn new(global_batch: u64, sequence: u64) -> Self {
        Self {
            global_batch,
            sequence,
            precision: TensorPrecision::uniform(DataType::Bf16),
            moments: Moments::Master,
            tdp: None,
            price: None,
        }
    }

    /// Tokens of a step.
    pub fn tokens(&self) -> f64 {
        self.global_batch as f64 * self.sequence as f64
    }

    /// Refuses batches and sequences that cannot be.
    pub(super) fn check(&self, model: &Model) -> Result<()> {
        for (name, value) in [("global_batch", self.global_batch), ("sequence", self.sequence)] {
            if !(1..=1 << 32).contains(&value) {
                return Err(Error::Value(format!("{name} is {value}; needed: a whole number from 1 to 4294967296")));
            }
        }
        if let Some(longest) = model.longest_context.filter(|longest| self.sequence > *longest) {
            return Err(Error::Value(format!(
                "sequence is {}; {} has positions for {longest} tokens, so {longest} would work",
                self.sequence, model.name
            )));
        }
        Ok(())
    }

    /// Classes of weights that are multiplied in a format narrower than the one they are kept in.
    pub(super) fn narrow_classes(&self, model: &Model) -> impl Iterator<Item = TensorClass> {
        let (precision, parameters) = (self.precision.clone(), model.parameters());
        let narrow = move |class: &TensorClass| precision.of(*class).bits() < DataType::Bf16.bits();
        TensorClass::ALL.into_iter().filter(narrow).filter(move |class| parameters.of(*class) > 0)
    }

    /// Refuses products in formats that the chip does not multiply: another format would be another recipe.
    pub(super) fn check_formats(&self, model: &Model, chip: &Chip) -> Result<()> {
        let parameters = model.parameters();
        let classes = TensorClass::ALL.into_iter().filter(|class| parameters.of(*class) > 0);
        let weights = classes.map(|class| (class.name(), self.precision.of(class)));
        let others = [("kv", self.precision.kv), ("activations", self.precision.activations)];
        let mut used = weights.chain(others);
        match used.find(|(_, dtype)| !chip.supports(*dtype)) {
            None => Ok(()),
            Some((class, dtype)) => {
                let why = chip.peak(dtype).err().map_or_else(String::new, |error| error.to_string());
                Err(Error::Value(format!("dtype of {class} is {}: {why}", dtype.name())))
            }
        }
    }
}

/// Constants of the model of training; see `models/training.toml` of the facts.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingSettings {
    /// What products reach of the array's peak, fitted.
    pub achieved_fraction: f64,
    /// Passes over the scores of attention that is not fused: forward, backward, and where they are computed again.
    pub score_passes: [f64; 3],
    /// Bytes of gradients that one collective takes.
    pub gradient_bucket: f64,
    /// Time of a backward product over that of a forward one.
    pub backward: f64,
    /// Share of a backward pass that hides collectives of data parallelism.
    pub dp_overlap: f64,
    /// Share of other collectives that is hidden.
    pub tp_overlap: f64,
    /// Passes of the optimizer over its state.
    pub optimizer_passes: f64,
    strict: Vec<String>,
    /// Tokens from which attention is fused, by chip, and on the chip at hand.
    unfused: Vec<(String, u64)>,
    fused_from: u64,
}

/// The file of constants.
pub(super) fn facts() -> Result<Facts> {
    Ok(trn3_facts::parameters("training")?)
}

static SETTINGS: LazyLock<Result<TrainingSettings>> = LazyLock::new(read);

fn read() -> Result<TrainingSettings> {
    let facts = facts()?;
    let strict = match facts.parts.get("strict_priority") {
        Some(toml::Value::Array(names)) => names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    };
    let unfused = match facts.parts.get("fused_attention_from") {
        Some(toml::Value::Table(chips)) => {
            let tokens = |value: &toml::Value| value.as_integer().and_then(|tokens| u64::try_from(tokens).ok());
            chips.iter().filter_map(|(chip, value)| Some((chip.clone(), tokens(value)?))).collect()
        }
        _ => Vec::new(),
    };
    Ok(TrainingSettings {
        achieved_fraction: facts.si("achieved_fraction")?,
        score_passes: [facts.si("score_passes")?, facts.si("score_passes_backward")?, facts.si("score_passes_again")?],
        gradient_bucket: facts.si("gradient_bucket")?,
        backward: facts.si("backward")?,
        dp_overlap: facts.si("dp_overlap")?,
        tp_overlap: facts.si("tp_overlap")?,
        optimizer_passes: facts.si("optimizer_passes")?,
        strict,
        unfused,
        fused_from: 0,
    })
}

impl TrainingSettings {
    /// The constants of the crate, read once.
    ///
    /// # Errors
    /// None in practice: the file is part of the crate and tested.
    pub fn load() -> Result<Self> {
        if trn3_facts::is_drawing() { read() } else { SETTINGS.clone() }
    }

    /// The constants as they are on a chip: without one, attention is fused whatever its length.
    #[must_use]
    pub fn on(mut self, chip: &str) -> Self {
        self.fused_from = self.unfused.iter().find(|(name, _)| name == chip).map_or(0, |(_, tokens)| *tokens);
        self
    }

    /// Whether scores of attention over so many tokens stay on the chip.
    pub fn fuses_attention(&self, tokens: u64) -> bool {
        tokens >= self.fused_from
    }

    /// Tokens of a sequence from which attention is fused on the chip at hand.
    pub fn fused_from(&self) -> u64 {
        self.fused_from
    }

    /// Whether DMA of a higher class always goes first on a chip.
    pub fn strict(&self, chip: &str) -> bool {
        self.strict.iter().any(|name| name == chip)
    }
}
