//! Collectives: one schedule object that is executed on data, counted and timed.
//!
//! - [`Group`]: which ranks, on which chips; [`Schedule`]: who sends what to whom, when.
//! - Algorithms, one file each: ring, kangaring, mesh, rdh, hierarchical, direct, spread (broadcast).

mod build;
mod cycles;
mod direct;
mod group;
mod hierarchical;
mod kangaring;
mod mesh;
mod name;
mod pattern;
mod rdh;
mod ring;
mod schedule;
mod spread;

pub use build::Extra;
pub use group::{ChipMembers, Group};
pub use name::{Algorithm, Operation, Reduction};
pub use pattern::{Move, Pattern};
pub use schedule::{Action, Cut, Kind, Lane, Schedule, Stage};
