//! What a host may put in the place of the machine's own parts, and what the machine shows a host: small traits that can
//! be made into objects.
//!
//! | trait | who implements it | used by |
//! | --- | --- | --- |
//! | [`Memory`] | a device's SBUF, PSUM and HBM | hosts that read and write, with the time it takes |
//! | [`Engine`] | [`NeuronCore`](crate::machine::core::NeuronCore), [`Functional`], [`Timed`] | whatever runs programs |
//! | [`CostModel`] | [`ArchCost`], hosts | a core, for every instruction |
//! | [`Clocked`] | devices | event loops of hosts |
//! | [`Network`] | links of ours, hosts | collectives of devices |
//! | [`TraceSink`] | hosts | devices, for every command and instruction |
//! | [`Snapshot`] | devices | hosts that save and go on |
//! | [`BitSource`] | [`Xorwow`](crate::numerics::Xorwow), hosts | the engines' random instructions |
//!
//! Values only, time only and both are compositions: [`Functional`] computes, [`Timed`] counts, and a
//! [`NeuronCore`](crate::machine::core::NeuronCore) does both.

mod engine;
mod memory;
mod time;

pub use crate::machine::bit_source::BitSource;
pub use crate::machine::cost_model::{ArchCost, CostModel};
pub use engine::{Engine, Functional, Issue, Timed};
pub use memory::{Memory, Snapshot};
pub use time::{Clocked, Commit, Delivery, Message, Network, TraceSink};
