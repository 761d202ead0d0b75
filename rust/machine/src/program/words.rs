//! Words for arguments of instructions: who gives names, and who knows them.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use crate::error::Result as MachineResult;
use crate::storage::Storage;
use crate::view::Register;

/// Words for something, or why there are none.
pub(super) type Encode = MachineResult<Value>;

/// Gives tensors and registers the names they have in a program.
pub(super) trait Names {
    fn tensor(&mut self, storage: &Arc<Storage>) -> MachineResult<String>;
    fn register(&mut self, register: &Arc<Register>) -> MachineResult<u32>;
}

/// Tensors and registers that words may name.
pub(super) struct Scope<'a> {
    pub(super) tensors: &'a HashMap<&'a str, Arc<Storage>>,
    pub(super) registers: &'a [Arc<Register>],
    /// Most elements of an operand.
    pub(super) elements: usize,
}

impl Scope<'_> {
    pub(super) fn tensor(&self, name: &str) -> Result<&Arc<Storage>, String> {
        self.tensors.get(name).ok_or_else(|| format!("names tensor {name:?}, which is not declared"))
    }

    pub(super) fn register(&self, value: &Value) -> Result<&Arc<Register>, String> {
        let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
        number
            .and_then(|number| self.registers.get(number))
            .ok_or_else(|| format!("names register {value}; the program has {} (from 0)", self.registers.len()))
    }
}

/// A type that an argument of an instruction may have. No value is `None` to [`Field::decode`].
pub(super) trait Field: Sized {
    fn encode(&self, names: &mut dyn Names) -> Encode;
    fn decode(value: Option<&Value>, scope: &Scope<'_>) -> Result<Self, String>;
}

/// A whole number from `least` to `most`.
pub(super) fn number(value: &Value, what: &str, least: i64, most: i64) -> Result<i64, String> {
    value
        .as_i64()
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("{what} is {value}; allowed: a whole number from {least} to {most}"))
}
