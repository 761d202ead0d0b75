//! iota, affine_select, gathers, reductions over partitions and searches.

use pyo3::prelude::*;
use trn3_machine::isa::gpsimd::affine::{Affine, AffineSelect, Iota};
use trn3_machine::isa::gpsimd::gather::{LocalGather, NcNGather};
use trn3_machine::isa::gpsimd::reduce::{SequenceBounds, TensorPartitionReduce};
use trn3_machine::isa::gpsimd::search::{NonzeroWithCount, TopK};

use crate::machine::core::PyCore;
use crate::machine::instruction::PyInstruction;
use crate::machine::isa::issue;
use crate::machine::operand::{count, op, register_value, scalar, tensor};

#[pyfunction]
#[pyo3(signature = (core, dst, pattern, offset, channel_multiplier, name))]
fn iota(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    pattern: Vec<(i64, i64)>,
    offset: &Bound<'_, PyAny>,
    channel_multiplier: i64,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let affine = Affine { pattern, offset: register_value("iota", "offset", offset)?, channel_multiplier };
    issue(core, &Iota { dst: tensor("iota", "dst", dst)?.clone(), affine }, name)
}

#[pyfunction]
#[pyo3(signature = (core, dst, pattern, channel_multiplier, on_true_tile, on_false_value, cmp_op, offset, name))]
fn affine_select(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    pattern: Vec<(i64, i64)>,
    channel_multiplier: i64,
    on_true_tile: &Bound<'_, PyAny>,
    on_false_value: &Bound<'_, PyAny>,
    cmp_op: &str,
    offset: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let affine = Affine { pattern, offset: register_value("affine_select", "offset", offset)?, channel_multiplier };
    let select = AffineSelect {
        dst: tensor("affine_select", "dst", dst)?.clone(),
        affine,
        on_true_tile: tensor("affine_select", "on_true_tile", on_true_tile)?.clone(),
        on_false_value: scalar("affine_select", "on_false_value", on_false_value)?,
        cmp_op: op(cmp_op)?,
    };
    issue(core, &select, name)
}

#[pyfunction]
#[pyo3(signature = (core, dst, src_buffer, index, num_elem_per_idx, num_valid_indices, name))]
fn local_gather(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    src_buffer: &Bound<'_, PyAny>,
    index: &Bound<'_, PyAny>,
    num_elem_per_idx: i64,
    num_valid_indices: Option<i64>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let gather = LocalGather {
        dst: tensor("local_gather", "dst", dst)?.clone(),
        src_buffer: tensor("local_gather", "src_buffer", src_buffer)?.clone(),
        index: tensor("local_gather", "index", index)?.clone(),
        num_elem_per_idx: count("local_gather", "num_elem_per_idx", num_elem_per_idx)?,
        num_valid_indices: num_valid_indices
            .map(|indices| count("local_gather", "num_valid_indices", indices))
            .transpose()?,
    };
    issue(core, &gather, name)
}

#[pyfunction]
#[pyo3(signature = (core, dst, data, indices, name))]
fn nc_n_gather(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
    indices: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let gather = NcNGather {
        dst: tensor("nc_n_gather", "dst", dst)?.clone(),
        data: tensor("nc_n_gather", "data", data)?.clone(),
        indices: tensor("nc_n_gather", "indices", indices)?.clone(),
    };
    issue(core, &gather, name)
}

#[pyfunction]
#[pyo3(signature = (core, dst, op, data, name))]
fn tensor_partition_reduce(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    op: &str,
    data: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let reduce = TensorPartitionReduce {
        dst: tensor("tensor_partition_reduce", "dst", dst)?.clone(),
        op: self::op(op)?,
        data: tensor("tensor_partition_reduce", "data", data)?.clone(),
    };
    issue(core, &reduce, name)
}

#[pyfunction]
#[pyo3(signature = (core, dst, segment_ids, name))]
fn sequence_bounds(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    segment_ids: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let bounds = SequenceBounds {
        dst: tensor("sequence_bounds", "dst", dst)?.clone(),
        segment_ids: tensor("sequence_bounds", "segment_ids", segment_ids)?.clone(),
    };
    issue(core, &bounds, name)
}

#[pyfunction]
#[pyo3(signature = (core, dst, src, index_offset, padding_val, name))]
fn nonzero_with_count(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    src: &Bound<'_, PyAny>,
    index_offset: i64,
    padding_val: i64,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let dst = tensor("nonzero_with_count", "dst", dst)?.clone();
    let src = tensor("nonzero_with_count", "src", src)?.clone();
    let nonzero = core
        .get()
        .with(core.py(), |machine, _| NonzeroWithCount::new(dst, src, index_offset, padding_val, machine.arch()))?;
    issue(core, &nonzero, name)
}

#[pyfunction]
#[pyo3(signature = (core, val_dst, idx_dst, src, n, name))]
fn topk(
    core: &Bound<'_, PyCore>,
    val_dst: &Bound<'_, PyAny>,
    idx_dst: &Bound<'_, PyAny>,
    src: &Bound<'_, PyAny>,
    n: i64,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let topk = TopK {
        val_dst: tensor("topk", "val_dst", val_dst)?.clone(),
        idx_dst: tensor("topk", "idx_dst", idx_dst)?.clone(),
        src: tensor("topk", "src", src)?.clone(),
        n: count("topk", "n", n)?,
    };
    issue(core, &topk, name)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(iota, module)?)?;
    module.add_function(wrap_pyfunction!(affine_select, module)?)?;
    module.add_function(wrap_pyfunction!(local_gather, module)?)?;
    module.add_function(wrap_pyfunction!(nc_n_gather, module)?)?;
    module.add_function(wrap_pyfunction!(tensor_partition_reduce, module)?)?;
    module.add_function(wrap_pyfunction!(sequence_bounds, module)?)?;
    module.add_function(wrap_pyfunction!(nonzero_with_count, module)?)?;
    module.add_function(wrap_pyfunction!(topk, module)?)
}
