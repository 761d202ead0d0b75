//! The constants of the compiler: what nobody publishes, each with its source in `models/compiler.toml` of the facts.

use std::sync::OnceLock;

use trn3_machine::arch::ArchSpec;
use trn3_machine::{Error, Result};

/// What compilers of kernels do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompilerConstants {
    /// Part of the DMA engines' rate that compiled kernels reach on the second generation.
    pub dma_share_gen2: f64,
    /// The same from the third generation on.
    pub dma_share: f64,
    /// Of what SBUF holds, how much may be live where work is shared.
    pub shared_room: f64,
    /// Rings that transfers are spread over.
    pub dma_rings: u8,
}

impl CompilerConstants {
    /// The constants of the crate, read once.
    ///
    /// # Errors
    /// None in practice: the file is part of the crate and tested.
    pub fn load() -> Result<Self> {
        static LOADED: OnceLock<CompilerConstants> = OnceLock::new();
        if let Some(loaded) = LOADED.get() {
            return Ok(*loaded);
        }
        let facts = |error: trn3_facts::Error| Error::Value(error.to_string());
        let model = trn3_facts::parameters("compiler").map_err(facts)?;
        let read = |key: &str| model.si(key).map_err(facts);
        let constants = Self {
            dma_share_gen2: read("dma_share_gen2")?,
            dma_share: read("dma_share")?,
            shared_room: read("shared_room")?,
            dma_rings: read("dma_rings")? as u8,
        };
        Ok(*LOADED.get_or_init(|| constants))
    }

    /// Part of the DMA engines' rate that compiled kernels reach on a machine.
    pub fn dma_share(&self, arch: &ArchSpec) -> f64 {
        if arch.generation == 2 { self.dma_share_gen2 } else { self.dma_share }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_constants_are_in_the_facts() {
        let constants = CompilerConstants::load().expect("built in");
        for share in [constants.dma_share_gen2, constants.dma_share] {
            assert!(share > 0.0 && share <= 1.0);
        }
        assert!(constants.dma_rings > 0);
    }
}
