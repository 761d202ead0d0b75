//! The class `Collectives`: what collectives cost on a fabric, and their execution on arrays of bytes.

use std::str::FromStr;
use std::sync::Arc;

use numpy::PyUntypedArray;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use serde_json::json;
use trn3_numerics::{Draws, Format, Rounding};
use trn3_system::collective::{
    Algorithm, Arithmetic, Counts, Element, Estimate, Estimator, Extra, Group, Network, Operation, Order, Reduction,
    Running, Schedule, all_gather_v, all_to_all_v, execute, output_length, overlap,
};
use trn3_system::{Error, Result};

use super::error::exception;
use super::fabric::PyFabric;
use crate::array::{Output, Words};
use crate::draws::DrawSource;
use crate::xorwow::XorwowCore;

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

/// The same, understood.
struct Task {
    operation: Operation,
    algorithm: Option<Algorithm>,
    groups: Vec<Group>,
    extra: Extra,
}

impl PyCollectives {
    fn task(&self, asked: Asked) -> Result<Task> {
        let operation = Operation::from_str(&asked.operation)?;
        Ok(Task {
            operation,
            algorithm: Algorithm::parse(operation, &asked.algorithm)?,
            groups: Group::several(asked.groups, asked.ranks_per_chip, self.estimator.fabric().chips())?,
            extra: Extra { root: asked.root, pairs: asked.pairs },
        })
    }

    fn estimate_of(&self, task: &Task, group: &Group, bytes: f64) -> Result<Estimate> {
        self.estimator.estimate_with(task.operation, group, bytes, task.algorithm, &task.extra)
    }

    fn schedule(&self, task: &Task, group: &Group, form: Algorithm) -> Result<Schedule> {
        Schedule::new(self.estimator.fabric(), group, task.operation, form, &task.extra)
    }

    /// Everything that a result says beside its data.
    fn describe(&self, task: &Task, bytes: f64, is_simulated: bool) -> Result<serde_json::Value> {
        let mut finish: f64 = 0.0;
        let mut found: Vec<Estimate> = Vec::new();
        for group in &task.groups {
            found.push(self.estimate_of(task, group, bytes)?);
        }
        let Some(slowest) = found.iter().reduce(|a, b| if b.time > a.time { b } else { a }).cloned() else {
            return Err(Error::Value("group has no lists".to_owned()));
        };
        let mut assumptions = self.estimator.model().assumptions.clone();
        let schedule = self.schedule(task, &task.groups[0], slowest.algorithm)?;
        let mut binding = slowest.binding.clone();
        if let ([group], true) = (&task.groups[..], is_simulated) {
            let timing = self.estimator.simulate(group, &schedule, bytes)?;
            finish = timing.time;
            binding = timing.binding;
            assumptions.push(format!("timed by: {}", timing.path));
        } else if task.groups.len() > 1 {
            let running: Vec<Running<'_>> =
                found.iter().map(|one| Running { profile: &one.profile, bytes, priority: 0, start: 0.0 }).collect();
            for (_, end) in overlap(&self.estimator, &running)? {
                finish = finish.max(end);
            }
            assumptions.push("timed by: one stream for each group, which share links and memories".to_owned());
            if finish > slowest.time * (1.0 + 1e-9) {
                assumptions.push("the groups share resources and slow each other down".to_owned());
            }
        } else {
            finish = slowest.time;
            assumptions.push("timed by: closed form, busiest link of every kind of step".to_owned());
        }
        assumptions.push(format!("order of additions: {}", schedule.order));
        let mut links = vec![0.0; self.estimator.fabric().links().len()];
        let (mut accesses, mut remote) = (0.0, 0.0);
        for one in &found {
            one.profile.links.iter().for_each(|&(link, part)| links[link as usize] += part * bytes);
            accesses += one.profile.accesses * bytes;
            remote += one.profile.remote * bytes;
        }
        let (family, variant) = slowest.algorithm.family();
        let used: Vec<(String, f64)> = (0u32..)
            .zip(&links)
            .filter(|(_, carried)| **carried > 0.0)
            .map(|(link, carried)| (self.estimator.fabric().link_name(link), *carried))
            .collect();
        Ok(json!({
            "operation": task.operation.name(),
            "algorithm": family,
            "variant": variant,
            "form": slowest.algorithm.name(),
            "bytes": bytes,
            "steps": slowest.steps,
            "time": finish,
            "estimate": slowest.time,
            "latency": slowest.profile.latency,
            "binding": binding,
            "hbm_touches": slowest.profile.accesses_per_chunk,
            "hbm_bytes": accesses,
            "remote_bytes": remote,
            "bytes_by_link": used,
            "channels": schedule.channels,
            "order": schedule.order,
            "assumptions": assumptions,
        }))
    }
}

fn text(value: &serde_json::Value) -> PyResult<String> {
    serde_json::to_string(value).map_err(|error| PyRuntimeError::new_err(format!("a result as JSON: {error}")))
}

fn format_of(argument: &str, name: Option<&str>) -> PyResult<Option<Format>> {
    match name.map(|name| (name, name.parse::<Element>())) {
        None => Ok(None),
        Some((_, Ok(Element::Float(format)))) => Ok(Some(format)),
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
        let estimator = py.detach(|| Estimator::new(fabric)).map_err(exception)?;
        Ok(Self { estimator: Arc::new(estimator) })
    }

    /// Cost of a collective of so many bytes, as JSON.
    #[pyo3(signature = (asked, bytes, is_simulated, /))]
    fn cost(&self, py: Python<'_>, asked: Asked, bytes: f64, is_simulated: bool) -> PyResult<String> {
        let made = py.detach(|| self.describe(&self.task(asked)?, bytes, is_simulated)).map_err(exception)?;
        text(&made)
    }

    /// Cost over the same (only) group in each of many systems on a network, as JSON.
    #[pyo3(signature = (asked, bytes, systems, rate, latency, /))]
    fn across(
        &self,
        py: Python<'_>,
        asked: Asked,
        bytes: f64,
        systems: u64,
        rate: f64,
        latency: f64,
    ) -> PyResult<String> {
        let describe = || {
            let task = self.task(asked)?;
            let network = Network { systems, rate, latency };
            let found = self.estimator.across(task.operation, &task.groups[0], bytes, network)?;
            let mut links = vec![0.0; self.estimator.fabric().links().len()];
            let (mut accesses, mut remote, mut touches) = (0.0, 0.0, 0.0);
            let inside = if task.operation == Operation::AllToAll { bytes / systems as f64 } else { bytes };
            for one in &found.inner {
                one.profile.links.iter().for_each(|&(link, part)| links[link as usize] += part * inside);
                accesses += one.profile.accesses * inside * systems as f64;
                remote += one.profile.remote * inside * systems as f64;
                touches += one.profile.accesses_per_chunk;
            }
            let chips = task.groups[0].chips().len() as f64 * systems as f64;
            remote += found.network_bytes * chips;
            let name = |link: u32| format!("{} of each system", self.estimator.fabric().link_name(link));
            let mut used: Vec<(String, f64)> = (0u32..)
                .zip(&links)
                .filter(|(_, carried)| **carried > 0.0)
                .map(|(link, carried)| (name(link), *carried))
                .collect();
            used.push(("network of each chip".to_owned(), found.network_bytes));
            Ok(json!({
                "operation": task.operation.name(),
                "algorithm": "hierarchical",
                "variant": "roles",
                "form": "hierarchical",
                "bytes": bytes,
                "steps": found.steps,
                "time": found.time,
                "estimate": found.time,
                "latency": found.latency,
                "binding": found.binding,
                "hbm_touches": touches,
                "hbm_bytes": accesses,
                "remote_bytes": remote,
                "bytes_by_link": used,
                "channels": 1,
                "order": "level by level, the network last",
                "assumptions": found.assumptions,
            }))
        };
        text(&py.detach(describe).map_err(exception)?)
    }

    /// The fastest algorithm's form and seconds.
    #[pyo3(signature = (asked, bytes, /))]
    fn estimate(&self, py: Python<'_>, asked: Asked, bytes: f64) -> PyResult<(&'static str, f64)> {
        let estimate = || {
            let task = self.task(asked)?;
            let mut slowest: Option<Estimate> = None;
            for group in &task.groups {
                let one = self.estimate_of(&task, group, bytes)?;
                if slowest.as_ref().is_none_or(|found| one.time > found.time) {
                    slowest = Some(one);
                }
            }
            Ok(slowest)
        };
        let found = py.detach(estimate).map_err(exception)?;
        Ok(found.map_or(("", 0.0), |found| (found.algorithm.name(), found.time)))
    }

    /// Name, form and seconds of every algorithm that can do it, on the first group.
    #[pyo3(signature = (asked, bytes, /))]
    fn candidates(&self, py: Python<'_>, asked: Asked, bytes: f64) -> PyResult<Vec<(&'static str, u32, f64)>> {
        let list = || {
            let task = self.task(asked)?;
            let found = self.estimator.candidates(task.operation, &task.groups[0], task.algorithm, &task.extra)?;
            Ok(found.iter().map(|(form, profile)| (form.name(), profile.steps, profile.time(bytes))).collect())
        };
        py.detach(list).map_err(exception)
    }

    /// Executes on one group; the algorithm must be one form.
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    #[pyo3(signature = (asked, reduction, dtype, item_size, wire, out, rounding, order, rng, arrays, /))]
    fn execute<'py>(
        &self,
        py: Python<'py>,
        asked: Asked,
        reduction: &str,
        dtype: &str,
        item_size: usize,
        wire: Option<&str>,
        out: Option<&str>,
        rounding: &Bound<'py, PyAny>,
        order: &str,
        rng: Option<Bound<'py, XorwowCore>>,
        arrays: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Arrays<'py>> {
        let task = self.task(asked).map_err(exception)?;
        let Some(form) = task.algorithm else {
            return Err(PyValueError::new_err("algorithm is 'auto'; execute needs one form"));
        };
        let element = if dtype == "opaque" {
            Element::Opaque { bytes: item_size.max(1) }
        } else {
            dtype.parse().map_err(exception)?
        };
        let arithmetic = Arithmetic {
            reduction: reduction.parse().map_err(exception)?,
            element,
            wire: format_of("dtype", wire)?,
            out: format_of("out_dtype", out)?,
            rounding: crate::arguments::rounding(rounding)?,
            order: match order {
                "schedule" => Order::Schedule,
                "index" => Order::Index,
                other => {
                    return Err(exception(Error::unknown("order", other, ["schedule", "index"])));
                }
            },
        };
        if (arithmetic.rounding == Rounding::Stochastic) != rng.is_some() {
            let text = "rng goes with rounding='stochastic', and only it: an Xorwow or a seed";
            return Err(PyValueError::new_err(text));
        }
        let inputs = buffers(&arrays)?;
        let slices: Vec<&[u8]> = inputs.iter().map(Words::as_slice).collect();
        let schedule = py.detach(|| self.schedule(&task, &task.groups[0], form)).map_err(exception)?;
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
        py.detach(work).map_err(exception)?;
        Ok(results.into_iter().map(Output::into_array).collect())
    }

    /// Cost of an operation of any lengths: a chunk's bytes for all_gather_v, those from each to each for all_to_all_v.
    #[allow(clippy::needless_pass_by_value)]
    #[pyo3(signature = (asked, sizes, /))]
    fn cost_v(&self, py: Python<'_>, asked: Asked, sizes: Vec<f64>) -> PyResult<String> {
        let describe = || {
            let task = self.task(asked)?;
            let [group] = &task.groups[..] else {
                return Err(Error::Value("group has several lists; one is allowed where lengths differ".to_owned()));
            };
            let is_pairs = task.operation == Operation::AllToAllV;
            let forms = match task.algorithm {
                Some(ref one) => one.forms(),
                None => Algorithm::of(task.operation),
            };
            let mut best = None;
            for &form in forms {
                let schedule = self.schedule(&task, group, form)?;
                let size_of = |piece: u32| {
                    let chunk = if is_pairs { piece } else { piece / schedule.channels };
                    let parts = if is_pairs { 1 } else { schedule.channels };
                    sizes.get(chunk as usize).copied().unwrap_or(0.0) / f64::from(parts)
                };
                let timing = self.estimator.simulate_sized(group, &schedule, 1.0, Some(&size_of))?;
                if best
                    .as_ref()
                    .is_none_or(|(_, found): &(Algorithm, trn3_system::collective::Timing)| timing.time < found.time)
                {
                    best = Some((form, timing));
                }
            }
            let Some((form, timing)) = best else {
                return Err(Error::Value(format!("{} has no algorithm", task.operation)));
            };
            let profile = &timing.profile;
            let mut assumptions = self.estimator.model().assumptions.clone();
            assumptions.push(format!("timed by: {}", timing.path));
            let links: Vec<(String, f64)> = profile
                .links
                .iter()
                .map(|&(link, carried)| (self.estimator.fabric().link_name(link), carried))
                .collect();
            let bytes: f64 = sizes.iter().sum();
            Ok(json!({
                "operation": task.operation.name(),
                "algorithm": form.family().0,
                "variant": form.family().1,
                "form": form.name(),
                "bytes": bytes,
                "steps": profile.steps,
                "time": timing.time,
                "estimate": profile.time(1.0),
                "latency": profile.latency,
                "binding": timing.binding,
                "hbm_touches": profile.accesses_per_chunk,
                "hbm_bytes": profile.accesses,
                "remote_bytes": profile.remote,
                "bytes_by_link": links,
                "channels": 1,
                "order": "no arithmetic",
                "assumptions": assumptions,
            }))
        };
        text(&py.detach(describe).map_err(exception)?)
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
            let schedule = self.schedule(&task, &task.groups[0], form)?;
            all_gather_v(&schedule, item_size, &slices, &mut targets)
        };
        py.detach(work).map_err(exception)?;
        Ok(results.into_iter().map(Output::into_array).collect())
    }

    /// Executes an all-to-all of any counts into the arrays `destinations`, which are copied.
    #[allow(clippy::too_many_arguments, clippy::needless_pass_by_value)]
    #[pyo3(signature = (asked, item_size, counts, from_displacements, to_displacements, arrays, destinations, /))]
    fn all_to_all_v<'py>(
        &self,
        py: Python<'py>,
        asked: Asked,
        item_size: usize,
        counts: Vec<u64>,
        from_displacements: Vec<u64>,
        to_displacements: Vec<u64>,
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
            let schedule = self.schedule(&task, &task.groups[0], form)?;
            targets.iter_mut().zip(&before).for_each(|(target, source)| target.copy_from_slice(source));
            let counts = Counts { counts, from: from_displacements, to: to_displacements };
            all_to_all_v(&schedule, item_size.max(1), &counts, &slices, &mut targets)
        };
        py.detach(work).map_err(exception)?;
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
        let work = || {
            // Each group is a stream of its own.
            let mut streams = Vec::new();
            let mut of = Vec::new();
            for (index, (asked, bytes, priority, start)) in running.into_iter().enumerate() {
                let task = self.task(asked)?;
                for group in &task.groups {
                    streams.push((self.estimate_of(&task, group, bytes)?, bytes, priority, start));
                    of.push(index);
                }
            }
            let running: Vec<Running<'_>> = streams
                .iter()
                .map(|(one, bytes, priority, start)| Running {
                    profile: &one.profile,
                    bytes: *bytes,
                    priority: *priority,
                    start: *start,
                })
                .collect();
            let spans = overlap(&self.estimator, &running)?;
            let mut found: Vec<(&'static str, f64, f64, f64)> = Vec::new();
            for ((index, (one, ..)), (begin, end)) in of.iter().zip(&streams).zip(spans) {
                if *index == found.len() {
                    found.push((one.algorithm.name(), one.time, begin, end));
                } else if let Some(last) = found.last_mut() {
                    last.1 = last.1.max(one.time);
                    last.2 = last.2.min(begin);
                    last.3 = last.3.max(end);
                }
            }
            Ok(found)
        };
        py.detach(work).map_err(exception)
    }
}
