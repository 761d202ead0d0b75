//! Whole models: tensor operations, verified, and executed in Trainium's arithmetic.
//!
//! A front end hands over a [`Graph`]: operations with shapes, element types and lines of the user's code, read and
//! checked by [`Graph::from_json`]. Types are the program's: nothing is cast down unless it is asked for
//! ([`MatmulPath`]). [`Graph::execute`] computes every operation on whole tensors, in the arithmetic and order of the
//! instructions that its template is made of; [`Graph::run_on_core`] issues these instructions on a core, with the same
//! bits, and time. [`operations::OPERATIONS`] says which those are.
#![forbid(unsafe_code)]

mod account;
mod attention_run;
mod body_plan;
mod by_instructions;
#[cfg(test)]
mod by_instructions_tests;
mod chains;
mod column_tiles;
mod composed;
#[cfg(test)]
mod composed_tests;
mod core_shares;
#[cfg(test)]
mod cores_tests;
mod divided;
mod emitter;
mod error;
mod execute;
mod fallback;
mod fits;
mod graph;
mod handover;
mod kernel;
mod location;
mod long_reduction;
mod lowering;
mod meeting_room;
mod meetings;
mod mx_product;
mod mx_tiles;
mod node_types;
pub mod operations;
mod options;
mod passes;
mod pieces;
mod product;
mod product_path;
mod product_tiles;
mod ranks;
mod ranks_on_core;
#[cfg(test)]
mod ranks_tests;
mod read;
#[cfg(test)]
mod reduction_tests;
mod reduction_tiles;
mod region_key;
mod region_run;
mod repeats;
mod row;
mod row_tiles;
mod shared_tiles;
mod step;
mod step_memory;
mod strided;
mod template;
#[cfg(test)]
mod template_tests;
mod tensor;
mod tensor_type;
#[cfg(test)]
mod tests;
mod turns;

pub use account::AccountRow;
pub use by_instructions::CoreRun;
pub use composed::RegionCost;
pub use emitter::Emitter;
pub use error::{GraphError, Reason, Result};
pub use graph::{Body, Execution, Graph, GraphNode, OperationCut, TensorOperation};
pub use kernel::GraphKernel;
pub use location::Location;
pub use mx_product::{MxBlocks, MxRounding, MxSide};
pub use options::{ExecutionOptions, MatmulPath};
pub use read::VERSION;
pub use row::{OperationRow, Read, Surroundings};
pub use step::{StepRun, StepTiming, WHOLE_BELOW};
pub use step_memory::StepMemory;
pub use template::{OperationRun, TemplateKind};
pub use tensor::{Tensor, Words};
pub use tensor_type::TensorType;
