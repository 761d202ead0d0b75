//! Refusals of graphs: which operation, of which line of the user's code, what came, what is allowed.

use crate::location::Location;

/// A graph that cannot be read, checked or executed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GraphError {
    /// The text is no graph.
    #[error("{0}")]
    Format(String),
    /// An operation breaks a rule, or is not modelled.
    #[error("{}", refusal(.location.as_ref(), operation, reason))]
    Operation {
        /// Its name.
        operation: String,
        /// Which line asked for it.
        location: Option<Location>,
        /// What came and what is allowed.
        reason: String,
    },
    /// Arguments of a run are not those that the graph takes.
    #[error("{0}")]
    Argument(String),
    /// The machine refused an instruction of a template.
    #[error(transparent)]
    Machine(#[from] trn3_machine::Error),
    /// Arithmetic refused.
    #[error(transparent)]
    Numerics(#[from] trn3_numerics::Error),
}

impl GraphError {
    /// The error of an operation, with its name and its line where it has none yet: the one place that adds them. What
    /// stops the work, rather than refuses it, stays what it is.
    pub(crate) fn at(self, operation: &str, location: Option<&Location>) -> Self {
        use trn3_numerics::Error::Interrupted;
        let named = |reason| Self::Operation { operation: operation.to_owned(), location: location.cloned(), reason };
        match self {
            stopped @ (Self::Numerics(Interrupted) | Self::Machine(trn3_machine::Error::Numerics(Interrupted))) => {
                stopped
            }
            Self::Argument(reason) | Self::Format(reason) => named(reason),
            Self::Numerics(error) => named(error.to_string()),
            Self::Machine(error) => named(error.to_string()),
            Self::Operation { operation, location: None, reason } => {
                Self::Operation { operation, location: location.cloned(), reason }
            }
            placed @ Self::Operation { .. } => placed,
        }
    }
}

fn refusal(location: Option<&Location>, operation: &str, reason: &str) -> String {
    match location {
        Some(location) => format!("{location}: {operation}: {reason}"),
        None => format!("{operation}: {reason}"),
    }
}

/// What graphs return.
pub type Result<T> = std::result::Result<T, GraphError>;

/// What one operation says of itself; the graph adds its name and line.
pub type Reason = std::result::Result<(), String>;
