//! A body's plan: which operations run together, block by block, and in what order all runs.
//!
//! Elementwise operations and reductions of rows that feed one another are chains: each keeps its own rounding, but what
//! is between them never goes to memory. What only looks at another value (broadcasts, slices) is read where it lies. The
//! bits are those of the operations one by one, whatever the number of threads.

mod lanes;
mod look;
mod plan;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use lanes::Chain;
pub(crate) use plan::{Plan, PlanStep};
