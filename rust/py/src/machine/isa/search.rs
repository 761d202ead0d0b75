//! Searching, statistics, shuffling, dropout and quantisation.
#![allow(clippy::too_many_arguments)] // One for each argument of the instruction.

use pyo3::prelude::*;
use trn3_machine::isa::dropout::Dropout;
use trn3_machine::isa::quantize::QuantizeMx;
use trn3_machine::isa::search::{FindIndex8, MatchReplace8, Max8};
use trn3_machine::isa::shuffle::StreamShuffle;
use trn3_machine::isa::statistics::{BnAggr, BnStats};

use crate::machine::core::PyCore;
use crate::machine::instruction::PyInstruction;
use crate::machine::isa::issue;
use crate::machine::operand::{optional_tensor, scalar, tensor};

#[pyfunction]
fn max8(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    src: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction = Max8 { dst: tensor("max8", "dst", dst)?.clone(), src: tensor("max8", "src", src)?.clone() };
    issue(core, &instruction, name)
}

#[pyfunction]
fn nc_find_index8(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
    vals: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction = FindIndex8 {
        dst: tensor("nc_find_index8", "dst", dst)?.clone(),
        data: tensor("nc_find_index8", "data", data)?.clone(),
        vals: tensor("nc_find_index8", "vals", vals)?.clone(),
    };
    issue(core, &instruction, name)
}

#[pyfunction]
fn nc_match_replace8(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
    vals: &Bound<'_, PyAny>,
    imm: f64,
    dst_idx: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction = MatchReplace8 {
        dst: tensor("nc_match_replace8", "dst", dst)?.clone(),
        data: tensor("nc_match_replace8", "data", data)?.clone(),
        vals: tensor("nc_match_replace8", "vals", vals)?.clone(),
        imm,
        dst_idx: optional_tensor("nc_match_replace8", "dst_idx", dst_idx)?,
    };
    issue(core, &instruction, name)
}

#[pyfunction]
fn bn_stats(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction =
        BnStats { dst: tensor("bn_stats", "dst", dst)?.clone(), data: tensor("bn_stats", "data", data)?.clone() };
    issue(core, &instruction, name)
}

#[pyfunction]
fn bn_aggr(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction =
        BnAggr { dst: tensor("bn_aggr", "dst", dst)?.clone(), data: tensor("bn_aggr", "data", data)?.clone() };
    issue(core, &instruction, name)
}

#[pyfunction]
fn nc_stream_shuffle(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    src: &Bound<'_, PyAny>,
    shuffle_mask: Vec<i64>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction = StreamShuffle {
        dst: tensor("nc_stream_shuffle", "dst", dst)?.clone(),
        src: tensor("nc_stream_shuffle", "src", src)?.clone(),
        mask: shuffle_mask,
    };
    issue(core, &instruction, name)
}

#[pyfunction]
fn dropout(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
    prob: &Bound<'_, PyAny>,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction = Dropout {
        dst: tensor("dropout", "dst", dst)?.clone(),
        data: tensor("dropout", "data", data)?.clone(),
        prob: scalar("dropout", "prob", prob)?,
    };
    issue(core, &instruction, name)
}

#[pyfunction]
fn quantize_mx(
    core: &Bound<'_, PyCore>,
    dst: &Bound<'_, PyAny>,
    src: &Bound<'_, PyAny>,
    dst_scale: &Bound<'_, PyAny>,
    ocp_rule: bool,
    name: Option<&str>,
) -> PyResult<PyInstruction> {
    let instruction = QuantizeMx {
        dst: tensor("quantize_mx", "dst", dst)?.clone(),
        src: tensor("quantize_mx", "src", src)?.clone(),
        dst_scale: tensor("quantize_mx", "dst_scale", dst_scale)?.clone(),
        ocp_rule,
    };
    issue(core, &instruction, name)
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(max8, module)?)?;
    module.add_function(wrap_pyfunction!(nc_find_index8, module)?)?;
    module.add_function(wrap_pyfunction!(nc_match_replace8, module)?)?;
    module.add_function(wrap_pyfunction!(bn_stats, module)?)?;
    module.add_function(wrap_pyfunction!(bn_aggr, module)?)?;
    module.add_function(wrap_pyfunction!(nc_stream_shuffle, module)?)?;
    module.add_function(wrap_pyfunction!(dropout, module)?)?;
    module.add_function(wrap_pyfunction!(quantize_mx, module)?)?;
    Ok(())
}
