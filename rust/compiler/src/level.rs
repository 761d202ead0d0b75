//! How much a compiler may do.

use std::fmt;
use std::str::FromStr;

use trn3_machine::{Error, Result};

/// How much is compiled of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CompileLevel {
    /// Nothing: instructions run in the order of the text, tensors lie where they are made.
    #[default]
    AsWritten,
    /// Tensors without an address get places, and instructions an order, that the author left open.
    Nki,
    /// Every pass: what compilers of the older dialects did to a kernel.
    NeuronxCc,
}

impl CompileLevel {
    /// Every level, the least first.
    pub const ALL: [CompileLevel; 3] = [CompileLevel::AsWritten, CompileLevel::Nki, CompileLevel::NeuronxCc];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            CompileLevel::AsWritten => "as-written",
            CompileLevel::Nki => "nki",
            CompileLevel::NeuronxCc => "neuronx-cc",
        }
    }
}

impl fmt::Display for CompileLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for CompileLevel {
    type Err = Error;

    /// The level of that name.
    ///
    /// ```
    /// use trn3_compiler::CompileLevel;
    ///
    /// assert_eq!("nki".parse::<CompileLevel>()?, CompileLevel::Nki);
    /// let error = "fast".parse::<CompileLevel>().expect_err("no level");
    /// assert_eq!(error.to_string(), r#"compile is "fast"; allowed: as-written, nki, neuronx-cc"#);
    /// # Ok::<(), trn3_machine::Error>(())
    /// ```
    fn from_str(name: &str) -> Result<Self> {
        let found = CompileLevel::ALL.into_iter().find(|level| level.name() == name);
        found.ok_or_else(|| {
            Error::Value(format!(
                "compile is {name:?}; allowed: {}",
                CompileLevel::ALL.map(CompileLevel::name).join(", ")
            ))
        })
    }
}
