//! What is compiled, and how.

use trn3_machine::{Error, Result};

use crate::constants::CompilerConstants;
use crate::level::CompileLevel;
use crate::passes::{PASSES, Pass, passes_of};

/// What is compiled, and how.
#[derive(Clone, Debug, Default)]
pub struct CompileOptions {
    /// The level.
    pub level: CompileLevel,
    /// Names of the passes to run, in this order; None: those of the level.
    pub passes: Option<Vec<String>>,
    /// Whether each pass is [checked](crate::passes::check::check); of a program, whether what comes out is run too, and held
    /// against the program as written.
    pub verify: bool,
    /// Whether the report says [what lies where](crate::live::LiveRange).
    pub live: bool,
    /// Of a program: contents of tensors by name, beside those that it was recorded with.
    pub inputs: Vec<(String, Vec<u8>)>,
    /// Of cores: what stands in the place of the crate's constants.
    pub constants: Option<CompilerConstants>,
}

impl CompileOptions {
    /// The passes to run.
    ///
    /// # Errors
    /// [`Error::Value`] names the passes that there are.
    pub fn pipeline(&self) -> Result<Vec<&'static dyn Pass>> {
        let Some(names) = &self.passes else { return Ok(passes_of(self.level)) };
        let known = |name: &String| {
            PASSES.iter().copied().find(|pass| pass.name() == name).ok_or_else(|| {
                let all: Vec<&str> = PASSES.iter().map(|pass| pass.name()).collect();
                Error::Value(format!("pass is {name:?}; allowed: {}", all.join(", ")))
            })
        };
        names.iter().map(known).collect()
    }
}
