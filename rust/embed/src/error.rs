//! The error of devices: what kind, and the words.

use serde::{Deserialize, Serialize};

/// What kind of error it is; a C program's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// A dtype that does not fit.
    Type,
    /// A shape that does not fit.
    Shape,
    /// A value, name or address that is wrong.
    Value,
    /// A memory, or the host's share of it, is full.
    Capacity,
    /// What the model does not cover.
    Unsupported,
    /// A queue is full: advance, then try again.
    Busy,
    /// A defect of ours.
    Internal,
}

/// A refused or failed operation of a device.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct Error {
    /// What kind it is.
    pub kind: ErrorKind,
    /// What was refused, what came, what is allowed.
    pub message: String,
}

/// Result of every fallible operation of the crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of a kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    pub(crate) fn value(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Value, message)
    }
}

impl From<trn3_machine::Error> for Error {
    fn from(error: trn3_machine::Error) -> Self {
        use trn3_machine::Error as Machine;
        let kind = match &error {
            Machine::Type(_) => ErrorKind::Type,
            Machine::SbufCapacity(_) | Machine::PsumCapacity(_) | Machine::HbmCapacity(_) | Machine::HostMemory(_) => {
                ErrorKind::Capacity
            }
            Machine::NotModelled(_) => ErrorKind::Unsupported,
            Machine::Numerics(error) => kind_of(error),
            _ => ErrorKind::Value,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<trn3_numerics::Error> for Error {
    fn from(error: trn3_numerics::Error) -> Self {
        Self::new(kind_of(&error), error.to_string())
    }
}

fn kind_of(error: &trn3_numerics::Error) -> ErrorKind {
    match error {
        trn3_numerics::Error::Dtype { .. } => ErrorKind::Type,
        trn3_numerics::Error::Shape { .. } => ErrorKind::Shape,
        trn3_numerics::Error::Memory { .. } => ErrorKind::Capacity,
        _ => ErrorKind::Value,
    }
}

impl From<trn3_system::Error> for Error {
    fn from(error: trn3_system::Error) -> Self {
        let kind = if matches!(error, trn3_system::Error::Memory(_)) { ErrorKind::Capacity } else { ErrorKind::Value };
        Self::new(kind, error.to_string())
    }
}

impl From<Error> for trn3_machine::Error {
    fn from(error: Error) -> Self {
        match error.kind {
            ErrorKind::Type => trn3_machine::Error::Type(error.message),
            ErrorKind::Capacity => trn3_machine::Error::HbmCapacity(error.message),
            ErrorKind::Unsupported | ErrorKind::Internal => trn3_machine::Error::NotModelled(error.message),
            ErrorKind::Shape | ErrorKind::Value | ErrorKind::Busy => trn3_machine::Error::Value(error.message),
        }
    }
}
