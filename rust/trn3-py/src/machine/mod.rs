//! Bindings of the machine: one core, its tensors and registers, and the instructions.

pub(crate) mod core;
pub(crate) mod error;
pub(crate) mod instruction;
pub(crate) mod isa;
pub(crate) mod operand;
pub(crate) mod profile;
pub(crate) mod register;
pub(crate) mod sites;
pub(crate) mod tensor;
