//! Checks, costs and runs without values; values are tested through the Python interface.

use std::sync::Arc;

use crate::arch::ArchSpec;
use crate::core::{At, CoreOptions, NeuronCore, new_register};
use crate::dtype::DType;
use crate::engine::Engine;
use crate::error::Error;
use crate::isa::alu::AluOp;
use crate::isa::copy::Memset;
use crate::isa::dropout::Dropout;
use crate::isa::gpsimd::affine::{Affine, Iota};
use crate::isa::gpsimd::gather::{LocalGather, NcNGather};
use crate::isa::gpsimd::reduce::{SequenceBounds, TensorPartitionReduce};
use crate::isa::gpsimd::search::{NonzeroWithCount, TopK};
use crate::isa::random::{Rand2, RandGetState, RandSetState, Rng, SetRngSeed};
use crate::isa::register::RegisterValue;
use crate::isa::{Instruction, NOTHING, ScalarOperand};
use crate::memory::Precision;
use crate::memory::Request;
use crate::storage::Buffer;
use crate::time::Picos;
use crate::timing::work::Work;
use crate::view::View;

const WITHOUT_VALUES: CoreOptions = CoreOptions {
    values: false,
    timing: true,
    strict: false,
    max_instructions: None,
    max_host_bytes: None,
    throttle: false,
    precision: Precision::Declared,
    nan_origin: false,
    shadow: false,
    unlimited: false,
};

fn core(arch: &str, options: CoreOptions) -> NeuronCore {
    NeuronCore::new(Arc::new(ArchSpec::load(arch).expect("built in")), options).expect("a core")
}

fn tile(core: &mut NeuronCore, shape: &[usize], dtype: DType) -> View {
    let request = Request { name: "t", shape, dtype, buffer: Buffer::Sbuf, address: None, site: Default::default() };
    View::whole(core.allocate(&request).expect("fits"))
}

fn run(core: &mut NeuronCore, instruction: &dyn Instruction) {
    core.issue(instruction, At::default()).expect("runs");
}

fn refusal(core: &mut NeuronCore, instruction: &dyn Instruction) -> String {
    core.issue(instruction, At::default()).expect_err("refused").to_string()
}

fn is_skipped(core: &mut NeuronCore, view: &View) -> bool {
    matches!(core.state.read_bits(view), Err(Error::SkippedValue(_)))
}

/// GpSimdE cycles of the issue slot.
fn cycles(core: &NeuronCore, instruction: &dyn Instruction) -> u64 {
    let Work::Compute { interval, .. } = instruction.work(core.arch()) else { panic!("no engine's work") };
    let clock = core.arch().gpsimd_clock();
    (0..).find(|&count| clock.cycles(count) >= interval).expect("some")
}

fn affine(pattern: &[(i64, i64)], offset: i64) -> Affine {
    Affine { pattern: pattern.to_vec(), offset: RegisterValue::Number(offset), channel_multiplier: 1 }
}

#[test]
fn test_costs_are_those_of_the_tables() {
    let mut core = core("trn2", CoreOptions::default());
    let words = tile(&mut core, &[128, 40], DType::Int32);
    assert_eq!(cycles(&core, &Iota { dst: words.clone(), affine: affine(&[(1, 40)], 0) }), 150 + 40);
    let (data, indices) = (tile(&mut core, &[128, 9], DType::Float32), tile(&mut core, &[128, 1025], DType::UInt32));
    let gathered = tile(&mut core, &[128, 1025], DType::Float32);
    assert_eq!(cycles(&core, &NcNGather { dst: gathered, data, indices }), 3 * 150 + 8 * 1025);
    let row = tile(&mut core, &[1, 40], DType::Int32);
    let reduce = TensorPartitionReduce { dst: row.clone(), op: AluOp::Add, data: words.clone() };
    assert_eq!(cycles(&core, &reduce), 150 + 16 * 40);
    let bounds = tile(&mut core, &[1, 2, 40], DType::Int32);
    assert_eq!(cycles(&core, &SequenceBounds { dst: bounds, segment_ids: row }), 150 + 2 * 40 * 16);
    let counted = tile(&mut core, &[128, 41], DType::Int32);
    let nonzero = NonzeroWithCount::new(counted, words, 0, -1, core.arch()).expect("views");
    assert_eq!(cycles(&core, &nonzero), 150 + 40);
    let (src, val_dst, idx_dst) = (
        tile(&mut core, &[16, 3], DType::BFloat16),
        tile(&mut core, &[16, 5], DType::BFloat16),
        tile(&mut core, &[16, 5], DType::UInt32),
    );
    assert_eq!(cycles(&core, &TopK { val_dst, idx_dst, src, n: 42 }), 150 + 4 * 42 + 5);
}

#[test]
fn test_local_gather_costs_by_type_and_run() {
    let mut core = core("trn1", CoreOptions::default());
    for (dtype, run, count, expected) in [
        // (28 + 4 r) / (4 r) cycles an element, over as many as four bytes hold and a run has.
        (DType::Float32, 1, 32, 32 * 8),
        (DType::BFloat16, 1, 32, 32 * 8),
        (DType::BFloat16, 2, 32, 32 * 2 * 36 / 8 / 2),
        (DType::UInt8, 32, 16, 16 * 32 * 156 / 128 / 4),
    ] {
        let (src_buffer, index) = (tile(&mut core, &[16, 64], dtype), tile(&mut core, &[16, 2], DType::UInt16));
        let dst = tile(&mut core, &[16, run * count], dtype);
        let gather = LocalGather { dst, src_buffer, index, num_elem_per_idx: run, num_valid_indices: Some(count) };
        assert_eq!(cycles(&core, &gather), 150 + expected as u64, "{dtype} {run}");
    }
}

#[test]
fn test_local_gather_refuses_more_indices_than_a_processor_takes() {
    let mut core = core("trn3", CoreOptions::default());
    let (src_buffer, index) = (tile(&mut core, &[16, 4], DType::Float32), tile(&mut core, &[16, 257], DType::UInt16));
    let dst = tile(&mut core, &[16, 4112], DType::Float32);
    let gather = LocalGather { dst, src_buffer, index, num_elem_per_idx: 1, num_valid_indices: None };
    let text = refusal(&mut core, &gather);
    assert!(text.contains("local_gather num_valid_indices is 4112 for 4112 indices; 1 to 4096"), "{text}");
}

#[test]
fn test_topk_of_no_results_does_nothing() {
    let mut core = core("trn3", CoreOptions::default());
    let (src, wide, words) = (
        tile(&mut core, &[16, 3], DType::BFloat16),
        tile(&mut core, &[16, 2], DType::BFloat16),
        tile(&mut core, &[16, 2], DType::UInt32),
    );
    let none = |view: &View| {
        let mut view = view.clone();
        view.shape[1] = 0;
        view
    };
    let topk = TopK { val_dst: none(&wide), idx_dst: none(&words), src, n: 42 };
    assert_eq!(core.issue(&topk, At::default()).expect("nothing to do"), NOTHING);
    assert_eq!((core.issued(), core.makespan()), (0, Picos::ZERO));
}

#[test]
fn test_iota_reads_the_offset_of_a_register() {
    let mut core = core("trn3", WITHOUT_VALUES);
    let (whole, float) = (tile(&mut core, &[2, 2], DType::Int32), tile(&mut core, &[2, 2], DType::Float32));
    let register = new_register(false, None);
    let offset = RegisterValue::Register(register.clone());
    let iota =
        |dst: &View| Iota { dst: dst.clone(), affine: Affine { offset: offset.clone(), ..affine(&[(5, 2)], 0) } };
    let text = refusal(&mut core, &iota(&whole));
    assert!(text.contains("is read before anything was written"), "{text}");
    *register.value.lock().expect("free") = Some(-1);
    run(&mut core, &iota(&whole));
    run(&mut core, &iota(&float));
    assert_eq!(core.state.read_bits(&whole).expect("known"), [u32::MAX, 4, 0, 5]);
    assert!(is_skipped(&mut core, &float));
    let mut read = Vec::new();
    iota(&whole).registers(&mut |_, register| read.push(register.id));
    assert_eq!(read, [register.id]);
}

#[test]
fn test_nonzero_with_count_is_known_where_its_partitions_are() {
    let mut core = core("trn3", WITHOUT_VALUES);
    let (src, dst) = (tile(&mut core, &[128, 3], DType::Int32), tile(&mut core, &[128, 4], DType::Int32));
    for partition in (0..128).step_by(16) {
        let row = src.slice(0, partition, partition + 1, 1).expect("a row");
        core.state.memory.write_bits(&row, &[0, 7, partition as u32]).expect("fits");
    }
    let nonzero = NonzeroWithCount::new(dst.clone(), src, 5, -1, core.arch()).expect("views");
    run(&mut core, &nonzero);
    let first = dst.slice(0, 16, 17, 1).expect("a row");
    assert_eq!(core.state.read_bits(&first).expect("known"), [6, 7, u32::MAX, 2]);
    let other = dst.slice(0, 1, 2, 1).expect("a row");
    assert!(is_skipped(&mut core, &other));
}

/// What GpSimdE's and VectorE's generators draw after instructions that a run without values skips.
fn draws_after(options: CoreOptions, prepare: impl Fn(&mut NeuronCore)) -> Option<Vec<u32>> {
    let mut core = core("trn3", options);
    prepare(&mut core);
    let dst = tile(&mut core, &[128, 5], DType::UInt32);
    run(&mut core, &Rng { dst: dst.clone(), engine: Engine::Vector });
    core.state.read_bits(&dst).ok()
}

fn spend(core: &mut NeuronCore) {
    let float = tile(core, &[64, 7], DType::BFloat16);
    let ends = tile(core, &[64, 1], DType::Float32);
    run(core, &Memset { dst: ends.clone(), value: 1.5, engine: None });
    run(core, &Rand2 { dst: float.clone(), min: ScalarOperand::Constant(0.0), max: ScalarOperand::Vector(ends) });
    run(core, &Dropout { dst: float.clone(), data: float, prob: ScalarOperand::Constant(0.5) });
}

#[test]
fn test_skipped_draws_take_the_generator_ahead() {
    let drawn = draws_after(CoreOptions::default(), spend).expect("computed");
    assert_eq!(draws_after(WITHOUT_VALUES, spend), Some(drawn));
    assert_ne!(draws_after(WITHOUT_VALUES, |_| ()), draws_after(WITHOUT_VALUES, spend));
}

#[test]
fn test_draws_of_an_unknown_state_are_unknown_until_it_is_set() {
    let lose = |core: &mut NeuronCore| {
        let seed = tile(core, &[1, 1], DType::Float32);
        run(core, &Memset { dst: seed.clone(), value: 3.0, engine: None });
        run(core, &SetRngSeed { src_seeds: seed });
    };
    let seed = |core: &mut NeuronCore| {
        let seed = tile(core, &[1, 1], DType::Int32);
        run(core, &Memset { dst: seed.clone(), value: 9.0, engine: None });
        run(core, &SetRngSeed { src_seeds: seed });
    };
    assert_eq!(draws_after(WITHOUT_VALUES, lose), None);
    let seeded = draws_after(CoreOptions::default(), seed).expect("computed");
    let found = draws_after(WITHOUT_VALUES, |core| {
        lose(core);
        spend(core);
        seed(core);
    });
    assert_eq!(found, Some(seeded));
}

#[test]
fn test_states_come_and_go_in_runs_without_values() {
    let mut core = core("trn3", WITHOUT_VALUES);
    let (words, some, after) = (
        tile(&mut core, &[128, 6], DType::UInt32),
        tile(&mut core, &[32, 6], DType::UInt32),
        tile(&mut core, &[128, 6], DType::UInt32),
    );
    let engine = Engine::GpSimd;
    let (set, get) =
        (|view: &View| RandSetState { src_seeds: view.clone(), engine }, RandGetState { dst: after.clone(), engine });
    run(&mut core, &set(&words));
    run(&mut core, &get);
    assert!(is_skipped(&mut core, &after), "nobody knows the words");
    run(&mut core, &Memset { dst: some.clone(), value: 7.0, engine: None });
    run(&mut core, &set(&some));
    run(&mut core, &get);
    assert!(is_skipped(&mut core, &after), "the words of some partitions are known");
    run(&mut core, &Memset { dst: words.clone(), value: 7.0, engine: None });
    run(&mut core, &set(&words));
    run(&mut core, &get);
    assert_eq!(core.state.read_bits(&after).expect("known"), [7; 128 * 6]);
}
