//! Chips, UltraServers and clusters of Trainium: what they are made of, how they are joined, what a job takes on them.
//!
//! - [`chakra`]: execution traces of other tools, read, written and replayed.
//! - [`cluster`]: many equal units on one network, by roles.
//! - [`collective`]: schedules of collectives, executed on data, counted and timed.
//! - [`energy`]: joules, watts and dollars of a job, with every assumption.
//! - [`exports`]: systems as inputs of other simulators.
//! - [`fabric`]: graphs of chips and switches, routes, bounds, faults.
//! - [`flow`]: how long transfers take that share links, ports, engines and memories.
//! - [`replay`]: graphs of work of all ranks of a job, run on a system.
//!
//! This crate stands above `trn3-facts` and `trn3-numerics` and knows neither kernels nor front ends: a host that embeds
//! one core needs none of it, and whoever studies a network needs no core.
#![forbid(unsafe_code)]

pub mod chakra;
pub mod cluster;
pub mod collective;
pub mod energy;
pub mod error;
pub mod exports;
pub mod fabric;
pub mod flow;
pub mod replay;

pub use error::{Error, Result};
pub use trn3_numerics::{check_interrupt, with_interrupt_check};
