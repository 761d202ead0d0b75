//! The table of the instructions and the codec: every row is read and written, by its keywords and by its entries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde_json::{Map, Value, json};

use super::words::{Names, Scope};
use super::{OPERATIONS, references, table};
use crate::arch::ArchSpec;
use crate::error::Result;
use crate::isa::table::{Argument, Default, Description, Kind, TABLE, program_key};
use crate::memory::{Memory, MemoryOptions, Request};
use crate::storage::{Buffer, Storage};
use crate::view::Register;

/// One tile and one register, and their words.
struct Fixture {
    arch: Arc<ArchSpec>,
    tensors: HashMap<&'static str, Arc<Storage>>,
    registers: Vec<Arc<Register>>,
}

impl Names for () {
    fn tensor(&mut self, storage: &Arc<Storage>) -> Result<String> {
        Ok(storage.name.clone())
    }

    fn register(&mut self, register: &Arc<Register>) -> Result<u32> {
        Ok(register.id as u32)
    }
}

impl Fixture {
    fn new() -> Self {
        let arch = Arc::new(ArchSpec::load("trn3").expect("a spec"));
        let memory = Memory::new(&arch, MemoryOptions::default());
        let request = Request::unsited("tile", &[128, 16], crate::dtype::DType::Float32, Buffer::Sbuf);
        let tile = memory.lay_on_chip(&request, (0, 0)).expect("room");
        let register =
            |id| Arc::new(Register { id, frozen: false, value: Mutex::new(None), owner: std::sync::OnceLock::new() });
        Self { arch, tensors: HashMap::from([("tile", tile)]), registers: vec![register(0), register(1)] }
    }

    fn decode(&self, op: &str, step: &Map<String, Value>) -> std::result::Result<table::Held, String> {
        let scope = Scope { tensors: &self.tensors, registers: &self.registers, elements: 1 << 20 };
        table::decode(op, step, &scope, &self.arch)
    }

    /// What a step is once it was read and written.
    fn rewritten(&self, op: &str, step: &Map<String, Value>) -> Map<String, Value> {
        let held = self.decode(op, step).unwrap_or_else(|text| panic!("{op}: {text} of {step:?}"));
        table::encode(held.as_ref(), &mut ()).expect("words")
    }
}

/// Words for an argument of a kind; `other` than what stands for it where it is left out.
fn words(argument: &Argument) -> Value {
    let is_default = |flag| argument.default == Some(Default::Flag(flag));
    match argument.kind {
        Kind::Tile | Kind::MaybeTile => json!("tile"),
        Kind::Tiles => json!(["tile", "tile"]),
        Kind::Scalar | Kind::NumberOrTile | Kind::Number => json!(2.5),
        Kind::Op | Kind::MaybeOp => json!("subtract"),
        Kind::Function => json!("exp"),
        Kind::Command => json!("reduce"),
        Kind::MaybeEngine | Kind::NamedEngine => json!("scalar"),
        Kind::DmaEngine | Kind::Flag | Kind::MaybeFlag => json!(!is_default(true)),
        Kind::Integer | Kind::IntegerOrRegister | Kind::Count | Kind::MaybeCount => json!(7),
        Kind::Integers | Kind::Axes | Kind::MaybeCounts => json!([1, 0]),
        Kind::Pairs => json!([[1, 16]]),
        Kind::MaybeNumbers => json!([1.0]),
        Kind::Priority => json!(2),
        Kind::OobMode => json!("skip"),
        Kind::DgeMode => json!("hwdge"),
        Kind::MaybeArrayTile => json!({"position": [0, 0], "size": [32, 32]}),
        Kind::SparsityPattern => json!("4:16"),
        Kind::Register => json!(1),
    }
}

fn default_words(default: Default) -> Value {
    match default {
        Default::None => Value::Null,
        Default::Flag(flag) => json!(flag),
        Default::Integer(number) => json!(number),
        Default::Number(number) => json!(number),
        Default::Word(word) => json!(word),
    }
}

/// A step with what has to be given, by keyword.
fn shortest(row: &Description) -> Map<String, Value> {
    let required = row.arguments.iter().filter(|argument| argument.default.is_none());
    required.map(|argument| (program_key(argument.name).to_owned(), words(argument))).collect()
}

#[test]
fn test_every_row_is_an_operation() {
    assert_eq!(TABLE.iter().map(|row| row.name).collect::<Vec<_>>(), OPERATIONS);
    assert!(OPERATIONS.is_sorted(), "rows stand in the order of their names");
    let fixture = Fixture::new();
    let refusal = |name: &str| fixture.decode(name, &Map::new()).err().expect("no arguments");
    for name in OPERATIONS {
        assert!(refusal(name).ends_with("is missing"), "{name}: {}", refusal(name));
    }
    assert!(refusal("core_barrier").contains("is no instruction"));
}

#[test]
fn test_left_out_arguments_are_the_defaults_of_the_table() {
    let fixture = Fixture::new();
    for row in TABLE {
        let short = shortest(row);
        let written = fixture.rewritten(row.name, &short);
        let keys = written.keys().filter(|key| *key != "op").map(String::as_str);
        assert!(keys.clone().all(|key| row.keys.contains(&key)), "{}: {written:?}", row.name);
        assert_eq!(written["op"], row.name);
        let mut long = short;
        for argument in row.arguments {
            if let Some(default) = argument.default {
                long.insert(program_key(argument.name).to_owned(), default_words(default));
            }
        }
        assert_eq!(fixture.rewritten(row.name, &long), written, "{}: spelt out", row.name);
        assert_eq!(fixture.rewritten(row.name, &written), written, "{}: by its entries", row.name);
    }
}

#[test]
fn test_every_keyword_reaches_its_instruction() {
    let fixture = Fixture::new();
    for row in TABLE {
        let written = fixture.rewritten(row.name, &shortest(row));
        for argument in row.arguments.iter().filter(|argument| argument.default.is_some()) {
            let mut step = shortest(row);
            step.insert(program_key(argument.name).to_owned(), words(argument));
            assert_ne!(fixture.rewritten(row.name, &step), written, "{} {}", row.name, argument.name);
        }
        for argument in row.arguments.iter().filter(|argument| argument.default.is_none()) {
            let mut step = shortest(row);
            step.remove(program_key(argument.name));
            let same = fixture
                .decode(row.name, &step)
                .is_ok_and(|held| table::encode(held.as_ref(), &mut ()).expect("words") == written);
            assert!(!same, "{} does without {}", row.name, argument.name);
        }
    }
}

#[test]
fn test_instructions_are_what_their_rows_say() {
    let fixture = Fixture::new();
    for row in TABLE {
        let held = fixture.decode(row.name, &shortest(row)).expect("an instruction");
        assert_eq!(held.name(), row.name);
        let engine = held.engine(&fixture.arch);
        assert!(row.engines.contains(&engine), "{} runs on {engine}", row.name);
    }
}

/// Steps name tensors where instructions have operands, and nowhere else: what lifetimes are counted from.
#[test]
fn test_names_in_steps_are_the_operands_of_instructions() {
    let fixture = Fixture::new();
    for row in TABLE {
        let whole = row.arguments.iter().map(|argument| {
            let plain = matches!(argument.kind, Kind::Scalar | Kind::NumberOrTile);
            let view = json!({"tensor": "tile", "shape": [128, 1], "strides": [16, 1]});
            (program_key(argument.name).to_owned(), if plain { view } else { words(argument) })
        });
        let whole: Map<String, Value> = whole.collect();
        let mut step = fixture.rewritten(row.name, &whole);
        for mut step in [whole.clone(), step.clone()] {
            let mut operands = 0;
            let mut given = step.clone();
            given.remove("op");
            if let Ok(held) = fixture.decode(row.name, &given) {
                held.operands(&mut |_, _| operands += 1);
            }
            step.insert("op".to_owned(), row.name.into());
            let mut named = Vec::new();
            references::visit_names(&step, &mut |name| named.push(name.to_owned()));
            assert!(named.iter().all(|name| name == "tile"), "{}: {named:?} of {step:?}", row.name);
            assert!(named.len() >= operands && operands > 0 || row.name == "register_move", "{}: {step:?}", row.name);
            references::visit_names_mut(&mut step, &mut |name| name.push('s'));
            let text = Value::Object(step).to_string();
            assert_eq!(text.matches("\"tile\"").count(), text.matches("\"tile\":").count(), "{text}");
        }
        step.insert("label".to_owned(), "tile".into());
        references::visit_names(&step, &mut |name| assert_eq!(name, "tile"));
    }
    let mark = json!({"op": "loop", "kind": "tile", "label": "tile", "op0": "tile", "after": ["tile"]});
    if let Value::Object(mark) = mark {
        references::visit_names(&mark, &mut |name| panic!("{name} is no tensor"));
    }
}

#[test]
fn test_keys_that_no_row_has_are_refused() {
    let fixture = Fixture::new();
    for row in TABLE {
        for key in ["", "name", "dst_tile"] {
            let mut step = shortest(row);
            step.insert(key.to_owned(), json!(1));
            let refusal = fixture.decode(row.name, &step).err().expect("a key too many");
            assert!(refusal.starts_with(&format!("has argument {key:?}; it takes ")), "{refusal}");
        }
    }
}
