//! Compiled programs held against what they were made of: both run, and what they give is the same bit for bit.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{CoreOptions, NeuronCore};
use trn3_machine::isa::OperandRole;
use trn3_machine::program::{Bound, Limits, Loaded, Program, Role, run_together};
use trn3_machine::trace::NONE;
use trn3_machine::view::View;
use trn3_machine::{Error, Result};

use crate::options::CompileOptions;

/// Programs that have run on cores of their own.
struct Ran {
    cores: Vec<NeuronCore>,
    loaded: Vec<Loaded>,
}

/// What one core gave.
struct Given {
    core: usize,
    name: String,
    bytes: Vec<u8>,
    /// Whether it is no constant that is as it was.
    counts: bool,
}

/// Runs programs as written and as compiled, and returns how many outputs were held against each other; `sources` has of
/// each program the numbers that its instructions had as written.
///
/// # Errors
/// [`Error::Value`] names the first output that differs, the step that made the first difference, and an input whose
/// contents nobody gave.
pub(super) fn verify(
    programs: &[Program],
    compiled: &[Program],
    sources: &[Vec<u32>],
    arch: &Arc<ArchSpec>,
    options: &CompileOptions,
) -> Result<usize> {
    for program in programs {
        check_inputs(program, options)?;
    }
    let mut written = match run(programs, arch, options, false) {
        Err(Error::SbufCapacity(_) | Error::PsumCapacity(_)) => run(programs, arch, options, true)?,
        ran => ran?,
    };
    let mut made = run(compiled, arch, options, false)?;
    let (first, second) = (given(programs, &mut written)?, given(compiled, &mut made)?);
    let name = &programs[0].name;
    if first.len() != second.len() {
        return Err(Error::Value(format!("program {name}: the compiled program has other outputs")));
    }
    let Some((one, other)) = first.iter().zip(&second).find(|(one, other)| one.bytes != other.bytes) else {
        return Ok(first.iter().filter(|given| given.counts).count());
    };
    let byte = one.bytes.iter().zip(&other.bytes).position(|(one, other)| one != other).unwrap_or(0);
    let place = if programs.len() > 1 { format!(" of core {}", one.core) } else { String::new() };
    let step = match (programs, compiled, sources) {
        ([program], [compiled], [sources]) => first_difference((program, compiled), sources, (written, made), options)?,
        _ => String::new(),
    };
    let text = format!("compiled, output {:?}{place} differs from byte {byte} on{step}", one.name);
    Err(Error::Value(format!("program {name}: {text}")))
}

fn check_inputs(program: &Program, options: &CompileOptions) -> Result<()> {
    let is_given = |name: &str| options.inputs.iter().any(|(given, _)| given == name);
    for tensor in &program.tensors {
        if matches!(tensor.role, Role::Input | Role::Inout) && tensor.data.is_none() && !is_given(&tensor.name) {
            let (program, name) = (&program.name, &tensor.name);
            return Err(Error::Value(format!(
                "program {program}: verify needs the contents of input {name:?}, which it was not recorded with"
            )));
        }
    }
    Ok(())
}

fn run(programs: &[Program], arch: &Arc<ArchSpec>, options: &CompileOptions, unlimited: bool) -> Result<Ran> {
    let core_options = CoreOptions { timing: false, unlimited, ..Default::default() };
    let mut cores = vec![NeuronCore::new(Arc::clone(arch), core_options)?];
    let loaded = match programs {
        [program] if program.logical_core.is_none() => {
            vec![program.run_on(&mut cores[0], &options.inputs, &Limits::default())?]
        }
        _ => {
            for number in 1..programs.len() {
                let beside = NeuronCore::beside(&mut cores[0], number)?;
                cores.push(beside);
            }
            let mut all: Vec<&mut NeuronCore> = cores.iter_mut().collect();
            run_together(programs, &mut all, &options.inputs, &(), &Limits::default())?
        }
    };
    Ok(Ran { cores, loaded })
}

/// What a run gives: outputs, and tensors that the host or a run fills and that are no outputs.
fn given(programs: &[Program], ran: &mut Ran) -> Result<Vec<Given>> {
    // What cores share is one, of one name.
    let (mut all, mut counted) = (Vec::new(), HashSet::new());
    for (_, view) in ran.loaded.iter().flat_map(|loaded| &loaded.outputs) {
        counted.insert(view.storage.name.clone());
    }
    for (core, (program, loaded)) in programs.iter().zip(&ran.loaded).enumerate() {
        let state = &mut ran.cores[core].state;
        for (name, view) in &loaded.outputs {
            all.push(Given { core, name: name.clone(), bytes: state.peek_bytes(view)?, counts: true });
        }
        for (number, (tensor, storage)) in program.tensors.iter().zip(&loaded.tensors).enumerate() {
            if matches!(tensor.role, Role::Output | Role::Inout | Role::Constant) {
                let bytes = state.peek_bytes(&View::whole(Arc::clone(storage)))?;
                let is_constant =
                    tensor.role == Role::Constant && program.contents(number)?.is_none_or(|before| before == bytes);
                let counts = !is_constant && counted.insert(tensor.name.clone());
                all.push(Given { core, name: tensor.name.clone(), bytes, counts });
            }
        }
    }
    Ok(all)
}

/// Words for the step of the compiled program that wrote something else first.
fn first_difference(
    (program, compiled): (&Program, &Program),
    sources: &[u32],
    (mut written, mut made): (Ran, Ran),
    options: &CompileOptions,
) -> Result<String> {
    let before = results(program, &mut written, options)?;
    let after = results(compiled, &mut made, options)?;
    for ((step, digest), &source) in after.iter().zip(sources) {
        let other = before.get(source as usize);
        if source != NONE && other.is_some_and(|(_, other)| other != digest) {
            let op = compiled.steps[*step].get("op").and_then(|op| op.as_str()).unwrap_or_default();
            let origin = other.map_or(0, |(step, _)| *step);
            return Ok(format!("; the first step that differs is {step} ({op}), step {origin} as written"));
        }
    }
    Ok(String::new())
}

/// The step of each instruction, and a digest of what it wrote.
fn results(program: &Program, ran: &mut Ran, options: &CompileOptions) -> Result<Vec<(usize, u64)>> {
    let (core, loaded) = (&mut ran.cores[0], &ran.loaded[0]);
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
