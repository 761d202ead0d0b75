//! The engines of a core: each runs its instructions in program order.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An instruction stream of the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum Engine {
    /// The systolic array.
    Tensor,
    /// Elementwise work, reductions, quantisation.
    Vector,
    /// Activation functions.
    Scalar,
    /// Eight 512-bit processors.
    GpSimd,
    /// The sequencer that triggers DMA and keeps registers.
    Sync,
    /// The sixteen DMA engines together.
    Dma,
}

impl Engine {
    /// Every engine.
    pub const ALL: [Engine; 6] =
        [Engine::Tensor, Engine::Vector, Engine::Scalar, Engine::GpSimd, Engine::Sync, Engine::Dma];

    /// Name as `nki.isa.engine` spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Engine::Tensor => "tensor",
            Engine::Vector => "vector",
            Engine::Scalar => "scalar",
            Engine::GpSimd => "gpsimd",
            Engine::Sync => "sync",
            Engine::Dma => "dma",
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
