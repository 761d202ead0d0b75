//! Programs compiled for a device's machine.

use std::sync::Arc;

use trn3_compiler::{CompileOptions, compile_program};
use trn3_machine::Program;
use trn3_machine::program::Limits;

use super::Device;
use crate::error::{Error, ErrorKind, Result};

/// A compiled program, and what the compiler did, as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceCompilation {
    /// The program, for [`Device::load`].
    pub program: String,
    /// Level, times in microseconds (`as_written_us`, `compiled_us`, `bound_us`), `spilled_bytes`, and what each of `passes`
    /// counted; `verified` is null.
    pub report: String,
}

impl Device {
    /// Compiles a program (JSON) at a level of the compiler: `as-written`, `nki` or `neuronx-cc`. It gives the same bits.
    ///
    /// # Errors
    /// [`ErrorKind::Value`] for a level that there is not, and names the step and the field of a program that the machine
    /// refuses; [`ErrorKind::Capacity`] where the operands of one instruction do not fit; [`ErrorKind::Unsupported`] for one
    /// that meets other cores, calls a function on GpSimdE or gives a tensor on chip.
    ///
    /// ```
    /// use trn3_embed::{Device, DeviceSpec};
    ///
    /// let program = br#"{"format": "trn3-program", "version": 2, "name": "copy",
    ///   "tensors": [
    ///     {"name": "x", "space": "hbm", "shape": [128, 2], "dtype": "float32", "role": "input"},
    ///     {"name": "out", "space": "hbm", "shape": [128, 2], "dtype": "float32", "role": "output"},
    ///     {"name": "tile", "space": "sbuf", "shape": [128, 2], "dtype": "float32"}],
    ///   "steps": [{"op": "dma_copy", "dst": "tile", "src": "x"}, {"op": "dma_copy", "dst": "out", "src": "tile"}]}"#;
    /// let mut device = Device::new(DeviceSpec::default())?;
    /// let compiled = device.compile(program, "neuronx-cc")?;
    /// assert!(compiled.report.starts_with(r#"{"level":"neuronx-cc","#));
    /// device.load(compiled.program.as_bytes())?;
    /// # Ok::<(), trn3_embed::Error>(())
    /// ```
    pub fn compile(&self, json: &[u8], level: &str) -> Result<DeviceCompilation> {
        let program = Program::from_json(json, &Limits::default())?;
        let options = CompileOptions { level: level.parse()?, ..Default::default() };
        let (compiled, report) = compile_program(&program, &Arc::clone(&self.arch), &options)?;
        let report = serde_json::to_string(&report);
        let report = report.map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
        Ok(DeviceCompilation { program: compiled.to_json()?, report })
    }
}
