//! Scalar registers of a sequencer: moved, loaded and stored. They run on the Sync engine's sequencer **(choice)**.

use std::sync::Arc;

use crate::arch::ArchSpec;
use crate::check::{Check, DMA};
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::isa::{Instruction, OperandRole};
use crate::state::State;
use crate::storage::Buffer;
use crate::time::Picos;
use crate::timing::work::Work;
use crate::view::{Register, View};

/// What a register is set to: a number or another register's value.
#[derive(Clone, Debug)]
pub enum RegisterValue {
    /// A number known when the kernel is built.
    Number(i64),
    /// What another register holds.
    Register(Arc<Register>),
}

impl RegisterValue {
    /// The number, of a register what it holds now.
    ///
    /// # Errors
    /// [`Error::Value`] for a register that nothing was written to.
    pub fn get(&self) -> Result<i64> {
        match self {
            RegisterValue::Number(number) => Ok(*number),
            RegisterValue::Register(register) => value_of(register),
        }
    }

    /// The register, where it is one.
    pub fn register(&self) -> Option<&Arc<Register>> {
        if let RegisterValue::Register(register) = self { Some(register) } else { None }
    }
}

fn value_of(register: &Register) -> Result<i64> {
    let value = *register.value.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    value.ok_or_else(|| Error::Value(format!("register {} is read before anything was written to it", register.id)))
}

fn set(register: &Register, value: i64) {
    *register.value.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(value);
}

fn check_writable(check: &Check<'_>, register: &Register) -> Result<()> {
    if register.frozen {
        return Err(check.refuse("dst", "is a dynamic loop's register", "a register of the kernel's own"));
    }
    Ok(())
}

fn check_element(check: &Check<'_>, name: &'static str, view: &View) -> Result<()> {
    check.memory(name, view, DMA)?;
    check.no_columns(name, view)?;
    if view.len() != 1 {
        return Err(check.refuse(name, format!("has shape {:?}", &view.shape[..]), "one element"));
    }
    Ok(())
}

fn access_ns(arch: &ArchSpec, view: &View) -> f64 {
    if view.storage.buffer == Buffer::Sbuf { arch.register_load_sbuf_ns } else { arch.register_load_hbm_ns }
}

fn work(arch: &ArchSpec, latency_ns: f64) -> Work {
    let interval = Picos::from_nanoseconds(arch.register_ns);
    Work::Compute { interval, latency: interval.max(Picos::from_nanoseconds(latency_ns)), table: None }
}

/// The value of 32 bits, or fewer, of a type.
pub(super) fn wrapped(dtype: DType, bits: u32) -> i64 {
    match (dtype.is_signed_integer(), dtype.size()) {
        (true, 1) => i64::from(bits as u8 as i8),
        (true, 2) => i64::from(bits as u16 as i16),
        (true, _) => i64::from(bits as i32),
        _ => i64::from(bits),
    }
}

/// `register_move(dst, src)`.
#[derive(Debug)]
pub struct RegisterMove {
    /// The register.
    pub dst: Arc<Register>,
    /// A 32-bit number, signed or unsigned, or another register.
    pub src: RegisterValue,
}

impl Instruction for RegisterMove {
    fn name(&self) -> &'static str {
        "register_move"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Sync
    }

    fn operands<'a>(&'a self, _visit: &mut dyn FnMut(OperandRole, &'a View)) {}

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check_writable(&check, &self.dst)?;
        match self.src {
            RegisterValue::Number(number) if !(i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(&number) => {
                Err(check.refuse("src", format!("is {number}"), "a number of 32 bits"))
            }
            _ => Ok(()),
        }
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        work(arch, arch.register_ns)
    }

    fn execute(&self, _state: &mut State) -> Result<()> {
        set(&self.dst, self.src.get()?);
        Ok(())
    }

    fn registers(&self, visit: &mut dyn FnMut(OperandRole, &Register)) {
        if let Some(register) = self.src.register() {
            visit(OperandRole::Read, register);
        }
        visit(OperandRole::Write, &self.dst);
    }

    fn is_control(&self) -> bool {
        true
    }
}

/// `register_load(dst, src)`: one element of at most 32 bits; integers keep their value, other types give their bits
/// **(choice)**.
#[derive(Debug)]
pub struct RegisterLoad {
    /// The register.
    pub dst: Arc<Register>,
    /// One element in HBM or SBUF.
    pub src: View,
}

impl Instruction for RegisterLoad {
    fn name(&self) -> &'static str {
        "register_load"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Sync
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Read, &self.src);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check_writable(&check, &self.dst)?;
        check_element(&check, "src", &self.src)
    }

    fn work(&self, arch: &ArchSpec) -> Work {
        work(arch, access_ns(arch, &self.src))
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let bits = state.read_bits(&self.src)?;
        set(&self.dst, wrapped(self.src.dtype, bits.first().copied().unwrap_or(0)));
        Ok(())
    }

    fn registers(&self, visit: &mut dyn FnMut(OperandRole, &Register)) {
        visit(OperandRole::Write, &self.dst);
    }

    fn is_control(&self) -> bool {
        true
    }
}

/// `register_store(dst, src)`: the low bits of a register into one element.
#[derive(Debug)]
pub struct RegisterStore {
    /// One element in HBM or SBUF.
    pub dst: View,
    /// The register.
    pub src: Arc<Register>,
}

impl Instruction for RegisterStore {
    fn name(&self) -> &'static str {
        "register_store"
    }

    fn engine(&self, _arch: &ArchSpec) -> Engine {
        Engine::Sync
    }

    fn operands<'a>(&'a self, visit: &mut dyn FnMut(OperandRole, &'a View)) {
        visit(OperandRole::Write, &self.dst);
    }

    fn check(&self, arch: &ArchSpec) -> Result<()> {
        let check = Check { arch, instruction: self.name() };
        check_element(&check, "dst", &self.dst)
    }

    /// A store takes what a load takes **(choice)**.
    fn work(&self, arch: &ArchSpec) -> Work {
        work(arch, access_ns(arch, &self.dst))
    }

    fn execute(&self, state: &mut State) -> Result<()> {
        let value = value_of(&self.src)?;
        state.memory.write_bits(&self.dst, &[value as u32])
    }

    fn registers(&self, visit: &mut dyn FnMut(OperandRole, &Register)) {
        visit(OperandRole::Read, &self.src);
    }

    fn is_control(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{At, CoreOptions, NeuronCore, new_register};

    #[test]
    fn test_moves_take_one_slot_and_order_their_readers() {
        let arch = Arc::new(ArchSpec::load("trn3").expect("a spec"));
        let mut core = NeuronCore::new(arch, CoreOptions::default()).expect("a core");
        let (one, other) = (new_register(false, None), new_register(false, None));
        let set = RegisterMove { dst: one.clone(), src: RegisterValue::Number(5) };
        let copy = RegisterMove { dst: other.clone(), src: RegisterValue::Register(one) };
        core.issue(&set, At::default()).expect("a number");
        core.issue(&copy, At::default()).expect("a register");
        assert_eq!(value_of(&other).expect("a value"), 5);
        // Two dependent instructions of 30 ns, 30 ns apart.
        assert_eq!(core.makespan(), Picos(90_000));
    }
}
