//! Bindings of systems: facts, fabrics, collectives, plans. Descriptions and results cross as JSON text, arrays as arrays.

mod cluster;
mod collective;
mod energy;
pub(crate) mod error;
mod fabric;
mod facts;
mod flow;
mod planner;
mod replay;
mod training;

use pyo3::prelude::*;

/// Adds the submodule `system`.
pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = parent.py();
    let module = PyModule::new(py, "system")?;
    error::register(&module)?;
    cluster::register(&module)?;
    collective::register(&module)?;
    energy::register(&module)?;
    fabric::register(&module)?;
    facts::register(&module)?;
    flow::register(&module)?;
    planner::register(&module)?;
    replay::register(&module)?;
    training::register(&module)?;
    parent.add_submodule(&module)?;
    // Submodules made in code are importable by name only once the interpreter knows them.
    py.import("sys")?.getattr("modules")?.set_item("trn3._trn3.system", &module)
}
