//! dma_copy, dma_transpose and dma_compute.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_machine::dtype::DType;
use trn3_machine::isa::dma::Options;
use trn3_machine::isa::dma::compute::DmaCompute;
use trn3_machine::isa::dma::copy::DmaCopy;
use trn3_machine::isa::dma::transpose::DmaTranspose;
use trn3_machine::memory::OutOfBounds;
use trn3_machine::timing::work::DescriptorMode;
use trn3_machine::view::View;

use crate::machine::core::PyCore;
use crate::machine::error::exception;
use crate::machine::instruction::PyInstruction;
use crate::machine::isa::issue;
use crate::machine::operand::{engine, op, tensor};

fn out_of_bounds(mode: &str) -> PyResult<OutOfBounds> {
    match mode {
        "error" => Ok(OutOfBounds::Error),
        "skip" => Ok(OutOfBounds::Skip),
        _ => Err(PyValueError::new_err(format!("oob_mode is {mode}; allowed: error, skip"))),
    }
}

fn descriptors(mode: &str) -> PyResult<Option<DescriptorMode>> {
    match mode {
        "unknown" => Ok(None),
        "none" => Ok(Some(DescriptorMode::Static)),
        "hwdge" => Ok(Some(DescriptorMode::Hardware)),
        "swdge" => Ok(Some(DescriptorMode::Software)),
        _ => Err(PyValueError::new_err(format!("dge_mode is {mode}; allowed: unknown, none, hwdge, swdge"))),
    }
}

fn options(priority: Option<u8>, oob_mode: &str, dge_mode: &str) -> PyResult<Options> {
    Ok(Options { priority, mode: descriptors(dge_mode)?, out_of_bounds: out_of_bounds(oob_mode)? })
}

#[pyfunction]
#[pyo3(signature = (core, dst, src, priority, oob_mode, dge_mode, engine, name))]
fn dma_copy(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    src: &Bound<'_, PyAny>,
    priority: Option<u8>,
    oob_mode: &str,
    dge_mode: &str,
    engine: Option<&str>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let (dst, src) = (tensor("dma_copy", "dst", dst)?, tensor("dma_copy", "src", src)?);
    let copy = DmaCopy {
        dst: packed_as(dst, src)?,
        src: packed_as(src, dst)?,
        options: options(priority, oob_mode, dge_mode)?,
        engine: self::engine(engine)?,
    };
    issue(core, &copy, name)
}

/// A view of plain words, where the other side is packed quads of that size, as these quads: frameworks that lack the
/// packed types pass unsigned integers in their place.
fn packed_as(view: &View, other: &View) -> PyResult<View> {
    let words = matches!(view.dtype, DType::UInt16 | DType::UInt32);
    if words && other.dtype.is_packed() && view.dtype.size() == other.dtype.size() {
        return view.reinterpret(other.dtype).map_err(exception);
    }
    Ok(view.clone())
}

#[pyfunction]
#[pyo3(signature = (core, dst, src, axes, priority, oob_mode, dge_mode, name))]
fn dma_transpose(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    src: &Bound<'_, PyAny>,
    axes: Option<Vec<usize>>,
    priority: Option<u8>,
    oob_mode: &str,
    dge_mode: &str,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let transpose = DmaTranspose {
        dst: tensor("dma_transpose", "dst", dst)?.clone(),
        src: tensor("dma_transpose", "src", src)?.clone(),
        axes,
        options: options(priority, oob_mode, dge_mode)?,
    };
    issue(core, &transpose, name)
}

#[pyfunction]
#[pyo3(signature = (core, dst, srcs, reduce_op, scales, unique_indices, oob_mode, name))]
fn dma_compute(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    srcs: Vec<Bound<'_, PyAny>>,
    reduce_op: &str,
    scales: Option<Vec<f64>>,
    unique_indices: bool,
    oob_mode: &str,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let compute = DmaCompute {
        dst: tensor("dma_compute", "dst", dst)?.clone(),
        srcs: srcs.iter().map(|source| tensor("dma_compute", "srcs", source).cloned()).collect::<PyResult<_>>()?,
        reduce_op: op(reduce_op)?,
        scales,
        unique_indices,
        options: options(None, oob_mode, "unknown")?,
    };
    issue(core, &compute, name)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(dma_copy, module)?)?;
    module.add_function(wrap_pyfunction!(dma_transpose, module)?)?;
    module.add_function(wrap_pyfunction!(dma_compute, module)?)
}
