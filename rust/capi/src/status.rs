//! What calls return, and the error type that becomes it.

use trn3_numerics as numerics;

/// What a call returns: one of TRN3_OK to TRN3_INTERNAL. The text of a failure is trn3_last_error's.
pub type trn3_status = i32;

/// Done; every out-pointer is written.
pub const TRN3_OK: trn3_status = 0;
/// A dtype is not one the operation takes.
pub const TRN3_TYPE: trn3_status = 1;
/// A shape, or the number of axes, does not fit.
pub const TRN3_SHAPE: trn3_status = 2;
/// A pointer, option or value is not allowed.
pub const TRN3_VALUE: trn3_status = 3;
/// A buffer, queue or memory is too small for what was asked.
pub const TRN3_CAPACITY: trn3_status = 4;
/// The operation does not exist for these arguments.
pub const TRN3_UNSUPPORTED: trn3_status = 5;
/// The handle is in use by another call: another thread's, or the one whose callback is running.
pub const TRN3_BUSY: trn3_status = 6;
/// A structure's size or a version is not one this library knows.
pub const TRN3_ABI: trn3_status = 7;
/// A defect of the library, caught; what it concerned is in an unspecified state.
pub const TRN3_INTERNAL: trn3_status = 8;

/// The codes, as the crate's own type.
#[repr(i32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Done; every out-pointer is written.
    Ok = 0,
    /// A dtype is not one the operation takes.
    Type = 1,
    /// A shape, or the number of axes, does not fit.
    Shape = 2,
    /// A pointer, option or value is not allowed.
    Value = 3,
    /// A buffer, queue or memory is too small for what was asked.
    Capacity = 4,
    /// The operation does not exist for these arguments.
    Unsupported = 5,
    /// The handle is in use by another call: another thread's, or the one whose callback is running.
    Busy = 6,
    /// A structure's size or a version is not one this library knows.
    Abi = 7,
    /// A defect of the library, caught; what it concerned is in an unspecified state.
    Internal = 8,
}

impl Status {
    /// Every code, in order.
    pub(crate) const ALL: [Status; 9] = [
        Status::Ok,
        Status::Type,
        Status::Shape,
        Status::Value,
        Status::Capacity,
        Status::Unsupported,
        Status::Busy,
        Status::Abi,
        Status::Internal,
    ];

    /// The name, as the header's constant ends.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Status::Ok => "OK",
            Status::Type => "TYPE",
            Status::Shape => "SHAPE",
            Status::Value => "VALUE",
            Status::Capacity => "CAPACITY",
            Status::Unsupported => "UNSUPPORTED",
            Status::Busy => "BUSY",
            Status::Abi => "ABI",
            Status::Internal => "INTERNAL",
        }
    }
}

/// Why a call is refused: its status and the text for trn3_last_error.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) status: Status,
    pub(crate) message: String,
}

/// Result of what stands behind an export.
pub(crate) type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(crate) fn value(message: impl Into<String>) -> Self {
        Self::new(Status::Value, message)
    }
}

impl From<numerics::Error> for Fault {
    fn from(error: numerics::Error) -> Self {
        let status = match error {
            numerics::Error::Dtype { .. } => Status::Type,
            numerics::Error::Shape { .. } => Status::Shape,
            numerics::Error::Value { .. } => Status::Value,
            numerics::Error::Memory { .. } => Status::Capacity,
            // No export installs an interrupt check.
            numerics::Error::Interrupted => Status::Internal,
        };
        Self::new(status, error.to_string())
    }
}
