//! Execution traces: they come and leave with the fields of Python's classes; what came of a replay leaves as a mapping.

use std::collections::BTreeMap;

use numpy::PyArray1;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyString, PyTuple};
use trn3_system::Error;
use trn3_system::chakra::{
    ChakraAttribute, ChakraInfo, ChakraMetadata, ChakraNode, ChakraOptions, ChakraScalar, ChakraTrace, ChakraValue,
    ComputeTime, MemoryTime, PlannedStep, RankPeaks, replay_traces,
};
use trn3_system::replay::Algorithms;

use super::collective::PyCollectives;
use super::error::exception;
use crate::door;
use crate::value::from_python;

/// Adds the functions of this file.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(chakra_encode, module)?)?;
    module.add_function(wrap_pyfunction!(chakra_decode, module)?)?;
    module.add_function(wrap_pyfunction!(chakra_order, module)?)?;
    module.add_function(wrap_pyfunction!(chakra_step, module)?)?;
    module.add_function(wrap_pyfunction!(chakra_replay, module)?)
}

/// A value, its kind, and what tells of it.
#[derive(FromPyObject)]
struct AttributeParts<'py> {
    name: String,
    value: Bound<'py, PyAny>,
    kind: String,
    doc: String,
}

#[derive(FromPyObject)]
struct InfoParts {
    values: String,
    shapes: String,
    types: String,
}

#[derive(FromPyObject)]
struct NodeParts<'py> {
    id: u64,
    name: String,
    #[pyo3(attribute("type"))]
    kind: i32,
    ctrl_deps: Vec<i128>,
    data_deps: Vec<i128>,
    start_time_micros: u64,
    duration_micros: u64,
    inputs: Option<InfoParts>,
    outputs: Option<InfoParts>,
    attributes: Vec<AttributeParts<'py>>,
    storage: Option<Vec<u8>>,
}

#[derive(FromPyObject)]
struct TraceParts<'py> {
    version: String,
    attributes: Vec<AttributeParts<'py>>,
    nodes: Vec<NodeParts<'py>>,
}

impl TraceParts<'_> {
    /// The trace; `what` is its name in errors.
    fn trace(self, what: &str) -> PyResult<ChakraTrace> {
        let count = self.nodes.len();
        let node = |parts: NodeParts<'_>| {
            let deps = |deps: &[i128]| -> PyResult<Vec<u64>> {
                let known = |&dep: &i128| {
                    let (id, name) = (parts.id, &parts.name);
                    u64::try_from(dep).map_err(|_| {
                        let text = format!(
                            "{what}: node {id} ({name:?}) waits for {dep}, which is no node; there are {count}"
                        );
                        exception(Error::Trace(text))
                    })
                };
                deps.iter().map(known).collect()
            };
            let info = |info: Option<InfoParts>| {
                info.map(|InfoParts { values, shapes, types }| ChakraInfo { values, shapes, types })
            };
            Ok(ChakraNode {
                id: parts.id,
                ctrl_deps: deps(&parts.ctrl_deps)?,
                data_deps: deps(&parts.data_deps)?,
                name: parts.name,
                kind: parts.kind,
                start_time_micros: parts.start_time_micros,
                duration_micros: parts.duration_micros,
                inputs: info(parts.inputs),
                outputs: info(parts.outputs),
                attributes: attributes(parts.attributes)?,
                storage: parts.storage,
            })
        };
        let metadata = ChakraMetadata { version: self.version, attributes: attributes(self.attributes)? };
        Ok(ChakraTrace { metadata, nodes: self.nodes.into_iter().map(node).collect::<PyResult<_>>()? })
    }
}

fn attributes(parts: Vec<AttributeParts<'_>>) -> PyResult<Vec<ChakraAttribute>> {
    let attribute = |parts: AttributeParts<'_>| {
        let (scalars, is_list) = match parts.value.cast::<PyTuple>() {
            Ok(values) => (values.iter().map(|value| scalar(&value)).collect::<PyResult<_>>()?, true),
            Err(_) => (vec![scalar(&parts.value)?], false),
        };
        let value = ChakraValue::of(&parts.kind, scalars, is_list).ok_or_else(|| {
            let text = format!("attribute {}: {} is no {}", parts.name, parts.value, parts.kind);
            PyValueError::new_err(text)
        })?;
        Ok(ChakraAttribute { name: parts.name, doc: parts.doc, value: Some(value) })
    };
    parts.into_iter().map(attribute).collect()
}

fn scalar(value: &Bound<'_, PyAny>) -> PyResult<ChakraScalar> {
    Ok(if value.is_instance_of::<PyBool>() {
        ChakraScalar::Flag(value.extract()?)
    } else if value.is_instance_of::<PyInt>() {
        ChakraScalar::Whole(value.extract()?)
    } else if value.is_instance_of::<PyFloat>() {
        ChakraScalar::Real(value.extract()?)
    } else if value.is_instance_of::<PyString>() {
        ChakraScalar::Text(value.extract()?)
    } else if value.is_instance_of::<PyBytes>() {
        ChakraScalar::Bytes(value.extract()?)
    } else {
        return Err(PyTypeError::new_err(format!("{value} is no number, text, bytes or truth value")));
    })
}

fn object<'py>(py: Python<'py>, scalar: ChakraScalar) -> PyResult<Bound<'py, PyAny>> {
    Ok(match scalar {
        ChakraScalar::Real(number) => PyFloat::new(py, number).into_any(),
        ChakraScalar::Whole(number) => number.into_pyobject(py)?.into_any(),
        ChakraScalar::Flag(flag) => PyBool::new(py, flag).to_owned().into_any(),
        ChakraScalar::Text(text) => PyString::new(py, &text).into_any(),
        ChakraScalar::Bytes(bytes) => PyBytes::new(py, &bytes).into_any(),
    })
}

/// Name, value, kind, text for readers.
type AttributeFields<'py> = (String, Bound<'py, PyAny>, &'static str, String);
type InfoFields = (String, String, String);
/// Id, name, type; what it waits for, for order and for data; begin and duration; inputs and outputs; attributes; storage.
type NodeFields<'py> = (
    u64,
    String,
    i32,
    Vec<u64>,
    Vec<u64>,
    u64,
    u64,
    Option<InfoFields>,
    Option<InfoFields>,
    Vec<AttributeFields<'py>>,
    Option<Bound<'py, PyBytes>>,
);

fn attribute_fields<'py>(py: Python<'py>, attributes: Vec<ChakraAttribute>) -> PyResult<Vec<AttributeFields<'py>>> {
    let mut made = Vec::with_capacity(attributes.len());
    for ChakraAttribute { name, doc, value } in attributes {
        let Some(value) = value else { continue };
        let (scalars, is_list) = value.scalars();
        let mut objects = scalars.into_iter().map(|scalar| object(py, scalar)).collect::<PyResult<Vec<_>>>()?;
        let found = if is_list { PyTuple::new(py, objects)?.into_any() } else { objects.remove(0) };
        made.push((name, found, value.kind(), doc));
    }
    Ok(made)
}

fn node_fields<'py>(py: Python<'py>, node: ChakraNode) -> PyResult<NodeFields<'py>> {
    let info = |info: Option<ChakraInfo>| info.map(|info| (info.values, info.shapes, info.types));
    Ok((
        node.id,
        node.name,
        node.kind,
        node.ctrl_deps,
        node.data_deps,
        node.start_time_micros,
        node.duration_micros,
        info(node.inputs),
        info(node.outputs),
        attribute_fields(py, node.attributes)?,
        node.storage.map(|bytes| PyBytes::new(py, &bytes)),
    ))
}

/// The file of a trace.
#[pyfunction]
#[pyo3(signature = (trace, /))]
fn chakra_encode<'py>(py: Python<'py>, trace: TraceParts<'py>) -> PyResult<Bound<'py, PyBytes>> {
    let trace = trace.trace("trace")?;
    Ok(PyBytes::new(py, &door::run(py, || trace.encode())?))
}

/// Version, attributes, nodes.
type TraceFields<'py> = (String, Vec<AttributeFields<'py>>, Vec<NodeFields<'py>>);

fn trace_fields<'py>(py: Python<'py>, trace: ChakraTrace) -> PyResult<TraceFields<'py>> {
    let ChakraTrace { metadata, nodes } = trace;
    let nodes = nodes.into_iter().map(|node| node_fields(py, node)).collect::<PyResult<_>>()?;
    Ok((metadata.version, attribute_fields(py, metadata.attributes)?, nodes))
}

/// The trace of a file; `what` is its name in errors.
#[pyfunction]
#[pyo3(signature = (data, what, /))]
fn chakra_decode<'py>(py: Python<'py>, data: PyBackedBytes, what: &str) -> PyResult<TraceFields<'py>> {
    let trace = door::run(py, || ChakraTrace::decode(&data, what))?;
    trace_fields(py, trace)
}

/// The traces of a plan's step, one for each rank.
#[pyfunction]
#[pyo3(signature = (step, /))]
fn chakra_step<'py>(step: &Bound<'py, PyAny>) -> PyResult<Vec<TraceFields<'py>>> {
    let py = step.py();
    let step: PlannedStep = from_python("step", step)?;
    let traces = door::run(py, || step.traces())?;
    traces.into_iter().map(|trace| trace_fields(py, trace)).collect()
}

/// Places of a trace's nodes, each after those that it waits for.
#[pyfunction]
#[pyo3(signature = (trace, what, /))]
fn chakra_order(py: Python<'_>, trace: TraceParts<'_>, what: &str) -> PyResult<Vec<u32>> {
    let trace = trace.trace(what)?;
    door::run(py, || trace.order(what))
}

/// How traces are replayed.
#[derive(FromPyObject)]
struct OptionParts {
    ranks_per_chip: u32,
    /// dtype, operations and bytes a second of one rank, for times by the roofline.
    peaks: Option<(String, f64, f64)>,
    moves_bytes: bool,
    streams: Option<String>,
    groups: BTreeMap<String, Vec<u32>>,
    placement: Option<Vec<i64>>,
    algorithm: String,
    /// Of operations that take another one.
    algorithms: Vec<(String, String)>,
}

impl OptionParts {
    fn options(self) -> Result<ChakraOptions, Error> {
        let of = self.algorithms.into_iter().map(|(of, by)| Ok((of.parse()?, by))).collect::<Result<_, Error>>()?;
        let peaks = self.peaks.map(|(dtype, ops, bytes)| RankPeaks { dtype, ops, bytes });
        Ok(ChakraOptions {
            ranks_per_chip: self.ranks_per_chip,
            compute: peaks.map_or(ComputeTime::Duration, ComputeTime::Roofline),
            memory: if self.moves_bytes { MemoryTime::Bytes } else { MemoryTime::Duration },
            streams: self.streams,
            groups: self.groups,
            placement: self.placement,
            algorithms: Algorithms { default: self.algorithm, of },
        })
    }
}

/// Rank, place of the node in its trace, begin, end, seconds of waiting steps, what it was spent on.
type PathStep = (u32, u32, f64, f64, f64, String);
type Arrays<'py> = Vec<Bound<'py, PyArray1<f64>>>;

/// What came of a replay.
#[derive(IntoPyObject)]
struct Found<'py> {
    finish: f64,
    starts: Arrays<'py>,
    ends: Arrays<'py>,
    computing: Vec<f64>,
    communicating: Vec<f64>,
    exposed: Vec<f64>,
    bytes_by_link: Vec<(String, f64)>,
    path: Vec<PathStep>,
    by_resource: Vec<(String, f64)>,
    binding_link: Option<String>,
    algorithms: Vec<(&'static str, &'static str, u32)>,
    places: Vec<u32>,
    assumptions: Vec<String>,
}

/// Runs the traces of all ranks.
#[pyfunction]
#[pyo3(signature = (system, traces, options, /))]
fn chakra_replay<'py>(
    py: Python<'py>,
    system: &Bound<'py, PyCollectives>,
    traces: Vec<TraceParts<'py>>,
    options: OptionParts,
) -> PyResult<Found<'py>> {
    let options = options.options().map_err(exception)?;
    let traces = traces.into_iter().enumerate().map(|(rank, trace)| trace.trace(&format!("rank {rank}")));
    let traces = traces.collect::<PyResult<Vec<_>>>()?;
    let estimator = system.get().estimator.clone();
    let found = door::run(py, || replay_traces(&estimator, &traces, &options))?;
    let done = found.replay;
    let column = |pick: fn(&(f64, f64)) -> f64| -> Arrays<'py> {
        done.spans.iter().map(|spans| PyArray1::from_vec(py, spans.iter().map(pick).collect())).collect()
    };
    let links = (0u32..).zip(&done.carried).filter(|(_, carried)| **carried > 0.0);
    let path = done.path.iter();
    let path = path.map(|step| (step.rank, step.node, step.begin, step.end, step.latency, step.what.clone()));
    Ok(Found {
        finish: done.finish,
        starts: column(|span| span.0),
        ends: column(|span| span.1),
        bytes_by_link: links.map(|(link, carried)| (estimator.fabric().link_name(link), *carried)).collect(),
        path: path.collect(),
        computing: done.computing,
        communicating: done.communicating,
        exposed: done.exposed,
        by_resource: done.by_resource,
        binding_link: done.binding_link,
        algorithms: done.algorithms,
        places: found.places,
        assumptions: found.assumptions,
    })
}
