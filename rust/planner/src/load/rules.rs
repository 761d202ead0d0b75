//! How a server batches requests: the rules that its options set.

use serde::Serialize;
use trn3_system::{Error, Result};

use super::acceptance::Acceptance;

/// What a replica does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaRole {
    /// Reads prompts and generates.
    #[default]
    Both,
    /// Reads prompts and hands their keys and values on.
    Prefill,
    /// Generates from keys and values that others made.
    Decode,
}

/// What happens to a sequence whose blocks another one needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PreemptionMode {
    /// Its keys and values are dropped and computed again.
    #[default]
    Recompute,
    /// They are written to the host's memory and read back.
    Swap,
}

impl PreemptionMode {
    /// The mode of a name, `recompute` where none is given.
    ///
    /// # Errors
    /// [`Error::Unknown`] for any other than `recompute` and `swap`.
    pub fn parse(name: Option<&str>) -> Result<Self> {
        match name {
            None | Some("recompute") => Ok(Self::Recompute),
            Some("swap") => Ok(Self::Swap),
            Some(other) => Err(Error::unknown("preemption_mode", other, ["recompute", "swap"])),
        }
    }
}

/// The rules of one replica.
#[derive(Clone, Debug)]
pub(super) struct ServerRules {
    /// The most sequences that it works on.
    pub(super) sequences: usize,
    /// The most tokens of a step.
    pub(super) batched_tokens: u64,
    /// Whether prompts are read in pieces beside sequences that decode.
    pub(super) chunked: bool,
    /// Whether blocks of prompts are kept for others that begin alike.
    pub(super) prefix_caching: bool,
    /// Whether smaller priorities go first, instead of earlier arrivals.
    pub(super) by_priority: bool,
    /// Bytes a second to and from the host's memory; none where sequences are computed again.
    pub(super) swap_rate: Option<f64>,
    /// How many guesses are kept, with speculation.
    pub(super) acceptance: Option<Acceptance>,
    /// Tokens of a block.
    pub(super) block: u32,
    /// Blocks, where they are not what memory has room for.
    pub(super) blocks: Option<u64>,
}
