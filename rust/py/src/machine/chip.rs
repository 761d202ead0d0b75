//! Cores of one chip: timed together, on one HBM.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use trn3_machine::chip;
use trn3_machine::core::NeuronCore;
use trn3_machine::program::{Limits, Program};

use crate::machine::core::{PyCore, together};

fn with_all(
    py: Python<'_>,
    cores: &[Py<PyCore>],
    work: impl FnOnce(&mut [&mut NeuronCore]) -> trn3_machine::Result<()> + Send,
) -> PyResult<()> {
    let owners: Vec<&PyCore> = cores.iter().map(|core| core.bind(py).get()).collect();
    let (names, calls) = (vec![None; owners.len()], vec![None; owners.len()]);
    together(py, &owners, &names, &calls, "", |mut cores, _| work(&mut cores).map(|()| vec![0; cores.len()]))?;
    Ok(())
}

/// Keeps what the time of each core is made of from here on.
#[pyfunction]
fn keep_timed(py: Python<'_>, cores: Vec<Py<PyCore>>) -> PyResult<()> {
    with_all(py, &cores, |cores| {
        cores.iter_mut().for_each(|core| core.keep_timed());
        Ok(())
    })
}

/// Times cores that kept what their time is made of once more: they share the bandwidth of HBM.
#[pyfunction]
fn time_together(py: Python<'_>, cores: Vec<Py<PyCore>>) -> PyResult<()> {
    with_all(py, &cores, chip::time_together)
}

/// Counts the most HBM that another core ever held as taken; messages call it `who`.
#[pyfunction]
fn leave_hbm_to(py: Python<'_>, core: Py<PyCore>, other: Py<PyCore>, who: String) -> PyResult<()> {
    with_all(py, &[core, other], |cores| {
        if let [core, other] = cores {
            core.state.memory.leave_hbm_to(&other.state.memory, &who);
        }
        Ok(())
    })
}

type Output<'py> = (String, Bound<'py, PyArray1<u8>>, Vec<usize>, String);

/// Runs a program (JSON) on a core, from a new start; inputs are the bytes of its tensors by name. Returns its outputs'
/// names, bytes, shapes and types; none without values.
#[pyfunction]
fn run_program<'py>(
    py: Python<'py>,
    core: Py<PyCore>,
    program: &str,
    inputs: Vec<(String, PyReadonlyArray1<'py, u8>)>,
) -> PyResult<Vec<Output<'py>>> {
    let inputs = inputs.iter().map(|(name, bytes)| Ok((name.clone(), bytes.as_slice()?.to_vec())));
    let inputs = inputs.collect::<PyResult<Vec<_>>>()?;
    let mut outputs = Vec::new();
    with_all(py, &[core], |cores| {
        let limits = Limits::default();
        let program = Program::from_json(program.as_bytes(), &limits)?;
        for core in cores {
            let loaded = program.run_on(core, &inputs, &limits)?;
            for (name, view) in loaded.outputs.iter().filter(|_| core.options.values) {
                let (shape, dtype) = (view.shape.to_vec(), view.dtype.to_string());
                outputs.push((name.clone(), core.state.peek_bytes(view)?, shape, dtype));
            }
        }
        Ok(())
    })?;
    let array = |(name, bytes, shape, dtype)| (name, PyArray1::from_vec(py, bytes), shape, dtype);
    Ok(outputs.into_iter().map(array).collect())
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(keep_timed, module)?)?;
    module.add_function(wrap_pyfunction!(time_together, module)?)?;
    module.add_function(wrap_pyfunction!(leave_hbm_to, module)?)?;
    module.add_function(wrap_pyfunction!(run_program, module)?)
}
