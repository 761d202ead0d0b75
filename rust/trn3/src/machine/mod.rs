//! One NeuronCore: memories, engines, instructions, time.

pub mod arch;
pub mod dtype;
pub mod engine;
pub mod memory;
pub mod site;
pub mod storage;
pub mod time;
pub mod timing;
pub mod view;
