//! Time: what an instruction costs, what it has to wait for, and when it therefore runs.

pub mod region;
pub mod work;
