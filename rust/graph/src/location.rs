//! Lines of the user's code.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A line of the user's code, with the function that it stands in.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Location {
    /// File, as the front end names it.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Function or module path; empty if unknown.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub function: String,
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.file, self.line)
    }
}
