//! Whatever the order and the places of a trace's tensors become, every step reads what it read before, and what is written
//! to HBM stays the same.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;
use smallvec::smallvec;
use trn3_compiler::live::live_ranges;
use trn3_compiler::passes::check::check;
use trn3_compiler::{CompileOptions, CompilerConstants, PassReport};
use trn3_machine::Error;
use trn3_machine::arch::ArchSpec;
use trn3_machine::engine::Engine;
use trn3_machine::site::{Site, SiteId};
use trn3_machine::storage::Buffer;
use trn3_machine::time::Picos;
use trn3_machine::timing::region::{Rect, Space};
use trn3_machine::timing::timeline::TimelineOptions;
use trn3_machine::timing::work::{DescriptorMode, Route, Transfer, Work};
use trn3_machine::trace::{Home, NONE, Trace, TraceOperand, TraceStep, TraceTensor, Use, time};

/// Bytes that are told apart.
const CELL: u64 = 1024;
/// Bytes of tiles that a random trace uses; some fill most of SBUF.
const SIZES: [u64; 5] = [CELL, 20_480, 40_960, 61_440, 65_536];
const BANK: u64 = 2048;
const INPUTS: u64 = 6;
/// Storages of a kernel, whose numbers no storage has that a compiler adds.
const INPUT: u64 = u64::MAX;
const OUTPUT: u64 = u64::MAX - 1;

/// A step of a random trace.
#[derive(Clone, Debug)]
struct Plan {
    kind: u8,
    one: usize,
    other: usize,
    to: usize,
    mark: u8,
}

fn plans(steps: Range<usize>) -> impl Strategy<Value = Vec<Plan>> {
    let plan = (0u8..14, 0usize..64, 0usize..64, 0usize..64, 0u8..40);
    prop::collection::vec(plan.prop_map(|(kind, one, other, to, mark)| Plan { kind, one, other, to, mark }), steps)
}

struct Made {
    trace: Trace,
    /// Tensors on chip that hold something, by memory.
    full: [Vec<u32>; 2],
    input: u32,
    output: u32,
    addressed: u32,
}

impl Made {
    fn new() -> Self {
        let mut trace = Trace::new(Arc::new(ArchSpec::load("trn2").expect("a built-in spec")));
        let mut add = |home, bytes| {
            trace.add_tensor(TraceTensor {
                home,
                name: "t".into(),
                site: SiteId(0),
                partitions: 128,
                bytes,
                storage: 0,
            })
        };
        let input = add(Home::Hbm(INPUT), 1 << 30);
        let output = add(Home::Hbm(OUTPUT), 1 << 30);
        let addressed = add(Home::Addressed(Buffer::Sbuf), 196_608);
        Self { trace, full: Default::default(), input, output, addressed }
    }

    fn tensor(&mut self, buffer: Buffer, bytes: u64) -> u32 {
        let home = Home::Open(buffer);
        self.trace.add_tensor(TraceTensor {
            home,
            name: "t".into(),
            site: SiteId(0),
            partitions: 128,
            bytes,
            storage: 0,
        })
    }

    fn bytes(&self, tensor: u32) -> u64 {
        self.trace.tensors[tensor as usize].bytes
    }

    fn part(tensor: u32, usage: Use, columns: Range<u64>) -> TraceOperand {
        TraceOperand { tensor, usage, offset: 0, rects: smallvec![Rect { rows: 0..128, columns }] }
    }

    fn whole(&self, tensor: u32, usage: Use) -> TraceOperand {
        Self::part(tensor, usage, 0..self.bytes(tensor))
    }

    /// What is held in one of the tensors that hold something.
    fn known(&self, buffer: Buffer, which: usize) -> Option<u32> {
        let full = &self.full[usize::from(buffer == Buffer::Psum)];
        (!full.is_empty()).then(|| full[full.len() - 1 - which % full.len().min(6)])
    }

    fn push(&mut self, mut step: TraceStep, mark: u8) {
        step.source = self.trace.steps.len() as u32;
        step.fingerprint = Some(u64::from(step.source) + 1);
        step.marks.overwrites = true;
        match mark {
            0 => step.marks.is_fence = true,
            1..=4 => step.marks.is_ordered = true,
            5 | 6 => step.after.push(step.source.saturating_sub(3)),
            _ => {}
        }
        step.after.retain(|after| *after < step.source);
        self.trace.steps.push(step);
    }
}

fn compute(operands: Vec<TraceOperand>) -> TraceStep {
    let work = Work::Compute { interval: Picos(1000), latency: Picos(2000), table: None };
    TraceStep::new(Engine::Vector, work, operands)
}

fn transfer(route: Route, bytes: u64, operands: Vec<TraceOperand>) -> TraceStep {
    let work = Work::Dma(Transfer {
        trigger: None,
        mode: DescriptorMode::Static,
        route,
        first_row: 0,
        rows: 128,
        row_bytes: bytes,
        row_descriptors: 1,
        rate_share: 1.0,
        hbm_read: 0,
        hbm_write: 0,
        priority: None,
        ring: 0,
    });
    TraceStep::new(Engine::Dma, work, operands)
}

fn trace(plans: &[Plan]) -> Trace {
    let mut made = Made::new();
    for plan in plans {
        let Plan { kind, one, other, to, mark } = *plan;
        let size = SIZES[to % SIZES.len()];
        let known = made.known(Buffer::Sbuf, one).zip(made.known(Buffer::Sbuf, other));
        let step = match (kind, known, made.known(Buffer::Psum, one)) {
            (0..=2, ..) => {
                let tensor = made.tensor(Buffer::Sbuf, size);
                made.full[0].push(tensor);
                let from = (one as u64 % INPUTS) << 24;
                let read = Made::part(made.input, Use::Read, from..from + size);
                transfer(Route::Load, size, vec![read, made.whole(tensor, Use::Write)])
            }
            (3, ..) => {
                let tensor = made.tensor(Buffer::Sbuf, size);
                made.full[0].push(tensor);
                compute(vec![made.whole(tensor, Use::Write)])
            }
            (4 | 5, Some((one, other)), _) => {
                let tensor = made.tensor(Buffer::Sbuf, size.min(61_440));
                made.full[0].push(tensor);
                let few = |tensor| Made::part(tensor, Use::Read, 0..CELL);
                compute(vec![few(one), few(other), made.whole(tensor, Use::Write)])
            }
            (6, Some((one, to)), _) => {
                let half = (made.bytes(to) / 2).next_multiple_of(CELL);
                let write = Made::part(to, Use::Write, 0..half);
                compute(vec![Made::part(one, Use::Read, 0..CELL), write])
            }
            (7, Some((one, _)), _) => {
                let tensor = made.tensor(Buffer::Psum, BANK);
                made.full[1].push(tensor);
                compute(vec![Made::part(one, Use::Stationary, 0..CELL), made.whole(tensor, Use::Write)])
            }
            (8, Some((one, _)), Some(to)) => {
                let operands = [Use::Read, Use::Write].map(|usage| made.whole(to, usage));
                compute(operands.into_iter().chain([Made::part(one, Use::Stationary, 0..CELL)]).collect())
            }
            (9, Some((to, _)), Some(from)) => compute(vec![made.whole(from, Use::Read), made.whole(to, Use::Write)]),
            (10, Some((from, _)), _) => {
                let at = (to as u64) << 20;
                let bytes = made.bytes(from);
                let write = Made::part(made.output, Use::Write, at..at + bytes);
                transfer(Route::Store, bytes, vec![made.whole(from, Use::Read), write])
            }
            (11, Some((from, _)), _) if to % 4 == 0 => {
                let at = (one as u64 % INPUTS) << 24;
                let write = Made::part(made.input, Use::Write, at..at + CELL);
                transfer(Route::Store, CELL, vec![Made::part(from, Use::Read, 0..CELL), write])
            }
            (12, Some((from, _)), _) => {
                let first = 8192 * (to as u64 % 3);
                let write = Made::part(made.addressed, Use::Write, first..first + 2048);
                compute(vec![Made::part(from, Use::Read, 0..CELL), write])
            }
            (13, Some((to, _)), _) => {
                let first = 8192 * (one as u64 % 3);
                let read = Made::part(made.addressed, Use::Read, first..first + 2048);
                compute(vec![read, Made::part(to, Use::Write, 0..CELL)])
            }
            _ => continue,
        };
        made.push(step, mark);
    }
    made.trace
}

type Cell = (Space, u32, u64);

/// What each step reads, and what is in HBM in the end, where tensors have no place as if each had a memory of its own.
fn run(trace: &Trace, placed: bool) -> (Vec<(u32, u64)>, HashMap<Cell, u64>) {
    let mut memory: HashMap<Cell, u64> = HashMap::new();
    let mut read = Vec::new();
    for step in &trace.steps {
        let cells = |operand: &TraceOperand| -> Vec<Cell> {
            let (space, _, byte) = trace.origin(operand.tensor);
            let is_open = trace.tensors[operand.tensor as usize].open().is_some();
            assert!(!placed || !is_open || trace.places[operand.tensor as usize].is_some(), "a tensor without a place");
            let (own, byte) = if placed || !is_open { (0, byte) } else { (operand.tensor + 1, 0) };
            let of = |rect: &Rect| (rect.columns.start + byte..rect.columns.end + byte).step_by(CELL as usize);
            operand.rects.iter().flat_map(of).map(|byte| (space, own, byte)).collect()
        };
        let values = |operand: &TraceOperand, memory: &HashMap<Cell, u64>| -> Vec<u64> {
            cells(operand).iter().map(|cell| memory.get(cell).copied().unwrap_or(0)).collect()
        };
        if step.source == NONE {
            let moved = values(&step.operands[0], &memory);
            let to = cells(&step.operands[1]);
            assert_eq!(moved.len(), to.len());
            memory.extend(to.into_iter().zip(moved));
            continue;
        }
        let mut hasher = DefaultHasher::new();
        step.reads().for_each(|operand| values(operand, &memory).hash(&mut hasher));
        let inputs = hasher.finish();
        read.push((step.source, inputs));
        for (number, cell) in step.writes().flat_map(&cells).enumerate() {
            let mut hasher = DefaultHasher::new();
            (step.source, inputs, number).hash(&mut hasher);
            memory.insert(cell, hasher.finish());
        }
    }
    let of_kernel = |space: &Space| matches!(space, Space::Hbm(INPUT | OUTPUT));
    (read, memory.into_iter().filter(|((space, ..), _)| of_kernel(space)).collect())
}

fn compile(trace: &mut Trace, passes: &[&str]) -> Result<Vec<PassReport>, Error> {
    let passes = Some(passes.iter().map(|&pass| pass.to_owned()).collect());
    let pipeline = CompileOptions { passes, ..CompileOptions::default() }.pipeline()?;
    pipeline
        .iter()
        .map(|pass| {
            let mut report = PassReport::new(pass.name());
            pass.run(trace, &mut report).map(|()| report)
        })
        .collect()
}

/// No two values of a step, and none and the author's bytes, share bytes; all lie in the memory.
fn check_places(trace: &Trace) {
    for step in &trace.steps {
        let mut taken: Vec<(u32, Space, Range<u64>)> = Vec::new();
        for operand in &step.operands {
            let tensor = &trace.tensors[operand.tensor as usize];
            let (space, row, byte) = trace.origin(operand.tensor);
            if let Some(buffer) = tensor.open() {
                let (unit, usable) = match buffer {
                    Buffer::Psum => (trace.arch.psum_bank_bytes, trace.arch.psum_partition_bytes()),
                    _ => (64, trace.arch.sbuf_usable_bytes()),
                };
                assert!(row == 0 && byte.is_multiple_of(unit) && byte + tensor.bytes <= usable, "{byte}");
                taken.push((operand.tensor, space, byte..byte + tensor.bytes));
            } else if matches!(tensor.home, Home::Addressed(_)) {
                taken.extend(operand.rects.iter().map(|rect| (operand.tensor, space, rect.columns.clone())));
            }
        }
        for (number, (tensor, space, bytes)) in taken.iter().enumerate() {
            for (other, rival, others) in &taken[..number] {
                let meets = space == rival && bytes.start < others.end && others.start < bytes.end;
                assert!(tensor == other || !meets, "{bytes:?} and {others:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn test_steps_read_what_they_read_before(plans in plans(1..90)) {
        let before = trace(&plans);
        let (read, hbm) = run(&before, false);
        for passes in [&["allocate"][..], &["interleave", "allocate"]] {
            let mut after = before.clone();
            compile(&mut after, passes).expect("operands of each step fit");
            check_places(&after);
            prop_assert!(check(&before, &after).is_ok(), "{:?}", check(&before, &after));
            let (mut read_after, hbm_after) = run(&after, true);
            read_after.sort_unstable();
            read_after.dedup();
            let differs = read_after.iter().zip(&read).find(|(now, then)| now != then);
            prop_assert!(read_after == read, "{:?} of {} and {}", differs, read_after.len(), read.len());
            prop_assert!(hbm_after == hbm, "what is in HBM differs");
        }
    }

    #[test]
    fn test_the_order_keeps_fences_orders_and_what_waits(plans in plans(1..90)) {
        let before = trace(&plans);
        let mut after = before.clone();
        compile(&mut after, &["interleave"]).expect("a pass that refuses nothing");
        let places: HashMap<u32, usize> = after.steps.iter().enumerate().map(|(at, step)| (step.source, at)).collect();
        prop_assert_eq!(places.len(), before.steps.len());
        let marked = |is_marked: fn(&TraceStep) -> bool| -> Vec<u32> {
            after.steps.iter().filter(|step| is_marked(step)).map(|step| step.source).collect()
        };
        prop_assert!(marked(|step| step.marks.is_ordered).is_sorted());
        for fence in marked(|step| step.marks.is_fence) {
            let at = places[&fence];
            prop_assert!(places.iter().all(|(source, place)| (*source < fence) == (*place < at) || *source == fence));
        }
        for (number, step) in before.steps.iter().enumerate() {
            for earlier in &step.after {
                prop_assert!(places[earlier] < places[&(number as u32)]);
                let now = &after.steps[places[&(number as u32)]];
                prop_assert!(now.after.contains(&(places[earlier] as u32)));
            }
        }
    }
}

/// Loads of more than fits, each of which is used twice: in the order of the loads, or in turn.
fn two_loops(tiles: u64, bytes: u64) -> Trace {
    let mut made = Made::new();
    let loaded: Vec<u32> = (0..tiles).map(|_| made.tensor(Buffer::Sbuf, bytes)).collect();
    for (number, &tensor) in loaded.iter().enumerate() {
        let from = (number as u64) << 24;
        let read = Made::part(made.input, Use::Read, from..from + bytes);
        let step = transfer(Route::Load, bytes, vec![read, made.whole(tensor, Use::Write)]);
        made.push(step, 99);
    }
    for (number, &tensor) in loaded.iter().enumerate() {
        let at = (number as u64) << 24;
        let write = Made::part(made.output, Use::Write, at..at + bytes);
        let step = transfer(Route::Store, bytes, vec![made.whole(tensor, Use::Read), write]);
        made.push(step, 99);
    }
    made.trace
}

#[test]
fn test_two_loops_take_turns_where_their_tiles_do_not_fit() {
    let mut trace = two_loops(12, 40_960);
    let reports = compile(&mut trace, &["interleave", "allocate"]).expect("tiles fit");
    assert!(reports[0].count("moved") > 0);
    assert_eq!((reports[1].count("spilled_bytes"), reports[1].count("reloaded_bytes")), (0, 0));
    let mut fits = two_loops(4, 40_960);
    let order: Vec<u32> = fits.steps.iter().map(|step| step.source).collect();
    compile(&mut fits, &["interleave", "allocate"]).expect("tiles fit");
    assert_eq!(fits.steps.iter().map(|step| step.source).collect::<Vec<_>>(), order);
}

#[test]
fn test_what_was_loaded_is_loaded_again_and_the_furthest_use_leaves() {
    let mut trace = two_loops(6, 40_960);
    let reports = compile(&mut trace, &["allocate"]).expect("tiles fit");
    // Five fit: when the sixth one comes the use of the fifth is furthest.
    assert_eq!((reports[0].count("spilled_bytes"), reports[0].count("remade")), (0, 1));
    let again: Vec<u32> =
        trace.steps.iter().filter(|step| step.operands[1].usage == Use::Write).map(|step| step.source).collect();
    assert_eq!(again.iter().filter(|&&source| source == 4).count(), 2);
}

#[test]
fn test_what_was_computed_is_stored_once_and_comes_back() {
    let mut made = Made::new();
    let bytes = 81_920;
    let computed = made.tensor(Buffer::Sbuf, bytes);
    let one_cell = Made::part(made.input, Use::Read, 0..CELL);
    let seed = made.tensor(Buffer::Sbuf, CELL);
    let step = transfer(Route::Load, CELL, vec![one_cell, made.whole(seed, Use::Write)]);
    made.push(step, 99);
    let step = compute(vec![made.whole(seed, Use::Read), made.whole(computed, Use::Write)]);
    made.push(step, 99);
    for turn in 0..3u64 {
        let pair = [0u64, 1].map(|one| {
            let tensor = made.tensor(Buffer::Sbuf, bytes);
            let from = (2 * turn + one) << 24;
            let read = Made::part(made.input, Use::Read, from..from + bytes);
            let step = transfer(Route::Load, bytes, vec![read, made.whole(tensor, Use::Write)]);
            made.push(step, 99);
            tensor
        });
        // The author's order: the value is used after each pair.
        let step = compute(pair.map(|tensor| made.whole(tensor, Use::Read)).to_vec());
        made.push(step, 1);
        let write = Made::part(made.output, Use::Write, turn << 24..(turn << 24) + bytes);
        let step = transfer(Route::Store, bytes, vec![made.whole(computed, Use::Read), write]);
        made.push(step, 1);
    }
    let mut trace = made.trace;
    let (read, hbm) = run(&trace, false);
    let reports = compile(&mut trace, &["allocate"]).expect("tiles fit");
    let (mut read_after, hbm_after) = run(&trace, true);
    read_after.sort_unstable();
    read_after.dedup();
    assert_eq!((read_after, hbm_after), (read, hbm));
    assert_eq!((reports[0].count("spills"), reports[0].count("spilled_bytes")), (1, 128 * bytes));
    let is_back = |step: &&TraceStep| {
        let to = step.operands[1].tensor;
        step.source == NONE && trace.tensors[to as usize].open().is_some()
    };
    assert_eq!(trace.steps.iter().filter(is_back).count(), 3);
    let again = reports[0].count("remade");
    assert_eq!(reports[0].count("reloaded_bytes"), (3 + again) * 128 * bytes);
}

#[test]
fn test_a_tile_that_is_filled_in_every_turn_takes_turns_in_places() {
    let mut made = Made::new();
    let tensor = made.tensor(Buffer::Sbuf, 4096);
    for turn in 0..4u64 {
        let from = turn << 24;
        let read = Made::part(made.input, Use::Read, from..from + 4096);
        let step = transfer(Route::Load, 4096, vec![read, made.whole(tensor, Use::Write)]);
        made.push(step, 99);
        let write = Made::part(made.output, Use::Write, from..from + 4096);
        let step = transfer(Route::Store, 4096, vec![made.whole(tensor, Use::Read), write]);
        made.push(step, 99);
    }
    let mut trace = made.trace;
    let reports = compile(&mut trace, &["allocate"]).expect("tiles fit");
    assert_eq!(reports[0].count("rotated"), 4);
    let places: Vec<_> = trace.steps.iter().step_by(2).map(|step| trace.origin(step.operands[1].tensor).2).collect();
    assert!((1..4).all(|turn| !places[..turn].contains(&places[turn])), "{places:?}");
}

#[test]
fn test_operands_of_one_step_that_do_not_fit_are_refused_with_their_line() {
    let mut made = Made::new();
    let line = made.trace.sites.intern(Site { file: "kernel.py".to_owned(), line: 7, function: "f".to_owned() });
    let (one, other) = (made.tensor(Buffer::Sbuf, 122_880), made.tensor(Buffer::Sbuf, 122_880));
    let mut step = compute(vec![made.whole(one, Use::Read), made.whole(other, Use::Write)]);
    step.opcode = made.trace.names.opcode("tensor_copy");
    step.site = line;
    made.push(step, 99);
    let error = compile(&mut made.trace, &["allocate"]).expect_err("too much");
    assert!(matches!(error, Error::SbufCapacity(_)));
    let text = error.to_string();
    let usable = made.trace.arch.sbuf_usable_bytes();
    let said = format!(
        "kernel.py:7: SBUF cannot hold the operands of tensor_copy at once: they need 245760 bytes per partition, {usable} \
         are usable"
    );
    assert!(text.starts_with(&said), "{text}");
}

#[test]
fn test_psum_leaves_for_sbuf_and_comes_back() {
    let mut made = Made::new();
    let seed = made.tensor(Buffer::Sbuf, CELL);
    let step = compute(vec![made.whole(seed, Use::Write)]);
    made.push(step, 99);
    let sums: Vec<u32> = (0..9).map(|_| made.tensor(Buffer::Psum, BANK)).collect();
    for round in 0..2 {
        for &sum in &sums {
            let mut operands = vec![made.whole(seed, Use::Stationary), made.whole(sum, Use::Write)];
            operands.extend((round > 0).then(|| made.whole(sum, Use::Read)));
            let step = compute(operands);
            made.push(step, 99);
        }
    }
    let mut trace = made.trace;
    let (read, _) = run(&trace, false);
    let reports = compile(&mut trace, &["allocate"]).expect("banks fit");
    check_places(&trace);
    let (mut read_after, _) = run(&trace, true);
    read_after.sort_unstable();
    assert_eq!(read_after, read);
    assert!(reports[0].count("spills") > 0);
    assert_eq!(reports[0].count("spilled_bytes"), 0);
    let opcode = trace.names.opcode("tensor_copy");
    assert!(
        trace.steps.iter().any(|step| step.source == NONE && step.opcode == opcode && step.engine == Engine::Vector)
    );
}

#[test]
fn test_transfers_take_rings_in_turn_and_the_authors_queues_stay() {
    let mut trace = two_loops(20, 1024);
    if let Work::Dma(transfer) = &mut trace.steps[1].work {
        transfer.trigger = Some(Engine::Scalar);
    }
    compile(&mut trace, &["allocate", "queues"]).expect("tiles fit");
    let rings = trace.steps.iter().filter_map(|step| match &step.work {
        Work::Dma(transfer) if transfer.trigger.is_none() => Some(u64::from(transfer.ring)),
        _ => None,
    });
    let most = u64::from(CompilerConstants::load().expect("built in").dma_rings);
    assert!(rings.zip(0..39).all(|(ring, number)| ring == number % most));
    assert!(matches!(&trace.steps[1].work, Work::Dma(Transfer { ring: 0, trigger: Some(Engine::Scalar), .. })));
}

#[test]
fn test_live_ranges_say_what_lies_where_from_when_to_when() {
    let mut trace = two_loops(6, 40_960);
    compile(&mut trace, &["allocate"]).expect("tiles fit");
    let timed = time(&trace, TimelineOptions { throttle: false, keep_records: true }).expect("all has a place");
    let mut timeline = timed.timeline;
    timeline.schedule();
    let live = live_ranges(&trace, &timeline);
    assert_eq!(live.len(), 7);
    for (number, range) in live.iter().enumerate() {
        assert_eq!((range.buffer, range.bytes, range.partitions), ("sbuf", 40_960, 128));
        assert!(range.first <= range.last && range.begin_us < range.end_us && !range.spilled);
        for other in &live[..number] {
            let apart = other.byte + other.bytes <= range.byte || range.byte + range.bytes <= other.byte;
            assert!(apart || other.last < range.first || range.last < other.first);
        }
    }
}
