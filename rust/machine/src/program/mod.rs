//! Programs: instructions of one core over named tensors, as data that can be written, read and run without the kernel they
//! came from.
//!
//! A program is JSON. Tensors are declared with their memory, shape and type, on chip with their place; steps are
//! instructions by their `nki.isa` names whose operands are views of tensors. Control flow is not in it: a recorded kernel's
//! loops are unrolled, and what its branches chose stays chosen whatever the inputs of a later run.
//!
//! ```json
//! {"format": "trn3-program", "version": 1, "name": "double",
//!  "tensors": [
//!    {"name": "x", "space": "hbm", "shape": [128, 512], "dtype": "float32", "role": "input"},
//!    {"name": "out", "space": "hbm", "shape": [128, 512], "dtype": "float32", "role": "output"},
//!    {"name": "tile", "space": "sbuf", "shape": [128, 512], "dtype": "float32", "address": [0, 0]}],
//!  "steps": [
//!    {"op": "dma_copy", "dst": "tile", "src": "x"},
//!    {"op": "tensor_scalar", "dst": "tile", "data": "tile", "op0": "multiply", "operand0": 2.0},
//!    {"op": "dma_copy", "dst": "out", "src": "tile"}]}
//! ```
//!
//! - A view is the name of a tensor, or `{"tensor": "x", "shape": [...], "strides": [...], "offset": 0, "dtype": "..."}`,
//!   strides and offset in elements of `dtype`; on chip the first axis is the partitions. A `dynamic` entry adds what is
//!   known only when an instruction executes: `{"register": 0, "stride": s, "bound": b}`, `{"element": view, ...}`,
//!   `{"rows": view, ...}` or `{"columns": view, "bound": b}`.
//! - A scalar operand is null, a number (`"inf"`, `"-inf"` and `"nan"` included) or `{"tensor": ...}`.
//! - Every instruction may have a `label`, and `after`: numbers of earlier instructions of the program that have to have
//!   finished.
//! - Steps that are no instructions: `fresh` (the tensor's bytes become uninitialised, as when a kernel makes it),
//!   `set_register` (what a loop does), `stochastic_rounding` (with a `seed` or null; `place`, the core's in its launch, is 0
//!   unless given).
//! - Steps at which ranks meet, in programs of version 2 alone, one program a rank: collectives by their `nki.collectives`
//!   names, with `ranks` (of the launch), `srcs` and `dsts` (lists of views), `replica_group` (lists of ranks) or
//!   `source_target_pairs`, and, where the operation has them, `reduction` (`add`, `maximum` or `minimum`), `collective_dim`,
//!   `channel_ids`, `srcs1`, `metadata_tensor`, `recv_counts_known`, `has_rdispls`, `priority`.
//! - Also of version 2: tensors on chip without an `address`, which live from the first step that names them to the last
//!   ([`Lifetime`]); [marks](Mark) of loops and of what keeps its order; `gpsimd_call` of a `function` by its name, with
//!   `outputs`, `inputs` (lists of views) and `cycles`; and, in a program that says which core of a logical core it is for
//!   ([`LogicalPlace`]), `core_barrier` and `sendrecv`, which [`run_together`] takes.
//!
//! What reads programs refuses what the machine would refuse, and what is too large, and names the step and the field.

mod alone;
mod bind;
mod call;
mod declaration;
mod edit;
mod fields;
mod joining;
mod laid_step;
mod lifetimes;
mod logical;
mod marks;
mod meeting;
mod operands;
mod record;
mod references;
mod rewrite;
mod stepping;
mod steps;
mod table;
#[cfg(test)]
mod tests;
mod words;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{Error, Result};

pub use bind::{Kept, Laid, Loaded};
pub use call::{FunctionRegistry, LONGEST_FUNCTION_NAME};
pub use declaration::{Declaration, Output, Place, Role};
pub use joining::LogicalPlace;
pub use laid_step::Bound;
pub use lifetimes::Lifetime;
pub use logical::run_together;
pub use marks::Mark;
pub use meeting::MEETING_VERSION;
pub use record::{Recorder, Step};
pub use rewrite::{Relocated, StepWriter};
pub use stepping::MeetingStep;
use steps::is_of_version_2;
pub use table::OPERATIONS;

/// Version of the format of programs of one core alone whose tensors have places; those with more in them have
/// [`MEETING_VERSION`].
pub const VERSION: u32 = 1;

const FORMAT: &str = "trn3-program";

/// How large a program may be that comes from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of JSON.
    pub bytes: usize,
    /// Tensors.
    pub tensors: usize,
    /// Registers.
    pub registers: u32,
    /// Steps.
    pub steps: usize,
    /// Elements of one operand.
    pub elements: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 4 << 30, tensors: 1 << 22, registers: 1 << 20, steps: 1 << 26, elements: 1 << 28 }
    }
}

/// Instructions over named tensors; see the [module](self).
///
/// ```
/// use std::sync::Arc;
/// use trn3_machine::arch::ArchSpec;
/// use trn3_machine::program::Limits;
/// use trn3_machine::Program;
///
/// let text = r#"{"format": "trn3-program", "version": 1, "name": "zero",
///   "tensors": [{"name": "t", "space": "sbuf", "shape": [128, 4], "dtype": "float32", "address": [0, 64]}],
///   "steps": [{"op": "memset", "dst": "t", "value": 0.0}]}"#;
/// let program = Program::from_json(text.as_bytes(), &Limits::default())?;
/// program.check(&Arc::new(ArchSpec::load("trn3")?), &Limits::default())?;
/// assert_eq!(Program::from_json(program.to_json()?.as_bytes(), &Limits::default())?, program);
///
/// let wrong = text.replace("\"dst\": \"t\"", "\"dst\": \"u\"");
/// let error = Program::from_json(wrong.as_bytes(), &Limits::default())?
///     .check(&Arc::new(ArchSpec::load("trn3")?), &Limits::default())
///     .expect_err("no such tensor");
/// assert!(error.to_string().contains("step 0 (memset): dst"), "{error}");
/// # Ok::<(), trn3_machine::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Program {
    format: String,
    version: u32,
    /// What it is called.
    pub name: String,
    /// Machine that it was recorded on; empty if it was not.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub arch: String,
    /// Which core of a logical core it is for; None: of a core alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logical_core: Option<LogicalPlace>,
    /// Tensors.
    pub tensors: Vec<Declaration>,
    /// Registers; operands name them by number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub registers: u32,
    /// What a kernel returned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<Output>,
    /// Instructions and what comes between them, in program order: `op` and its arguments.
    pub steps: Vec<Map<String, Value>>,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Program {
    /// A program without steps.
    pub fn new(name: &str) -> Self {
        Self {
            format: FORMAT.to_owned(),
            version: VERSION,
            name: name.to_owned(),
            arch: String::new(),
            logical_core: None,
            tensors: Vec::new(),
            registers: 0,
            outputs: Vec::new(),
            steps: Vec::new(),
        }
    }

    /// The program that a JSON text is. Steps are looked at by [`Program::check`] and [`Program::lay`].
    ///
    /// # Errors
    /// [`Error::Value`] for what is no program, one of another version, and what exceeds the limits.
    pub fn from_json(text: &[u8], limits: &Limits) -> Result<Self> {
        limit("bytes of JSON", text.len(), limits.bytes)?;
        let program: Self = serde_json::from_slice(text)
            .map_err(|error| Error::Value(format!("the program is no such JSON: {error}")))?;
        if program.format != FORMAT {
            return Err(Error::Value(format!("format is {:?}; a program has {FORMAT:?}", program.format)));
        }
        if program.version == 0 || program.version > MEETING_VERSION {
            return Err(Error::Value(format!(
                "program version is {}; allowed: 1 to {MEETING_VERSION}",
                program.version
            )));
        }
        limit("tensors", program.tensors.len(), limits.tensors)?;
        limit("registers", program.registers as usize, limits.registers as usize)?;
        limit("steps", program.steps.len(), limits.steps)?;
        Ok(program)
    }

    /// The program as JSON, a line a step.
    ///
    /// # Errors
    /// [`Error::Value`] for numbers that JSON has no words for.
    pub fn to_json(&self) -> Result<String> {
        let json = |error: serde_json::Error| Error::Value(format!("the program cannot be written: {error}"));
        let head = Self { steps: Vec::new(), ..self.head() };
        let mut text = serde_json::to_string(&head).map_err(json)?;
        // The head ends in its empty list of steps.
        text.truncate(text.len() - 2);
        for (number, step) in self.steps.iter().enumerate() {
            text.push_str(if number == 0 { "\n" } else { ",\n" });
            text.push_str(&serde_json::to_string(step).map_err(json)?);
        }
        text.push_str("]}");
        Ok(text)
    }

    /// Sets the version of the format to what the program needs: that of a core alone where nothing in it needs another.
    pub fn set_version(&mut self) {
        let is_newer = |step: &Map<String, Value>| step.get("op").and_then(Value::as_str).is_some_and(is_of_version_2);
        let is_placeless = |tensor: &Declaration| {
            tensor.address.is_none() && tensor.buffer().is_ok_and(crate::storage::Buffer::is_on_chip)
        };
        let needs_newer =
            self.logical_core.is_some() || self.tensors.iter().any(is_placeless) || self.steps.iter().any(is_newer);
        self.version = if needs_newer { MEETING_VERSION } else { VERSION };
    }

    fn head(&self) -> Self {
        Self {
            format: self.format.clone(),
            name: self.name.clone(),
            arch: self.arch.clone(),
            tensors: self.tensors.clone(),
            outputs: self.outputs.clone(),
            steps: Vec::new(),
            ..*self
        }
    }

    /// The tensor of that name.
    ///
    /// # Errors
    /// [`Error::Value`] names the inputs and outputs there are.
    pub fn tensor(&self, name: &str) -> Result<&Declaration> {
        self.tensors.iter().find(|tensor| tensor.name == name).ok_or_else(|| {
            let outer = self.tensors.iter().filter(|tensor| tensor.role != Role::Internal);
            let known: Vec<&str> = outer.map(|tensor| tensor.name.as_str()).take(32).collect();
            Error::Value(format!(
                "program {} has no tensor {name:?}; its inputs and outputs: {}",
                self.name,
                known.join(", ")
            ))
        })
    }
}

fn limit(what: &str, count: usize, most: usize) -> Result<()> {
    if count > most {
        return Err(Error::Value(format!("the program has {count} {what}; at most {most} are read")));
    }
    Ok(())
}
