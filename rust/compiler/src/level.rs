//! How much a compiler may do.

use std::fmt;
use std::str::FromStr;

use trn3_machine::{Error, Result};

use crate::passes::{PASSES, Pass};

/// How much is compiled of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Level {
    /// Nothing: instructions run in the order of the text, tensors lie where they are made.
    #[default]
    AsWritten,
    /// Tensors without an address get places, and instructions an order, that the author left open.
    Nki,
    /// Every pass: what compilers of the older dialects did to a kernel.
    NeuronxCc,
}

impl Level {
    /// Every level, the least first.
    pub const ALL: [Level; 3] = [Level::AsWritten, Level::Nki, Level::NeuronxCc];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Level::AsWritten => "as-written",
            Level::Nki => "nki",
            Level::NeuronxCc => "neuronx-cc",
        }
    }

    /// Its passes, in their order.
    pub fn passes(self) -> Vec<&'static dyn Pass> {
        PASSES.iter().copied().filter(|pass| pass.levels().contains(&self)).collect()
    }
}

impl fmt::Display for Level {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = Error;

    /// The level of that name.
    ///
    /// ```
    /// use trn3_compiler::Level;
    ///
    /// assert_eq!("nki".parse::<Level>()?, Level::Nki);
    /// let error = "fast".parse::<Level>().expect_err("no level");
    /// assert_eq!(error.to_string(), r#"compile is "fast"; allowed: as-written, nki, neuronx-cc"#);
    /// # Ok::<(), trn3_machine::Error>(())
    /// ```
    fn from_str(name: &str) -> Result<Self> {
        let found = Level::ALL.into_iter().find(|level| level.name() == name);
        found.ok_or_else(|| {
            Error::Value(format!("compile is {name:?}; allowed: {}", Level::ALL.map(Level::name).join(", ")))
        })
    }
}

/// What is compiled, and how.
#[derive(Clone, Debug, Default)]
pub struct CompileOptions {
    /// The level.
    pub level: Level,
    /// Names of the passes to run, in this order; None: those of the level.
    pub passes: Option<Vec<String>>,
    /// Whether each pass is [checked](crate::passes::check::check); of a program, whether what comes out is run too, and held
    /// against the program as written.
    pub verify: bool,
    /// Whether the report says [what lies where](crate::live::LiveRange).
    pub live: bool,
    /// Of a program: contents of tensors by name, beside those that it was recorded with.
    pub inputs: Vec<(String, Vec<u8>)>,
}

impl CompileOptions {
    /// The passes to run.
    ///
    /// # Errors
    /// [`Error::Value`] names the passes that there are.
    pub fn pipeline(&self) -> Result<Vec<&'static dyn Pass>> {
        let Some(names) = &self.passes else { return Ok(self.level.passes()) };
        let known = |name: &String| {
            PASSES.iter().copied().find(|pass| pass.name() == name).ok_or_else(|| {
                let all: Vec<&str> = PASSES.iter().map(|pass| pass.name()).collect();
                Error::Value(format!("pass is {name:?}; allowed: {}", all.join(", ")))
            })
        };
        names.iter().map(known).collect()
    }
}
