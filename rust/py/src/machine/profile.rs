//! The timeline of a core as arrays.

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use trn3_machine::core::NeuronCore;
use trn3_profile::RunColumns;

use crate::profile::{instruction_arrays, transfer_arrays};

/// The arrays, by the names of the columns; those of transfers and of occupancy say so in front.
pub(crate) fn arrays<'py>(py: Python<'py>, core: &mut NeuronCore) -> PyResult<Bound<'py, PyDict>> {
    let run = RunColumns::of(core, "");
    let dict = instruction_arrays(py, &run.instructions)?;
    dict.set_item("latency_ps", run.latency_ps)?;
    dict.set_item("overhead_ps", run.overhead_ps)?;
    dict.set_item("opcodes", run.opcodes)?;
    dict.set_item("labels", run.labels)?;
    dict.set_item("sites", run.sites)?;
    for (name, column) in transfer_arrays(py, &run.transfers)?.iter() {
        let name: String = name.extract()?;
        dict.set_item(format!("transfer_{}", name.trim_start_matches("dma_")), column)?;
    }
    dict.set_item("critical", PyArray1::from_vec(py, run.critical))?;
    dict.set_item("occupancy_time_ps", PyArray1::from_iter(py, &run.occupancy.time_ps))?;
    dict.set_item("sbuf_bytes", PyArray1::from_iter(py, &run.occupancy.sbuf_bytes))?;
    dict.set_item("psum_bytes", PyArray1::from_iter(py, &run.occupancy.psum_bytes))?;
    Ok(dict)
}
