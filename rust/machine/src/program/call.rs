//! Functions of a host's own on GpSimdE as steps: by name, since a program is data. Who runs it gives them.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::words::{Field, Names, Scope, number};
use crate::arch::ArchSpec;
use crate::error::Result;
use crate::isa::Instruction;
use crate::isa::custom::{GpSimdCall, GpSimdFunction, TileBytes, instruction_name};
use crate::view::View;

/// `op` of such steps.
pub(super) const NAME: &str = "gpsimd_call";
const KEYS: [&str; 6] = ["function", "outputs", "inputs", "cycles", "label", "after"];
/// Bytes of a function's name.
pub const LONGEST_FUNCTION_NAME: usize = 256;
/// Cycles of one call: far from where sums of them would wrap.
const MOST_CYCLES: i64 = 1 << 48;

/// The functions that programs call by name.
///
/// ```
/// use std::collections::BTreeMap;
/// use std::sync::Arc;
/// use trn3_machine::isa::custom::{GpSimdFunction, TileBytes};
/// use trn3_machine::program::FunctionRegistry;
///
/// let flip: Arc<dyn GpSimdFunction> = Arc::new(|inputs: &[TileBytes], outputs: &mut [TileBytes]| {
///     outputs[0].bytes = inputs[0].bytes.iter().rev().copied().collect();
///     Ok(())
/// });
/// let known = BTreeMap::from([("flip".to_owned(), flip)]);
/// assert!(known.function("flip").is_some() && known.function("flop").is_none());
/// ```
pub trait FunctionRegistry {
    /// The function of that name; None: there is none.
    fn function(&self, name: &str) -> Option<Arc<dyn GpSimdFunction>>;
}

impl FunctionRegistry for () {
    fn function(&self, _name: &str) -> Option<Arc<dyn GpSimdFunction>> {
        None
    }
}

impl FunctionRegistry for BTreeMap<String, Arc<dyn GpSimdFunction>> {
    fn function(&self, name: &str) -> Option<Arc<dyn GpSimdFunction>> {
        self.get(name).cloned()
    }
}

impl<S: BuildHasher> FunctionRegistry for HashMap<String, Arc<dyn GpSimdFunction>, S> {
    fn function(&self, name: &str) -> Option<Arc<dyn GpSimdFunction>> {
        self.get(name).cloned()
    }
}

/// Why a step is not one.
pub(super) enum Refusal {
    /// Something is wrong with it.
    Wrong(String),
    /// It is right, and cannot be had here.
    Unsupported(String),
}

impl From<String> for Refusal {
    fn from(text: String) -> Self {
        Refusal::Wrong(text)
    }
}

/// The words for a call.
pub(super) fn encode(call: &GpSimdCall, names: &mut dyn Names) -> Result<Map<String, Value>> {
    let mut map = Map::new();
    map.insert("op".to_owned(), NAME.into());
    map.insert("function".to_owned(), call.name.into());
    map.insert("outputs".to_owned(), call.outputs.encode(names)?);
    map.insert("inputs".to_owned(), call.inputs.encode(names)?);
    map.insert("cycles".to_owned(), call.cycles.into());
    Ok(map)
}

/// The call of a step. Without a registry the program is only looked at: its functions may be missing.
pub(super) fn decode(
    step: &Map<String, Value>,
    scope: &Scope<'_>,
    arch: &ArchSpec,
    functions: Option<&dyn FunctionRegistry>,
) -> std::result::Result<Box<dyn Instruction + Send + Sync>, Refusal> {
    if let Some(key) = step.keys().find(|key| *key != "op" && !KEYS.contains(&key.as_str())) {
        return Err(format!("has argument {key:?}; it takes {}", KEYS.join(", ")).into());
    }
    let name = function_of(step)?;
    let views = |key: &str| Vec::<View>::decode(step.get(key), scope).map_err(|text| format!("{key} {text}"));
    let (outputs, inputs) = (views("outputs")?, views("inputs")?);
    let cycles = match step.get("cycles").filter(|cycles| !cycles.is_null()) {
        Some(cycles) => number(cycles, "cycles", 0, MOST_CYCLES)?.unsigned_abs(),
        None => GpSimdCall::cycles_of_one_pass(arch, &outputs, &inputs),
    };
    let (name, function) = match functions {
        // Names live as long as the process: a text that nobody runs leaves none.
        None => (NAME, Arc::new(Missing(name.to_owned())) as Arc<dyn GpSimdFunction>),
        Some(functions) => match functions.function(name) {
            Some(function) => (instruction_name(name), function),
            None => {
                let text = format!("function is {name:?}, which nobody gave: who runs the program registers it");
                return Err(Refusal::Unsupported(text));
            }
        },
    };
    Ok(Box::new(GpSimdCall { name, outputs, inputs, cycles, function }))
}

/// The name of the function that a step calls.
pub(super) fn function_of(step: &Map<String, Value>) -> std::result::Result<&str, String> {
    let given = step.get("function").unwrap_or(&Value::Null);
    let name = given.as_str().filter(|name| (1..=LONGEST_FUNCTION_NAME).contains(&name.len()));
    name.ok_or_else(|| {
        // What is too long is not repeated.
        let got = if given.is_string() { "a text of another length".to_owned() } else { given.to_string() };
        format!("function is {got}; allowed: a name of 1 to {LONGEST_FUNCTION_NAME} characters")
    })
}

/// Stands for a function where a program is only looked at.
struct Missing(String);

impl GpSimdFunction for Missing {
    fn call(&self, _inputs: &[TileBytes], _outputs: &mut [TileBytes]) -> std::result::Result<(), String> {
        Err(format!("function {:?} was given by nobody", self.0))
    }
}
