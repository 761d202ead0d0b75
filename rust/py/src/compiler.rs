//! Bindings of the compiler.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use trn3_compiler::advice::{AdviceReport, KernelOutline, advise as advise_run, combine, words as words_of};
use trn3_compiler::{
    CompileLevel, CompileOptions, CompileReport, CompilerConstants, PASSES, compile_cores, compile_program,
    compile_together, passes_of,
};
use trn3_machine::arch::ArchSpec;
use trn3_machine::core::NeuronCore;
use trn3_machine::program::{Limits, Program, Recorder};
use trn3_machine::trace::Retimer;
use trn3_profile::CompileFigures;

use crate::door;
use crate::machine::core::{PyCore, together};
use crate::machine::error::exception;
use crate::machine::programs::{Inputs, named_views, owned};
use crate::value::to_python;

/// Compiles what cores ran, and makes that their time; what was done, by core. `verify`: each pass is checked;
/// `live`: it says what lies where on chip; `constants`: values in the place of the crate's, by name.
#[pyfunction]
#[pyo3(name = "compile_cores", signature = (cores, level, passes=None, verify=false, live=false, constants=None))]
fn compile<'py>(
    py: Python<'py>,
    cores: Vec<Py<PyCore>>,
    level: &str,
    passes: Option<Vec<String>>,
    verify: bool,
    live: bool,
    constants: Option<BTreeMap<String, f64>>,
) -> PyResult<Bound<'py, PyAny>> {
    let own = CompilerConstants::load().map_err(exception)?;
    let changed = constants.iter().flatten().try_fold(own, |held, (name, value)| held.changed(name, *value));
    let options = CompileOptions {
        level: level.parse().map_err(exception)?,
        passes,
        verify,
        live,
        constants: Some(changed.map_err(exception)?),
        ..Default::default()
    };
    let owners: Vec<&PyCore> = cores.iter().map(|core| core.bind(py).get()).collect();
    let (names, calls) = (vec![None; owners.len()], vec![None; owners.len()]);
    let mut reports = Vec::new();
    together(py, &owners, &names, &calls, "", |mut cores: Vec<&mut NeuronCore>, _| {
        reports = compile_cores(&mut cores, &options)?;
        Ok::<_, trn3_machine::Error>(vec![0; cores.len()])
    })?;
    for (owner, report) in owners.iter().zip(&reports) {
        owner.set_compiled(figures(report)?)?;
    }
    to_python(py, &reports)
}

/// Compiles the programs that cores of a rank recorded as they ran, with the contents of what the host filled, runs them as
/// written and as compiled, and holds what they give against each other; what was verified, which the cores' figures say from
/// here on. Results are names and tensors.
#[pyfunction]
fn verify_cores<'py>(
    py: Python<'py>,
    cores: Vec<Py<PyCore>>,
    level: &str,
    results: Vec<(String, Bound<'py, PyAny>)>,
) -> PyResult<Bound<'py, PyAny>> {
    let options = CompileOptions { level: level.parse().map_err(exception)?, verify: true, ..Default::default() };
    let owners: Vec<&PyCore> = cores.iter().map(|core| core.bind(py).get()).collect();
    let mut recorders = owners.iter().map(|core| core.take_recorder()).collect::<PyResult<Vec<_>>>()?;
    let results = named_views(&results)?;
    let first = owners.first().ok_or_else(|| PyValueError::new_err("cores is empty; allowed: those of one rank"))?;
    let arch = first.machine()?;
    let reports = door::run(py, || {
        let made = if recorders.len() > 1 {
            compile_together(&Recorder::finish_together(recorders, &[], &results)?, &arch, &options)?
        } else {
            let programs = recorders.drain(..).map(|recorder| recorder.finish_with(&[], &results));
            let programs = programs.collect::<trn3_machine::Result<Vec<_>>>()?;
            programs.iter().map(|program| compile_program(program, &arch, &options)).collect::<Result<_, _>>()?
        };
        Ok::<_, trn3_machine::Error>(made.into_iter().map(|(_, report)| report).collect::<Vec<_>>())
    })?;
    for (owner, report) in owners.iter().zip(&reports) {
        let Some(timed) = owner.compiled()? else { continue };
        // What ran has to be what was timed.
        if (timed.compiled_us - report.compiled_us).abs() > 1e-6 {
            let (took, takes) = (timed.compiled_us, report.compiled_us);
            let text = format!("compiled, the run takes {took} us, and the program that was recorded of it {takes} us");
            return Err(PyValueError::new_err(text));
        }
        owner.set_compiled(CompileFigures { verified: figures(report)?.verified, ..timed })?;
    }
    to_python(py, &reports.first().and_then(|report| report.verified))
}

/// What profiles say of a report: all of it but what lies where.
pub(crate) fn figures(report: &CompileReport) -> PyResult<CompileFigures> {
    let report = CompileReport { live: Vec::new(), ..report.clone() };
    let figures = serde_json::to_value(report).and_then(serde_json::from_value);
    figures.map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Compiles a program (JSON) for a machine, by name or description; inputs are the bytes of its tensors by name. Returns the
/// compiled one, and what was done.
#[pyfunction]
#[pyo3(name = "compile_program", signature = (program, arch, level, passes=None, inputs=None, verify=false))]
fn compile_text<'py>(
    py: Python<'py>,
    program: &str,
    arch: &str,
    level: &str,
    passes: Option<Vec<String>>,
    inputs: Option<Inputs<'py>>,
    verify: bool,
) -> PyResult<(String, Bound<'py, PyAny>)> {
    let options = CompileOptions {
        level: level.parse().map_err(exception)?,
        passes,
        verify,
        inputs: owned(&inputs.unwrap_or_default())?,
        ..Default::default()
    };
    let (text, report) = door::run(py, || {
        let arch = Arc::new(ArchSpec::load(arch)?);
        let program = Program::from_json(program.as_bytes(), &Limits::default())?;
        let (compiled, report) = compile_program(&program, &arch, &options)?;
        Ok::<_, trn3_machine::Error>((compiled.to_json()?, report))
    })?;
    Ok((text, to_python(py, &report)?))
}

/// What would make a run faster.
#[pyclass(frozen, module = "trn3._trn3.compiler", name = "RunAdvice")]
struct PyAdvice {
    retimer: Retimer,
    report: AdviceReport,
}

#[pymethods]
impl PyAdvice {
    /// The latency as written and each change with what it would be alone, the best first.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.report)
    }

    /// The latency in microseconds with the changes of these numbers up to each; None for one that saves nothing then.
    fn combined(&self, py: Python<'_>, chosen: Vec<usize>) -> PyResult<Vec<Option<f64>>> {
        let advice: Vec<_> = chosen.iter().filter_map(|&number| self.report.advice.get(number).cloned()).collect();
        door::run(py, || combine(&self.retimer, &advice))
    }
}

/// What a change does and what to write, in words.
#[pyfunction]
fn words(
    kind: &str,
    lines: Vec<u32>,
    engines: Vec<Vec<String>>,
    tensors: Vec<String>,
    before: Option<u32>,
) -> PyResult<(String, String)> {
    let said = words_of(kind.parse().map_err(exception)?, &lines, &engines, &tensors, before);
    Ok((said.change, said.write))
}

/// What would make what cores ran faster; `loops` has first and last line of each statement of each loop of the file,
/// `named` the lines that can name an engine, and whether several in turn.
#[pyfunction]
#[pyo3(signature = (cores, file, loops, named=None))]
fn advise(
    py: Python<'_>,
    cores: Vec<Py<PyCore>>,
    file: String,
    loops: Vec<Vec<(u32, u32)>>,
    named: Option<BTreeMap<u32, bool>>,
) -> PyResult<PyAdvice> {
    let owners: Vec<&PyCore> = cores.iter().map(|core| core.bind(py).get()).collect();
    let (names, calls) = (vec![None; owners.len()], vec![None; owners.len()]);
    let outline = KernelOutline { file, loops, named };
    let mut found = None;
    together(py, &owners, &names, &calls, "", |mut cores: Vec<&mut NeuronCore>, _| {
        let Some(sites) = cores.first().map(|core| core.sites.clone()) else { return Ok(Vec::new()) };
        let retimer = Retimer::of(&mut cores)?;
        let report = advise_run(&retimer, &sites, &outline)?;
        found = Some(PyAdvice { retimer, report });
        Ok::<_, trn3_machine::Error>(vec![0; cores.len()])
    })?;
    found.ok_or_else(|| PyValueError::new_err("cores is empty; allowed: those of one launch"))
}

/// Names of the levels, the least first.
#[pyfunction]
fn levels() -> Vec<&'static str> {
    CompileLevel::ALL.map(CompileLevel::name).to_vec()
}

/// Names of the passes of a level, in their order; of all there are without one.
#[pyfunction]
#[pyo3(signature = (level=None))]
fn passes(level: Option<&str>) -> PyResult<Vec<&'static str>> {
    let all = match level {
        None => PASSES.to_vec(),
        Some(level) => level.parse::<CompileLevel>().map(passes_of).map_err(exception)?,
    };
    Ok(all.iter().map(|pass| pass.name()).collect())
}

/// Adds the submodule `compiler`.
pub(crate) fn register(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = parent.py();
    let module = PyModule::new(py, "compiler")?;
    module.add_function(wrap_pyfunction!(compile, &module)?)?;
    module.add_function(wrap_pyfunction!(compile_text, &module)?)?;
    module.add_function(wrap_pyfunction!(verify_cores, &module)?)?;
    module.add_class::<PyAdvice>()?;
    module.add_function(wrap_pyfunction!(words, &module)?)?;
    module.add_function(wrap_pyfunction!(advise, &module)?)?;
    module.add_function(wrap_pyfunction!(levels, &module)?)?;
    module.add_function(wrap_pyfunction!(passes, &module)?)?;
    parent.add_submodule(&module)?;
    py.import("sys")?.getattr("modules")?.set_item("trn3._trn3.compiler", &module)
}
