//! Bindings of graphs.

use std::sync::Arc;

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use trn3_compiler::{CompileLevel, CompileOptions};
use trn3_graph::operations::rows;
use trn3_graph::{
    AccountRow, ExecutionOptions, Graph, MatmulPath, RegionCost, StepMemory, StepRun, Tensor, WHOLE_BELOW,
};
use trn3_machine::arch::ArchSpec;
use trn3_system::collective::PlacedRanks;

use crate::compiler::figures;
use crate::door::{self, Fault};
use crate::graph_kernel::kernel_of;
use crate::graph_tensor::{array, tensor};
use crate::machine::core::PyCore;
use crate::machine::error::exception as machine_exception;
use crate::system::collective::PyCollectives;

create_exception!(
    trn3.graph,
    GraphError,
    PyValueError,
    "A graph cannot be read, or an operation of it refuses; the message has the line of the user's code."
);

impl Fault for trn3_graph::GraphError {
    fn exception(self, _line: &str) -> PyErr {
        match self {
            Self::Format(_) | Self::Operation { .. } => GraphError::new_err(self.to_string()),
            Self::Argument(text) => PyValueError::new_err(text),
            Self::Machine(error) => crate::machine::error::exception(error),
            Self::Numerics(error) => crate::error::exception(error),
        }
    }
}

fn tensors(argument: &'static str, given: &[Bound<'_, PyAny>]) -> PyResult<Vec<Tensor>> {
    given.iter().enumerate().map(|(place, array)| tensor(argument, place, array)).collect()
}

/// The inputs of every rank.
fn tensors_of_ranks(given: &[Vec<Bound<'_, PyAny>>]) -> PyResult<Vec<Vec<Tensor>>> {
    given.iter().map(|own| tensors("inputs", own)).collect()
}

/// Tensor operations, checked, that run on arrays.
///
/// `from_json` reads one. Values are those of Trainium's arithmetic, operation by operation.
///
/// Examples
/// --------
/// >>> import json
/// >>> import numpy as np
/// >>> from trn3.graph import OperationGraph
/// >>> x = {"name": "x", "dtype": "float32", "shape": [2]}
/// >>> twice = {"op": "add", "operands": [0, 0], "results": [{"dtype": "float32", "shape": [2]}]}
/// >>> graph = OperationGraph.from_json(json.dumps({
/// ...     "format": "trn3-graph", "version": 1, "name": "twice",
/// ...     "inputs": [x], "operations": [twice], "outputs": [1]}))
/// >>> graph.execute([np.array([1.5, -2.0], np.float32)])
/// [array([ 3., -4.], dtype=float32)]
#[pyclass(frozen, module = "trn3.graph", name = "OperationGraph")]
struct PyGraph {
    graph: Graph,
}

#[pymethods]
impl PyGraph {
    /// Read a graph, and check every operation of it.
    ///
    /// Parameters
    /// ----------
    /// text : str
    ///     The graph as JSON, as the page "Graphs" describes it.
    /// data : sequence of array, optional
    ///     Arrays of the constants, by the numbers that they have in the text.
    /// kernels : sequence of object, optional
    ///     What calls of kernels run, by their numbers: each has a `name`, is called with a list of arrays and gives one,
    ///     and its `latency_us` is called with the operands' types, ``(dtype, shape)`` each.
    ///
    /// Raises
    /// ------
    /// GraphError
    ///     If the text is no graph, or an operation is unknown or refuses its operands; the message names the operation
    ///     and the line of the user's code.
    /// TypeError
    ///     If an array has a dtype that graphs do not have.
    #[staticmethod]
    #[pyo3(signature = (text, data=None, kernels=None))]
    fn from_json(
        py: Python<'_>,
        text: &str,
        data: Option<Vec<Bound<'_, PyAny>>>,
        kernels: Option<Vec<Bound<'_, PyAny>>>,
    ) -> PyResult<Self> {
        let data = tensors("data", &data.unwrap_or_default())?;
        let kernels = kernels.iter().flatten().map(kernel_of).collect::<PyResult<Vec<_>>>()?;
        let graph = door::run(py, || Graph::with_kernels(text.as_bytes(), &data, &kernels))?;
        Ok(Self { graph })
    }

    /// What the graph is called.
    #[getter]
    fn name(&self) -> &str {
        &self.graph.name
    }

    /// Ranks that run it side by side.
    #[getter]
    fn ranks(&self) -> u32 {
        self.graph.ranks
    }

    /// Names, element types and shapes of the inputs.
    #[getter]
    fn inputs(&self) -> Vec<(String, &'static str, Vec<usize>)> {
        let names = self.graph.input_names.iter();
        let types = names.zip(self.graph.body.inputs());
        types.map(|(name, kind)| (name.clone(), kind.dtype.name(), kind.shape.clone())).collect()
    }

    /// Element types and shapes of the outputs.
    #[getter]
    fn outputs(&self) -> Vec<(&'static str, Vec<usize>)> {
        let types = self.graph.body.output_types();
        types.into_iter().map(|kind| (kind.dtype.name(), kind.shape.clone())).collect()
    }

    /// Run the graph by operation.
    ///
    /// Parameters
    /// ----------
    /// inputs : sequence of array
    ///     Arrays of the inputs' types and shapes, in their order.
    /// matmul : {"as_typed", "bf16", "mxfp8", "mxfp4"}, optional
    ///     Arithmetic of products of floating-point operands: that of their own types, bfloat16, or quantised along the
    ///     contraction.
    ///
    /// Returns
    /// -------
    /// list of numpy.ndarray
    ///     The outputs.
    ///
    /// Raises
    /// ------
    /// GraphError
    ///     If an operation refuses what came, with its name and line.
    /// ValueError
    ///     If the inputs are not those of the graph, or `matmul` is none of these.
    /// TypeError
    ///     If an array has a dtype that graphs do not have.
    #[pyo3(signature = (inputs, matmul="as_typed"))]
    fn execute<'py>(
        &self,
        py: Python<'py>,
        inputs: Vec<Bound<'py, PyAny>>,
        matmul: &str,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let matmul = matmul.parse::<MatmulPath>().map_err(|error| error.exception(""))?;
        let inputs = tensors("inputs", &inputs)?;
        let options = ExecutionOptions { matmul, ..Default::default() };
        let outputs = door::run(py, || self.graph.execute(inputs, &options))?;
        outputs.iter().map(|tensor| array(py, tensor)).collect()
    }

    /// Run the graph by operation on all its ranks, which meet in collectives.
    ///
    /// Parameters
    /// ----------
    /// inputs : sequence of sequence of array
    ///     Of each rank, what `execute` takes.
    /// matmul : {"as_typed", "bf16", "mxfp8", "mxfp4"}, optional
    ///     As `execute` has it.
    ///
    /// Returns
    /// -------
    /// list of list of numpy.ndarray
    ///     The outputs of each rank.
    ///
    /// Raises
    /// ------
    /// GraphError
    ///     As `execute`; and where a rank waits in a collective for others that do not come.
    /// ValueError
    ///     If the inputs are not those of the graph's ranks, or `matmul` is none of these.
    /// TypeError
    ///     If an array has a dtype that graphs do not have.
    #[pyo3(signature = (inputs, matmul="as_typed"))]
    fn execute_ranks<'py>(
        &self,
        py: Python<'py>,
        inputs: Vec<Vec<Bound<'py, PyAny>>>,
        matmul: &str,
    ) -> PyResult<Vec<Vec<Bound<'py, PyAny>>>> {
        let matmul = matmul.parse::<MatmulPath>().map_err(|error| error.exception(""))?;
        let inputs = tensors_of_ranks(&inputs)?;
        let options = ExecutionOptions { matmul, ..Default::default() };
        let outputs = door::run(py, || self.graph.execute_ranks(inputs, &options))?;
        outputs.iter().map(|own| own.iter().map(|tensor| array(py, tensor)).collect()).collect()
    }

    /// Run one rank by instructions, as `run_on_core`; the ranks stand on the system of `collectives`, which is
    /// called `name`, as `ranks` says: its number, how many a chip of the system could have, and has.
    #[pyo3(signature = (arch, collectives, name, ranks, inputs, matmul, level, cores=1))]
    #[allow(clippy::too_many_arguments)]
    fn run_rank_on_core<'py>(
        &self,
        py: Python<'py>,
        arch: MachineText,
        collectives: &PyCollectives,
        name: &str,
        ranks: (u32, u32, Option<i64>),
        inputs: Option<Vec<Vec<Bound<'py, PyAny>>>>,
        matmul: &str,
        level: &str,
        cores: usize,
    ) -> PyResult<StepAnswer<'py>> {
        let (rank, most_per_chip, per_chip) = ranks;
        let placed = PlacedRanks::new(collectives.estimator.clone(), name, most_per_chip, self.graph.ranks, per_chip);
        let placed = placed.map_err(crate::system::error::exception)?;
        let inputs = inputs.as_deref().map(tensors_of_ranks).transpose()?;
        on_core(py, &arch, (matmul, level, true, cores), |arch, options, compile| {
            self.graph.run_rank_step(arch, (rank, &placed), inputs, options, compile)
        })
    }

    /// Run the graph by instructions on one core, or on two as one: outputs (None where a run without values does not know
    /// one), the cores with their timelines, and a dict of what `StepProfile` has. The machine is named, or described by name
    /// and text.
    #[pyo3(signature = (arch, inputs, matmul, level, whole_below=WHOLE_BELOW, fuse=true, cores=1))]
    #[allow(clippy::too_many_arguments)]
    fn run_on_core<'py>(
        &self,
        py: Python<'py>,
        arch: MachineText,
        inputs: Option<Vec<Bound<'py, PyAny>>>,
        matmul: &str,
        level: &str,
        whole_below: u64,
        fuse: bool,
        cores: usize,
    ) -> PyResult<StepAnswer<'py>> {
        let inputs = inputs.map(|inputs| tensors("inputs", &inputs)).transpose()?;
        on_core(py, &arch, (matmul, level, fuse, cores), |arch, options, compile| {
            self.graph.run_step(arch, inputs, options, compile, whole_below)
        })
    }
}

/// A run by instructions, for Python: outputs, the cores, what the step took.
type StepAnswer<'py> = (Vec<Option<Bound<'py, PyAny>>>, Vec<PyCore>, Bound<'py, PyDict>);

fn on_core<'py>(
    py: Python<'py>,
    arch: &MachineText,
    (matmul, level, fuse, cores): (&str, &str, bool, usize),
    run: impl FnOnce(&Arc<ArchSpec>, &ExecutionOptions, &CompileOptions) -> trn3_graph::Result<StepRun> + Send,
) -> PyResult<StepAnswer<'py>> {
    let matmul = matmul.parse::<MatmulPath>().map_err(|error| error.exception(""))?;
    let level: CompileLevel = level.parse().map_err(machine_exception)?;
    let arch = arch.read().map_err(machine_exception)?;
    let options = ExecutionOptions { matmul, fuse, cores, ..Default::default() };
    let compile = CompileOptions { level, ..Default::default() };
    let run = door::run(py, || run(&arch, &options, &compile))?;
    let outputs = run.results.iter().map(|result| result.as_ref().map(|tensor| array(py, tensor)).transpose());
    let outputs = outputs.collect::<PyResult<_>>()?;
    let entry = step_entry(py, &run)?;
    let finished = |(core, report)| Ok(PyCore::finished(core, level, figures(report)?));
    let cores = run.cores.into_iter().zip(&run.reports).map(finished).collect::<PyResult<_>>()?;
    Ok((outputs, cores, entry))
}

/// A machine: its name, or the name and the text of a description.
#[derive(FromPyObject)]
enum MachineText {
    Named(String),
    Described(String, String),
}

impl MachineText {
    fn read(&self) -> trn3_machine::Result<Arc<ArchSpec>> {
        match self {
            Self::Named(name) => ArchSpec::shared(name),
            Self::Described(name, text) => ArchSpec::parse(name, text).map(Arc::new),
        }
    }
}

/// What a step took, by the names of `StepProfile`.
fn step_entry<'py>(py: Python<'py>, run: &StepRun) -> PyResult<Bound<'py, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("timing", run.timing.name())?;
    entry.set_item("latency_us", run.latency.microseconds())?;
    entry.set_item("band", run.band_us)?;
    entry.set_item("instructions", run.instructions)?;
    entry.set_item("memory", memory_entry(py, &run.memory)?)?;
    let rows = run.account.iter().map(|row| account_entry(py, row));
    entry.set_item("account", rows.collect::<PyResult<Vec<_>>>()?)?;
    let regions = run.regions.iter().map(|region| region_entry(py, region));
    entry.set_item("regions", regions.collect::<PyResult<Vec<_>>>()?)?;
    Ok(entry)
}

/// What a step holds, by the names of `StepMemory`.
fn memory_entry<'py>(py: Python<'py>, memory: &StepMemory) -> PyResult<Bound<'py, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("inputs_bytes", memory.inputs_bytes)?;
    entry.set_item("constants_bytes", memory.constants_bytes)?;
    entry.set_item("activations_bytes", memory.activations_bytes)?;
    entry.set_item("hbm_peak_bytes", memory.hbm_peak_bytes())?;
    entry.set_item("sbuf_peak_bytes", memory.sbuf_peak_bytes)?;
    entry.set_item("psum_peak_bytes", memory.psum_peak_bytes)?;
    Ok(entry)
}

/// What a region took, by the names of `RegionCost`.
fn region_entry<'py>(py: Python<'py>, region: &RegionCost) -> PyResult<Bound<'py, PyDict>> {
    let entry = PyDict::new(py);
    let (first, last) = &region.operations;
    entry.set_item("first", first)?;
    entry.set_item("last", last)?;
    entry.set_item("times", region.times)?;
    entry.set_item("instructions", region.instructions)?;
    entry.set_item("latency_us", region.latency.microseconds())?;
    Ok(entry)
}

/// What an operation took, by the names of `OperationCost`.
fn account_entry<'py>(py: Python<'py>, row: &AccountRow) -> PyResult<Bound<'py, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("operation", &row.label)?;
    entry.set_item("line", row.location.as_ref().map_or_else(String::new, ToString::to_string))?;
    entry.set_item("template", row.template.name())?;
    entry.set_item("is_fallback", row.is_fallback)?;
    entry.set_item("cores", row.cores)?;
    entry.set_item("instructions", row.instructions)?;
    entry.set_item("engine", row.engine.map_or("", |engine| engine.name()))?;
    entry.set_item("busy_us", row.busy.microseconds())?;
    entry.set_item("span_us", row.span.microseconds())?;
    entry.set_item("hbm_bytes", row.hbm_bytes)?;
    entry.set_item("macs", row.macs)?;
    entry.set_item("utilisation", row.utilisation)?;
    Ok(entry)
}

/// The rows of the table of operations: name, names in StableHLO and ATen, template, accuracy.
#[pyfunction]
fn operations(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    rows()
        .map(|row| {
            let entry = PyDict::new(py);
            entry.set_item("name", row.name)?;
            entry.set_item("jax", row.jax.to_vec())?;
            entry.set_item("aten", row.aten.to_vec())?;
            entry.set_item("template", row.template)?;
            entry.set_item("accuracy", row.accuracy)?;
            Ok(entry)
        })
        .collect()
}

/// Names of the arithmetics of products.
#[pyfunction]
fn matmul_paths() -> Vec<&'static str> {
    MatmulPath::ALL.map(MatmulPath::name).to_vec()
}

/// Adds the submodule `graph`.
pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = parent.py();
    let module = PyModule::new(py, "graph")?;
    module.add_class::<PyGraph>()?;
    module.add("GraphError", py.get_type::<GraphError>())?;
    module.add_function(wrap_pyfunction!(operations, &module)?)?;
    module.add_function(wrap_pyfunction!(matmul_paths, &module)?)?;
    parent.add_submodule(&module)?;
    py.import("sys")?.getattr("modules")?.set_item("trn3._trn3.graph", &module)
}
