//! One NeuronCore as a Python object.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, TryLockError};

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyNotImplementedError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{At, CoreOptions, NeuronCore};
use trn3_machine::cores;
use trn3_machine::dtype::DType;
use trn3_machine::isa::Instruction;
use trn3_machine::memory::{Precision, Request};
use trn3_machine::program::Recorder;
use trn3_machine::site::SiteId;
use trn3_machine::storage::Buffer;
use trn3_machine::view::View;
use trn3_profile::{PrecisionLoss, finding_record};

use crate::machine::error::{defect, exception, located};
use crate::machine::lines::Lines;
use crate::machine::operand::tensor;
use crate::machine::tensor::PyTensor;
use crate::value::to_python;

struct Inner {
    core: NeuronCore,
    lines: Lines,
    schedule: Schedule,
    /// Writes down what the core is given, while it is recorded.
    recorder: Option<Box<Recorder>>,
}

impl Inner {
    fn new(core: NeuronCore, internal: Vec<String>) -> Mutex<Self> {
        Mutex::new(Self { core, lines: Lines::new(internal), schedule: Schedule::default(), recorder: None })
    }

    /// Refuses what a program cannot hold.
    fn refuse_recording(&self, what: &str) -> PyResult<()> {
        match self.recorder {
            Some(_) => Err(PyNotImplementedError::new_err(format!("{what} cannot be part of a recorded program"))),
            None => Ok(()),
        }
    }
}

/// Edges between instructions by their names, beyond what data demands.
#[derive(Default)]
struct Schedule {
    /// Producers by consumer.
    edges: HashMap<String, Vec<String>>,
    /// The last instruction of each name, and the dynamic loops that it stood in.
    issued: HashMap<String, (u32, Vec<SiteId>)>,
    /// The lines of the dynamic loops that are running, outermost first.
    loops: Vec<SiteId>,
    /// The first edge between instructions of different dynamic loops: consumer and producer.
    crossing: Option<(String, String)>,
}

impl Schedule {
    /// Instructions that one of this name waits for.
    fn producers(&mut self, name: Option<&str>) -> Vec<u32> {
        let Some((consumer, producers)) = name.and_then(|name| self.edges.get_key_value(name)) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for producer in producers {
            if let Some((id, loops)) = self.issued.get(producer) {
                if *loops != self.loops && self.crossing.is_none() {
                    self.crossing = Some((consumer.clone(), producer.clone()));
                }
                found.push(*id);
            }
        }
        found
    }

    fn note(&mut self, name: Option<&str>, id: u32) {
        if let Some(name) = name.filter(|_| !self.edges.is_empty()) {
            self.issued.insert(name.to_owned(), (id, self.loops.clone()));
        }
    }

    /// Names of edges that no instruction had.
    fn unknown(&self) -> Vec<&str> {
        let names = self.edges.iter().flat_map(|(consumer, producers)| std::iter::once(consumer).chain(producers));
        let mut unknown: Vec<&str> =
            names.map(String::as_str).filter(|name| !self.issued.contains_key(*name)).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown
    }
}

/// One NeuronCore: memories, engines, timeline. Front ends issue instructions to it in program order.
#[pyclass(frozen, subclass, module = "trn3._trn3", name = "NeuronCore")]
pub(crate) struct PyCore {
    inner: Mutex<Inner>,
}

impl PyCore {
    fn lock(&self) -> PyResult<MutexGuard<'_, Inner>> {
        // A second taker is a function that an instruction runs: waiting for itself, it would wait for ever.
        self.inner.try_lock().map_err(|error| {
            PyRuntimeError::new_err(match error {
                TryLockError::WouldBlock => {
                    "the core is at work on an instruction; a function run by it cannot use the core"
                }
                TryLockError::Poisoned(_) => "the core met a defect earlier and cannot go on",
            })
        })
    }

    /// Issues an instruction on the line of the kernel that is calling.
    pub(crate) fn issue(
        &self,
        py: Python<'_>,
        instruction: &mut (dyn Instruction + Sync),
        name: Option<&str>,
    ) -> PyResult<u32> {
        let mut inner = self.lock()?;
        let Inner { core, lines, schedule, recorder } = &mut *inner;
        let site = lines.here(py, &core.sites)?;
        instruction.prepare(core.arch()).map_err(|error| located(error, &core.sites.text(site)))?;
        let after = schedule.producers(name);
        let step = recorder.as_mut().map(|recorder| recorder.encode(instruction, name, &after)).transpose();
        let step = step.map_err(|error| located(error, &core.sites.text(site)))?;
        let outcome =
            catch_unwind(AssertUnwindSafe(|| core.issue(instruction, At { site, label: name, after: &after })));
        match outcome {
            Ok(Ok(id)) => {
                schedule.note(name, id);
                if let (Some(recorder), Some(step)) = (recorder, step) {
                    recorder.commit(step);
                }
                Ok(id)
            }
            Ok(Err(error)) => Err(located(error, &core.sites.text(site))),
            Err(_) => Err(defect(&format!("{} panicked at {}", instruction.name(), core.sites.text(site)))),
        }
    }

    /// Runs something of the core that belongs to the line of the kernel that is calling.
    pub(crate) fn with<R>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut NeuronCore, SiteId) -> trn3_machine::Result<R>,
    ) -> PyResult<R> {
        let mut inner = self.lock()?;
        let Inner { core, lines, .. } = &mut *inner;
        let site = lines.here(py, &core.sites)?;
        core.state.site = site;
        match catch_unwind(AssertUnwindSafe(|| work(core, site))) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(located(error, &core.sites.text(site))),
            Err(_) => Err(defect(&format!("a panic at {}", core.sites.text(site)))),
        }
    }

    /// Runs something of the core that belongs to a line of the kernel where it stopped before.
    pub(crate) fn at<R>(
        &self,
        site: SiteId,
        work: impl FnOnce(&mut NeuronCore) -> trn3_machine::Result<R>,
    ) -> PyResult<R> {
        let mut inner = self.lock()?;
        let core = &mut inner.core;
        core.state.site = site;
        core.state.memory.set_site(site);
        match catch_unwind(AssertUnwindSafe(|| work(core))) {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(located(error, &core.sites.text(site))),
            Err(_) => Err(defect(&format!("a panic at {}", core.sites.text(site)))),
        }
    }

    /// Lets one instruction wait for another.
    pub(crate) fn order(&self, consumer: u32, producer: u32) -> PyResult<()> {
        let mut inner = self.lock()?;
        inner.core.order(consumer, producer).map_err(exception)?;
        if let Some(recorder) = &mut inner.recorder {
            recorder.order(consumer, producer);
        }
        Ok(())
    }
}

/// Runs something of several cores at once; the named instructions get the edges of the schedule.
pub(crate) fn together(
    owners: &[&PyCore],
    names: &[Option<&str>],
    work: impl FnOnce(Vec<&mut NeuronCore>, &[Vec<u32>]) -> trn3_machine::Result<Vec<u32>>,
) -> PyResult<trn3_machine::Result<Vec<u32>>> {
    let mut guards = owners.iter().map(|owner| owner.lock()).collect::<PyResult<Vec<_>>>()?;
    guards.iter().try_for_each(|inner| inner.refuse_recording("what cores or ranks do together"))?;
    let after: Vec<Vec<u32>> =
        guards.iter_mut().zip(names).map(|(inner, name)| inner.schedule.producers(*name)).collect();
    let cores = guards.iter_mut().map(|inner| &mut inner.core).collect();
    let outcome =
        catch_unwind(AssertUnwindSafe(|| work(cores, &after))).map_err(|_| defect("a panic where cores met"))?;
    if let Ok(ids) = &outcome {
        for ((inner, name), id) in guards.iter_mut().zip(names).zip(ids) {
            inner.schedule.note(*name, *id);
        }
    }
    Ok(outcome)
}

fn buffer(code: u8) -> Buffer {
    match code {
        0 => Buffer::Sbuf,
        1 => Buffer::Psum,
        2 => Buffer::PrivateHbm,
        _ => Buffer::SharedHbm,
    }
}

#[pymethods]
impl PyCore {
    #[new]
    #[pyo3(signature = (arch="trn3", *, values=true, timing=true, strict=false, max_instructions=None, throttle=false, precise=false, nan_origin=true, shadow=false, internal=Vec::new(), beside=Vec::new()))]
    #[allow(clippy::too_many_arguments)] // One for each option.
    fn new(
        arch: &str,
        values: bool,
        timing: bool,
        strict: bool,
        max_instructions: Option<u64>,
        throttle: bool,
        precise: bool,
        nan_origin: bool,
        shadow: bool,
        internal: Vec<String>,
        beside: Vec<PyRef<'_, PyCore>>,
    ) -> PyResult<Self> {
        if let Some(first) = beside.first() {
            // Of one logical core: machine and options are the first one's.
            let mut inner = first.lock()?;
            cores::check_count(&inner.core, beside.len() + 1).map_err(exception)?;
            let core = NeuronCore::beside(&mut inner.core, beside.len()).map_err(exception)?;
            return Ok(Self { inner: Inner::new(core, internal) });
        }
        let arch = ArchSpec::shared(arch).map_err(exception)?;
        let precision = if precise { Precision::Float32 } else { Precision::Declared };
        let options = CoreOptions { values, timing, strict, max_instructions, throttle, precision, nan_origin, shadow };
        let core = NeuronCore::new(arch, options).map_err(exception)?;
        Ok(Self { inner: Inner::new(core, internal) })
    }

    /// Entries of the spec: (key, value, unit, source).
    fn arch_entries(&self) -> PyResult<Vec<(String, f64, String, String)>> {
        let inner = self.lock()?;
        let entries = inner.core.arch().entries().iter();
        Ok(entries.map(|entry| (entry.key.clone(), entry.value, entry.unit.clone(), entry.source.clone())).collect())
    }

    /// Values of the spec by key.
    fn arch_values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let inner = self.lock()?;
        let values = PyDict::new(py);
        for entry in inner.core.arch().entries() {
            values.set_item(&entry.key, entry.value)?;
        }
        Ok(values)
    }

    /// Name of the spec and generation of the core.
    #[getter]
    fn arch(&self) -> PyResult<(String, u64)> {
        let inner = self.lock()?;
        Ok((inner.core.arch().name.clone(), inner.core.arch().generation))
    }

    /// Its number among the cores of its logical core.
    #[getter]
    fn number(&self) -> PyResult<usize> {
        Ok(self.lock()?.core.number())
    }

    /// Whether values are computed.
    #[getter]
    fn values(&self) -> PyResult<bool> {
        Ok(self.lock()?.core.options.values)
    }

    /// Instructions issued so far.
    #[getter]
    fn issued(&self) -> PyResult<u64> {
        Ok(self.lock()?.core.issued())
    }

    /// A new tensor on chip or in HBM; `address` is (partition, byte).
    fn allocate(
        &self,
        py: Python<'_>,
        shape: Vec<usize>,
        dtype: &str,
        buffer: u8,
        name: &str,
        address: Option<(usize, usize)>,
    ) -> PyResult<PyTensor> {
        let dtype: DType = dtype.parse().map_err(exception)?;
        let buffer = self::buffer(buffer);
        let storage =
            self.with(py, |core, site| core.allocate(&Request { name, shape: &shape, dtype, buffer, address, site }))?;
        let mut inner = self.lock()?;
        let Inner { core, recorder, .. } = &mut *inner;
        if let Some(recorder) = recorder {
            recorder.allocated(&storage, core.state.memory.allocated_afresh()).map_err(exception)?;
        }
        Ok(PyTensor { view: View::whole(storage) })
    }

    /// An HBM tensor that holds an argument's bytes (C order); None in timing-only runs: its values are unknown.
    fn input(
        &self,
        py: Python<'_>,
        bytes: Option<PyReadonlyArray1<'_, u8>>,
        shape: Vec<usize>,
        dtype: &str,
        buffer: u8,
        name: &str,
    ) -> PyResult<PyTensor> {
        let dtype: DType = dtype.parse().map_err(exception)?;
        let bytes = bytes.map(|bytes| bytes.as_slice().map(<[u8]>::to_vec)).transpose()?;
        let buffer = self::buffer(buffer);
        let storage =
            self.with(py, |core, site| core.state.memory.hbm_from_bytes(name, &shape, dtype, buffer, bytes, site))?;
        if let Some(recorder) = &mut self.lock()?.recorder {
            let contents = storage.hbm.lock().map_err(|_| defect("the bytes of a tensor are poisoned"))?;
            recorder.input(&storage, contents.complete.then_some(&contents.bytes[..])).map_err(exception)?;
        }
        Ok(PyTensor { view: View::whole(storage) })
    }

    /// The elements of a tensor in C order, as bytes; uninitialised ones hold the sentinel.
    fn read<'py>(&self, py: Python<'py>, tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let view = self::tensor("read", "tensor", tensor)?.clone();
        let bytes = self.with(py, |core, _| core.state.peek_bytes(&view))?;
        Ok(PyArray1::from_vec(py, bytes))
    }

    /// Sets the elements of a tensor from the host, in C order, without an instruction.
    fn write_bytes(&self, py: Python<'_>, tensor: &Bound<'_, PyAny>, bytes: PyReadonlyArray1<'_, u8>) -> PyResult<()> {
        let view = self::tensor("write", "tensor", tensor)?.clone();
        self.lock()?.refuse_recording("a tensor that the host sets while the kernel runs")?;
        let bytes = bytes.as_slice()?;
        self.with(py, |core, _| core.write_bytes(&view, bytes))
    }

    /// Whether an instruction wrote to the HBM tensor.
    fn written(&self, tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
        let view = self::tensor("written", "tensor", tensor)?;
        Ok(view.storage.hbm.lock().is_ok_and(|hbm| hbm.written))
    }

    /// Whether every element of a tensor is known and was written.
    fn is_initialised(&self, tensor: &Bound<'_, PyAny>) -> PyResult<bool> {
        let view = self::tensor("is_initialised", "tensor", tensor)?;
        self.lock()?.core.state.memory.is_initialised(view).map_err(exception)
    }

    /// Seeds stochastic rounding of engine results, or turns it off.
    fn set_stochastic_rounding(&self, seed: Option<u64>) -> PyResult<()> {
        let mut inner = self.lock()?;
        inner.core.set_stochastic_rounding(seed).map_err(exception)?;
        if let Some(recorder) = &mut inner.recorder {
            recorder.stochastic_rounding(seed);
        }
        Ok(())
    }

    /// Writes down from here on what the core is given, as a program of that name.
    fn start_recording(&self, name: &str) -> PyResult<()> {
        let mut inner = self.lock()?;
        let arch = inner.core.arch().name.clone();
        inner.recorder = Some(Box::new(Recorder::new(name, &arch)));
        Ok(())
    }

    /// The program recorded, as JSON, and ends the recording. Arguments are numbers of storages, and whether the kernel
    /// wrote to them; results are names and tensors.
    fn recorded(&self, arguments: Vec<(u64, bool)>, results: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<String> {
        let recorder = self.lock()?.recorder.take();
        let recorder =
            recorder.ok_or_else(|| PyValueError::new_err("the core was not recorded: start_recording first"))?;
        let view = |(name, object): &(String, Bound<'_, PyAny>)| {
            Ok((name.clone(), self::tensor("recorded", "result", object)?.clone()))
        };
        let results = results.iter().map(view).collect::<PyResult<Vec<_>>>()?;
        recorder.finish_with(&arguments, &results).and_then(|program| program.to_json()).map_err(exception)
    }

    /// Edges that instructions get by name: (consumer, producers).
    fn schedule(&self, edges: Vec<(String, Vec<String>)>) -> PyResult<()> {
        let mut inner = self.lock()?;
        for (consumer, producers) in edges {
            inner.schedule.edges.entry(consumer).or_default().extend(producers);
        }
        Ok(())
    }

    /// A dynamic loop begins: what follows is its body, until `leave_loop`.
    fn enter_loop(&self, py: Python<'_>) -> PyResult<()> {
        let mut inner = self.lock()?;
        let Inner { core, lines, schedule, .. } = &mut *inner;
        schedule.loops.push(lines.here(py, &core.sites)?);
        Ok(())
    }

    /// The dynamic loop that began last has ended.
    fn leave_loop(&self) -> PyResult<()> {
        self.lock()?.schedule.loops.pop();
        Ok(())
    }

    /// Refuses edges whose names no instruction had.
    fn check_schedule(&self) -> PyResult<()> {
        let inner = self.lock()?;
        if let Some((consumer, producer)) = &inner.schedule.crossing {
            return Err(PyValueError::new_err(format!(
                "with_schedule lets {consumer} wait for {producer}, which stands in another dynamic loop; allowed: \
                 both in the same body of nl.dynamic_range, fori_loop or while_loop, or both in none"
            )));
        }
        match inner.schedule.unknown()[..] {
            [] => Ok(()),
            ref unknown => Err(PyValueError::new_err(format!(
                "with_schedule names {}, which no instruction of the run has as name=",
                unknown.join(", ")
            ))),
        }
    }

    /// The kernel line that is calling, as `file:line`.
    fn line(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |core, site| Ok(core.sites.text(site)))
    }

    /// Makespan so far, in picoseconds.
    fn makespan(&self) -> PyResult<u64> {
        Ok(self.lock()?.core.makespan().0)
    }

    /// What was noticed: a list of dicts.
    fn findings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut inner = self.lock()?;
        let Inner { core, .. } = &mut *inner;
        let found = core.state.memory.findings().iter();
        to_python(py, &found.map(|finding| finding_record(finding, &core.sites)).collect::<Vec<_>>())
    }

    /// What a shadow run found that instructions lose: a list of dicts; empty without one.
    fn precision<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let inner = self.lock()?;
        let losses = inner.core.losses().into_iter();
        to_python(py, &losses.map(|loss| PrecisionLoss::of(loss, &inner.core.sites)).collect::<Vec<_>>())
    }

    /// Everything the timeline holds, as the arrays that `trn3.machine.Profile` is made of.
    fn profile<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let mut inner = self.lock()?;
        crate::machine::profile::arrays(py, &mut inner.core)
    }
}
