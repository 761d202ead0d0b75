//! Meetings of ranks: what a kernel's collective asks for is judged, ranks that agree are brought together, the one engine
//! of `trn3-system` moves their values and says how long that takes, and every core's timeline gets its part.
//!
//! A front end, or a device that runs a recorded program, does three things:
//! 1. [`RankAsk::judge`] refuses what breaks a rule, or makes a [`RankArrival`] of it.
//! 2. [`RankRoom::arrive`] takes the arrival; it refuses ranks that do not agree, and returns all of a group once the last
//!    one has come.
//! 3. [`hold`] moves the values of these and gives the cores their time, as a [`RankFabric`] says.
//!
//! - **(choice)** Sums are accumulated in float32 by ascending index in the list and rounded once, to the result's type.
//! - **(choice)** Cores of one rank that pass the same tensors pass them for one transfer, the first core's; else each one's
//!   call is a transfer of its own with the same core of the other ranks, and all take the time of their sum.

mod arrival;
mod ask;
mod command;
mod fabric;
mod hold;
mod launch;
mod operands;
mod room;
mod rules;
#[cfg(test)]
mod tests;
mod values;
mod variable;

pub use arrival::RankArrival;
pub use ask::{RankAsk, RankGiven, RankPlace};
pub use fabric::RankFabric;
pub use hold::{Participant, hold};
pub use room::RankRoom;

pub(crate) use command::{Meeting, Outcome, Place};

/// Why ranks did not meet.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum MeetingError {
    /// A kernel is at fault, or a core refused; the line is empty where there is none.
    #[error("{}{error}", prefix(.line))]
    Kernel {
        /// Where the kernel stands, as `file:line`; of several ranks joined.
        line: String,
        /// What was refused.
        error: trn3_machine::Error,
    },
    /// The system between the ranks refused.
    #[error(transparent)]
    System(#[from] trn3_system::Error),
}

fn prefix(line: &str) -> String {
    if line.is_empty() { String::new() } else { format!("{line}: ") }
}

impl MeetingError {
    pub(crate) fn at(line: &str, error: trn3_machine::Error) -> Self {
        Self::Kernel { line: line.to_owned(), error }
    }
}

impl From<MeetingError> for crate::Error {
    fn from(error: MeetingError) -> Self {
        match error {
            MeetingError::Kernel { line, error } => {
                let found = Self::from(error);
                Self::new(found.kind, format!("{}{}", prefix(&line), found.message))
            }
            MeetingError::System(error) => error.into(),
        }
    }
}
