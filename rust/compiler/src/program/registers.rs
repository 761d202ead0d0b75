//! Registers that a program sets between its instructions: which value each instruction reads, wherever it goes.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};
use trn3_machine::program::{Bound, Loaded};
use trn3_machine::trace::{Home, NONE, Trace, TraceOperand, TraceStep, TraceTensor, Use};

/// What an instruction reads that no instruction wrote.
struct Need {
    register: u64,
    value: i64,
    /// The register that stands for it, where instructions write to it elsewhere.
    alias: Option<u32>,
}

/// Registers of a program.
pub(super) struct Registers {
    /// By instruction, where there is something.
    needs: HashMap<u32, Vec<Need>>,
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
    /// Registers of a program as written. Where one is read that the program set and an instruction writes to elsewhere, the
    /// trace reads another one from here on: nobody has to wait for what it would hold otherwise.
    pub(super) fn new(count: u32, loaded: &Loaded, trace: &mut Trace) -> Self {
        let mut held: HashMap<u64, Option<i64>> = HashMap::new();
        let mut needs: HashMap<u32, Vec<Need>> = HashMap::new();
        let mut written: HashSet<u64> = HashSet::new();
        let mut steps = trace.steps.iter();
        for step in &loaded.steps {
            match step {
                Bound::SetRegister(register, value) => {
                    held.insert(register.id, Some(*value));
                }
                Bound::Issue { .. } | Bound::Meet { .. } | Bound::Join { .. } => {
                    let Some(step) = steps.next() else { break };
                    let mut read: Vec<Need> = Vec::new();
                    for operand in &step.operands {
                        let Home::Register(id) = trace.tensors[operand.tensor as usize].home else { continue };
                        if operand.usage == Use::Write {
                            continue;
                        }
                        if let Some(Some(value)) = held.get(&id)
                            && !read.iter().any(|known| known.register == id)
                        {
                            read.push(Need { register: id, value: *value, alias: None });
                        }
                    }
                    for operand in step.writes() {
                        if let Home::Register(id) = trace.tensors[operand.tensor as usize].home {
                            held.insert(id, None);
                            written.insert(id);
                        }
                    }
                    if !read.is_empty() {
                        needs.insert(step.source, read);
                    }
                }
                _ => {}
            }
        }
        let mut registers = Self { needs, held: HashMap::new(), count };
        registers.rename(&written, trace);
        registers
    }

    fn rename(&mut self, written: &HashSet<u64>, trace: &mut Trace) {
        let mut aliases: HashMap<u64, (u32, u32)> = HashMap::new();
        for number in 0..trace.steps.len() {
            let step = &trace.steps[number];
            let writes = registers_written(trace, step);
            let Some(needs) = self.needs.get_mut(&step.source) else { continue };
            // What it writes replaces what anybody reads.
            for need in needs.iter_mut().filter(|need| written.contains(&need.register)) {
                if writes.contains(&need.register) {
                    continue;
                }
                let (alias, tensor) = *aliases.entry(need.register).or_insert_with(|| {
                    let alias = self.count;
                    self.count += 1;
                    let own = trace.tensors.iter().find(|tensor| tensor.home == Home::Register(need.register));
                    let own = own.cloned().map(|own| TraceTensor { home: Home::Register(u64::from(alias)), ..own });
                    (alias, own.map_or(NONE, |own| trace.add_tensor(own)))
                });
                need.alias = Some(alias);
                let is_own = |operand: &TraceOperand, trace: &Trace| {
                    trace.tensors[operand.tensor as usize].home == Home::Register(need.register)
                };
                for at in 0..trace.steps[number].operands.len() {
                    if is_own(&trace.steps[number].operands[at], trace) {
                        trace.steps[number].operands[at].tensor = tensor;
                    }
                }
            }
        }
    }

    /// The steps that set what an instruction reads, and registers that it reads under another number: one that
    /// instructions write to holds their results where they are still needed.
    pub(super) fn before(&mut self, source: u32, writes: &[u64]) -> (Vec<Map<String, Value>>, Vec<Renamed>) {
        let (mut steps, mut renamed) = (Vec::new(), Vec::new());
        for &Need { register, value, alias } in self.needs.get(&source).map_or(&[][..], |needs| &needs[..]) {
            renamed.extend(alias.map(|number| Renamed { register, number }));
            let number = alias.unwrap_or(u32::try_from(register).unwrap_or(u32::MAX));
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

/// Registers that an instruction writes to.
pub(super) fn registers_written(trace: &Trace, step: &TraceStep) -> Vec<u64> {
    let id = |operand: &TraceOperand| match trace.tensors[operand.tensor as usize].home {
        Home::Register(id) => Some(id),
        _ => None,
    };
    step.writes().filter_map(id).collect()
}
