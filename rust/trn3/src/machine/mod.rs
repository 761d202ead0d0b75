//! One NeuronCore: memories, engines, instructions, time.

pub mod arch;
pub mod bit_source;
pub mod check;
pub mod core;
pub mod cores;
pub mod cost;
pub mod cost_model;
pub mod dtype;
pub mod engine;
pub mod generator;
pub mod isa;
pub mod memory;
pub mod opcode;
pub mod shadow;
pub mod site;
pub mod storage;
pub mod time;
pub mod timing;
pub mod view;
