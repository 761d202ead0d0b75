//! Registers that a program sets between its instructions: which value each instruction reads, wherever it goes.

use std::collections::HashMap;

use serde_json::{Map, Value, json};
use trn3_machine::program::{Bound, Loaded};
use trn3_machine::trace::{Home, Trace, Use};

/// What an instruction reads that no instruction wrote: register and value.
pub(super) type Needs = Vec<(u64, i64)>;

/// Registers of a program.
pub(super) struct Registers {
    /// By instruction, where there is something.
    needs: HashMap<u32, Needs>,
    /// Those that instructions write to, and the register that stands for each where it was set.
    aliases: HashMap<u64, Option<u32>>,
    /// What registers hold by their steps so far.
    held: HashMap<u32, i64>,
    /// How many there are.
    pub(super) count: u32,
}

/// A register that one instruction reads under another number.
pub(super) struct Renamed {
    pub(super) register: u64,
    pub(super) number: u32,
}

impl Registers {
    pub(super) fn new(count: u32, loaded: &Loaded, trace: &Trace) -> Self {
        let mut held: HashMap<u64, Option<i64>> = HashMap::new();
        let (mut needs, mut aliases) = (HashMap::new(), HashMap::new());
        let mut steps = trace.steps.iter();
        for step in &loaded.steps {
            match step {
                Bound::SetRegister(register, value) => {
                    held.insert(register.id, Some(*value));
                }
                Bound::Issue { .. } | Bound::Meet { .. } | Bound::Join { .. } => {
                    let Some(step) = steps.next() else { break };
                    let mut read = Needs::new();
                    for operand in &step.operands {
                        let Home::Register(id) = trace.tensors[operand.tensor as usize].home else { continue };
                        if operand.usage == Use::Write {
                            continue;
                        }
                        if let Some(Some(value)) = held.get(&id)
                            && !read.contains(&(id, *value))
                        {
                            read.push((id, *value));
                        }
                    }
                    for operand in step.writes() {
                        if let Home::Register(id) = trace.tensors[operand.tensor as usize].home {
                            held.insert(id, None);
                            aliases.insert(id, None);
                        }
                    }
                    if !read.is_empty() {
                        needs.insert(step.source, read);
                    }
                }
                _ => {}
            }
        }
        Self { needs, aliases, held: HashMap::new(), count }
    }

    /// The steps that set what an instruction reads, and registers that it reads under another number: one that
    /// instructions write to holds their results where they are still needed.
    pub(super) fn before(&mut self, source: u32, writes: &[u64]) -> (Vec<Map<String, Value>>, Vec<Renamed>) {
        let (mut steps, mut renamed) = (Vec::new(), Vec::new());
        for &(register, value) in self.needs.get(&source).map_or(&[][..], |needs| &needs[..]) {
            let own = u32::try_from(register).unwrap_or(u32::MAX);
            let number = match self.aliases.get_mut(&register) {
                // What it writes replaces what anybody reads.
                Some(alias) if !writes.contains(&register) => {
                    let count = &mut self.count;
                    let number = *alias.get_or_insert_with(|| {
                        *count += 1;
                        *count - 1
                    });
                    renamed.push(Renamed { register, number });
                    number
                }
                _ => own,
            };
            if self.held.get(&number) != Some(&value) {
                self.held.insert(number, value);
                if let Value::Object(step) = json!({"op": "set_register", "register": number, "value": value}) {
                    steps.push(step);
                }
            }
        }
        for &register in writes {
            self.held.remove(&u32::try_from(register).unwrap_or(u32::MAX));
        }
        (steps, renamed)
    }
}
