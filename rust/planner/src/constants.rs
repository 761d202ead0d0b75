//! The constants of the serving model: fitted ones, choices, and facts of the runtime.

use std::sync::OnceLock;

use serde::Serialize;

use super::hardware::serving;
use trn3_facts::{Facts, is_drawing};
use trn3_system::Result;

/// Numbers of every serving stack that no page of a chip or system has; each with its source in `models/serving.toml` or `collectives.toml` of the facts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Constants {
    /// Passes of activations for the norms of a layer.
    pub norm_passes: f64,
    /// Microcode of a physical core, bytes.
    pub microcode: f64,
    /// Instructions of a rank, bytes.
    pub code: f64,
    /// Buffers of a rank's communicators, bytes.
    pub collectives_buffer: f64,
    /// Descriptors in memory, where hardware does not make them, bytes.
    pub dma_rings: f64,
    /// Buffers of a rank while it is profiled, bytes.
    pub profile_buffer: f64,
    /// Granule of scratch memory, bytes.
    pub scratch_page: f64,
    /// Tokens whose activations are in scratch memory at a time.
    pub prefill_chunk: f64,
    /// Time of the busiest rank's experts over the average.
    pub expert_imbalance: f64,
}

impl Constants {
    /// The constants of the crate, read once.
    ///
    /// # Errors
    /// None in practice: the files are part of the crate and tested.
    pub fn load() -> Result<Self> {
        static LOADED: OnceLock<Constants> = OnceLock::new();
        if let Some(loaded) = LOADED.get().filter(|_| !is_drawing()) {
            return Ok(*loaded);
        }
        let (serving, runtime) = (serving()?, Facts::built_in("collectives")?);
        let read = |key: &str| serving.si(key);
        let constants = Self {
            norm_passes: read("norm_passes")?,
            microcode: runtime.si("microcode_overhead")?,
            code: read("code")?,
            collectives_buffer: read("collectives_buffer")?,
            dma_rings: read("dma_rings")?,
            profile_buffer: read("profile_buffer")?,
            scratch_page: runtime.si("scratchpad_page")?,
            prefill_chunk: read("prefill_chunk")?,
            expert_imbalance: read("expert_imbalance")?,
        };
        if is_drawing() {
            return Ok(constants);
        }
        Ok(*LOADED.get_or_init(|| constants))
    }
}
