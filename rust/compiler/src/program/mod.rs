//! Programs compiled: traced with places on chip without limit, put through the passes, and written back as programs.

mod products;
mod registers;
mod verify;
mod writing;

use std::sync::Arc;

use trn3_machine::Result;
use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{CoreOptions, NeuronCore};
use trn3_machine::program::{Limits, Program, Role, run_together};

use crate::cores::{compile_traces, take_traces, time_before};
use crate::level::CompileLevel;
use crate::options::CompileOptions;
use crate::report::CompileReport;

use writing::{Compiled, Writing};

/// Compiles a program of one core: what comes out has a place for every tensor, and gives the same bits wherever it runs.
///
/// At level [`CompileLevel::AsWritten`], unless passes are named, it comes back as it is. Loop marks and stretches that keep their
/// order have done their duty and go; `fresh` steps too, since a matmul says itself then whether it adds.
///
/// # Errors
/// [`Error::Value`](trn3_machine::Error::Value) for a pass that there is not, as [`Program::check`], and, with
/// [`CompileOptions::verify`], for a difference in what the program gives; the capacity errors where the operands of one
/// instruction do not fit; [`Error::NotModelled`](trn3_machine::Error::NotModelled) for a program whose core meets others.
///
/// ```
/// use std::sync::Arc;
/// use trn3_compiler::{CompileOptions, CompileLevel, compile_program};
/// use trn3_machine::arch::ArchSpec;
/// use trn3_machine::program::{Limits, Program};
///
/// let text = br#"{"format": "trn3-program", "version": 2, "name": "twice",
///   "tensors": [
///     {"name": "x", "space": "hbm", "shape": [128, 64], "dtype": "float32", "role": "input"},
///     {"name": "out", "space": "hbm", "shape": [128, 64], "dtype": "float32", "role": "output"},
///     {"name": "tile", "space": "sbuf", "shape": [128, 64], "dtype": "float32"}],
///   "outputs": [{"name": "out", "view": "out"}],
///   "steps": [
///     {"op": "dma_copy", "dst": "tile", "src": "x"},
///     {"op": "tensor_scalar", "dst": "tile", "data": "tile", "op0": "multiply", "operand0": 2.0},
///     {"op": "dma_copy", "dst": "out", "src": "tile"}]}"#;
/// let program = Program::from_json(text, &Limits::default())?;
/// let arch = Arc::new(ArchSpec::load("trn3")?);
///
/// let inputs = vec![("x".to_owned(), vec![0; 128 * 64 * 4])];
/// let options = CompileOptions { level: CompileLevel::NeuronxCc, verify: true, inputs, ..Default::default() };
/// let (compiled, report) = compile_program(&program, &arch, &options)?;
/// assert!(compiled.tensors.iter().any(|tensor| tensor.name == "tile" && tensor.address.is_some()));
/// assert!(report.bound_us <= report.compiled_us);
/// # Ok::<(), trn3_machine::Error>(())
/// ```
pub fn compile_program(
    program: &Program,
    arch: &Arc<ArchSpec>,
    options: &CompileOptions,
) -> Result<(Program, CompileReport)> {
    let is_open = options.level == CompileLevel::AsWritten && options.passes.is_none();
    let core_options = CoreOptions { values: false, unlimited: !is_open, ..Default::default() };
    let mut core = NeuronCore::new(Arc::clone(arch), core_options)?;
    let limits = Limits::default();
    let loaded = program.run_on(&mut core, &indices(program, options), &limits)?;
    if is_open {
        return Ok((program.clone(), left_alone(&mut core, options)?));
    }
    let mut traces = take_traces(&mut [&mut core])?;
    let as_written = time_before(&mut [&mut core], &mut traces)?;
    let writing = Writing::new(program, &loaded, &mut traces[0])?;
    let reports = compile_traces(&mut [&mut core], &mut traces, as_written, options)?;
    let compiled = vec![writing.write(&traces[0])?];
    let mut made = held(std::slice::from_ref(program), compiled, reports, arch, options)?;
    made.pop().ok_or_else(|| trn3_machine::Error::Value("no core was compiled".to_owned()))
}

/// Compiled programs with their reports, once they were held against what they were made of, where that is asked for.
fn held(
    programs: &[Program],
    compiled: Vec<Compiled>,
    mut reports: Vec<CompileReport>,
    arch: &Arc<ArchSpec>,
    options: &CompileOptions,
) -> Result<Vec<(Program, CompileReport)>> {
    let (made, sources): (Vec<_>, Vec<_>) = compiled.into_iter().map(|made| (made.program, made.sources)).unzip();
    if options.verify {
        let outputs = verify::verify(programs, &made, &sources, arch, options)?;
        let verified = reports.iter_mut().filter_map(|report| report.verified.as_mut());
        verified.for_each(|verified| verified.outputs = outputs);
    }
    Ok(made.into_iter().zip(reports).collect())
}

/// As [`compile_program`], for the programs of the cores of a logical core: each is compiled by itself between the steps
/// that they take together, and run and verified together.
///
/// # Errors
/// As [`compile_program`], and as [`run_together`].
pub fn compile_together(
    programs: &[Program],
    arch: &Arc<ArchSpec>,
    options: &CompileOptions,
) -> Result<Vec<(Program, CompileReport)>> {
    let core_options = CoreOptions { values: false, unlimited: true, ..Default::default() };
    let mut cores = vec![NeuronCore::new(Arc::clone(arch), core_options)?];
    for number in 1..programs.len() {
        let beside = NeuronCore::beside(&mut cores[0], number)?;
        cores.push(beside);
    }
    let mut cores: Vec<&mut NeuronCore> = cores.iter_mut().collect();
    let mut inputs = options.inputs.clone();
    for program in programs {
        let zeros = indices(program, options).into_iter();
        inputs.extend(zeros.filter(|(name, _)| !options.inputs.iter().any(|(given, _)| given == name)));
    }
    inputs.sort_by(|one, other| one.0.cmp(&other.0));
    inputs.dedup_by(|one, other| one.0 == other.0);
    let loaded = run_together(programs, &mut cores, &inputs, &(), &Limits::default())?;
    let mut traces = take_traces(&mut cores)?;
    let as_written = time_before(&mut cores, &mut traces)?;
    let laid = programs.iter().zip(&loaded).zip(&mut traces);
    let writings = laid.map(|((program, loaded), trace)| Writing::new(program, loaded, trace));
    let writings = writings.collect::<Result<Vec<_>>>()?;
    let reports = compile_traces(&mut cores, &mut traces, as_written, options)?;
    let compiled = writings.into_iter().zip(&traces).map(|(writing, trace)| writing.write(trace));
    held(programs, compiled.collect::<Result<_>>()?, reports, arch, options)
}

/// What is given, and zeros for other inputs of whole numbers: addresses may be read from them, and where these point
/// within their bounds changes no trace.
fn indices(program: &Program, options: &CompileOptions) -> Vec<(String, Vec<u8>)> {
    let mut inputs = options.inputs.clone();
    for tensor in &program.tensors {
        let is_open = matches!(tensor.role, Role::Input | Role::Inout) && tensor.data.is_none();
        let dtype = tensor.dtype.parse::<trn3_machine::dtype::DType>().ok().filter(|dtype| dtype.is_integer());
        if let Some(dtype) = dtype.filter(|_| is_open && !inputs.iter().any(|(name, _)| *name == tensor.name)) {
            let elements = tensor.shape.iter().try_fold(dtype.size(), |all, &length| all.checked_mul(length));
            if let Some(bytes) = elements.filter(|&bytes| bytes <= Limits::default().elements) {
                inputs.push((tensor.name.clone(), vec![0; bytes]));
            }
        }
    }
    inputs
}

/// The report of a program that is left as it is.
fn left_alone(core: &mut NeuronCore, options: &CompileOptions) -> Result<CompileReport> {
    let makespan = core.makespan().microseconds();
    Ok(CompileReport {
        level: options.level.name(),
        as_written_us: Some(makespan),
        compiled_us: makespan,
        bound_us: makespan,
        spilled_bytes: 0,
        passes: Vec::new(),
        verified: None,
        live: Default::default(),
    })
}
