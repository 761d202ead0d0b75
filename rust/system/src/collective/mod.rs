//! Collectives: one schedule object that is executed on data, counted and timed.
//!
//! - [`RankGroup`]: which ranks, on which chips; [`Schedule`]: who sends what to whom, when.
//! - [`execute`] runs a schedule on data; [`ScheduleDemand`] counts it; [`Estimator`] says what it costs and chooses.
//! - [`CollectiveTask`]: several groups at once, and all that a result says beside its data; [`RankPart`]: one rank's part,
//!   where somebody else carries the messages; [`PlacedRanks`]: ranks of a launch on the chips of a system.
//! - Algorithms, one file each: ring, kangaring, mesh, rdh, hierarchical, direct, spread (broadcast).

mod across;
mod band;
mod build;
mod choose;
mod cycles;
mod direct;
mod estimate;
mod execute;
mod group;
mod hierarchical;
mod kangaring;
mod mesh;
mod model;
mod name;
mod pattern;
mod placed;
mod profile;
mod rank;
mod rdh;
mod ring;
mod run;
mod schedule;
mod spread;
mod time;
mod value;
mod variable;

pub use across::{Across, UnitNetwork};
pub use band::CollectiveBand;
pub use build::Extra;
pub use choose::{CollectiveCost, CollectiveTask, Overlapped};
pub use estimate::{ClosedForm, CollectiveEstimate, Estimator, closed_form};
pub use execute::{Arithmetic, Order, execute, output_length, reduce};
pub use group::{ChipMembers, RankGroup};
pub use model::{CallStarts, CollectiveModel, channels};
pub use name::{Algorithm, Operation, Reduction};
pub use pattern::{Move, StepPattern};
pub use placed::PlacedRanks;
pub use profile::{Binding, ScheduleDemand};
pub use rank::{RankBuffer, RankPart};
pub use schedule::{Action, ActionKind, Lane, PieceCut, Schedule, Stage};
pub use time::{CollectiveTiming, MOST_TRANSFERS, OWN_PACE, RunningCollective, overlap};
pub use value::ElementType;
pub use variable::{Counts, all_gather_v, all_to_all_v};
