//! Passes over graphs: each a function from a graph to a graph, or to the plan that instructions are emitted by.
//!
//! Values keep their numbers through every pass, so that labels, accounts and lines are those of the graph that was read:
//! an operation that a pass takes out leaves its numbers unused.

mod attention;
mod attention_shape;
#[cfg(test)]
mod attention_tests;
mod canonicalise;
#[cfg(test)]
mod canonicalise_tests;

mod fuse;
#[cfg(test)]
mod fuse_tests;
mod plan_step;
mod region;

pub(crate) use attention::attended;
pub(crate) use attention_shape::Attention;
pub(crate) use canonicalise::canonical;
pub(crate) use fuse::{FOLDED_ELEMENTS, planned};
pub(crate) use plan_step::Step;
pub(crate) use region::{Region, is_look, room};
