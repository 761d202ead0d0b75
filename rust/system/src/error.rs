//! The one error type of systems: what was asked, what came, what would work.

/// A refused or failed operation on a system.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that stands for nothing here: a system, a quantity, a chip, an algorithm (Python: `KeyError` or `ValueError`).
    #[error("{what} {got:?} is unknown; {allowed}")]
    Unknown {
        /// What kind of thing was named.
        what: &'static str,
        /// The name that came.
        got: String,
        /// What exists, or the nearest name that does.
        allowed: String,
    },
    /// A description (spec file, trace, configuration) is wrong; the text names file and key (Python: `ValueError`).
    #[error("{0}")]
    Spec(String),
    /// An argument is wrong; the text names it, what came and what is allowed (Python: `ValueError`).
    #[error("{0}")]
    Value(String),
    /// An execution trace is wrong; the text names rank and node (Python: `trn3.interchange.chakra.TraceError`).
    #[error("{0}")]
    Trace(String),
    /// Two chips cannot reach each other (Python: `ConnectionError`).
    #[error("{0}")]
    Unreachable(String),
    /// A job needs more memory than there is; the text holds the table (Python: `MemoryError`).
    #[error("{0}")]
    Memory(String),
    /// An error of the arithmetic below.
    #[error(transparent)]
    Numerics(#[from] trn3_numerics::Error),
}

/// What functions of this crate return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An [`Error::Unknown`] that names the closest of the known names, and all of them where they are few.
    ///
    /// ```
    /// let error = trn3_system::Error::unknown("system", "trn3_gen3", ["trn3_gen1", "trn3_gen2"]);
    /// assert!(error.to_string().contains("trn3_gen"));
    /// ```
    pub fn unknown<'a>(what: &'static str, got: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        trn3_facts::Error::unknown(what, got, known).into()
    }
}

impl From<trn3_facts::Error> for Error {
    fn from(error: trn3_facts::Error) -> Self {
        match error {
            trn3_facts::Error::Unknown { what, got, allowed } => Self::Unknown { what, got, allowed },
            other => Self::Spec(other.to_string()),
        }
    }
}
