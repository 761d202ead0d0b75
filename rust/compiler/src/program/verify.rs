//! A compiled program held against what it was made of: both run, and what they give is the same bit for bit.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{CoreOptions, NeuronCore};
use trn3_machine::isa::OperandRole;
use trn3_machine::program::{Bound, Limits, Loaded, Program, Role};
use trn3_machine::trace::NONE;
use trn3_machine::view::View;
use trn3_machine::{Error, Result};

use super::writing::Compiled;
use crate::options::CompileOptions;

/// A program that has run on a core of its own.
struct Ran {
    core: NeuronCore,
    loaded: Loaded,
}

/// Runs both programs.
///
/// # Errors
/// [`Error::Value`] names the first output that differs, the step that made the first difference, and an input whose
/// contents nobody gave.
pub(super) fn verify(
    program: &Program,
    compiled: &Compiled,
    arch: &Arc<ArchSpec>,
    options: &CompileOptions,
) -> Result<()> {
    let is_given = |name: &str| options.inputs.iter().any(|(given, _)| given == name);
    for tensor in &program.tensors {
        if matches!(tensor.role, Role::Input | Role::Inout) && tensor.data.is_none() && !is_given(&tensor.name) {
            let (program, name) = (&program.name, &tensor.name);
            return Err(Error::Value(format!(
                "program {program}: verify needs the contents of input {name:?}, which it was not recorded with"
            )));
        }
    }
    let mut written = match run(program, arch, options, false) {
        Err(Error::SbufCapacity(_) | Error::PsumCapacity(_)) => run(program, arch, options, true)?,
        ran => ran?,
    };
    let mut made = run(&compiled.program, arch, options, false)?;
    let (first, second) = (given(program, &mut written)?, given(&compiled.program, &mut made)?);
    let differs = first.iter().zip(&second).find(|(one, other)| one.1 != other.1);
    let Some(((name, one), (_, other))) = differs.filter(|_| first.len() == second.len()) else {
        return if first.len() == second.len() {
            Ok(())
        } else {
            Err(Error::Value(format!("program {}: the compiled program has other outputs", program.name)))
        };
    };
    let byte = one.iter().zip(other).position(|(one, other)| one != other).unwrap_or(0);
    let step = first_difference(program, compiled, (written, made), options)?;
    Err(Error::Value(format!("program {}: compiled, output {name:?} differs from byte {byte} on{step}", program.name)))
}

fn run(program: &Program, arch: &Arc<ArchSpec>, options: &CompileOptions, unlimited: bool) -> Result<Ran> {
    let core_options = CoreOptions { timing: false, unlimited, ..Default::default() };
    let mut core = NeuronCore::new(Arc::clone(arch), core_options)?;
    let loaded = program.run_on(&mut core, &options.inputs, &Limits::default())?;
    Ok(Ran { core, loaded })
}

/// What a run gives: outputs, and tensors that a run fills.
fn given(program: &Program, ran: &mut Ran) -> Result<Vec<(String, Vec<u8>)>> {
    let filled = program.tensors.iter().zip(&ran.loaded.tensors);
    let filled = filled.filter(|(tensor, _)| matches!(tensor.role, Role::Output | Role::Inout));
    let filled = filled.map(|(tensor, storage)| (tensor.name.clone(), View::whole(Arc::clone(storage))));
    let views: Vec<(String, View)> = ran.loaded.outputs.iter().cloned().chain(filled).collect();
    views.into_iter().map(|(name, view)| Ok((name, ran.core.state.peek_bytes(&view)?))).collect()
}

/// Words for the step of the compiled program that wrote something else first.
fn first_difference(
    program: &Program,
    compiled: &Compiled,
    (mut written, mut made): (Ran, Ran),
    options: &CompileOptions,
) -> Result<String> {
    let before = results(program, &mut written, options)?;
    let after = results(&compiled.program, &mut made, options)?;
    for ((step, digest), &source) in after.iter().zip(&compiled.sources) {
        let other = before.get(source as usize);
        if source != NONE && other.is_some_and(|(_, other)| other != digest) {
            let op = compiled.program.steps[*step].get("op").and_then(|op| op.as_str()).unwrap_or_default();
            let origin = other.map_or(0, |(step, _)| *step);
            return Ok(format!("; the first step that differs is {step} ({op}), step {origin} as written"));
        }
    }
    Ok(String::new())
}

/// The step of each instruction, and a digest of what it wrote.
fn results(program: &Program, ran: &mut Ran, options: &CompileOptions) -> Result<Vec<(usize, u64)>> {
    let Ran { core, loaded } = ran;
    loaded.begin(core);
    let write = |core: &mut NeuronCore, number: usize, bytes: &[u8]| {
        core.write_bytes(&View::whole(Arc::clone(&loaded.tensors[number])), bytes)
    };
    for (number, tensor) in program.tensors.iter().enumerate() {
        let inputs = options.inputs.iter().find(|(name, _)| *name == tensor.name);
        if let Some(bytes) = inputs.map(|(_, bytes)| bytes.clone()).or(program.contents(number)?) {
            write(core, number, &bytes)?;
        }
    }
    let mut found = Vec::new();
    for (number, step) in loaded.steps.iter().enumerate() {
        loaded.take(core, number)?;
        let Bound::Issue { instruction, .. } = step else { continue };
        let mut views = Vec::new();
        instruction.operands(&mut |role, view| {
            if matches!(role, OperandRole::Write | OperandRole::Update) {
                views.push(view.clone());
            }
        });
        let mut hasher = DefaultHasher::new();
        for view in views {
            core.state.peek_bytes(&view)?.hash(&mut hasher);
        }
        found.push((number, hasher.finish()));
    }
    Ok(found)
}
