//! The compiler's role: from the kernel as written to the program the hardware would run, bit for bit the same in its
//! results.
//!
//! A core that keeps a [trace](trn3_machine::trace::Trace) runs a kernel with places on chip without limit. Here the trace
//! goes through passes, each of which leaves the values as they are: work that is done twice goes, operations move to idle
//! engines, tensors get places, instructions get an order. What comes out is timed by the machine's own timeline and becomes
//! the time of the core.
//!
//! Three levels: [`CompileLevel::AsWritten`] does nothing, [`CompileLevel::Nki`] places and orders what the author left open,
//! [`CompileLevel::NeuronxCc`] runs every pass.
#![forbid(unsafe_code)]

pub mod advice;
mod bound;
mod constants;
mod cores;
mod costs;
pub mod dependences;
mod level;
pub mod live;
mod live_bytes;
mod options;
pub mod passes;
mod producers;
mod program;
mod report;
mod webs;

pub use bound::lower_bound;
pub use constants::CompilerConstants;
pub use cores::compile_cores;
pub use level::CompileLevel;
pub use options::CompileOptions;
pub use passes::{PASSES, Pass, passes_of};
pub use program::{compile_program, compile_together};
pub use report::{Change, ChangeKind, CompileReport, PassReport, Verification};
