//! The one error type of the machine: which instruction and operand, what came, what is allowed.

use crate::site::SiteId;

/// A refused or failed operation of the machine.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// An instruction breaks a rule of the hardware (the front ends' `NkiValidationError`).
    #[error("{}", refusal(instruction, operand, got, allowed))]
    Validation {
        /// Name of the instruction, as `nki.isa` spells it.
        instruction: &'static str,
        /// The operand or argument at fault; empty where the rule is one between several, which `got` then names.
        operand: &'static str,
        /// What came.
        got: String,
        /// What is allowed.
        allowed: String,
    },
    /// A view or shape argument is wrong (the front ends' `ValueError` or `IndexError`).
    #[error("{0}")]
    Value(String),
    /// An index lies outside a tensor.
    #[error("{0}")]
    OutOfBounds(String),
    /// An operand has a type that does not fit (`TypeError`).
    #[error("{0}")]
    Type(String),
    /// SBUF is full; the text holds the table of live tiles.
    #[error("{0}")]
    SbufCapacity(String),
    /// PSUM is full; the text holds the table of live tiles.
    #[error("{0}")]
    PsumCapacity(String),
    /// HBM is full.
    #[error("{0}")]
    HbmCapacity(String),
    /// The host has no memory, or may give none, for what is named.
    #[error("{0}")]
    HostMemory(String),
    /// `strict`: uninitialised memory was read. Sites: of the reading instruction and of the allocation.
    #[error("{message}")]
    Uninitialised {
        /// What was read.
        message: String,
        /// Where the tensor was made.
        allocated: SiteId,
    },
    /// A machine description is missing an entry or holds an absurd one.
    #[error("{0}")]
    Arch(String),
    /// Timing-only mode: a value is needed that was never computed.
    #[error("{0}")]
    SkippedValue(String),
    /// The instruction budget of the run is spent.
    #[error("{0}")]
    InstructionLimit(String),
    /// What the model does not cover; never silently ignored.
    #[error("{0}")]
    NotModelled(String),
    /// The arithmetic core refused.
    #[error(transparent)]
    Numerics(#[from] trn3_numerics::Error),
}

/// One sentence: instruction, operand and what came read on; then what is allowed.
fn refusal(instruction: &str, operand: &str, got: &str, allowed: &str) -> String {
    let words = [instruction, operand, got].into_iter().filter(|word| !word.is_empty());
    let mut text = words.collect::<Vec<_>>().join(" ");
    if !allowed.is_empty() {
        text.push_str("; ");
        text.push_str(allowed);
    }
    text
}

impl Error {
    /// A broken hardware rule.
    pub fn validation(
        instruction: &'static str,
        operand: &'static str,
        got: impl ToString,
        allowed: impl ToString,
    ) -> Self {
        Error::Validation { instruction, operand, got: got.to_string(), allowed: allowed.to_string() }
    }
}

/// Result of every fallible operation of the crate.
pub type Result<T> = std::result::Result<T, Error>;
