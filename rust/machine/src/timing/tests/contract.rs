//! What the timeline promises of every program.

use proptest::prelude::*;
use smallvec::SmallVec;

use super::{Instruction, arch, compute, dma, matmul, region, timeline, transfer};
use crate::arch::ArchSpec;
use crate::engine::Engine;
use crate::packed::PackedRows;
use crate::time::Picos;
use crate::timing::record::{Cause, Record};
use crate::timing::region::{Rect, Region, Space};
use crate::timing::service::CLASSES;
use crate::timing::stall;
use crate::timing::timeline::{Timeline, TimelineOptions};
use crate::timing::work::{CollectivePart, DescriptorMode, Route, Transfer, Work};

const ARCHES: [&str; 3] = ["trn1", "trn2", "trn3"];

fn regions(spaces: Vec<Space>) -> impl Strategy<Value = Region> {
    let rect = (0u64..4, 1u64..3, 0u64..8, 1u64..4).prop_map(|(row, rows, column, columns)| Rect {
        rows: row * 32..(row + rows) * 32,
        columns: column * 1024..(column + columns) * 1024,
    });
    (prop::sample::select(spaces), prop::collection::vec(rect, 1..3))
        .prop_map(|(space, rects)| Region { space, rects: SmallVec::from_vec(rects) })
}

fn operands(spaces: Vec<Space>) -> impl Strategy<Value = Vec<Region>> {
    prop::collection::vec(regions(spaces), 0..3)
}

fn computes() -> impl Strategy<Value = Instruction> {
    let engines = vec![Engine::Vector, Engine::Scalar, Engine::GpSimd, Engine::Sync, Engine::Tensor];
    let memories = vec![Space::Sbuf, Space::Sbuf, Space::Psum, Space::Register(1)];
    let numbers = (0u64..400_000, 0u64..300_000, prop::option::of(0u16..3), any::<bool>());
    (prop::sample::select(engines), numbers, operands(memories.clone()), operands(memories)).prop_map(
        |(engine, (interval, fixed, table, dynamic), reads, writes)| {
            let mut instruction = compute(engine, interval, interval + fixed);
            if let Work::Compute { table: wanted, .. } = &mut instruction.work {
                *wanted = table;
            }
            Instruction { reads, writes, dynamic, ..instruction }
        },
    )
}

fn matmuls() -> impl Strategy<Value = Instruction> {
    let blocks = vec![0xffff, 0xffff, 0x000f, 0x00f0, 0x3333, 0x0001, 0x8000];
    let numbers = (0u64..60_000, 0u64..70_000, 1u64..400_000, 0u64..200_000);
    let kinds = (prop::sample::select(blocks), any::<bool>());
    let places = (operands(vec![Space::Sbuf]), operands(vec![Space::Sbuf]), operands(vec![Space::Psum]));
    (numbers, kinds, places).prop_map(
        |((load, fetch, multiply, fixed), (blocks, accumulates), (reads, stationary_reads, writes))| {
            let work = Work::Matmul {
                load: Picos(load),
                load_latency: Picos(load + fetch),
                multiply: Picos(multiply),
                multiply_latency: Picos(multiply + fixed),
                blocks,
                accumulates,
            };
            Instruction { reads, stationary_reads, writes, ..Instruction::new(Engine::Tensor, work) }
        },
    )
}

fn transfers() -> impl Strategy<Value = Instruction> {
    let triggers = vec![None, None, Some(Engine::Scalar), Some(Engine::GpSimd), Some(Engine::Sync)];
    let modes = vec![DescriptorMode::Static, DescriptorMode::Hardware, DescriptorMode::Software];
    let routes = vec![Route::Load, Route::Store, Route::Hbm, Route::Sbuf];
    let choices = (prop::sample::select(triggers), prop::sample::select(modes), prop::sample::select(routes));
    let sizes = (0u64..100, 0u64..140, 0u64..20_000, 1u64..4);
    let memories = vec![Space::Sbuf, Space::Hbm(1), Space::Hbm(2)];
    (choices, sizes, operands(memories.clone()), operands(memories)).prop_map(
        |((trigger, mode, route), (first_row, rows, row_bytes, row_descriptors), reads, writes)| {
            let plain = transfer(route, rows, row_bytes);
            let instruction = dma(Transfer { trigger, mode, first_row, row_descriptors, ..plain });
            Instruction { reads, writes, ..instruction }
        },
    )
}

fn collectives() -> impl Strategy<Value = Instruction> {
    let numbers = (0u64..3_000_000, prop::option::of(0u8..4));
    let memories = vec![Space::Sbuf, Space::Hbm(1), Space::Hbm(2)];
    (numbers, operands(memories.clone()), operands(memories)).prop_map(|((duration, priority), reads, writes)| {
        let part = CollectivePart { duration: Picos(duration), priority, bytes: 0, hbm_read: 0, hbm_write: 0 };
        Instruction { reads, writes, ..Instruction::new(Engine::Dma, Work::Collective(part)) }
    })
}

pub(super) fn instructions() -> impl Strategy<Value = Instruction> {
    prop_oneof![4 => computes(), 3 => matmuls(), 3 => transfers(), 1 => collectives()]
}

pub(super) fn programs() -> impl Strategy<Value = Vec<Instruction>> {
    let instruction = instructions();
    let edges = prop::collection::vec(any::<prop::sample::Index>(), 0..2);
    prop::collection::vec((instruction, edges, 0u8..4), 1..60).prop_map(|list| {
        let with_edges = list.into_iter().enumerate().map(|(id, (mut instruction, edges, rare))| {
            if rare == 0 && id > 0 {
                instruction.after = edges.iter().map(|edge| edge.index(id) as u32).collect();
            }
            instruction
        });
        with_edges.collect()
    })
}

pub(super) fn run(name: &str, program: &[Instruction]) -> Timeline {
    let mut timeline = timeline(name);
    for instruction in program {
        instruction.issue(&mut timeline);
    }
    timeline
}

/// The memories that programs touch here, and of each the squares of 32 rows by 1024 bytes that make up all operands.
const MEMORIES: [Space; 5] = [Space::Sbuf, Space::Psum, Space::Hbm(1), Space::Hbm(2), Space::Register(1)];

type Squares = [u128; MEMORIES.len()];

fn squares(regions: &[Region]) -> Squares {
    let mut squares = Squares::default();
    for region in regions {
        let memory = MEMORIES.iter().position(|space| *space == region.space).expect("a known memory");
        for rect in &region.rects {
            for row in rect.rows.start / 32..rect.rows.end / 32 {
                for column in rect.columns.start / 1024..rect.columns.end / 1024 {
                    squares[memory] |= 1 << (row * 12 + column);
                }
            }
        }
    }
    squares
}

/// Whether two operands meet, in PSUM or anywhere else.
fn meet(one: &Squares, other: &Squares) -> (bool, bool) {
    let common = std::array::from_fn::<bool, { MEMORIES.len() }, _>(|memory| one[memory] & other[memory] != 0);
    (common[1], common[0] || common[2] || common[3] || common[4])
}

fn hop(arch: &ArchSpec, producer: Engine, consumer: Engine) -> Picos {
    Picos::from_nanoseconds(match producer {
        Engine::Dma => arch.dma_semaphore_ns,
        _ if producer == consumer => arch.same_engine_ns,
        _ => arch.semaphore_ns,
    })
}

/// Nothing of the later run comes before the same thing in the earlier one, but for a transfer's first byte: that moves
/// as soon as nothing that is due earlier wants its engine.
fn assert_no_earlier(before: &PackedRows<Record>, after: &PackedRows<Record>) -> Result<(), TestCaseError> {
    for (before, after) in before.iter().zip(after) {
        let is_sooner = after.start < before.start && after.dma_bytes == 0;
        let earlier = after.issued < before.issued || is_sooner;
        prop_assert!(!earlier && after.slot_end >= before.slot_end, "{:?} came before {:?}", after, before);
        prop_assert!(after.end >= before.end, "{:?} ended before {:?}", after, before);
    }
    Ok(())
}

pub(super) fn assert_dependencies(
    name: &str,
    program: &[Instruction],
    records: &PackedRows<Record>,
) -> Result<(), TestCaseError> {
    let arch = arch(name);
    let uses: Vec<[Squares; 3]> = program
        .iter()
        .map(|one| [&one.reads, &one.writes, &one.stationary_reads].map(|regions| squares(regions)))
        .collect();
    for (late, consumer) in program.iter().enumerate() {
        let [reads, writes, stationary] = &uses[late];
        let accumulates = matches!(consumer.work, Work::Matmul { accumulates: true, .. });
        for (early, [read, written, stationary_read]) in uses[..late].iter().enumerate() {
            let (before, after) = (records.at(early), records.at(late));
            let from = before.end + hop(&arch, before.engine, after.engine);
            let hazards = [meet(reads, written), meet(writes, written), meet(writes, read)];
            let in_psum = hazards.iter().any(|hazard| hazard.0) && !(accumulates && before.engine == Engine::Tensor);
            let elsewhere = hazards.iter().any(|hazard| hazard.1);
            if in_psum || elsewhere || consumer.after.contains(&(early as u32)) {
                prop_assert!(after.start >= from, "{} {:?} did not wait for {} {:?}", late, after, early, before);
            }
            if meet(stationary, written) != (false, false) {
                prop_assert!(after.issued >= from, "{} {:?} did not wait for {} {:?}", late, after, early, before);
            }
            if meet(writes, stationary_read) != (false, false) {
                prop_assert!(after.start > before.issued);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn test_slots_of_one_engine_never_overlap(program in programs(), name in prop::sample::select(ARCHES.to_vec())) {
        let timeline = run(name, &program);
        let mut free = [Picos::ZERO; Engine::ALL.len()];
        let mut blocks = [Picos::ZERO; 16];
        let mut classes = [Picos::ZERO; CLASSES];
        for (record, instruction) in timeline.records().iter().zip(&program) {
            prop_assert!(record.start <= record.slot_end && record.slot_end <= record.end);
            prop_assert!(record.end <= timeline.makespan());
            match &instruction.work {
                Work::Dma(_) => {
                    let trigger = timeline.triggers().iter().find(|trigger| trigger.id == record.id);
                    let trigger = trigger.expect("every transfer has a trigger");
                    prop_assert!(trigger.start >= free[trigger.engine as usize]);
                    free[trigger.engine as usize] = trigger.slot_end;
                    prop_assert!(record.start >= trigger.start);
                }
                Work::Matmul { blocks: held, .. } => {
                    for index in (0..16).filter(|index| held >> index & 1 == 1) {
                        prop_assert!(record.start >= blocks[index]);
                        blocks[index] = record.slot_end;
                    }
                }
                Work::Collective(part) => {
                    let class = part.priority.unwrap_or(3) as usize;
                    prop_assert!(record.start >= *classes[..=class].iter().max().expect("a class"));
                    classes[class] = record.end;
                }
                Work::Compute { .. } => {
                    prop_assert!(record.start >= free[record.engine as usize]);
                    free[record.engine as usize] = record.slot_end;
                }
            }
        }
        let busy: u64 = stall::engines(timeline.records(), timeline.triggers()).iter().map(|time| {
            assert!(time.busy <= timeline.makespan(), "{time:?}");
            time.idle.values().fold(time.busy, |sum, idle| sum + *idle).0.saturating_sub(timeline.makespan().0)
        }).sum();
        prop_assert_eq!(busy, 0);
        for engine in stall::dma_engines(timeline.transfers()) {
            prop_assert!(engine.busy <= timeline.makespan());
        }
    }

    #[test]
    fn test_every_dependency_is_respected(program in programs(), name in prop::sample::select(ARCHES.to_vec())) {
        assert_dependencies(name, &program, run(name, &program).records())?;
    }

    #[test]
    fn test_an_added_dependency_makes_nothing_earlier(
        program in programs(),
        name in prop::sample::select(ARCHES.to_vec()),
        at in any::<prop::sample::Index>(),
        to in any::<prop::sample::Index>(),
        read in regions(vec![Space::Sbuf, Space::Psum, Space::Hbm(1)]),
    ) {
        let plain = run(name, &program);
        let at = at.index(program.len());
        let mut bound = program.clone();
        if at > 0 {
            bound[at].after.push(to.index(at) as u32);
            assert_no_earlier(plain.records(), run(name, &bound).records())?;
        }
        let mut reading = program.clone();
        reading[at].reads.push(read);
        assert_no_earlier(plain.records(), run(name, &reading).records())?;
    }

    #[test]
    fn test_a_slower_instruction_makes_nothing_earlier(
        program in programs(),
        name in prop::sample::select(ARCHES.to_vec()),
        at in any::<prop::sample::Index>(),
        by in 0u64..2_000_000,
    ) {
        let plain = run(name, &program);
        let mut slow = program.clone();
        match &mut slow[at.index(program.len())].work {
            Work::Compute { latency, .. } => *latency += Picos(by),
            Work::Matmul { multiply_latency, .. } => *multiply_latency += Picos(by),
            Work::Dma(transfer) => transfer.row_bytes += by / 100,
            Work::Collective(part) => part.duration += Picos(by),
        }
        assert_no_earlier(plain.records(), run(name, &slow).records())?;
    }

    #[test]
    fn test_one_program_has_one_timeline(program in programs(), name in prop::sample::select(ARCHES.to_vec())) {
        let (first, second) = (run(name, &program), run(name, &program));
        prop_assert_eq!(first.records(), second.records());
        prop_assert_eq!(first.transfers(), second.transfers());
        let mut unrecorded = Timeline::new(arch(name), TimelineOptions { throttle: false, keep_records: false });
        for (instruction, record) in program.iter().zip(first.records()) {
            let span = instruction.issue(&mut unrecorded);
            prop_assert_eq!((span.slot_end, span.end), (record.slot_end, record.end));
            // A transfer's first byte moves no later than it would have to.
            let is_transfer = matches!(instruction.work, Work::Dma(_));
            prop_assert!(span.start == record.start || is_transfer && record.start < span.start);
        }
        prop_assert_eq!(unrecorded.makespan(), first.makespan());
        prop_assert!(unrecorded.records().is_empty() && unrecorded.critical_path().is_empty());
    }

    #[test]
    fn test_the_critical_path_leads_from_the_start_to_the_end(
        program in programs(),
        name in prop::sample::select(ARCHES.to_vec()),
    ) {
        let timeline = run(name, &program);
        let path = timeline.critical_path();
        prop_assert!(path.is_sorted() && path.iter().all(|id| (*id as usize) < program.len()));
        let last = timeline.records().at(*path.last().expect("no path is empty") as usize);
        prop_assert_eq!(last.end, timeline.makespan());
        for pair in path.windows(2) {
            let later = timeline.records().at(pair[1] as usize);
            prop_assert!(timeline.records().at(pair[0] as usize).start <= later.start);
            // What lies between was overtaken: it triggered the later one, and moved its own bytes after it.
            let mut on = later.waited_on;
            while on != pair[0] {
                prop_assert!((on as usize) < program.len());
                let overtaken = timeline.records().at(on as usize);
                prop_assert!(overtaken.start > later.start && overtaken.waited_on < on);
                on = overtaken.waited_on;
            }
        }
    }

    #[test]
    fn test_the_current_step_limit_only_slows(program in prop::collection::vec(matmuls(), 1..60)) {
        let plain = run("trn3", &program);
        let mut limited = Timeline::new(arch("trn3"), TimelineOptions { throttle: true, keep_records: true });
        for instruction in &program {
            instruction.issue(&mut limited);
        }
        assert_no_earlier(plain.records(), limited.records())?;
    }
}

fn reaches(achieved: f64, peak: f64) {
    assert!((achieved / peak - 1.0).abs() < 0.02, "{achieved} of {peak}");
}

#[test]
fn test_independent_streams_reach_the_peak_of_their_engine() {
    for engine in [Engine::Vector, Engine::Scalar, Engine::GpSimd, Engine::Sync] {
        let mut timeline = timeline("trn3");
        for index in 0..1000u64 {
            let tile = region(Space::Sbuf, 0..128, index % 50 * 1024..(index % 50 + 1) * 1024);
            compute(engine, 100_000, 250_000).reads(tile).issue(&mut timeline);
        }
        reaches(timeline.makespan().0 as f64, 1000.0 * 100_000.0);
    }
}

#[test]
fn test_a_stream_of_matmuls_reaches_the_peak() {
    for (name, accumulating) in [("trn1", false), ("trn2", false), ("trn2", true), ("trn3", true)] {
        let arch = arch(name);
        let mut timeline = timeline(name);
        let count = 2000;
        for index in 0..count {
            let bank = if accumulating { index / 64 % 8 } else { index % 8 };
            let mut instruction = matmul(&arch, 128, 512, 1)
                .stationary(region(Space::Sbuf, 0..128, index % 32 * 256..(index % 32 + 1) * 256))
                .reads(region(Space::Sbuf, 0..128, 65536 + index % 8 * 1024..65536 + (index % 8 + 1) * 1024))
                .writes(region(Space::Psum, 0..128, bank * 2048..(bank + 1) * 2048));
            if let Work::Matmul { accumulates, .. } = &mut instruction.work {
                *accumulates = accumulating && index % 64 != 0;
            }
            instruction.issue(&mut timeline);
        }
        let cycles = timeline.makespan().0 as f64 * arch.tensor_clock_mhz as f64 / 1e6;
        reaches(cycles, (count * 512) as f64);
    }
}

#[test]
fn test_disjoint_tiles_of_the_array_run_side_by_side() {
    let arch = arch("trn2");
    let gap = arch.tensor_clock().cycles(arch.tile_issue_cycles);
    let mut timeline = timeline("trn2");
    let mut tile = |blocks: u16| {
        let mut instruction = matmul(&arch, 32, 512, 1);
        if let Work::Matmul { blocks: held, .. } = &mut instruction.work {
            *held = blocks;
        }
        instruction.issue(&mut timeline)
    };
    let (first, second, third) = (tile(0x000f), tile(0x00f0), tile(0x000f));
    assert_eq!(second.start, first.start + gap);
    assert_eq!(third.start, first.slot_end);
}

#[test]
fn test_psum_accesses_of_vector_and_scalar_exclude_each_other_bank_by_bank() {
    for (name, banks, apart) in [("trn1", 1u64, true), ("trn3", 1, false), ("trn3", 0, true)] {
        let mut timeline = timeline(name);
        let first =
            compute(Engine::Vector, 200_000, 300_000).reads(region(Space::Psum, 0..128, 0..1024)).issue(&mut timeline);
        let second = compute(Engine::Scalar, 200_000, 300_000)
            .reads(region(Space::Psum, 0..128, banks * 2048 + 1024..banks * 2048 + 2048))
            .issue(&mut timeline);
        assert_eq!(second.start, if apart { first.slot_end } else { Picos::ZERO }, "{name}");
        let cause = timeline.records().at(1).cause;
        assert_eq!(cause, if apart { Cause::PsumBank } else { Cause::None });
    }
}

#[test]
fn test_vector_and_gpsimd_exclude_each_other_on_sbuf_of_generation_2_alone() {
    for (name, apart) in [("trn1", true), ("trn2", false)] {
        let mut timeline = timeline(name);
        let first = compute(Engine::Vector, 200_000, 300_000).reads(region(Space::Sbuf, 0..128, 0..4));
        let second = compute(Engine::GpSimd, 200_000, 300_000).reads(region(Space::Sbuf, 0..128, 8..12));
        let (first, second) = (first.issue(&mut timeline), second.issue(&mut timeline));
        assert_eq!(second.start, if apart { first.slot_end } else { Picos::ZERO }, "{name}");
    }
}

#[test]
fn test_a_table_is_loaded_when_it_changes() {
    let mut timeline = timeline("trn2");
    let load = Picos::from_nanoseconds(arch("trn2").activation_table_load_ns);
    let mut activate = |table: Option<u16>| {
        let work = Work::Compute { interval: Picos(100_000), latency: Picos(400_000), table };
        Instruction::new(Engine::Scalar, work).issue(&mut timeline)
    };
    let starts: Vec<Picos> = [Some(1), Some(1), None, Some(2), None, Some(1)].map(|table| activate(table).start).into();
    let steps: Vec<Picos> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(starts[0], load);
    let plain = Picos(100_000);
    assert_eq!(steps, vec![plain, plain, plain + load, plain, plain + load]);
    assert_eq!(timeline.records().at(3).cause, Cause::TableLoad);
    assert_eq!(stall::engines(timeline.records(), &[])[Engine::Scalar as usize].busy, Picos(600_000 + 3 * load.0));
}

#[test]
fn test_a_dynamic_address_holds_the_slot() {
    let arch = arch("trn2");
    let mut timeline = timeline("trn2");
    let dynamic = Instruction { dynamic: true, ..compute(Engine::Vector, 1000, 2000) };
    dynamic.issue(&mut timeline);
    let least = arch.vector_clock().cycles(arch.dynamic_interval_cycles);
    assert_eq!(dynamic.issue(&mut timeline).start, least);
}

#[test]
fn test_causes_name_what_was_waited_for() {
    let mut timeline = timeline("trn2");
    let tile = || region(Space::Sbuf, 0..128, 0..1024);
    dma(transfer(Route::Load, 128, 1024)).writes(tile()).issue(&mut timeline);
    compute(Engine::Vector, 100_000, 200_000).reads(tile()).writes(tile()).issue(&mut timeline);
    compute(Engine::Scalar, 100_000, 200_000).reads(tile()).issue(&mut timeline);
    compute(Engine::Scalar, 100_000, 200_000).issue(&mut timeline);
    let mut last = compute(Engine::GpSimd, 100_000, 200_000);
    last.after = vec![3];
    last.issue(&mut timeline);
    let causes: Vec<(Cause, u32)> =
        timeline.records().iter().skip(1).map(|record| (record.cause, record.waited_on)).collect();
    let expected = vec![(Cause::Dma, 0), (Cause::Engine(Engine::Vector), 1), (Cause::Order, 2), (Cause::DependsOn, 3)];
    assert_eq!(causes, expected);
    assert_eq!(timeline.critical_path(), vec![0, 1, 2, 3, 4]);
    let vector = &stall::engines(timeline.records(), timeline.triggers())[Engine::Vector as usize];
    assert_eq!(vector.idle[&Cause::Dma], timeline.records().at(1).start);
    assert_eq!(stall::sites(timeline.records())[0].instructions, 5);
}

#[test]
fn test_a_stalled_queue_holds_no_other_queue() {
    let mut timeline = timeline("trn2");
    let slow = region(Space::Sbuf, 0..128, 0..1024);
    compute(Engine::Vector, 50_000_000, 50_000_000).writes(slow.clone()).issue(&mut timeline);
    dma(transfer(Route::Store, 128, 1024)).reads(slow).issue(&mut timeline);
    let load = dma(transfer(Route::Load, 128, 1024)).issue(&mut timeline);
    assert!(load.end < Picos(3_000_000), "{load:?}");
}

#[test]
fn test_absurd_figures_do_not_panic() {
    let mut timeline = timeline("trn3");
    let huge = Transfer { rate_share: 0.0, row_descriptors: u64::MAX, ..transfer(Route::Load, 1000, 1 << 40) };
    for trigger in [None, Some(Engine::Dma), Some(Engine::Tensor)] {
        for first_row in [0, u64::MAX] {
            dma(Transfer { trigger, first_row, ..huge.clone() }).issue(&mut timeline);
        }
    }
    compute(Engine::Tensor, u64::MAX, u64::MAX).issue(&mut timeline);
    compute(Engine::Dma, u64::MAX, 0).issue(&mut timeline);
    let mut last = compute(Engine::Scalar, u64::MAX, u64::MAX).writes(region(Space::Psum, 0..0, 5..5));
    last.after = vec![77, u32::MAX];
    last.writes.push(region(Space::Psum, 0..u64::MAX, 0..u64::MAX));
    last.issue(&mut timeline);
    matmul(&arch("trn3"), 128, u64::MAX / 1_000_000_000, 1).issue(&mut timeline);
    assert_eq!(timeline.makespan(), Picos(u64::MAX));
}

/// Collectives of some milliseconds and priorities, all ready from the start.
fn waiting(collectives: &[(u64, Option<u8>)]) -> Vec<(u64, u64)> {
    let mut timeline = timeline("trn3");
    for &(milliseconds, priority) in collectives {
        let duration = Picos(milliseconds * 1_000_000_000);
        let part = CollectivePart { duration, priority, bytes: 0, hbm_read: 0, hbm_write: 0 };
        Instruction::new(Engine::Dma, Work::Collective(part)).issue(&mut timeline);
    }
    let span = |record: Record| (record.start.0 / 1_000_000_000, record.end.0 / 1_000_000_000);
    timeline.records().iter().map(span).collect()
}

#[test]
fn test_collectives_of_one_class_keep_their_order() {
    for priority in [None, Some(0), Some(3)] {
        assert_eq!(waiting(&[(3, priority), (2, priority)]), [(0, 3), (3, 5)]);
    }
}

#[test]
fn test_a_more_urgent_collective_overtakes_and_later_ones_pay() {
    // The second overtakes the first; the third has waited for both.
    assert_eq!(waiting(&[(3, None), (2, Some(0)), (1, None)]), [(0, 3), (0, 2), (5, 6)]);
    assert_eq!(waiting(&[(3, Some(1)), (2, Some(2)), (1, Some(0))]), [(0, 3), (3, 5), (0, 1)]);
    assert_eq!(waiting(&[(3, Some(0)), (2, None)]), [(0, 3), (3, 5)]);
}
