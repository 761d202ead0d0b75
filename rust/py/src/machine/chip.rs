//! Cores of one chip: timed together, on one HBM.

use pyo3::prelude::*;
use trn3_machine::chip;
use trn3_machine::core::NeuronCore;

use crate::machine::core::{PyCore, together};

/// Runs something of several cores at once that is no step of theirs.
pub(super) fn with_all(
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

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(keep_timed, module)?)?;
    module.add_function(wrap_pyfunction!(time_together, module)?)?;
    module.add_function(wrap_pyfunction!(leave_hbm_to, module)?)
}
