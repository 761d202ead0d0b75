//! Dynamic addresses outside their tensors.

use std::str::FromStr;

use crate::error::{Error, Result};

/// What becomes of rows whose index lies outside the tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OutOfBounds {
    /// An error.
    #[default]
    Error,
    /// They are left out, and the run records a finding.
    Skip,
}

impl OutOfBounds {
    /// Name as `nki.isa.oob_mode` spells it.
    pub const fn name(self) -> &'static str {
        match self {
            OutOfBounds::Error => "error",
            OutOfBounds::Skip => "skip",
        }
    }
}

impl FromStr for OutOfBounds {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let found = [OutOfBounds::Error, OutOfBounds::Skip].into_iter().find(|mode| mode.name() == name);
        found.ok_or_else(|| Error::Value(format!("oob_mode is {name}; allowed: error, skip")))
    }
}
