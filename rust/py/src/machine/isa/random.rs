//! rng, rand2 and the state of the generators.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_machine::engine::Engine;
use trn3_machine::isa::random::{Rand2, RandGetState, RandSetState, Rng, SetRngSeed};

use crate::machine::core::PyCore;
use crate::machine::instruction::PyInstruction;
use crate::machine::isa::issue;
use crate::machine::operand::{engine, scalar, tensor};

fn named(name: &str) -> PyResult<Engine> {
    engine(Some(name))?.ok_or_else(|| PyValueError::new_err("engine is unknown; allowed: vector, gpsimd"))
}

#[pyfunction]
#[pyo3(signature = (core, dst, engine, name))]
fn rng(core: &Bound<'_, PyCore>, dst: &Bound<'_, PyAny>, engine: &str, name: Option<&str>) -> PyResult<PyInstruction> {
    issue(core, &Rng { dst: tensor("rng", "dst", dst)?.clone(), engine: named(engine)? }, name)
}

#[pyfunction]
#[pyo3(signature = (core, dst, min, max, name))]
fn rand2(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    min: &Bound<'_, PyAny>,
    max: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let dst = tensor("rand2", "dst", dst)?.clone();
    issue(core, &Rand2 { dst, min: scalar("rand2", "min", min)?, max: scalar("rand2", "max", max)? }, name)
}

#[pyfunction]
#[pyo3(signature = (core, src_seeds, name))]
fn set_rng_seed(core: &Bound<'_, PyCore>, src_seeds: &Bound<'_, PyAny>, name: Option<&str>) -> PyResult<PyInstruction> {
    issue(core, &SetRngSeed { src_seeds: tensor("set_rng_seed", "src_seeds", src_seeds)?.clone() }, name)
}

#[pyfunction]
#[pyo3(signature = (core, src_seeds, engine, name))]
fn rand_set_state(
    core: &Bound<'_, PyCore>,
    src_seeds: &Bound<'_, PyAny>,
    engine: &str,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let src_seeds = tensor("rand_set_state", "src_seeds", src_seeds)?.clone();
    issue(core, &RandSetState { src_seeds, engine: named(engine)? }, name)
}

#[pyfunction]
#[pyo3(signature = (core, dst, engine, name))]
fn rand_get_state(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    engine: &str,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    issue(core, &RandGetState { dst: tensor("rand_get_state", "dst", dst)?.clone(), engine: named(engine)? }, name)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(rng, module)?)?;
    module.add_function(wrap_pyfunction!(rand2, module)?)?;
    module.add_function(wrap_pyfunction!(set_rng_seed, module)?)?;
    module.add_function(wrap_pyfunction!(rand_set_state, module)?)?;
    module.add_function(wrap_pyfunction!(rand_get_state, module)?)
}
