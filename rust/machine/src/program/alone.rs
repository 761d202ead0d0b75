//! A program on a core of its own, without a device: its HBM tensors lie in the core's HBM.

use std::sync::Arc;

use super::{FunctionRegistry, Laid, Limits, Loaded, Place, Program};
use crate::core::NeuronCore;
use crate::error::{Error, Result};
use crate::memory::{Contents, HbmSpace};
use crate::view::View;

/// Tensors with addresses lie where they say, others on bytes of their own.
struct Own<'a> {
    program: &'a Program,
    addressed: HbmSpace,
    functions: &'a dyn FunctionRegistry,
}

impl Laid for Own<'_> {
    fn hbm(&mut self, number: usize, bytes: u64) -> Result<Contents> {
        match self.program.tensors.get(number).and_then(|tensor| tensor.address) {
            Some(Place::Hbm(address)) => self.addressed.bind(address, bytes),
            _ => Ok(Contents::default()),
        }
    }

    fn functions(&self) -> Option<&dyn FunctionRegistry> {
        Some(self.functions)
    }
}

impl Program {
    /// Runs the program on a core, from a new start of its time, with contents of tensors by name; returns it as it lies
    /// there, for its outputs.
    ///
    /// # Errors
    /// As [`Program::check`] and [`Loaded::run`]; [`Error::Value`] for contents that do not fit a tensor;
    /// [`Error::HbmCapacity`] where its tensors do not fit the HBM that the core has.
    pub fn run_on(&self, core: &mut NeuronCore, inputs: &[(String, Vec<u8>)], limits: &Limits) -> Result<Loaded> {
        self.run_with(core, inputs, &(), limits)
    }

    /// As [`Program::run_on`], with the functions that the program calls.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use std::sync::Arc;
    /// use trn3_machine::arch::ArchSpec;
    /// use trn3_machine::core::{CoreOptions, NeuronCore};
    /// use trn3_machine::isa::custom::{GpSimdFunction, TileBytes};
    /// use trn3_machine::program::Limits;
    /// use trn3_machine::{Error, Program};
    ///
    /// let text = br#"{"format": "trn3-program", "version": 2, "name": "counted",
    ///   "tensors": [{"name": "t", "space": "sbuf", "shape": [128, 4], "dtype": "uint8"}],
    ///   "outputs": [{"name": "result", "view": "t"}],
    ///   "steps": [{"op": "gpsimd_call", "function": "count", "inputs": [], "outputs": ["t"], "cycles": 4}]}"#;
    /// let limits = Limits::default();
    /// let program = Program::from_json(text, &limits)?;
    /// let count: Arc<dyn GpSimdFunction> = Arc::new(|_: &[TileBytes], outputs: &mut [TileBytes]| {
    ///     outputs[0].bytes.iter_mut().zip(0..4u8).for_each(|(byte, number)| *byte = number);
    ///     Ok(())
    /// });
    /// let mut core = NeuronCore::new(Arc::new(ArchSpec::load("trn3")?), CoreOptions::default())?;
    /// assert!(matches!(program.run_on(&mut core, &[], &limits), Err(Error::NotModelled(_))));
    /// let known = BTreeMap::from([("count".to_owned(), count)]);
    /// let ran = program.run_with(&mut core, &[], &known, &limits)?;
    /// assert_eq!(core.state.read_bytes(&ran.outputs[0].1)?[..4], [0, 1, 2, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Program::run_on`]; [`Error::NotModelled`] names a function that is not among them.
    pub fn run_with(
        &self,
        core: &mut NeuronCore,
        inputs: &[(String, Vec<u8>)],
        functions: &dyn FunctionRegistry,
        limits: &Limits,
    ) -> Result<Loaded> {
        let arch = Arc::clone(&core.state.arch);
        let addressed = HbmSpace::new(arch.hbm_bytes, u64::MAX);
        let mut places = Own { program: self, addressed, functions };
        let loaded = self.lay(&arch, &core.state.memory, &mut places, limits)?;
        loaded.reserve(core)?;
        for tensor in loaded.tensors.iter().filter(|tensor| !tensor.buffer.is_on_chip()) {
            core.state.memory.count_hbm(tensor)?;
        }
        for number in 0..loaded.tensors.len() {
            if let Some(bytes) = self.contents(number)? {
                loaded.fill(core, number, &bytes)?;
            }
        }
        for (name, bytes) in inputs {
            let number = self.tensors.iter().position(|tensor| tensor.name == *name);
            let number = number.ok_or_else(|| Error::Value(format!("program {} has no tensor {name:?}", self.name)))?;
            loaded.fill(core, number, bytes)?;
        }
        loaded.run(core)?;
        Ok(loaded)
    }
}

impl Loaded {
    /// Makes room on a core for tensors without an address, where places have no limit.
    pub(super) fn reserve(&self, core: &mut NeuronCore) -> Result<()> {
        self.tenants.reserve(core)
    }

    /// Sets a tensor's bytes from the host.
    pub(super) fn fill(&self, core: &mut NeuronCore, number: usize, bytes: &[u8]) -> Result<()> {
        let Some(tensor) = self.tensors.get(number) else { return Ok(()) };
        if bytes.len() != tensor.byte_size() {
            let (name, got, needed) = (&tensor.name, bytes.len(), tensor.byte_size());
            return Err(Error::Value(format!("tensor {name:?} has {needed} bytes; {got} came")));
        }
        core.write_bytes(&View::whole(Arc::clone(tensor)), bytes)
    }
}
