//! Devices as hosts use them.

mod collectives;
mod commands;
mod hosts;
mod meetings;
mod memories;
mod programs;
mod sharing;
mod snapshots;
mod support;
