//! Programs on cores: recorded side by side, and run there.

use std::collections::BTreeMap;
use std::sync::Arc;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use trn3_machine::core::NeuronCore;
use trn3_machine::isa::custom::{GpSimdFunction, TileBytes};
use trn3_machine::program::{Limits, Loaded, Program, Recorder, run_together};
use trn3_machine::view::View;

use crate::door;
use crate::machine::chip::with_all;
use crate::machine::core::PyCore;
use crate::machine::operand::tensor;

/// Names, bytes, shapes and types of what a program gave.
type Output<'py> = (String, Bound<'py, PyArray1<u8>>, Vec<usize>, String);
type Plain = (String, Vec<u8>, Vec<usize>, String);
/// Bytes of tensors by name.
pub(crate) type Inputs<'py> = Vec<(String, PyReadonlyArray1<'py, u8>)>;

/// Calls `function(inputs, outputs)`: of inputs their bytes, types and shapes, of outputs their types and shapes; it returns
/// one bytes object an output.
struct NamedFunction(Py<PyAny>);

impl GpSimdFunction for NamedFunction {
    fn call(&self, inputs: &[TileBytes], outputs: &mut [TileBytes]) -> Result<(), String> {
        let all: Vec<[usize; 2]> =
            inputs.iter().chain(&*outputs).map(|tile| [tile.partitions, tile.elements]).collect();
        self.call_shaped(inputs, outputs, &all.iter().map(|shape| &shape[..]).collect::<Vec<_>>())
    }

    fn call_shaped(&self, inputs: &[TileBytes], outputs: &mut [TileBytes], shapes: &[&[usize]]) -> Result<(), String> {
        Python::attach(|py| {
            let given: Vec<_> = inputs
                .iter()
                .zip(shapes)
                .map(|(tile, shape)| (PyBytes::new(py, &tile.bytes), tile.dtype.name(), shape.to_vec()))
                .collect();
            let wanted = outputs.iter().zip(shapes.iter().skip(inputs.len()));
            let wanted: Vec<_> = wanted.map(|(tile, shape)| (tile.dtype.name(), shape.to_vec())).collect();
            let arguments = (PyList::new(py, given)?, PyList::new(py, wanted)?);
            let results: Vec<Vec<u8>> = self.0.bind(py).call1(arguments)?.extract()?;
            for (output, result) in outputs.iter_mut().zip(results) {
                output.bytes = result;
            }
            Ok::<(), PyErr>(())
        })
        .map_err(|error| error.to_string())
    }
}

/// Functions of Python's by name.
pub(super) fn registry(functions: Vec<(String, Py<PyAny>)>) -> BTreeMap<String, Arc<dyn GpSimdFunction>> {
    let named = |(name, function)| (name, Arc::new(NamedFunction(function)) as Arc<dyn GpSimdFunction>);
    functions.into_iter().map(named).collect()
}

/// The bytes, for work without the interpreter.
pub(crate) fn owned(inputs: &Inputs<'_>) -> PyResult<Vec<(String, Vec<u8>)>> {
    inputs.iter().map(|(name, bytes)| Ok((name.clone(), bytes.as_slice()?.to_vec()))).collect()
}

fn outputs_of(core: &mut NeuronCore, loaded: &Loaded) -> trn3_machine::Result<Vec<Plain>> {
    let wanted = loaded.outputs.iter().filter(|_| core.options.values).cloned().collect::<Vec<_>>();
    let read = |(name, view): (String, trn3_machine::view::View)| {
        let (shape, dtype) = (view.shape.to_vec(), view.dtype.to_string());
        Ok((name, core.state.peek_bytes(&view)?, shape, dtype))
    };
    wanted.into_iter().map(read).collect()
}

fn arrays(py: Python<'_>, outputs: Vec<Plain>) -> Vec<Output<'_>> {
    let array = |(name, bytes, shape, dtype)| (name, PyArray1::from_vec(py, bytes), shape, dtype);
    outputs.into_iter().map(array).collect()
}

/// Runs a program (JSON) on a core, from a new start, with the functions that it calls; inputs are the bytes of its tensors by
/// name. Returns its outputs' names, bytes, shapes and types; none without values.
#[pyfunction]
#[pyo3(signature = (core, program, inputs, functions=Vec::new()))]
fn run_program<'py>(
    py: Python<'py>,
    core: Py<PyCore>,
    program: &str,
    inputs: Inputs<'py>,
    functions: Vec<(String, Py<PyAny>)>,
) -> PyResult<Vec<Output<'py>>> {
    let (inputs, functions) = (owned(&inputs)?, registry(functions));
    let mut outputs = Vec::new();
    with_all(py, &[core], |cores| {
        let limits = Limits::default();
        let program = Program::from_json(program.as_bytes(), &limits)?;
        for core in cores {
            let loaded = program.run_with(core, &inputs, &functions, &limits)?;
            outputs = outputs_of(core, &loaded)?;
        }
        Ok(())
    })?;
    Ok(arrays(py, outputs))
}

/// Runs the programs (JSON) of the cores of a logical core on these, side by side, as [`run_program`] does one. Returns the
/// outputs of each.
#[pyfunction]
#[pyo3(signature = (cores, programs, inputs, functions=Vec::new()))]
fn run_programs<'py>(
    py: Python<'py>,
    cores: Vec<Py<PyCore>>,
    programs: Vec<String>,
    inputs: Inputs<'py>,
    functions: Vec<(String, Py<PyAny>)>,
) -> PyResult<Vec<Vec<Output<'py>>>> {
    let (inputs, functions) = (owned(&inputs)?, registry(functions));
    let mut outputs = Vec::new();
    with_all(py, &cores, |cores| {
        let limits = Limits::default();
        let read = programs.iter().map(|text| Program::from_json(text.as_bytes(), &limits));
        let programs = read.collect::<trn3_machine::Result<Vec<_>>>()?;
        let ran = run_together(&programs, cores, &inputs, &functions, &limits)?;
        outputs = ran
            .iter()
            .zip(cores)
            .map(|(loaded, core)| outputs_of(core, loaded))
            .collect::<trn3_machine::Result<_>>()?;
        Ok(())
    })?;
    Ok(outputs.into_iter().map(|outputs| arrays(py, outputs)).collect())
}

/// The programs recorded on the cores of a logical core, as JSON, and ends their recording; arguments and results as of
/// `NeuronCore.recorded`.
#[pyfunction]
fn recorded_together(
    py: Python<'_>,
    cores: Vec<Py<PyCore>>,
    arguments: Vec<(u64, bool)>,
    results: Vec<(String, Bound<'_, PyAny>)>,
) -> PyResult<Vec<String>> {
    let results = named_views(&results)?;
    let recorders = cores.iter().map(|core| core.bind(py).get().take_recorder()).collect::<PyResult<Vec<_>>>()?;
    door::run(py, || {
        let programs = Recorder::finish_together(recorders, &arguments, &results)?;
        programs.iter().map(Program::to_json).collect::<trn3_machine::Result<Vec<_>>>()
    })
}

/// Results of a kernel, by name.
pub(crate) fn named_views(results: &[(String, Bound<'_, PyAny>)]) -> PyResult<Vec<(String, View)>> {
    let view = |(name, object): &(String, Bound<'_, PyAny>)| {
        Ok((name.clone(), self::tensor("recorded", "result", object)?.clone()))
    };
    results.iter().map(view).collect()
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(run_program, module)?)?;
    module.add_function(wrap_pyfunction!(run_programs, module)?)?;
    module.add_function(wrap_pyfunction!(recorded_together, module)?)
}
