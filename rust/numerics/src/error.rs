//! The one error type of the crate: which argument, what came, what is allowed.

/// What kind of mistake an [`Error`] reports; front ends choose their exception class or status code by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumericsErrorKind {
    /// An operand has an unsupported dtype.
    Dtype,
    /// A shape, axis, option or value is not allowed.
    Value,
    /// The host asked for the work to stop.
    Interrupted,
}

/// A refused call. No operation of this crate panics on bad input or leaves its reason out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An operand's dtype is not one the operation takes.
    #[error("{argument} {} {got}; allowed: {allowed}", if argument.ends_with("dtype") { "is" } else { "has dtype" })]
    Dtype {
        /// Name of the argument.
        argument: &'static str,
        /// The dtype that came.
        got: String,
        /// The dtypes that are allowed.
        allowed: String,
    },
    /// An operand's shape does not fit.
    #[error("{argument} has shape {got:?}; {needed}")]
    Shape {
        /// Name of the argument.
        argument: &'static str,
        /// The shape that came.
        got: Vec<usize>,
        /// What shape is needed.
        needed: String,
    },
    /// An option or value is out of its range.
    #[error("{argument} is {got}; {needed}")]
    Value {
        /// Name of the argument.
        argument: &'static str,
        /// The value that came.
        got: String,
        /// What is allowed.
        needed: String,
    },
    /// The host has no room for what an argument asks for.
    #[error("{argument} is {got}; {needed}")]
    Memory {
        /// Name of the argument.
        argument: &'static str,
        /// The value that came.
        got: String,
        /// What does not fit.
        needed: String,
    },
    /// The host's interrupt check asked to stop; outputs hold unspecified values.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// The kind of mistake, for choosing an exception class.
    pub fn kind(&self) -> NumericsErrorKind {
        match self {
            Error::Dtype { .. } => NumericsErrorKind::Dtype,
            Error::Shape { .. } | Error::Value { .. } | Error::Memory { .. } => NumericsErrorKind::Value,
            Error::Interrupted => NumericsErrorKind::Interrupted,
        }
    }

    pub(crate) fn dtype(argument: &'static str, got: impl ToString, allowed: impl ToString) -> Self {
        Error::Dtype { argument, got: got.to_string(), allowed: allowed.to_string() }
    }

    pub(crate) fn shape(argument: &'static str, got: &[usize], needed: impl Into<String>) -> Self {
        Error::Shape { argument, got: got.to_vec(), needed: needed.into() }
    }

    pub(crate) fn memory(argument: &'static str, got: impl ToString, needed: impl Into<String>) -> Self {
        Error::Memory { argument, got: got.to_string(), needed: needed.into() }
    }

    pub(crate) fn value(argument: &'static str, got: impl ToString, needed: impl Into<String>) -> Self {
        Error::Value { argument, got: got.to_string(), needed: needed.into() }
    }
}

/// Result of every fallible operation of the crate.
pub type Result<T> = std::result::Result<T, Error>;
