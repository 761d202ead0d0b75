//! Training: what one step takes, in time and in memory, for a model laid out over a system.
//!
//! - [`Recipe`]: what is trained: batch, sequence, recomputation, optimizer.
//! - [`TrainingLayout`]: how: tensor, pipeline, data, context and expert parallelism, sharding of states.
//! - [`plan`]: the time of a step, its parts, memory by class, MFU.
//! - [`search`]: the best layout for an objective.
//!
//! ```
//! use trn3_planner::training::{Recipe, TrainingLayout, plan};
//! use trn3_planner::{Machine, built_in_model};
//!
//! let model = built_in_model("llama-3-8b").unwrap();
//! let machine = Machine::built_in("trn1").unwrap().cluster(32).unwrap();
//! let layout = TrainingLayout { tp: 32, dp: 32, zero: 1, ..TrainingLayout::one(1) };
//! let done = plan(&model, &machine, &Recipe::new(1024, 8192), &layout).unwrap();
//! assert!((done.sequences_per_second / 47.95 - 1.0).abs() < 0.2); // published: 47.95
//! ```

mod compute;
mod exchange;
mod layout;
mod memory;
mod published;
mod recipe;
mod report;
mod request;
mod schedule;
mod search;
mod step;

pub use exchange::Exposed;
pub use layout::TrainingLayout;
pub use memory::{Activations, activations, footprint};
pub use published::published;
pub use recipe::{Moments, Recipe, Recompute, TrainingSettings};
pub use report::{TrainingPhase, TrainingPlan};
pub use request::TrainingRequest;
pub use schedule::TrainingSchedule;
pub use search::{LayoutSpace, TrainingObjective, TrainingSearchResult, search, search_with};
pub use step::{Times, step};

use super::communication::{Communication, LevelCosts};
use super::hardware::Machine;
use super::memory::MemoryTable;
use super::shapes::Model;
use trn3_system::Result;

/// One training step of `model` on `machine`, with collectives from the levels of its fabric.
///
/// # Errors
/// [`trn3_system::Error::Value`] if the layout does not divide the model, the batch or the system; [`trn3_system::Error::Memory`]
/// with the table and the nearest layout that fits, if it does not.
pub fn plan(model: &Model, machine: &Machine, recipe: &Recipe, layout: &TrainingLayout) -> Result<TrainingPlan> {
    let rank = machine.chip.rank(layout.lnc)?;
    plan_with(model, machine, recipe, layout, &LevelCosts::new(machine, &rank)?)
}

/// [`plan`] with another source of collective times.
///
/// # Errors
/// As [`plan`].
pub fn plan_with(
    model: &Model,
    machine: &Machine,
    recipe: &Recipe,
    layout: &TrainingLayout,
    communication: &dyn Communication,
) -> Result<TrainingPlan> {
    let settings = TrainingSettings::load()?.on(machine.chip.like());
    recipe.check(model)?;
    recipe.check_formats(model, &machine.chip)?;
    layout.check(model, machine, recipe)?;
    let rank = machine.chip.rank(layout.lnc)?;
    let memory = MemoryTable::new(
        &footprint(model, recipe, layout, &machine.chip, &rank)?,
        &machine.chip,
        &rank,
        layout.replica_ranks(),
    );
    memory.check(&format!("training {} with {}", model.name, layout.name()), || {
        search::nearest_that_fits(model, machine, recipe, layout).map_or_else(
            || "no change of one degree fits: more chips would".to_owned(),
            |text| format!("{text} would fit"),
        )
    })?;
    let times = step(model, &rank, recipe, layout, communication, &settings, settings.strict(machine.chip.like()));
    report::report(model, machine, recipe, layout, memory, &times, communication, &settings)
}

#[cfg(test)]
mod tests;
