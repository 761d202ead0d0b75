//! One NeuronCore as a Python object.

mod together;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use trn3_compiler::CompileLevel;
use trn3_machine::arch::ArchSpec;
use trn3_machine::conductor::Conductor;
use trn3_machine::core::NeuronCore;
use trn3_machine::dtype::DType;
use trn3_machine::isa::Instruction;
use trn3_machine::meeting;
use trn3_machine::memory::Request;
use trn3_machine::program::Recorder;
use trn3_machine::site::{Site, SiteId};
use trn3_machine::storage::try_copy;
use trn3_machine::view::View;
use trn3_profile::{CompileFigures, PrecisionLoss, finding_record};

use crate::door;
use crate::machine::description::PyDescription;
use crate::machine::error::exception;
use crate::machine::handle::PyTensor;
use crate::machine::kinds::buffer_of;
use crate::machine::lines::{Folders, Lines};
use crate::machine::operand::tensor;
use crate::machine::options::core_options;
use crate::machine::register::PyRegister;
use crate::value::to_python;

pub(crate) use together::{CoreStep, together};

struct Inner {
    core: NeuronCore,
    lines: Lines,
    conductor: Conductor,
    level: CompileLevel,
    compiled: Option<CompileFigures>,
}

impl Inner {
    fn new(core: NeuronCore, lines: Lines, level: CompileLevel) -> Mutex<Self> {
        Mutex::new(Self { core, lines, conductor: Conductor::default(), level, compiled: None })
    }
}

/// Elements from which an instruction is worth letting go of the interpreter.
const LONG: usize = 1 << 16;

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
        instruction: &mut (dyn Instruction + Send + Sync),
        name: Option<&str>,
    ) -> PyResult<u32> {
        let mut inner = self.lock()?;
        let Inner { core, lines, conductor, .. } = &mut *inner;
        let site = lines.here(py, &core.sites)?;
        let outcome = door::attached(|| core.examine(instruction)).and_then(|examined| {
            let work = || conductor.issue_examined(core, instruction, examined, site, name);
            if examined.elements >= LONG { door::detached(py, work) } else { door::attached(work) }
        });
        outcome.map_err(|failure| failure.exception(&core.sites.text(site)))
    }

    /// Runs something short of the core that belongs to the line of the kernel that is calling.
    pub(crate) fn with<R>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut NeuronCore, &mut Conductor) -> trn3_machine::Result<R>,
    ) -> PyResult<R> {
        let mut inner = self.lock()?;
        let Inner { core, lines, conductor, .. } = &mut *inner;
        let site = lines.here(py, &core.sites)?;
        core.state.site = site;
        let outcome = door::attached(|| work(core, conductor));
        outcome.map_err(|failure| failure.exception(&core.sites.text(site)))
    }

    /// As [`PyCore::with`], for what moves a tensor's bytes.
    fn with_bytes<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut NeuronCore, &mut Conductor) -> trn3_machine::Result<R> + Send,
    ) -> PyResult<R> {
        let mut inner = self.lock()?;
        let Inner { core, lines, conductor, .. } = &mut *inner;
        let site = lines.here(py, &core.sites)?;
        core.state.site = site;
        let outcome = door::detached(py, || work(core, conductor));
        outcome.map_err(|failure| failure.exception(&core.sites.text(site)))
    }

    /// Runs something of the core that belongs to a line of the kernel where it stopped before.
    pub(crate) fn at<R: Send>(
        &self,
        py: Python<'_>,
        site: SiteId,
        work: impl FnOnce(&mut NeuronCore) -> trn3_machine::Result<R> + Send,
    ) -> PyResult<R> {
        let mut inner = self.lock()?;
        let core = &mut inner.core;
        core.state.site = site;
        core.state.memory.set_site(site);
        let outcome = door::detached(py, || work(core));
        outcome.map_err(|failure| failure.exception(&core.sites.text(site)))
    }

    /// The calls through which lines of its kernel were first reached: file, line and function, outermost first.
    pub(crate) fn callers(&self) -> PyResult<BTreeMap<u32, Vec<(String, u32, String)>>> {
        let inner = self.lock()?;
        let taken = |site: &Site| (site.file.clone(), site.line, site.function.clone());
        let callers = inner.lines.callers().iter();
        Ok(callers.map(|(site, callers)| (site.0, callers.iter().map(taken).collect())).collect())
    }

    /// What writes down what it is given, which it does no longer.
    pub(crate) fn take_recorder(&self) -> PyResult<Recorder> {
        self.lock()?.conductor.take_recorder().map_err(exception)
    }

    /// A core whose run is over, and compiled.
    pub(crate) fn finished(core: NeuronCore, level: CompileLevel, figures: CompileFigures) -> Self {
        let (lines, conductor) = (Lines::new(Arc::default(), false), Conductor::default());
        Self { inner: Mutex::new(Inner { core, lines, conductor, level, compiled: Some(figures) }) }
    }

    /// Keeps what the compiler says of its run.
    pub(crate) fn set_compiled(&self, figures: CompileFigures) -> PyResult<()> {
        self.lock()?.compiled = Some(figures);
        Ok(())
    }

    /// What the compiler said of its run, if it was compiled.
    pub(crate) fn compiled(&self) -> PyResult<Option<CompileFigures>> {
        Ok(self.lock()?.compiled.clone())
    }

    /// Lets one instruction wait for another.
    pub(crate) fn order(&self, consumer: u32, producer: u32) -> PyResult<()> {
        let mut inner = self.lock()?;
        let Inner { core, conductor, .. } = &mut *inner;
        conductor.order(core, consumer, producer).map_err(exception)
    }
}

#[pymethods]
impl PyCore {
    #[new]
    #[pyo3(
        signature = (arch="trn3", *, internal=Vec::new(), commands=Vec::new(), beside=Vec::new(), **options),
        text_signature = "(arch=\"trn3\", *, values=True, timing=True, strict=False, max_instructions=None, \
            max_host_bytes=None, throttle=False, precise=False, nan_origin=True, shadow=False, \
            unlimited=False, compile=\"as-written\", internal=..., commands=..., beside=...)"
    )]
    fn new(
        arch: &str,
        internal: Vec<String>,
        commands: Vec<String>,
        beside: Vec<PyRef<'_, PyCore>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let ((options, level), folders) = (core_options(options)?, Folders::shared(internal, commands));
        if let Some(first) = beside.first() {
            // Of one logical core: machine and options are the first one's.
            let mut inner = first.lock()?;
            meeting::check_count(&inner.core, beside.len() + 1).map_err(exception)?;
            let core = NeuronCore::beside(&mut inner.core, beside.len()).map_err(exception)?;
            let lines = Lines::new(folders, core.options.timing);
            return Ok(Self { inner: Inner::new(core, lines, inner.level) });
        }
        let mut core = NeuronCore::new(ArchSpec::shared(arch).map_err(exception)?, options).map_err(exception)?;
        core.time_aside();
        let lines = Lines::new(folders, options.timing);
        Ok(Self { inner: Inner::new(core, lines, level) })
    }

    /// Entries of the spec: (key, value, unit, source).
    fn arch_entries(&self) -> PyResult<Vec<(String, f64, String, String)>> {
        let inner = self.lock()?;
        let entries = inner.core.arch().entries().iter();
        Ok(entries.map(|entry| (entry.key.clone(), entry.value, entry.unit.clone(), entry.source.clone())).collect())
    }

    /// Values of the spec by key.
    fn arch_values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.description()?.values(py)
    }

    /// The spec, for those who look at it later.
    #[getter]
    fn description(&self) -> PyResult<PyDescription> {
        Ok(PyDescription { arch: self.machine()? })
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
        let buffer = buffer_of(buffer);
        let storage = self.with(py, |core, conductor| {
            let site = core.state.site;
            conductor.allocate(core, &Request { name, shape: &shape, dtype, buffer, address, site })
        })?;
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
        let bytes = bytes.as_ref().map(|bytes| bytes.as_slice()).transpose()?;
        let buffer = buffer_of(buffer);
        let declared = (&shape[..], dtype, buffer);
        let storage = self.with_bytes(py, |core, conductor| {
            let copy = |bytes: &[u8]| {
                core.state.memory.check_host(name, &shape, dtype, bytes.len())?;
                try_copy(bytes, format_args!("tensor `{name}` {shape:?} {dtype} of {} bytes", bytes.len()))
            };
            let bytes = bytes.map(copy).transpose()?;
            conductor.input(core, name, declared, bytes)
        })?;
        Ok(PyTensor { view: View::whole(storage) })
    }

    /// The elements of a tensor in C order, as bytes; uninitialised ones hold the sentinel.
    fn read<'py>(&self, py: Python<'py>, tensor: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<u8>>> {
        let view = self::tensor("read", "tensor", tensor)?.clone();
        let bytes = self.with_bytes(py, |core, _| core.state.peek_bytes(&view))?;
        Ok(PyArray1::from_vec(py, bytes))
    }

    /// Sets the elements of a tensor from the host, in C order, without an instruction.
    fn write_bytes(&self, py: Python<'_>, tensor: &Bound<'_, PyAny>, bytes: PyReadonlyArray1<'_, u8>) -> PyResult<()> {
        let view = self::tensor("write", "tensor", tensor)?.clone();
        let bytes = bytes.as_slice()?;
        self.with_bytes(py, |core, conductor| {
            conductor.refuse_recording("a tensor that the host sets while the kernel runs")?;
            core.write_bytes(&view, bytes)
        })
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

    /// Seeds stochastic rounding of engine results, or turns it off; `place` is the core's in its launch.
    #[pyo3(signature = (seed, place = 0))]
    fn set_stochastic_rounding(&self, seed: Option<u64>, place: usize) -> PyResult<()> {
        let mut inner = self.lock()?;
        let Inner { core, conductor, .. } = &mut *inner;
        conductor.set_stochastic_rounding(core, seed, place).map_err(exception)
    }

    /// Follows from here on through which element types values come.
    fn follow_types(&self) -> PyResult<()> {
        self.lock()?.conductor.follow_types();
        Ok(())
    }

    /// The narrowest floating-point type on the way to a tensor, None of integers alone; and whether it is that of this
    /// tensor rather than of all instructions, as it is where the core met others.
    fn narrowest(&self, tensor: &Bound<'_, PyAny>) -> PyResult<(Option<&'static str>, bool)> {
        let view = self::tensor("narrowest", "tensor", tensor)?;
        let inner = self.lock()?;
        let Some(types) = inner.conductor.lineage() else {
            return Err(PyValueError::new_err("the core follows no types: follow_types first"));
        };
        let found = if types.has_met() { types.narrowest() } else { types.narrowest_of(&view.storage) };
        Ok((found.map(DType::name), !types.has_met()))
    }

    /// Writes down from here on what the core is given, as a program of that name; `loops`: with its loops.
    #[pyo3(signature = (name, loops = false))]
    fn start_recording(&self, name: &str, loops: bool) -> PyResult<()> {
        let mut inner = self.lock()?;
        let Inner { core, conductor, .. } = &mut *inner;
        conductor.record(core, name);
        if loops {
            conductor.record_loops();
        }
        Ok(())
    }

    /// The program recorded, as JSON, and ends the recording. Arguments are numbers of storages, and whether the kernel
    /// wrote to them; results are names and tensors.
    fn recorded(
        &self,
        py: Python<'_>,
        arguments: Vec<(u64, bool)>,
        results: Vec<(String, Bound<'_, PyAny>)>,
    ) -> PyResult<String> {
        let view = |(name, object): &(String, Bound<'_, PyAny>)| {
            Ok((name.clone(), self::tensor("recorded", "result", object)?.clone()))
        };
        let results = results.iter().map(view).collect::<PyResult<Vec<_>>>()?;
        let conductor = &mut self.lock()?.conductor;
        door::run(py, || conductor.recorded(&arguments, &results)?.to_json())
    }

    /// Edges that instructions get by name: (consumer, producers).
    fn schedule(&self, edges: Vec<(String, Vec<String>)>) -> PyResult<()> {
        let mut inner = self.lock()?;
        for (consumer, producers) in edges {
            inner.conductor.edges.add(consumer, producers);
        }
        Ok(())
    }

    /// Makes a register one of this launch, under a name for messages; refuses one of another launch or core.
    fn own_register(&self, register: &Bound<'_, PyRegister>, name: &str) -> PyResult<()> {
        self.lock()?.core.state.memory.own_register(&register.get().register, name).map_err(exception)
    }

    /// A dynamic loop begins: what follows is its body, until `leave_loop`.
    fn enter_loop(&self, py: Python<'_>) -> PyResult<()> {
        let mut inner = self.lock()?;
        let Inner { core, lines, conductor, .. } = &mut *inner;
        conductor.edges.enter_loop(lines.here(py, &core.sites)?);
        Ok(())
    }

    /// The dynamic loop that began last has ended.
    fn leave_loop(&self) -> PyResult<()> {
        self.lock()?.conductor.edges.leave_loop();
        Ok(())
    }

    /// The level of the compiler that its run is for.
    #[getter]
    fn compile_level(&self) -> PyResult<&'static str> {
        Ok(self.lock()?.level.name())
    }

    /// Whether a trace of the run is kept, for a compiler.
    #[getter]
    fn keeps_trace(&self) -> PyResult<bool> {
        Ok(self.lock()?.core.keeps_trace())
    }

    /// Whether somebody wants to know of loops: a trace, or a program that is written down with them.
    #[getter]
    fn notes_loops(&self) -> PyResult<bool> {
        let inner = self.lock()?;
        Ok(inner.conductor.notes_loops(&inner.core))
    }

    /// A loop of the kernel begins: of this kind, as `nki.language` spells it, and so many iterations, if that is known.
    fn begin_loop(&self, py: Python<'_>, kind: &str, trip: Option<u32>) -> PyResult<()> {
        let kind = kind.parse().map_err(exception)?;
        self.with(py, |core, conductor| {
            conductor.begin_loop(core, kind, trip);
            Ok(())
        })
    }

    /// The next iteration of the innermost loop begins; the first one too.
    fn next_iteration(&self) -> PyResult<()> {
        let mut inner = self.lock()?;
        let Inner { core, conductor, .. } = &mut *inner;
        conductor.next_iteration(core);
        Ok(())
    }

    /// The innermost loop has ended.
    fn end_loop(&self) -> PyResult<()> {
        let mut inner = self.lock()?;
        let Inner { core, conductor, .. } = &mut *inner;
        conductor.end_loop(core);
        Ok(())
    }

    /// The iteration that the kernel is in.
    fn scope(&self) -> PyResult<u32> {
        Ok(self.lock()?.core.scope())
    }

    /// What is issued from here on is part of that iteration.
    fn set_scope(&self, scope: u32) -> PyResult<()> {
        self.lock()?.core.set_scope(scope);
        Ok(())
    }

    /// The author orders what is issued from here on, or no longer.
    fn set_ordered(&self, is_ordered: bool) -> PyResult<()> {
        let mut inner = self.lock()?;
        let Inner { core, conductor, .. } = &mut *inner;
        conductor.set_ordered(core, is_ordered);
        Ok(())
    }

    /// Refuses edges whose names no instruction had.
    fn check_schedule(&self) -> PyResult<()> {
        self.lock()?.conductor.edges.check().map_err(exception)
    }

    /// The kernel line that is calling, as `file:line`.
    fn line(&self, py: Python<'_>) -> PyResult<String> {
        self.with(py, |core, _| Ok(core.sites.text(core.state.site)))
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
