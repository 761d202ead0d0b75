//! Trainium3, simulated: one door to the crates that do it. Nothing is defined here.
//!
//! - [`numerics`]: formats, casts, block scales, products, the exponent unit, random bits.
//! - [`facts`]: every published figure with its unit and its sources.
//! - [`machine`]: one NeuronCore: memories, engines, instructions, time; [`program`]: streams of its instructions.
//! - [`profile`]: what a run cost and why: figures, critical path, verdict, tables, traces.
//! - [`system`]: chips, UltraServers and clusters: links, flows, collectives, energy.
//! - [`planner`]: what a language model takes on a system.
//! - [`embed`]: devices that a host's event loop drives, and the traits that a host implements.
//!
//! A host that wants one part alone depends on its crate: `trn3-machine` for one core, `trn3-numerics` for arithmetic.
//!
//! ```
//! use trn3::machine::arch::ArchSpec;
//!
//! let core = ArchSpec::load("trn3")?;
//! assert!(core.psum_partition_bytes() < core.sbuf_usable_bytes());
//! # Ok::<(), trn3::Error>(())
//! ```
#![forbid(unsafe_code)]

pub use trn3_compiler as compiler;
pub use trn3_embed::{self as embed, host::*};
pub use trn3_facts as facts;
pub use trn3_machine::{self as machine, Error, Program, Result, error, program};
pub use trn3_numerics as numerics;
pub use trn3_planner as planner;
pub use trn3_profile as profile;
pub use trn3_system as system;
