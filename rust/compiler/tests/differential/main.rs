//! Differential fuzzing: random programs give the same bits at every level as they do as written.
//!
//! `TRN3_FUZZ_PROGRAMS` is how many programs are tried, `TRN3_FUZZ_SEED` the first one's seed.

mod dice;
mod generator;
mod harness;
mod logical;
mod moves;
mod recipes;

use std::collections::BTreeMap;

use trn3_compiler::{CompileLevel, CompileOptions, passes_of};
use trn3_machine::program::OPERATIONS;

use generator::{generate, op_of};
use harness::{arch_of, drift, legal, minimised, options, wrong};
use logical::{generate_pair, run_pair, wrong_pair};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Seeds of one of four parts of the programs.
fn seeds(part: u64) -> impl Iterator<Item = u64> {
    let (first, all) = (number("TRN3_FUZZ_SEED", 0), number("TRN3_FUZZ_PROGRAMS", 2000));
    (first..first + all).filter(move |seed| seed % 4 == part)
}

fn check(part: u64) {
    let (mut tried, mut refused) = (0, 0);
    let mut failures = Vec::new();
    for seed in seeds(part) {
        tried += 1;
        let arch = arch_of(seed);
        let (program, inputs) = generate(seed);
        let Some((program, written)) = legal(program, &inputs, &arch) else {
            refused += 1;
            continue;
        };
        // The lower level has fewer of the same passes.
        for level in &[CompileLevel::NeuronxCc, CompileLevel::Nki][..1 + usize::from(seed % 8 < 4)] {
            // Each pass checked, and the program held against itself by the compiler too.
            let options = CompileOptions { verify: seed % 3 == 0, ..options(*level, &inputs) };
            let Some(text) = wrong(&program, &arch, &options, &written) else { continue };
            failures.push(format!("seed {seed} at {level}: {text}"));
            if failures.len() == 1 {
                let small = minimised(&program, &arch, &options);
                failures.extend(small.steps.iter().map(|step| serde_json::to_string(step).expect("words")));
            }
        }
        assert!(failures.len() < 64, "{}", failures.join("\n"));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(refused * 20 <= tried, "{refused} of {tried} programs are no programs");
}

#[test]
fn test_every_level_gives_the_same_bits_0() {
    check(0);
}

#[test]
fn test_every_level_gives_the_same_bits_1() {
    check(1);
}

#[test]
fn test_every_level_gives_the_same_bits_2() {
    check(2);
}

#[test]
fn test_every_level_gives_the_same_bits_3() {
    check(3);
}

/// Programs of two cores, which meet.
#[test]
fn test_two_cores_give_the_same_bits() {
    let (mut tried, mut refused) = (0, 0);
    for seed in seeds(0).step_by(4) {
        tried += 1;
        let arch = arch_of(seed);
        let (programs, inputs) = generate_pair(seed);
        let Ok(written) = run_pair(&programs, &inputs, &arch, true) else {
            refused += 1;
            continue;
        };
        for level in [CompileLevel::Nki, CompileLevel::NeuronxCc] {
            let options = CompileOptions { verify: seed % 3 == 0, ..options(level, &inputs) };
            let wrong = wrong_pair(&programs, &arch, &options, &written);
            assert_eq!(wrong, None, "seed {seed} at {level}");
        }
    }
    assert!(refused * 2 <= tried, "{refused} of {tried} pairs are no programs");
}

#[test]
fn test_programs_have_every_instruction() {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..200 {
        let (program, inputs) = generate(seed);
        let Some((program, _)) = legal(program, &inputs, &arch_of(seed)) else { continue };
        for step in &program.steps {
            *found.entry(op_of(step).to_owned()).or_default() += 1;
        }
    }
    // The maintainers' example is an instruction under a feature of the machine's alone.
    let written = OPERATIONS.iter().filter(|name| **name != "tensor_clamp");
    let missing: Vec<&&str> = written.filter(|name| !found.contains_key(**name)).collect();
    assert!(missing.is_empty(), "{missing:?}; there are {found:?}");
    for mark in ["loop", "no_reorder", "fresh", "set_register"] {
        assert!(found.contains_key(mark), "{mark}");
    }
}

/// A compiled program takes as long as its trace was said to; `queues` alone knows what no program says, the share of the
/// DMA engines' rate that compiled transfers get.
#[test]
fn test_compiled_programs_take_the_time_of_their_traces() {
    let names = passes_of(CompileLevel::NeuronxCc).into_iter().map(|pass| pass.name().to_owned());
    let passes: Vec<String> = names.filter(|name| name != "queues").collect();
    let mut timed = 0;
    for seed in seeds(3).step_by(5) {
        let arch = arch_of(seed);
        let (program, inputs) = generate(seed);
        let Some((program, _)) = legal(program, &inputs, &arch) else { continue };
        for (level, passes) in [(CompileLevel::Nki, None), (CompileLevel::NeuronxCc, Some(passes.clone()))] {
            let options = CompileOptions { passes, ..options(level, &inputs) };
            if let Some((trace, ran)) = drift(&program, &arch, &options) {
                assert!((trace - ran).abs() < 1e-6, "seed {seed} at {level}: {trace} us said, {ran} us taken");
                timed += 1;
            }
        }
    }
    assert!(timed > 0);
}
