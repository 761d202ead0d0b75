//! Chips, UltraServers and clusters of Trainium: what they are made of, how they are joined, what a job takes on them.
//!
//! - [`cluster`]: many equal units on one network, by roles.
//! - [`collective`]: schedules of collectives, executed on data, counted and timed.
//! - [`energy`]: joules, watts and dollars of a job, with every assumption.
//! - [`fabric`]: graphs of chips and switches, routes, bounds, faults.
//! - [`facts`]: every published figure of every system with its unit, its sources and their conflicts, as data.
//! - [`flow`]: how long transfers take that share links, ports, engines and memories.
//! - [`planner`]: what a language model takes on a system.
//! - [`replay`]: graphs of work of all ranks of a job, run on a system.
//!
//! This crate stands above `trn3-numerics` and `trn3` (one NeuronCore) and knows of no front end. It is a crate of its
//! own, not a module of `trn3`, because a host that embeds one core needs none of it, and because the edge between the
//! two is then one that the compiler keeps.
#![forbid(unsafe_code)]

pub mod cluster;
pub mod collective;
pub mod energy;
pub mod error;
pub mod fabric;
pub mod facts;
pub mod flow;
pub mod planner;
pub mod replay;

pub use error::{Error, Result};
