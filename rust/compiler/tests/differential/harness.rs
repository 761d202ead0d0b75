//! One program: as written, and compiled at each level.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::{Map, Value};
use trn3_compiler::{CompileLevel, CompileOptions, compile_program};
use trn3_machine::Error;
use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{CoreOptions, NeuronCore};
use trn3_machine::memory::Finding;
use trn3_machine::program::{Limits, Loaded, Program, Role};
use trn3_machine::view::View;

use crate::dice::Dice;
use crate::generator::{Inputs, op_of};

/// Bytes of tensors in HBM after a run, by name, and how long it took.
pub(crate) struct Ran {
    pub(crate) bytes: BTreeMap<String, Vec<u8>>,
    pub(crate) microseconds: f64,
}

/// The machine of a seed: some have little room.
pub(crate) fn arch_of(seed: u64) -> Arc<ArchSpec> {
    static ARCHS: LazyLock<Vec<Arc<ArchSpec>>> = LazyLock::new(|| {
        let with = |bytes: Option<u64>| {
            let mut arch = ArchSpec::load("trn3").expect("a built-in spec");
            if let Some(bytes) = bytes {
                (arch.sbuf_partition_bytes, arch.sbuf_reserved_bytes) = (bytes, 0);
            }
            Arc::new(arch)
        };
        [None, Some(4096), Some(2048), Some(1536)].map(with).to_vec()
    });
    Dice::new(seed ^ 0x5eed).pick(&ARCHS)
}

/// Runs a program as a device does.
pub(crate) fn run(program: &Program, inputs: &Inputs, arch: &Arc<ArchSpec>) -> Result<Ran, Error> {
    let mut core = NeuronCore::new(Arc::clone(arch), CoreOptions { nan_origin: false, ..Default::default() })?;
    let loaded = program.run_on(&mut core, inputs, &Limits::default())?;
    let bytes = bytes(program, &mut core, &loaded)?;
    Ok(Ran { bytes, microseconds: core.makespan().microseconds() })
}

/// Runs a program as written, with room for all that it makes, step by step.
///
/// # Errors
/// The number of a step that the machine refuses or that reads what nobody wrote, if it is a step's, and why.
pub(crate) fn written(
    program: &Program,
    inputs: &Inputs,
    arch: &Arc<ArchSpec>,
) -> Result<Ran, (Option<usize>, String)> {
    let whole = |error: Error| {
        let text = error.to_string();
        let number = text.split("step ").nth(1).and_then(|rest| rest.split(' ').next()?.parse().ok());
        (number, text)
    };
    let options = CoreOptions { unlimited: true, timing: false, nan_origin: false, ..Default::default() };
    let is_unread = |finding: &&Finding| matches!(finding, Finding::UninitialisedRead { .. });
    let mut core = NeuronCore::new(Arc::clone(arch), options).map_err(whole)?;
    let loaded = program.run_on(&mut core, inputs, &Limits::default()).map_err(whole)?;
    if !core.state.memory.findings().iter().any(|finding| is_unread(&finding)) {
        return Ok(Ran { bytes: bytes(program, &mut core, &loaded).map_err(whole)?, microseconds: 0.0 });
    }
    // Which step it is, one after the other.
    let mut core = NeuronCore::new(Arc::clone(arch), options).map_err(whole)?;
    let loaded = program.lay(arch, &core.state.memory, &mut (), &Limits::default()).map_err(whole)?;
    for (number, storage) in loaded.tensors.iter().enumerate() {
        let given = inputs.iter().find(|(name, _)| *name == storage.name).map(|(_, bytes)| bytes.clone());
        if let Some(contents) =
            given.map_or_else(|| program.contents(number), |given| Ok(Some(given))).map_err(whole)?
        {
            core.write_bytes(&View::whole(Arc::clone(storage)), &contents).map_err(whole)?;
        }
    }
    loaded.begin(&mut core);
    for number in 0..loaded.steps.len() {
        loaded.take(&mut core, number).map_err(|error| (Some(number), error.to_string()))?;
        if let Some(finding) = core.state.memory.findings().iter().find(is_unread) {
            return Err((Some(number), finding.to_string()));
        }
    }
    Err((None, "what one run found another one did not".to_owned()))
}

fn bytes(program: &Program, core: &mut NeuronCore, loaded: &Loaded) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let outside = program.tensors.iter().zip(&loaded.tensors);
    let outside = outside.filter(|(tensor, storage)| !storage.buffer.is_on_chip() && tensor.role != Role::Internal);
    outside
        .map(|(tensor, storage)| Ok((tensor.name.clone(), core.state.peek_bytes(&View::whole(Arc::clone(storage)))?)))
        .collect()
}

/// What is wrong with the compiled program; None: nothing.
pub(crate) fn wrong(
    program: &Program,
    arch: &Arc<ArchSpec>,
    options: &CompileOptions,
    written: &Ran,
) -> Option<String> {
    let (compiled, report) = match compile_program(program, arch, options) {
        Ok(compiled) => compiled,
        // One instruction's operands do not fit the least machines.
        Err(Error::SbufCapacity(_) | Error::PsumCapacity(_)) => return None,
        Err(error) => return Some(format!("refused: {error}")),
    };
    let made = match run(&compiled, &options.inputs, arch) {
        Ok(made) => made,
        Err(error) => return Some(format!("compiled: {error}")),
    };
    for (name, bytes) in &written.bytes {
        let Some(other) = made.bytes.get(name) else { return Some(format!("{name} is missing")) };
        if let Some(at) = bytes.iter().zip(other).position(|(one, other)| one != other) {
            return Some(format!("{name} differs from byte {at} on"));
        }
    }
    if report.compiled_us + 1e-6 < report.bound_us {
        return Some(format!("takes {} us, which is below the bound of {}", report.compiled_us, report.bound_us));
    }
    None
}

/// How far the time of the compiled program is from that of its trace.
pub(crate) fn drift(program: &Program, arch: &Arc<ArchSpec>, options: &CompileOptions) -> Option<(f64, f64)> {
    let (compiled, report) = compile_program(program, arch, options).ok()?;
    Some((report.compiled_us, run(&compiled, &options.inputs, arch).ok()?.microseconds))
}

pub(crate) fn options(level: CompileLevel, inputs: &Inputs) -> CompileOptions {
    CompileOptions { level, inputs: inputs.clone(), ..Default::default() }
}

/// The program without steps that the machine refuses; None where too many are.
pub(crate) fn legal(mut program: Program, inputs: &Inputs, arch: &Arc<ArchSpec>) -> Option<(Program, Ran)> {
    for _ in 0..24 {
        let number = match written(&program, inputs, arch) {
            Ok(ran) => return Some((program, ran)),
            Err((number, _)) => number?,
        };
        program = without(&program, number..number + 1)?;
    }
    None
}

/// Whether a step is an instruction, which others are counted by; marks and what sets the stage are not.
pub(crate) fn is_instruction(step: &Map<String, Value>) -> bool {
    !matches!(
        op_of(step),
        "loop"
            | "iteration"
            | "end_loop"
            | "no_reorder"
            | "end_no_reorder"
            | "fresh"
            | "set_register"
            | "stochastic_rounding"
    )
}

/// The program without some steps, those that wait for others renumbered; marks stay, so that loops end.
pub(crate) fn without(program: &Program, steps: std::ops::Range<usize>) -> Option<Program> {
    let mut made = program.clone();
    made.steps.clear();
    let (mut numbers, mut issued) = (Vec::new(), 0u64);
    for (number, step) in program.steps.iter().enumerate() {
        let is_mark = matches!(op_of(step), "loop" | "iteration" | "end_loop" | "no_reorder" | "end_no_reorder");
        let goes = steps.contains(&number) && !is_mark;
        if is_instruction(step) {
            numbers.push((!goes).then_some(issued));
            issued += u64::from(!goes);
        }
        if goes {
            continue;
        }
        let mut step = step.clone();
        if let Some(after) = step.get("after").and_then(Value::as_array) {
            let kept = after.iter().filter_map(|own| numbers[own.as_u64()? as usize]).map(Value::from).collect();
            step.insert("after".to_owned(), Value::Array(kept));
        }
        made.steps.push(step);
    }
    (made.steps.len() < program.steps.len()).then_some(made)
}

/// The program with all loop marks and stretches in order taken out.
fn unmarked(program: &Program) -> Program {
    let mut made = program.clone();
    made.steps
        .retain(|step| !matches!(op_of(step), "loop" | "iteration" | "end_loop" | "no_reorder" | "end_no_reorder"));
    made
}

/// A smaller program of which the same is wrong.
pub(crate) fn minimised(program: &Program, arch: &Arc<ArchSpec>, options: &CompileOptions) -> Program {
    let kind = |program: &Program| {
        let written = written(program, &options.inputs, arch).ok()?;
        wrong(program, arch, options, &written)
    };
    let word = |text: &str| text.split([' ', ':']).take(1).collect::<String>();
    let is_wrong = |candidate: &Program, like: &str| {
        kind(candidate)
            .is_some_and(|text| word(&text) == word(like) || (like.contains("differs") && text.contains("differs")))
    };
    let mut best = program.clone();
    let Some(like) = kind(&best) else { return best };
    let candidate = unmarked(&best);
    if is_wrong(&candidate, &like) {
        best = candidate;
    }
    let mut size = best.steps.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < best.steps.len() {
            match without(&best, at..at + size).filter(|candidate| is_wrong(candidate, &like)) {
                Some(candidate) => best = candidate,
                None => at += size,
            }
        }
        size /= 2;
    }
    let named: Vec<String> = best.steps.iter().map(|step| Value::Object(step.clone()).to_string()).collect();
    let is_named = |name: &str| named.iter().any(|step| step.contains(&format!("{name:?}")));
    let outputs: Vec<String> = best.outputs.iter().map(|output| output.name.clone()).collect();
    best.tensors.retain(|tensor| is_named(&tensor.name) || outputs.contains(&tensor.name));
    best
}
