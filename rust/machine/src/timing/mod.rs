//! Time: what an instruction costs, what it has to wait for, and when it therefore runs.
//!
//! [`timeline::Timeline`] takes instructions in program order and says when each runs. It is built of latest-of and
//! plus alone: no moment ever comes earlier because another one came later, so that adding a dependency never makes a
//! program faster. [`hazard`] finds what an instruction's bytes wait for, in [`rectangles`] of memory, [`tensor_array`],
//! [`dma`] and [`service`] are the engines that are more than one issue slot, `schedule` says when DMA engines move what,
//! [`graph`] is what a run was made of and what it would take otherwise, [`ceiling`] what cores
//! draw of HBM that they share, [`record`] is what is kept of a run and [`stall`] sums it up.

pub(crate) mod basis;
pub mod ceiling;
pub mod dma;
pub mod graph;
pub mod hazard;
mod hops;
pub mod issue;
mod ports;
pub mod record;
pub mod rectangles;
pub mod region;
pub mod repetition;
mod schedule;
mod server;
pub mod service;
pub mod stall;
pub mod tensor_array;
pub mod timeline;
pub mod work;

pub use service as collectives;

#[cfg(test)]
mod tests;
