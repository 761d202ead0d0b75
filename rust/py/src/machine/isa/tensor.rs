//! nc_matmul, nc_matmul_mx, nc_matmul_sparse and nc_transpose.

use pyo3::prelude::*;
use trn3_machine::isa::tensor::Tile;
use trn3_machine::isa::tensor::matmul::NcMatmul;
use trn3_machine::isa::tensor::matmul_mx::NcMatmulMx;
use trn3_machine::isa::tensor::matmul_sparse::NcMatmulSparse;
use trn3_machine::isa::tensor::transpose::NcTranspose;

use crate::machine::core::PyCore;
use crate::machine::instruction::PyInstruction;
use crate::machine::isa::issue;
use crate::machine::operand::{engine, tensor};

type Pair = (usize, usize);

fn tile(tile: Option<(Pair, Pair)>) -> Option<Tile> {
    tile.map(|(position, size)| Tile { position, size })
}

// The instruction's own arguments, one for one.
#[allow(clippy::too_many_arguments)]
#[pyfunction]
#[pyo3(signature = (
    core, dst, stationary, moving, is_stationary_onezero, is_moving_onezero, is_transpose, accumulate, tile, double_row, name
))]
fn nc_matmul(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    stationary: &Bound<'_, PyAny>,
    moving: &Bound<'_, PyAny>,
    is_stationary_onezero: bool,
    is_moving_onezero: bool,
    is_transpose: bool,
    accumulate: Option<bool>,
    tile: Option<(Pair, Pair)>,
    double_row: bool,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let matmul = NcMatmul {
        dst: tensor("nc_matmul", "dst", dst)?.clone(),
        stationary: tensor("nc_matmul", "stationary", stationary)?.clone(),
        moving: tensor("nc_matmul", "moving", moving)?.clone(),
        is_stationary_onezero,
        is_moving_onezero,
        is_transpose,
        accumulate,
        tile: self::tile(tile),
        double_row,
    };
    issue(core, &matmul, name)
}

#[pyfunction]
#[pyo3(signature = (core, dst, stationary, moving, stationary_scale, moving_scale, tile, accumulate, name))]
fn nc_matmul_mx(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    stationary: &Bound<'_, PyAny>,
    moving: &Bound<'_, PyAny>,
    stationary_scale: &Bound<'_, PyAny>,
    moving_scale: &Bound<'_, PyAny>,
    tile: Option<(Pair, Pair)>,
    accumulate: Option<bool>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let operand = |argument: &str, object: &Bound<'_, PyAny>| tensor("nc_matmul_mx", argument, object).cloned();
    let matmul = NcMatmulMx {
        dst: operand("dst", dst)?,
        stationary: operand("stationary", stationary)?,
        moving: operand("moving", moving)?,
        stationary_scale: operand("stationary_scale", stationary_scale)?,
        moving_scale: operand("moving_scale", moving_scale)?,
        tile: self::tile(tile),
        accumulate,
    };
    issue(core, &matmul, name)
}

#[pyfunction]
#[pyo3(signature = (core, dst, stationary, moving, tags, pattern, accumulate, name))]
fn nc_matmul_sparse(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    stationary: &Bound<'_, PyAny>,
    moving: &Bound<'_, PyAny>,
    tags: &Bound<'_, PyAny>,
    pattern: &str,
    accumulate: Option<bool>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let operand = |argument: &str, object: &Bound<'_, PyAny>| tensor("nc_matmul_sparse", argument, object).cloned();
    let matmul = NcMatmulSparse {
        dst: operand("dst", dst)?,
        stationary: operand("stationary", stationary)?,
        moving: operand("moving", moving)?,
        tags: operand("tags", tags)?,
        pattern: pattern.parse().map_err(crate::error::exception)?,
        accumulate,
    };
    issue(core, &matmul, name)
}

#[pyfunction]
#[pyo3(signature = (core, dst, data, engine, name))]
fn nc_transpose(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
    engine: Option<&str>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let dst = tensor("nc_transpose", "dst", dst)?.clone();
    let data = tensor("nc_transpose", "data", data)?.clone();
    issue(core, &NcTranspose { dst, data, engine: self::engine(engine)? }, name)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(nc_matmul, module)?)?;
    module.add_function(wrap_pyfunction!(nc_matmul_mx, module)?)?;
    module.add_function(wrap_pyfunction!(nc_matmul_sparse, module)?)?;
    module.add_function(wrap_pyfunction!(nc_transpose, module)?)
}
