//! A program on a core of its own, without a device: its HBM tensors lie in the core's HBM.

use std::sync::Arc;

use super::{Laid, Limits, Loaded, Place, Program};
use crate::core::NeuronCore;
use crate::error::{Error, Result};
use crate::memory::{Contents, HbmSpace};
use crate::view::View;

/// Tensors with addresses lie where they say, others on bytes of their own.
struct Own<'a> {
    program: &'a Program,
    addressed: HbmSpace,
}

impl Laid for Own<'_> {
    fn hbm(&mut self, number: usize, bytes: u64) -> Result<Contents> {
        match self.program.tensors.get(number).and_then(|tensor| tensor.address) {
            Some(Place::Hbm(address)) => self.addressed.bind(address, bytes),
            _ => Ok(Contents::default()),
        }
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
        let arch = Arc::clone(&core.state.arch);
        let mut places = Own { program: self, addressed: HbmSpace::new(arch.hbm_bytes, u64::MAX) };
        let loaded = self.lay(&arch, &core.state.memory, &mut places, limits)?;
        for tensor in loaded.tensors.iter().filter(|tensor| !tensor.buffer.is_on_chip()) {
            core.state.memory.count_hbm(tensor)?;
        }
        let write = |core: &mut NeuronCore, number: usize, bytes: &[u8]| {
            let tensor = &loaded.tensors[number];
            if bytes.len() != tensor.byte_size() {
                let (name, got, needed) = (&tensor.name, bytes.len(), tensor.byte_size());
                return Err(Error::Value(format!("tensor {name:?} has {needed} bytes; {got} came")));
            }
            core.write_bytes(&View::whole(Arc::clone(tensor)), bytes)
        };
        for number in 0..loaded.tensors.len() {
            if let Some(bytes) = self.contents(number)? {
                write(core, number, &bytes)?;
            }
        }
        for (name, bytes) in inputs {
            let number = self.tensors.iter().position(|tensor| tensor.name == *name);
            let number = number.ok_or_else(|| Error::Value(format!("program {} has no tensor {name:?}", self.name)))?;
            write(core, number, bytes)?;
        }
        loaded.run(core)?;
        Ok(loaded)
    }
}
