//! Two cores of a logical core: programs that meet in barriers and exchanges.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::json;
use trn3_compiler::{CompileLevel, CompileOptions, compile_together};
use trn3_machine::Error;
use trn3_machine::arch::ArchSpec;
use trn3_machine::core::{CoreOptions, NeuronCore};
use trn3_machine::program::{Limits, LogicalPlace, Program, Role, run_together};
use trn3_machine::view::View;

use crate::dice::Dice;
use crate::generator::{Generator, Inputs, ROWS};

/// Programs of both cores, and their inputs.
pub(crate) fn generate_pair(seed: u64) -> (Vec<Program>, Inputs) {
    let mut shape = Dice::new(seed ^ 0xc0de);
    let (width, turns) = (shape.pick(&[8, 16, 32]), 1 + shape.below(3));
    let exchanges: Vec<bool> = (0..turns).map(|_| shape.chance(40)).collect();
    let mut inputs = Inputs::new();
    let mut programs = Vec::new();
    for core in 0..2 {
        let mut made = Generator::new(seed * 2 + core, width);
        made.declare_outside();
        made.shared("both", &[2 * ROWS, width]);
        let rows = |core: u64| {
            json!({"tensor": "both", "shape": [ROWS, width], "strides": [width, 1],
                   "offset": core as usize * ROWS * width, "dtype": "float32"})
        };
        for &is_exchange in &exchanges {
            made.block(1);
            let mine = made.source_in("float32", width, false);
            let came = made.open("sbuf", &[ROWS, width], "float32");
            if is_exchange {
                made.push(json!({"op": "sendrecv", "src": mine, "dst": came}));
            } else {
                made.push(json!({"op": "dma_copy", "dst": rows(core), "src": mine}));
                made.push(json!({"op": "core_barrier", "data": "both"}));
                made.push(json!({"op": "dma_copy", "dst": came, "src": rows(1 - core)}));
                made.push(json!({"op": "core_barrier", "data": "both"}));
            }
            made.keep(&came, "float32", ROWS, width, false);
        }
        made.block(1);
        let (mut program, given) = made.finish();
        program.logical_core = Some(LogicalPlace { core: core as u32, cores: 2 });
        program.set_version();
        inputs.extend(given.into_iter().filter(|(name, _)| name != "both" || core == 0));
        programs.push(program);
    }
    // Both have the same inputs: the second core's are its own by another order of use.
    inputs.sort_by(|one, other| one.0.cmp(&other.0));
    inputs.dedup_by(|one, other| one.0 == other.0);
    (programs, inputs)
}

/// Bytes in HBM after both have run, by core and name, and what each took.
pub(crate) type Pair = (BTreeMap<(usize, String), Vec<u8>>, Vec<f64>);

pub(crate) fn run_pair(
    programs: &[Program],
    inputs: &Inputs,
    arch: &Arc<ArchSpec>,
    unlimited: bool,
) -> Result<Pair, Error> {
    let options = CoreOptions { unlimited, timing: !unlimited, nan_origin: false, ..Default::default() };
    let mut cores = vec![NeuronCore::new(Arc::clone(arch), options)?];
    let beside = NeuronCore::beside(&mut cores[0], 1)?;
    cores.push(beside);
    let mut cores: Vec<&mut NeuronCore> = cores.iter_mut().collect();
    let loaded = run_together(programs, &mut cores, inputs, &(), &Limits::default())?;
    let mut bytes = BTreeMap::new();
    for (number, (program, loaded)) in programs.iter().zip(&loaded).enumerate() {
        for (declared, storage) in program.tensors.iter().zip(&loaded.tensors) {
            if !storage.buffer.is_on_chip() && declared.role != Role::Internal {
                let whole = cores[number].state.peek_bytes(&View::whole(Arc::clone(storage)))?;
                bytes.insert((number, declared.name.clone()), whole);
            }
        }
    }
    Ok((bytes, cores.iter_mut().map(|core| core.makespan().microseconds()).collect()))
}

/// What is wrong with the compiled programs; None: nothing.
pub(crate) fn wrong_pair(
    programs: &[Program],
    arch: &Arc<ArchSpec>,
    options: &CompileOptions,
    written: &Pair,
) -> Option<String> {
    let compiled = match compile_together(programs, arch, options) {
        Ok(compiled) => compiled,
        Err(Error::SbufCapacity(_) | Error::PsumCapacity(_)) => return None,
        Err(error) => return Some(format!("refused: {error}")),
    };
    let (made, reports): (Vec<Program>, Vec<_>) = compiled.into_iter().unzip();
    let (bytes, times) = match run_pair(&made, &options.inputs, arch, false) {
        Ok(ran) => ran,
        Err(error) => return Some(format!("compiled: {error}")),
    };
    for (name, whole) in &written.0 {
        if bytes.get(name) != Some(whole) {
            return Some(format!("{name:?} differs"));
        }
    }
    // Above, `queues` knows what no program says.
    for (report, taken) in reports.iter().zip(times).filter(|_| options.level == CompileLevel::Nki) {
        if (report.compiled_us - taken).abs() > 1e-6 {
            return Some(format!("takes {taken} us where {} were said", report.compiled_us));
        }
    }
    None
}
