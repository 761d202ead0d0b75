//! Fleets that fail: what is left of a training run of weeks, and how many spare replicas serving needs.
//!
//! - `parts`: what a fleet is made of, how often each part fails, and what that does.
//! - `degraded`: what a lost link or switch leaves of a system's fabric, by its graph.
//! - `checkpoint`: how often to write a checkpoint, by closed forms.
//! - `jitter`: what it costs that a step takes as long as its slowest rank.
//! - `simulate`: a job from one event to the next; its cost does not grow with the number of chips.
//! - `capacity`: replicas of which several may go down at once.
//! - `training` and `serving`: the two questions; `request` and `answer`: as front ends ask them.
//! - `costs`: what failures cost a training run, and how many spares it holds.

mod answer;
mod capacity;
mod checkpoint;
mod costs;
mod degraded;
mod figures;
mod jitter;
mod parts;
mod request;
mod serving;
mod simulate;
mod training;

pub use answer::{FleetAnswer, FleetRequest};
pub use capacity::{FailureDomain, chance_of_enough, down_chances, spares_for};
pub use checkpoint::{CheckpointPlan, daly, daly_higher_order, expected_efficiency, young};
pub use figures::Ranged;
pub use jitter::{jitter_factor, largest_of_normals};
pub use parts::{FleetPart, PartEffect};
pub use request::{ServingFleetRequest, TrainingFleetRequest};
pub use serving::{BlastRadius, ServingFleet, SpareRow};
pub use simulate::FleetTimes;
pub use training::{FleetBand, TrainingFleet};

#[cfg(test)]
mod tests;
