//! One NeuronCore of Trainium, simulated: memories, engines, instructions, time.
//!
//! What each instruction computes (arithmetic is [`trn3_numerics`], called and never rewritten), which memory it may
//! touch, and how long it takes. Streams of instructions are [`program`]s; what a host may replace is in [`host`].
//! Nothing here knows of links between chips or of any front end.
#![forbid(unsafe_code)]

pub mod arch;
pub mod bit_source;
mod by_number;
pub mod check;
pub mod chip;
pub mod conductor;
pub mod core;
pub mod cost;
pub mod cost_model;
pub mod dtype;
pub mod engine;
pub mod error;
pub mod generator;
mod headroom;
pub mod host;
pub mod isa;
pub mod joint;
pub mod lineage;
pub mod meeting;
pub mod memory;
pub mod named_edges;
pub mod opcode;
pub mod packed;
pub mod program;
pub mod shadow;
pub mod site;
pub mod state;
pub mod stochastic;
pub mod storage;
pub mod time;
pub mod timing;
pub mod trace;
pub mod view;

pub use error::{Error, Result};
pub use meeting as cores;
pub use program::Program;
pub use trn3_numerics as numerics;
