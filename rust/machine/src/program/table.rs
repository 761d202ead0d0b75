//! Instructions as steps of programs, written and read by the table of the instructions.

use std::any::Any;

use serde_json::{Map, Value};

use super::call;
use super::words::{Field, Names, Scope};
use crate::arch::ArchSpec;
use crate::error::{Error, Result};
use crate::isa::Instruction;
use crate::isa::custom::GpSimdCall;
use crate::isa::table::{Default, held, makers, program_key, values};

/// An instruction that a program holds.
pub(super) type Held = Box<dyn Instruction + Send + Sync>;

type Decoded<T> = std::result::Result<T, String>;

/// Keys of a step that are no arguments of its instruction.
const OWN_KEYS: [&str; 3] = ["op", "label", "after"];

macro_rules! codec {
    ($($(#[$attribute:meta])* $name:ident($($argument:ident: $kind:ident $(= $default:tt)?),* $(,)?)
        $family:ident on $($engine:ident)|+ => $type:ident
        { $($field:ident $(= $maker:ident($($from:ident),* $(,)?))? $(:= $constant:expr)?),* $(,)? })*) => {
        /// Names of all instructions that programs can hold.
        pub const OPERATIONS: &[&str] = &[$($(#[$attribute])* stringify!($name)),*];

        fn encode_listed(instruction: &dyn Any, names: &mut dyn Names, map: &mut Map<String, Value>) -> Result<bool> {
            $($(#[$attribute])*
            if let Some(instruction) = instruction.downcast_ref::<held::$type>() {
                $(encode_field!(map, names, instruction, $field $(:= $constant)?);)*
                return Ok(true);
            })*
            Ok(false)
        }

        /// How the step of each instruction is read.
        const READERS: &[(&str, fn(&Arguments<'_>, &ArchSpec) -> Decoded<Held>)] = &[$($(#[$attribute])* ({
            fn read(arguments: &Arguments<'_>, arch: &ArchSpec) -> Decoded<Held> {
                arguments.only(
                    &[$(field_key!($field $(:= $constant)?)),*], &[$(program_key(stringify!($argument))),*],
                )?;
                $(let $argument = || {
                    arguments.take::<values::$kind>(stringify!($argument), default_of!($($default)?))
                };)*
                let mut made = held::$type {
                    $($field: decode_field!(arguments, $field $(= $maker($($from),*))? $(:= $constant)?)),*
                };
                made.prepare(arch).map_err(|error| error.to_string())?;
                Ok(Box::new(made))
            }
            (stringify!($name), read)
        })),*];
    };
}

macro_rules! encode_field {
    ($map:ident, $names:ident, $instruction:ident, $field:ident) => {
        $map.insert(program_key(stringify!($field)).to_owned(), $instruction.$field.encode($names)?)
    };
    ($map:ident, $names:ident, $instruction:ident, $field:ident := $constant:expr) => {};
}

macro_rules! decode_field {
    ($arguments:ident, $field:ident) => {
        $field()?
    };
    ($arguments:ident, $field:ident = $maker:ident($($from:ident),*)) => {
        $arguments.made(stringify!($field), &[$(stringify!($from)),*], || Ok(makers::$maker($($from()?),*)))?
    };
    ($arguments:ident, $field:ident := $constant:expr) => {
        $constant
    };
}

macro_rules! field_key {
    ($field:ident) => {
        program_key(stringify!($field))
    };
    ($field:ident := $constant:expr) => {
        ""
    };
}

macro_rules! default_of {
    () => {
        None
    };
    ($default:tt) => {
        Some(crate::isa::table::default!($default))
    };
}

crate::instructions!(codec);

/// The arguments of one step.
struct Arguments<'a> {
    step: &'a Map<String, Value>,
    scope: &'a Scope<'a>,
}

impl Arguments<'_> {
    /// Refuses what is neither an entry of the instruction nor one of its keywords.
    fn only(&self, entries: &[&str], keywords: &[&str]) -> Decoded<()> {
        let mut keys = self.step.keys().map(String::as_str);
        let known = |key: &str| entries.contains(&key) || keywords.contains(&key) || OWN_KEYS.contains(&key);
        match keys.find(|key| key.is_empty() || !known(key)) {
            Some(key) => {
                let allowed: Vec<&str> = entries.iter().copied().filter(|entry| !entry.is_empty()).collect();
                Err(format!("has argument {key:?}; it takes {}", allowed.join(", ")))
            }
            None => Ok(()),
        }
    }

    /// An argument by its keyword.
    fn take<T: Field>(&self, name: &'static str, default: Option<Default>) -> Decoded<T> {
        let key = program_key(name);
        let decoded = match self.step.get(key) {
            Some(value) => T::decode(Some(value), self.scope),
            None => T::decode(default.map(words).as_ref(), self.scope),
        };
        decoded.map_err(|text| format!("{key} {text}"))
    }

    /// What is made of arguments: an entry of its own, or from the keywords. Left out with all of these, it is what the
    /// table says; where that says nothing, what its type does.
    fn made<T: Field>(
        &self,
        key: &'static str,
        from: &[&'static str],
        make: impl FnOnce() -> Decoded<T>,
    ) -> Decoded<T> {
        let entry = |value: Option<&Value>| T::decode(value, self.scope).map_err(|text| format!("{key} {text}"));
        if let Some(value) = self.step.get(key) {
            return entry(Some(value));
        }
        let is_said = from.iter().any(|name| self.step.contains_key(program_key(name)));
        make().or_else(|text| if is_said { Err(text) } else { entry(None) })
    }
}

fn words(default: Default) -> Value {
    match default {
        Default::None => Value::Null,
        Default::Flag(flag) => flag.into(),
        Default::Integer(number) => number.into(),
        Default::Number(number) => number.into(),
        Default::Word(word) => word.into(),
    }
}

/// Words for an instruction.
///
/// # Errors
/// [`Error::NotModelled`] for what programs cannot hold: functions of the host's that depend on more than their operands.
pub(super) fn encode(instruction: &dyn Instruction, names: &mut dyn Names) -> Result<Map<String, Value>> {
    let mut map = Map::new();
    map.insert("op".to_owned(), instruction.name().into());
    let any: &dyn Any = instruction;
    if !encode_listed(any, names, &mut map)? {
        return match any.downcast_ref::<GpSimdCall>() {
            Some(call) if call.function.is_nameable() => call::encode(call, names),
            called => {
                let why = if called.is_some() { "its function is the host's" } else { "cores run it together" };
                Err(Error::NotModelled(format!("{} cannot be part of a program: {why}", instruction.name())))
            }
        };
    }
    // What is not given is not written.
    map.retain(|_, value| !value.is_null());
    Ok(map)
}

/// The instruction of a step.
pub(super) fn decode(op: &str, step: &Map<String, Value>, scope: &Scope<'_>, arch: &ArchSpec) -> Decoded<Held> {
    match READERS.iter().find(|(name, _)| *name == op) {
        Some((_, read)) => read(&Arguments { step, scope }, arch),
        None => Err(format!("is no instruction; allowed: {}", OPERATIONS.join(", "))),
    }
}
