//! What a host may put in the place of a core's own parts: small traits that can be made into objects.
//!
//! | trait | who implements it | used by |
//! | --- | --- | --- |
//! | [`InstructionSink`] | [`NeuronCore`](crate::core::NeuronCore), [`Functional`], [`Timed`] | whatever runs programs |
//! | [`CostModel`] | [`ArchCost`], hosts | a core, for every instruction |
//! | [`BitSource`] | [`Xorwow`](crate::numerics::Xorwow), hosts | the engines' random instructions |
//!
//! Values only, time only and both are compositions: [`Functional`] computes, [`Timed`] counts, and a
//! [`NeuronCore`](crate::core::NeuronCore) does both.

mod engine;

pub use crate::bit_source::BitSource;
pub use crate::cost_model::{ArchCost, CostModel};
/// The name of 0.1.0.
pub use engine::InstructionSink as Engine;
pub use engine::{Functional, InstructionSink, Issue, Timed};
