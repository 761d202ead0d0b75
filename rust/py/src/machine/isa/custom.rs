//! A Python function as a GpSimdE instruction.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use trn3_machine::core::NeuronCore;
use trn3_machine::isa::custom::{GpSimdCall, GpSimdFunction, TileBytes, instruction_name};

use crate::machine::core::PyCore;
use crate::machine::instruction::PyInstruction;
use crate::machine::isa::issue;
use crate::machine::operand::tensor;

/// Calls `function(inputs)` with a list of bytes objects; it returns one bytes object an output.
struct PythonFunction {
    function: Py<PyAny>,
    is_nameable: bool,
}

impl GpSimdFunction for PythonFunction {
    fn call(&self, inputs: &[TileBytes], outputs: &mut [TileBytes]) -> Result<(), String> {
        Python::attach(|py| {
            let tiles: Vec<Bound<'_, PyBytes>> = inputs.iter().map(|tile| PyBytes::new(py, &tile.bytes)).collect();
            let results: Vec<Vec<u8>> = self.function.bind(py).call1((PyList::new(py, tiles)?,))?.extract()?;
            for (output, result) in outputs.iter_mut().zip(results) {
                output.bytes = result;
            }
            Ok::<(), PyErr>(())
        })
        .map_err(|error| error.to_string())
    }

    fn is_nameable(&self) -> bool {
        self.is_nameable
    }
}

/// `nameable`: the function depends on its inputs alone, so that a program can hold the call by its name.
#[pyfunction]
#[pyo3(signature = (core, function, opcode, outputs, inputs, cycles, name, nameable=false))]
#[allow(clippy::too_many_arguments, reason = "they are Python's")]
fn gpsimd_call(
    core: &Bound<'_, PyCore>,
    function: Py<PyAny>,
    opcode: &str,
    outputs: Vec<Bound<'_, PyAny>>,
    inputs: Vec<Bound<'_, PyAny>>,
    cycles: Option<u64>,
    name: Option<&str>,
    nameable: bool,
) -> PyResult<PyInstruction> {
    let views = |argument: &str, tensors: &[Bound<'_, PyAny>]| {
        tensors.iter().map(|object| tensor(opcode, argument, object).cloned()).collect::<PyResult<Vec<_>>>()
    };
    let (outputs, inputs) = (views("outputs", &outputs)?, views("inputs", &inputs)?);
    let one_pass =
        |core: &mut NeuronCore, _: &mut _| Ok(GpSimdCall::cycles_of_one_pass(core.arch(), &outputs, &inputs));
    let cycles = cycles.map_or_else(|| core.get().with(core.py(), one_pass), Ok)?;
    let mut call = GpSimdCall {
        name: instruction_name(opcode),
        outputs,
        inputs,
        cycles,
        function: Arc::new(PythonFunction { function, is_nameable: nameable }),
    };
    issue(core, &mut call, name)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(gpsimd_call, module)?)
}
