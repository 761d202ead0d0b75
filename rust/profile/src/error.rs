//! What is wrong with columns that did not come from the machine.

/// Columns contradict one another, or a figure is of the wrong kind; the text names the entry, what came and what is
/// allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Of another kind than it must be.
    #[error("{0}")]
    Type(String),
    /// A value that is not allowed, or that another contradicts.
    #[error("{0}")]
    Value(String),
}

/// Result of every fallible operation of the crate.
pub type Result<T> = std::result::Result<T, Error>;
