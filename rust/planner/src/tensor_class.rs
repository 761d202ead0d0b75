//! Classes of a model's weights.

use serde::Serialize;

use trn3_system::{Error, Result};

/// A class of weights: those that are split, stored and read alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TensorClass {
    /// Projections of attention.
    Attention,
    /// Feed-forward matrices of layers without experts.
    Dense,
    /// Experts that every token passes.
    SharedExperts,
    /// Experts of which the router picks some.
    Experts,
    /// What picks them.
    Router,
    /// The table of tokens (and positions) at the input.
    Embedding,
    /// The projection to the vocabulary; empty where it shares the table of tokens.
    Unembedding,
    /// Scales and shifts of norms.
    Norms,
}

impl TensorClass {
    /// Every class.
    pub const ALL: [Self; 8] = [
        Self::Attention,
        Self::Dense,
        Self::SharedExperts,
        Self::Experts,
        Self::Router,
        Self::Embedding,
        Self::Unembedding,
        Self::Norms,
    ];

    /// The name users write.
    pub fn name(self) -> &'static str {
        match self {
            Self::Attention => "attention",
            Self::Dense => "dense",
            Self::SharedExperts => "shared_experts",
            Self::Experts => "experts",
            Self::Router => "router",
            Self::Embedding => "embedding",
            Self::Unembedding => "unembedding",
            Self::Norms => "norms",
        }
    }

    /// The class of a name.
    ///
    /// # Errors
    /// [`Error::Unknown`] if there is none of that name.
    pub fn parse(name: &str) -> Result<Self> {
        let names = Self::ALL.map(Self::name);
        let known = names.into_iter().chain(["kv", "activations", "default"]);
        Self::ALL
            .into_iter()
            .find(|class| class.name() == name)
            .ok_or_else(|| Error::unknown("tensor class", name, known))
    }
}
