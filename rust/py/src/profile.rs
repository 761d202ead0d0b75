//! Bindings of profiles: columns in, figures, tables and files out.

use std::collections::BTreeMap;
use std::sync::Arc;

use numpy::{Element, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use serde_json::{Map, Value};
use trn3_profile::{
    AdviceFigures, BOUNDS, BasisTime, CAUSES, CompileFigures, CoreProfile, ENGINES, Error, InstructionColumns,
    LazyAdvice, MachineFigures, NO_INSTRUCTION, OccupancyColumns, PrecisionLoss, Profile, Recorded, ReportShell,
    ReportedFinding, RunColumns, TABLES, TransferColumns,
};

use crate::door;
use crate::machine::core::PyCore;
use crate::value::{dict, plain, to_python};

fn exception(error: Error) -> PyErr {
    match error {
        Error::Type(text) => PyTypeError::new_err(text),
        Error::Value(text) => PyValueError::new_err(text),
    }
}

fn column<T: Element + Copy>(owner: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<T>> {
    Ok(owner.getattr(name)?.extract::<PyReadonlyArray1<'_, T>>()?.as_array().to_vec())
}

fn instructions(owner: &Bound<'_, PyAny>) -> PyResult<InstructionColumns> {
    Ok(InstructionColumns {
        opcode: column(owner, "opcode")?,
        engine: column(owner, "engine")?,
        queue: column(owner, "queue")?,
        site: column(owner, "site")?,
        label: column(owner, "label")?,
        start_ps: column(owner, "start_ps")?,
        slot_end_ps: column(owner, "slot_end_ps")?,
        end_ps: column(owner, "end_ps")?,
        wait_ps: column(owner, "wait_ps")?,
        cause: column(owner, "cause")?,
        waited_on: column(owner, "waited_on")?,
        ready_ps: column(owner, "ready_ps")?,
        bound: column(owner, "bound")?,
        dma_bytes: column(owner, "dma_bytes")?,
        hbm_read: column(owner, "hbm_read")?,
        hbm_write: column(owner, "hbm_write")?,
        macs: column(owner, "macs")?,
        peak_macs_per_cycle: column(owner, "peak_macs_per_cycle")?,
    })
}

fn transfers(owner: &Bound<'_, PyAny>) -> PyResult<TransferColumns> {
    Ok(TransferColumns {
        instruction: column(owner, "instruction")?,
        dma_engine: column(owner, "dma_engine")?,
        start_ps: column(owner, "start_ps")?,
        end_ps: column(owner, "end_ps")?,
        bytes: column(owner, "bytes")?,
    })
}

fn occupancy(owner: &Bound<'_, PyAny>) -> PyResult<OccupancyColumns> {
    let packed = |name: &str| Ok::<_, PyErr>(column::<u64>(owner, name)?.into_iter().collect());
    Ok(OccupancyColumns {
        time_ps: packed("time_ps")?,
        sbuf_bytes: packed("sbuf_bytes")?,
        psum_bytes: packed("psum_bytes")?,
        sbuf_peak_bytes: owner.getattr("sbuf_peak_bytes")?.extract()?,
        psum_peak_bytes: owner.getattr("psum_peak_bytes")?.extract()?,
    })
}

fn entries(what: &str, object: &Bound<'_, PyAny>) -> PyResult<Map<String, Value>> {
    match plain(what, object)? {
        Value::Object(entries) => Ok(entries),
        _ => Err(PyTypeError::new_err(format!("{what} is a {}, must be a dict", object.get_type().name()?))),
    }
}

fn loss(record: &Bound<'_, PyAny>) -> PyResult<PrecisionLoss> {
    let refused = |error: serde_json::Error| PyValueError::new_err(format!("precision: {error}"));
    serde_json::from_value(plain("precision", record)?).map_err(refused)
}

fn basis(record: &Bound<'_, PyAny>) -> PyResult<BasisTime> {
    let refused = |error: serde_json::Error| PyValueError::new_err(format!("basis: {error}"));
    serde_json::from_value(plain("basis", record)?).map_err(refused)
}

fn compiled(record: &Bound<'_, PyAny>) -> PyResult<Option<CompileFigures>> {
    let refused = |error: serde_json::Error| PyValueError::new_err(format!("compile: {error}"));
    serde_json::from_value(plain("compile", record)?).map_err(refused)
}

fn recorded(record: &Bound<'_, PyAny>) -> PyResult<Recorded> {
    if record.is_none() {
        return Ok(Recorded::default());
    }
    let refused = |error: serde_json::Error| PyValueError::new_err(format!("recorded: {error}"));
    serde_json::from_value(plain("recorded", record)?).map_err(refused)
}

fn advised(record: &Bound<'_, PyAny>) -> PyResult<Option<AdviceFigures>> {
    let refused = |error: serde_json::Error| PyValueError::new_err(format!("advice: {error}"));
    serde_json::from_value(plain("advice", record)?).map_err(refused)
}

/// Columns from an object with the fields of `ProfileData`, unchecked.
fn run_columns(data: &Bound<'_, PyAny>) -> PyResult<RunColumns> {
    let arch = MachineFigures::from_entries(entries("arch", &data.getattr("arch")?)?).map_err(exception)?;
    let site = |site: Bound<'_, PyAny>| {
        site.extract().map_err(|error: PyErr| match error.is_instance_of::<PyOverflowError>(site.py()) {
            true => PyValueError::new_err(format!("sites holds {site}; allowed: lines from 0 on")),
            false => error,
        })
    };
    let columns = RunColumns {
        arch,
        kernel: data.getattr("kernel")?.extract()?,
        latency_ps: data.getattr("latency_ps")?.extract()?,
        overhead_ps: data.getattr("overhead_ps")?.extract()?,
        opcodes: data.getattr("opcodes")?.extract()?,
        labels: data.getattr("labels")?.extract()?,
        sites: data.getattr("sites")?.try_iter()?.map(|each| site(each?)).collect::<PyResult<_>>()?,
        findings: data
            .getattr("findings")?
            .try_iter()?
            .map(|each| entries("findings", &each?))
            .collect::<PyResult<_>>()?,
        instructions: instructions(&data.getattr("instructions")?)?,
        transfers: transfers(&data.getattr("transfers")?)?,
        occupancy: occupancy(&data.getattr("occupancy")?)?,
        critical: column(data, "critical")?,
        precision: data.getattr("precision")?.try_iter()?.map(|each| loss(&each?)).collect::<PyResult<_>>()?,
        basis: data.getattr("basis")?.try_iter()?.map(|each| basis(&each?)).collect::<PyResult<_>>()?,
        compile: compiled(&data.getattr("compile")?)?,
        recorded: recorded(&data.getattr("recorded")?)?.into(),
        advice: LazyAdvice::known(advised(&data.getattr("advice")?)?),
    };
    Ok(columns)
}

#[pyfunction]
fn check_instructions(columns: &Bound<'_, PyAny>) -> PyResult<()> {
    trn3_profile::check_instructions(&instructions(columns)?).map_err(exception)
}

#[pyfunction]
fn check_waits(columns: &Bound<'_, PyAny>) -> PyResult<()> {
    trn3_profile::check_waits(&instructions(columns)?).map_err(exception)
}

#[pyfunction]
fn check_transfers(columns: &Bound<'_, PyAny>) -> PyResult<()> {
    trn3_profile::check_transfers(&transfers(columns)?).map_err(exception)
}

#[pyfunction]
fn check_occupancy(columns: &Bound<'_, PyAny>) -> PyResult<()> {
    trn3_profile::check_occupancy(&occupancy(columns)?).map_err(exception)
}

/// Looks at what parts say of one another, which were looked at each for itself.
#[pyfunction]
fn check_run(data: &Bound<'_, PyAny>) -> PyResult<()> {
    run_columns(data)?.check_across().map_err(exception)
}

/// The fields of the record of a finding, taken apart.
#[pyfunction]
#[pyo3(signature = (record, core=None))]
fn finding<'py>(record: &Bound<'py, PyAny>, core: Option<usize>) -> PyResult<Bound<'py, PyAny>> {
    to_python(record.py(), &ReportedFinding::of(&entries("record", record)?, core))
}

#[pyfunction]
fn sum_by_bin<'py>(
    py: Python<'py>,
    start: PyReadonlyArray1<'py, u64>,
    end: PyReadonlyArray1<'py, u64>,
    amount: PyReadonlyArray1<'py, f64>,
    edges: PyReadonlyArray1<'py, f64>,
) -> Bound<'py, PyArray1<f64>> {
    let (start, end) = (start.as_array(), end.as_array());
    let spans: Vec<(u64, u64)> = start.iter().copied().zip(end.iter().copied()).collect();
    let (amounts, edges) = (amount.as_array().to_vec(), edges.as_array().to_vec());
    PyArray1::from_vec(py, trn3_profile::sum_by_bin(&spans, &amounts, &edges))
}

#[pyfunction]
fn cause_words(cause: &str) -> &str {
    trn3_profile::cause_words(cause)
}

/// The texts of the files that a run's lines are of, as `text_of` tells them: None of what nobody has.
fn texts(run: &RunColumns, text_of: &Bound<'_, PyAny>) -> PyResult<BTreeMap<String, String>> {
    let mut sources = BTreeMap::new();
    let mut is_used = vec![false; run.sites.len()];
    run.instructions.site.iter().for_each(|&site| is_used[site as usize] = true);
    for ((file, ..), _) in run.sites.iter().zip(is_used).filter(|(site, is_used)| *is_used && !site.0.is_empty()) {
        if !sources.contains_key(file) {
            sources.insert(file.clone(), text_of.call1((file,))?.extract::<Option<String>>()?);
        }
    }
    Ok(sources.into_iter().filter_map(|(file, text)| Some((file, text?))).collect())
}

/// The profiles of runs of a kernel so far, one a core; `text_of` tells the text of a file, or None.
#[pyfunction]
fn of_cores(
    py: Python<'_>,
    cores: Vec<PyRef<'_, PyCore>>,
    kernel: &str,
    text_of: &Bound<'_, PyAny>,
) -> PyResult<Vec<PyProfile>> {
    let profile = |core: &PyRef<'_, PyCore>| {
        let mut run = core.with(py, |core, _| Ok(RunColumns::of(core, kernel)))?;
        // Beside others on the chip, what was compiled takes longer than alone.
        run.compile = core.compiled()?.map(|made| CompileFigures { compiled_us: run.latency_us(), ..made });
        let sources = texts(&run, text_of)?;
        run.recorded.tell(sources, core.callers()?);
        Ok(PyProfile { profile: Profile::of_run(run) })
    };
    cores.iter().map(profile).collect()
}

/// `report.html` of the profiles of ranks, drawn by a style and a script.
#[pyfunction]
fn report_page(
    py: Python<'_>,
    ranks: Vec<PyRef<'_, PyProfile>>,
    style: &str,
    script: &str,
    policy: &str,
) -> PyResult<String> {
    let shell = ReportShell { style, script, policy };
    let ranks: Vec<&Profile> = ranks.iter().map(|rank| &rank.profile).collect();
    door::compute(py, || trn3_profile::report_page(&ranks, &shell))?.map_err(exception)
}

/// What one run of a kernel cost; see `trn3.profile.Profile`.
#[pyclass(frozen, module = "trn3._trn3.profile", name = "Profile")]
pub(crate) struct PyProfile {
    pub(crate) profile: Profile,
}

#[pymethods]
impl PyProfile {
    #[new]
    fn new(data: &Bound<'_, PyAny>) -> PyResult<Self> {
        let columns = run_columns(data)?;
        columns.check().map_err(exception)?;
        Ok(Self { profile: Profile::of_run(columns) })
    }

    /// The joint profile of those of single cores.
    #[staticmethod]
    fn joint(cores: Vec<PyRef<'_, PyProfile>>) -> PyResult<Self> {
        let cores: Vec<Arc<CoreProfile>> = cores.iter().flat_map(|core| core.profile.cores()).cloned().collect();
        let profile = Profile::joint(cores);
        profile
            .map(|profile| Self { profile })
            .ok_or_else(|| PyValueError::new_err("cores is empty, must have one or more"))
    }

    /// The place of the core that ends last.
    #[getter]
    fn last(&self) -> usize {
        self.profile.last()
    }

    #[getter]
    fn kernel(&self) -> &str {
        &self.profile.columns().kernel
    }

    #[getter]
    fn instructions(&self) -> u64 {
        self.profile.instructions()
    }

    fn findings<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.profile.findings())
    }

    fn precision<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.profile.precision())
    }

    fn latency_basis<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.profile.latency_basis())
    }

    fn roofline<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.profile.roofline())
    }

    fn engines<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.profile.engines())
    }

    fn lines<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.profile.lines())
    }

    /// The fields of `CriticalStep`, in their order: there may be as many as instructions.
    fn critical_path(&self) -> Vec<(u32, &'static str, String, String, f64, f64)> {
        let steps = self.profile.critical_path().into_iter();
        steps.map(|s| (s.instruction, s.engine, s.opcode, s.location, s.start_us, s.end_us)).collect()
    }

    fn hbm_bytes_by_bin<'py>(
        &self,
        py: Python<'py>,
        edges_ps: PyReadonlyArray1<'py, f64>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let edges = edges_ps.as_array().to_vec();
        Ok(PyArray1::from_vec(py, door::compute(py, || self.profile.hbm_bytes_by_bin(&edges))?))
    }

    fn to_json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let text = door::compute(py, || self.profile.to_json())?.map_err(exception)?;
        Ok(PyBytes::new(py, text.as_bytes()))
    }

    fn to_perfetto<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &door::compute(py, || self.profile.to_perfetto())?))
    }

    /// What the core that ends last recorded, by the fields of `ProfileData`; what takes long to make is apart.
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = self.profile.columns();
        let fields = PyDict::new(py);
        fields.set_item("arch", dict(py, columns.arch.entries().clone())?)?;
        fields.set_item("kernel", &columns.kernel)?;
        fields.set_item("latency_ps", columns.latency_ps)?;
        fields.set_item("overhead_ps", columns.overhead_ps)?;
        fields.set_item("opcodes", &columns.opcodes)?;
        fields.set_item("labels", &columns.labels)?;
        fields.set_item("sites", columns.sites.clone())?;
        fields.set_item("findings", to_python(py, &columns.findings)?)?;
        fields.set_item("instructions", instruction_arrays(py, &columns.instructions)?)?;
        fields.set_item("transfers", transfer_arrays(py, &columns.transfers)?)?;
        fields.set_item("occupancy", occupancy_arrays(py, &columns.occupancy)?)?;
        fields.set_item("critical", PyArray1::from_slice(py, &columns.critical))?;
        fields.set_item("precision", to_python(py, &columns.precision)?)?;
        fields.set_item("basis", to_python(py, &columns.basis)?)?;
        fields.set_item("compile", to_python(py, &columns.compile)?)?;
        Ok(fields)
    }

    /// What reports show beside figures; None where nobody kept it.
    fn recorded<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let recorded = &self.profile.columns().recorded;
        let is_empty = door::compute(py, || recorded.is_empty())?;
        to_python(py, &(!is_empty).then_some(recorded))
    }

    /// What would make it faster; None where nobody can look.
    fn advice<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &door::compute(py, || self.profile.columns().advice.get())?)
    }
}

pub(crate) fn instruction_arrays<'py>(py: Python<'py>, columns: &InstructionColumns) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("opcode", PyArray1::from_slice(py, &columns.opcode))?;
    fields.set_item("engine", PyArray1::from_slice(py, &columns.engine))?;
    fields.set_item("queue", PyArray1::from_slice(py, &columns.queue))?;
    fields.set_item("site", PyArray1::from_slice(py, &columns.site))?;
    fields.set_item("label", PyArray1::from_slice(py, &columns.label))?;
    fields.set_item("start_ps", PyArray1::from_slice(py, &columns.start_ps))?;
    fields.set_item("slot_end_ps", PyArray1::from_slice(py, &columns.slot_end_ps))?;
    fields.set_item("end_ps", PyArray1::from_slice(py, &columns.end_ps))?;
    fields.set_item("wait_ps", PyArray1::from_slice(py, &columns.wait_ps))?;
    fields.set_item("cause", PyArray1::from_slice(py, &columns.cause))?;
    fields.set_item("waited_on", PyArray1::from_slice(py, &columns.waited_on))?;
    fields.set_item("ready_ps", PyArray1::from_slice(py, &columns.ready_ps))?;
    fields.set_item("bound", PyArray1::from_slice(py, &columns.bound))?;
    fields.set_item("dma_bytes", PyArray1::from_slice(py, &columns.dma_bytes))?;
    fields.set_item("hbm_read", PyArray1::from_slice(py, &columns.hbm_read))?;
    fields.set_item("hbm_write", PyArray1::from_slice(py, &columns.hbm_write))?;
    fields.set_item("macs", PyArray1::from_slice(py, &columns.macs))?;
    fields.set_item("peak_macs_per_cycle", PyArray1::from_slice(py, &columns.peak_macs_per_cycle))?;
    Ok(fields)
}

pub(crate) fn transfer_arrays<'py>(py: Python<'py>, columns: &TransferColumns) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("instruction", PyArray1::from_slice(py, &columns.instruction))?;
    fields.set_item("dma_engine", PyArray1::from_slice(py, &columns.dma_engine))?;
    fields.set_item("start_ps", PyArray1::from_slice(py, &columns.start_ps))?;
    fields.set_item("end_ps", PyArray1::from_slice(py, &columns.end_ps))?;
    fields.set_item("bytes", PyArray1::from_slice(py, &columns.bytes))?;
    Ok(fields)
}

fn occupancy_arrays<'py>(py: Python<'py>, columns: &OccupancyColumns) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("time_ps", PyArray1::from_iter(py, &columns.time_ps))?;
    fields.set_item("sbuf_bytes", PyArray1::from_iter(py, &columns.sbuf_bytes))?;
    fields.set_item("psum_bytes", PyArray1::from_iter(py, &columns.psum_bytes))?;
    fields.set_item("sbuf_peak_bytes", columns.sbuf_peak_bytes)?;
    fields.set_item("psum_peak_bytes", columns.psum_peak_bytes)?;
    Ok(fields)
}

/// Adds the submodule `profile`.
pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = parent.py();
    let module = PyModule::new(py, "profile")?;
    module.add_class::<PyProfile>()?;
    module.add_function(wrap_pyfunction!(check_instructions, &module)?)?;
    module.add_function(wrap_pyfunction!(check_waits, &module)?)?;
    module.add_function(wrap_pyfunction!(check_transfers, &module)?)?;
    module.add_function(wrap_pyfunction!(check_occupancy, &module)?)?;
    module.add_function(wrap_pyfunction!(check_run, &module)?)?;
    module.add_function(wrap_pyfunction!(finding, &module)?)?;
    module.add_function(wrap_pyfunction!(sum_by_bin, &module)?)?;
    module.add_function(wrap_pyfunction!(cause_words, &module)?)?;
    module.add_function(wrap_pyfunction!(of_cores, &module)?)?;
    module.add_function(wrap_pyfunction!(report_page, &module)?)?;
    module.add("ENGINES", PyTuple::new(py, ENGINES)?)?;
    module.add("CAUSES", PyTuple::new(py, CAUSES)?)?;
    module.add("BOUNDS", PyTuple::new(py, BOUNDS)?)?;
    module.add("TABLES", PyTuple::new(py, TABLES)?)?;
    module.add("NO_INSTRUCTION", NO_INSTRUCTION)?;
    parent.add_submodule(&module)?;
    // Submodules made in code are importable by name only once the interpreter knows them.
    py.import("sys")?.getattr("modules")?.set_item("trn3._trn3.profile", &module)
}
