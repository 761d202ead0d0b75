//! The class `Collectives`: what collectives cost on a fabric, and their execution on arrays of bytes.

use std::str::FromStr;
use std::sync::Arc;

use numpy::PyUntypedArray;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_numerics::{Draws, Format, Rounding};
use trn3_system::collective::{
    Algorithm, Arithmetic, CollectiveCost, CollectiveTask, Counts, ElementType, Estimator, Extra, Operation, Order,
    RankGroup, Reduction, Schedule, UnitNetwork, all_gather_v, all_to_all_v, execute, output_length,
};
use trn3_system::{Error, Result};

use super::cluster::PyCluster;
use super::error::exception;
use super::fabric::PyFabric;
use crate::array::{Output, Words};
use crate::door;
use crate::draws::DrawSource;
use crate::value::to_python;
use crate::xorwow::PyXorwow;

/// Adds the class of this file.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyCollectives>()?;
    module.add_function(wrap_pyfunction!(collective_names, module)?)
}

/// Operations, reductions and algorithms.
#[pyfunction]
fn collective_names() -> (Vec<&'static str>, Vec<&'static str>, Vec<&'static str>) {
    (
        Operation::ALL.iter().map(|name| name.name()).collect(),
        Reduction::ALL.iter().map(|name| name.name()).collect(),
        Algorithm::ALL.iter().map(|name| name.name()).collect(),
    )
}

/// A system that runs collectives; it keeps what it has counted.
#[pyclass(frozen, name = "Collectives", module = "trn3._trn3.system")]
pub(crate) struct PyCollectives {
    /// What it wraps, for the bindings of other files.
    pub(crate) estimator: Arc<Estimator>,
}

/// What of a collective's arguments its schedule depends on.
#[derive(Clone, FromPyObject)]
struct Asked {
    operation: String,
    algorithm: String,
    /// One list of ranks for each group.
    groups: Vec<Vec<u32>>,
    ranks_per_chip: u32,
    root: u32,
    pairs: Vec<(u32, u32)>,
}

/// How a collective computes.
#[derive(FromPyObject)]
struct AskedNumbers<'py> {
    reduction: String,
    element: String,
    /// Bytes of an element.
    item_size: usize,
    wire: Option<String>,
    out: Option<String>,
    rounding: Bound<'py, PyAny>,
    order: String,
    rng: Option<Bound<'py, PyXorwow>>,
}

impl AskedNumbers<'_> {
    fn arithmetic(&self) -> PyResult<Arithmetic> {
        let element = match self.element.as_str() {
            "opaque" => ElementType::Opaque { bytes: self.item_size.max(1) },
            name => name.parse().map_err(exception)?,
        };
        Ok(Arithmetic {
            reduction: self.reduction.parse().map_err(exception)?,
            element,
            wire: format_of("dtype", self.wire.as_deref())?,
            out: format_of("out_dtype", self.out.as_deref())?,
            rounding: crate::arguments::rounding(&self.rounding)?,
            order: match self.order.as_str() {
                "schedule" => Order::Schedule,
                "index" => Order::Index,
                other => return Err(exception(Error::unknown("order", other, ["schedule", "index"]))),
            },
        })
    }
}

/// What an all-to-all of any counts moves: `[n, n]` of each in row order, by sender.
#[derive(FromPyObject)]
struct AskedCounts {
    counts: Vec<u64>,
    /// Where they begin in the sender's array.
    #[pyo3(attribute("send_displacements"))]
    from: Vec<u64>,
    /// Where they begin in the receiver's result.
    #[pyo3(attribute("receive_displacements"))]
    to: Vec<u64>,
}

impl PyCollectives {
    fn task(&self, asked: Asked) -> Result<CollectiveTask> {
        let operation = Operation::from_str(&asked.operation)?;
        Ok(CollectiveTask {
            operation,
            algorithm: Algorithm::parse(operation, &asked.algorithm)?,
            groups: RankGroup::several(asked.groups, asked.ranks_per_chip, self.estimator.fabric().chips())?,
            extra: Extra { root: asked.root, pairs: asked.pairs },
        })
    }

    /// The schedule of an algorithm that is one form, on the first group.
    fn schedule(&self, task: &CollectiveTask, form: Algorithm) -> Result<Schedule> {
        Schedule::new(self.estimator.fabric(), &task.groups[0], task.operation, form, &task.extra)
    }

    fn cost_as<'py>(
        &self,
        py: Python<'py>,
        work: impl FnOnce(&Estimator) -> Result<CollectiveCost> + Send,
    ) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &door::run(py, || work(&self.estimator))?)
    }
}

fn format_of(argument: &str, name: Option<&str>) -> PyResult<Option<Format>> {
    match name.map(|name| (name, name.parse::<ElementType>())) {
        None => Ok(None),
        Some((_, Ok(ElementType::Float(format)))) => Ok(Some(format)),
        Some((name, _)) => Err(PyValueError::new_err(format!(
            "{argument} is {name:?}; allowed: float32, tfloat32, float16, bfloat16, float8_e4m3fn, float8_e5m2, float8_e4m3, float8_e3m4, float4_e2m1fn"
        ))),
    }
}

fn buffers<'py>(arrays: &[Bound<'py, PyAny>]) -> PyResult<Vec<Words<'py, u8>>> {
    arrays.iter().map(|array| Words::<u8>::new("arrays", array, "uint8 arrays")).collect()
}

fn outputs<'py>(py: Python<'py>, lengths: impl Iterator<Item = usize>) -> PyResult<Vec<Output<'py>>> {
    lengths.map(|length| Output::allocate(numpy::dtype::<u8>(py), &[length])).collect()
}

type Arrays<'py> = Vec<Bound<'py, PyUntypedArray>>;

#[pymethods]
impl PyCollectives {
    #[new]
    #[pyo3(signature = (fabric, /))]
    fn new(py: Python<'_>, fabric: &PyFabric) -> PyResult<Self> {
        let fabric = fabric.fabric.clone();
        let estimator = door::run(py, || Estimator::new(fabric))?;
        Ok(Self { estimator: Arc::new(estimator) })
    }

    /// The fabric that it runs on.
    #[getter]
    fn fabric(&self) -> PyFabric {
        PyFabric::of(self.estimator.shared_fabric())
    }

    /// Cost of a collective of so many bytes, which a running program calls or, `from_host`, the host starts.
    #[pyo3(signature = (asked, bytes, is_simulated, from_host, /))]
    fn cost<'py>(
        &self,
        py: Python<'py>,
        asked: Asked,
        bytes: f64,
        is_simulated: bool,
        from_host: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.cost_as(py, |estimator| {
            let task = self.task(asked)?;
            let cost = estimator.cost(&task, bytes, is_simulated)?;
            Ok(if from_host { cost.launched(estimator.host_start(&task.groups)) } else { cost })
        })
    }

    /// Cost over the same (only) group in each of the many systems of a cluster.
    #[pyo3(signature = (asked, bytes, cluster, from_host, /))]
    fn across<'py>(
        &self,
        py: Python<'py>,
        asked: Asked,
        bytes: f64,
        cluster: &PyCluster,
        from_host: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let network = UnitNetwork::of(&cluster.cluster);
        self.cost_as(py, |estimator| {
            let task = self.task(asked)?;
            let cost = estimator.cost_across(&task, bytes, network)?;
            Ok(if from_host { cost.launched(estimator.host_start_across(&task.groups, network)) } else { cost })
        })
    }

    /// Seconds that the host takes to start a call, before it begins as one of a program does.
    #[pyo3(signature = (asked, /))]
    fn host_start(&self, asked: Asked) -> PyResult<f64> {
        Ok(self.estimator.host_start(&self.task(asked).map_err(exception)?.groups))
    }

    /// Cost of an operation of any lengths: a chunk's bytes for all_gather_v, those from each to each for all_to_all_v.
    #[pyo3(signature = (asked, sizes, from_host, /))]
    fn cost_v<'py>(
        &self,
        py: Python<'py>,
        asked: Asked,
        sizes: Vec<f64>,
        from_host: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.cost_as(py, |estimator| {
            let task = self.task(asked)?;
            let cost = estimator.cost_sized(&task, &sizes)?;
            Ok(if from_host { cost.launched(estimator.host_start(&task.groups)) } else { cost })
        })
    }

    /// The fastest algorithm's form and seconds.
    #[pyo3(signature = (asked, bytes, /))]
    fn estimate(&self, py: Python<'_>, asked: Asked, bytes: f64) -> PyResult<(&'static str, f64)> {
        let found = door::run(py, || self.estimator.slowest(&self.task(asked)?, bytes))?;
        Ok((found.algorithm.name(), found.time))
    }

    /// Name, form and seconds of every algorithm that can do it, on the first group.
    #[pyo3(signature = (asked, bytes, /))]
    fn candidates(&self, py: Python<'_>, asked: Asked, bytes: f64) -> PyResult<Vec<(&'static str, u32, f64)>> {
        door::run(py, || {
            let task = self.task(asked)?;
            let found = self.estimator.candidates(task.operation, &task.groups[0], task.algorithm, &task.extra)?;
            Ok::<_, Error>(
                found.iter().map(|(form, profile)| (form.name(), profile.steps, profile.time(bytes))).collect(),
            )
        })
    }

    /// Executes on one group; the algorithm must be one form.
    #[allow(clippy::needless_pass_by_value)]
    #[pyo3(signature = (asked, numbers, arrays, /))]
    fn execute<'py>(
        &self,
        py: Python<'py>,
        asked: Asked,
        numbers: AskedNumbers<'py>,
        arrays: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Arrays<'py>> {
        let task = self.task(asked).map_err(exception)?;
        let Some(form) = task.algorithm else {
            return Err(PyValueError::new_err("algorithm is 'auto'; execute needs one form"));
        };
        let (arithmetic, rng) = (numbers.arithmetic()?, numbers.rng);
        let element = arithmetic.element;
        if (arithmetic.rounding == Rounding::Stochastic) != rng.is_some() {
            let text = "rng goes with rounding='stochastic', and only it: an Xorwow or a seed";
            return Err(PyValueError::new_err(text));
        }
        let inputs = buffers(&arrays)?;
        let slices: Vec<&[u8]> = inputs.iter().map(Words::as_slice).collect();
        let schedule = door::run(py, || self.schedule(&task, form))?;
        let elements = slices.first().map_or(0, |slice| slice.len()) / element.bytes();
        let length = output_length(&schedule, elements) * arithmetic.result().bytes();
        let mut results = outputs(py, std::iter::repeat_n(length, slices.len()))?;
        let mut targets = results.iter_mut().map(Output::words_mut::<u8>).collect::<PyResult<Vec<_>>>()?;
        let source = match &rng {
            None => DrawSource::Nothing,
            Some(core) => {
                core.get().check_free()?;
                DrawSource::Generators(core.get())
            }
        };
        let work = || {
            source.with(|draws| {
                let generator = match draws {
                    Draws::Xorwow(generator) => Some(generator),
                    _ => None,
                };
                execute(&schedule, &arithmetic, &slices, &mut targets, generator)
            })
        };
        door::run(py, work)?;
        Ok(results.into_iter().map(Output::into_array).collect())
    }

    /// Executes an all_gather of any lengths.
    #[allow(clippy::needless_pass_by_value)]
    #[pyo3(signature = (asked, item_size, arrays, /))]
    fn all_gather_v<'py>(
        &self,
        py: Python<'py>,
        asked: Asked,
        item_size: usize,
        arrays: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Arrays<'py>> {
        let task = self.task(asked).map_err(exception)?;
        let form = task.algorithm.unwrap_or(Algorithm::Direct);
        let inputs = buffers(&arrays)?;
        let slices: Vec<&[u8]> = inputs.iter().map(Words::as_slice).collect();
        let total = slices.iter().map(|slice| slice.len()).sum();
        let mut results = outputs(py, std::iter::repeat_n(total, slices.len()))?;
        let mut targets = results.iter_mut().map(Output::words_mut::<u8>).collect::<PyResult<Vec<_>>>()?;
        let work = || {
            let schedule = self.schedule(&task, form)?;
            all_gather_v(&schedule, item_size, &slices, &mut targets)
        };
        door::run(py, work)?;
        Ok(results.into_iter().map(Output::into_array).collect())
    }

    /// Executes an all-to-all of any counts into the arrays `destinations`, which are copied.
    #[allow(clippy::needless_pass_by_value)]
    #[pyo3(signature = (asked, item_size, counts, arrays, destinations, /))]
    fn all_to_all_v<'py>(
        &self,
        py: Python<'py>,
        asked: Asked,
        item_size: usize,
        counts: AskedCounts,
        arrays: Vec<Bound<'py, PyAny>>,
        destinations: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Arrays<'py>> {
        let task = self.task(asked).map_err(exception)?;
        let form = task.algorithm.unwrap_or(Algorithm::Direct);
        let (inputs, before) = (buffers(&arrays)?, buffers(&destinations)?);
        let slices: Vec<&[u8]> = inputs.iter().map(Words::as_slice).collect();
        let before: Vec<&[u8]> = before.iter().map(Words::as_slice).collect();
        let mut results = outputs(py, before.iter().map(|slice| slice.len()))?;
        let mut targets = results.iter_mut().map(Output::words_mut::<u8>).collect::<PyResult<Vec<_>>>()?;
        let work = || {
            let schedule = self.schedule(&task, form)?;
            targets.iter_mut().zip(&before).for_each(|(target, source)| target.copy_from_slice(source));
            let AskedCounts { counts, from, to } = counts;
            let counts = Counts { counts, from, to };
            all_to_all_v(&schedule, item_size.max(1), &counts, &slices, &mut targets)
        };
        door::run(py, work)?;
        Ok(results.into_iter().map(Output::into_array).collect())
    }

    /// Form, lone seconds, begin and end of collectives that overlap: `(asked, bytes, priority, start)` each.
    #[allow(clippy::needless_pass_by_value)]
    #[pyo3(signature = (running, /))]
    fn overlap(
        &self,
        py: Python<'_>,
        running: Vec<(Asked, f64, u8, f64)>,
    ) -> PyResult<Vec<(&'static str, f64, f64, f64)>> {
        let found = door::run(py, || {
            let task = |(asked, bytes, priority, start)| Ok((self.task(asked)?, bytes, priority, start));
            self.estimator.overlapping(&running.into_iter().map(task).collect::<Result<Vec<_>>>()?)
        })?;
        Ok(found.iter().map(|one| (one.algorithm.name(), one.alone, one.begin, one.end)).collect())
    }
}
