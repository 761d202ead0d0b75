//! Trainium3, simulated: one NeuronCore with its memories, engines, instructions and time.
//!
//! [`machine`] is the core: what each instruction computes (arithmetic is [`trn3_numerics`], called and never
//! rewritten), which memory it may touch, and how long it takes. Nothing here knows of Python or of any front end.
#![forbid(unsafe_code)]

pub mod embed;
pub mod error;
pub mod machine;
pub mod program;

pub use embed::{
    BitSource, Clocked, Commit, CostModel, Delivery, Engine, Memory, Message, Network, Snapshot, TraceSink,
};
pub use error::{Error, Result};
pub use program::Program;
pub use trn3_numerics as numerics;
