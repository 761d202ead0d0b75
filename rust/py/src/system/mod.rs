//! Bindings of systems: facts, fabrics, collectives, energy. Descriptions and results cross as dictionaries and lists,
//! arrays as arrays.

mod chakra;
mod cluster;
pub(crate) mod collective;
mod energy;
pub(crate) mod error;
mod fabric;
mod flow;

use pyo3::prelude::*;

/// Adds the submodule `system`.
pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = parent.py();
    let module = PyModule::new(py, "system")?;
    error::register(&module)?;
    chakra::register(&module)?;
    cluster::register(&module)?;
    collective::register(&module)?;
    energy::register(&module)?;
    fabric::register(&module)?;
    flow::register(&module)?;
    parent.add_submodule(&module)?;
    // Submodules made in code are importable by name only once the interpreter knows them.
    py.import("sys")?.getattr("modules")?.set_item("trn3._trn3.system", &module)
}
