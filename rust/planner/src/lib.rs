//! Plans: what a language model takes on a system, from the shapes of its tensors and the rates of its chips.
//!
//! - [`shapes`] and [`config`]: models, from the configuration files that checkpoints carry; [`catalogue`]: those with names.
//! - [`networks`] and [`mod@operators`]: what is no transformer of one stack, and every model operator by operator.
//! - [`dtype`]: formats of numbers, by class of tensor.
//! - [`hardware`]: rates and memory of chips and logical cores, from the spec files.
//! - [`recipe`]: what runtimes, kernels and compilers of a generation add to rooflines.
//! - [`mod@operations`] and [`roofline`]: the operations of a step and their times.
//! - [`memory`]: bytes on a bank of memory in the runtime's categories.
//! - [`communication`] and [`schedule_costs`]: what collectives cost, by levels of links or by their schedules.
//! - [`machine_times`]: times of matrix products on the simulated core.
//! - [`layout`]: which degrees of parallelism divide a model.
//! - [`settings`]: what a plan takes for granted, and its workload.
//! - [`phase`] and [`inference`]: time to the first token, time for each other, throughput, and what binds them.
//! - [`band`]: how far plans may be off, and what says so.
//! - [`uncertainty`]: what they would be if constants that nobody publishes were others.
//! - [`economics`]: watts and dollars.
//! - [`mod@search`]: the best of all plans.
//! - [`request`], [`sources`] and [`answer`]: all of it as front ends ask for it and show it, in forms that serde knows.
//! - [`fleet`]: what failures leave of a training run, and how many spare replicas serving needs.
//! - [`load`]: replicas under traffic, step by step.
//! - [`published`]: what was published of serving, computed again.
//! - [`training`]: the time, memory and cost of a training step, and the best layout for it.

#![forbid(unsafe_code)]

pub mod answer;
mod assumptions;
pub mod band;
pub mod catalogue;
pub mod communication;
pub mod config;
pub mod constants;
pub mod dtype;
pub mod economics;
mod families;
pub mod fleet;
pub mod hardware;
mod hub;
pub mod inference;
mod keys;
pub mod layout;
mod levels;
pub mod load;
pub mod machine_times;
pub mod memory;
pub mod networks;
pub mod operations;
pub mod operators;
pub mod phase;
pub mod published;
mod published_dtype;
pub mod recipe;
pub mod request;
pub mod roofline;
pub mod schedule_costs;
pub mod search;
pub mod settings;
pub mod shapes;
pub mod sources;
pub mod tensor_class;
pub mod training;
mod transformer;
pub mod uncertainty;

pub use answer::{KeyedOperation, ModelSummary, PlanSummary, SearchSummary};
pub use band::{ServingBand, TrainingBand};
pub use catalogue::{BUILT_IN_MODELS, built_in_model};
pub use communication::{Communication, ExchangeCost, Group, LevelCosts, StepCollective};
pub use config::{model_from_json, model_from_toml};
pub use constants::Constants;
pub use dtype::{DataType, TensorPrecision};
pub use economics::{PlanCost, PlanEnergy, PriceSource};
pub use families::{FAMILIES, NETWORKS};
pub use hardware::{Chip, LinkLevel, Machine, Rank, serving};
pub use inference::{Evaluation, Planner};
pub use layout::{Layout, tensor_degrees};
pub use memory::{Category, Footprint, Load, MemoryTable};
pub use networks::{Architecture, NetworkModel};
pub use operations::{operations, operations_with};
pub use operators::{OperatorRequest, OperatorTable};
pub use phase::{Activity, LayerExchange, PhasePart, ServingPhase, decode_bytes};
pub use published::PublishedRow;
pub use recipe::{PlanClass, ServedPhase, ServingRecipe};
pub use request::PlanRequest;
pub use roofline::{Efficiency, Kind, LayerOperation, OperationBound, OperationTiming, Split, TokenStep};
pub use schedule_costs::ScheduleCosts;
pub use search::{Constraints, FrontierPoint, ServingObjective, ServingSearchResult, search};
pub use settings::{Calibration, MemoryRate, ServingSettings, Speculation, Workload};
pub use shapes::{Attention, Experts, FeedForward, Model, Parameters, Window};
pub use sources::{DtypeSource, ModelSource, SpeculationSource, SystemSource};
pub use tensor_class::TensorClass;
pub use uncertainty::{Quantiles, Uncertainty};
