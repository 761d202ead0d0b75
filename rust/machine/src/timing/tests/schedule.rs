//! What DMA engines did, as a schedule: laws that hold for every program.

use proptest::prelude::*;

use super::contract::{assert_dependencies, programs, run};
use super::{Instruction, arch, compute, dma, region, transfer};
use crate::engine::Engine;
use crate::time::Picos;
use crate::timing::record::TransferRecord;
use crate::timing::region::{Region, Space};
use crate::timing::stall;
use crate::timing::timeline::Timeline;
use crate::timing::work::{Route, Transfer, Work};

/// A plain kernel: tiles are loaded, computed on and stored, and nothing but the bytes sets the order.
fn plain(tiles: u64, row_bytes: u64) -> Vec<Instruction> {
    let tile = |space, number: u64| -> Region { region(space, 0..128, number * row_bytes..(number + 1) * row_bytes) };
    let of_tile = |number: u64| {
        let (loaded, computed) = (tile(Space::Sbuf, 2 * number), tile(Space::Sbuf, 2 * number + 1));
        [
            dma(transfer(Route::Load, 128, row_bytes)).reads(tile(Space::Hbm(1), number)).writes(loaded.clone()),
            compute(Engine::Scalar, 1_700_000, 2_000_000).reads(loaded).writes(computed.clone()),
            dma(transfer(Route::Store, 128, row_bytes)).reads(computed).writes(tile(Space::Hbm(2), number)),
        ]
    };
    (0..tiles).flat_map(of_tile).collect()
}

/// How many pieces run at a time, at most.
fn at_once(pieces: &[TransferRecord]) -> i64 {
    let long = pieces.iter().filter(|piece| piece.end > piece.start);
    // At one moment, ends come before starts.
    let mut changes: Vec<(Picos, i64)> = long.flat_map(|piece| [(piece.start, 1), (piece.end, -1)]).collect();
    changes.sort_unstable();
    let counts = changes.iter().scan(0, |count, change| {
        *count += change.1;
        Some(*count)
    });
    counts.max().unwrap_or(0)
}

/// The bytes of pieces that move between two moments.
fn bytes_between(pieces: &[TransferRecord], from: Picos, until: Picos) -> f64 {
    let inside = |piece: &TransferRecord| piece.end.min(until).since(piece.start.max(from)).0 as f64;
    let share = |piece: &TransferRecord| inside(piece) / piece.end.since(piece.start).0.max(1) as f64;
    pieces.iter().map(|piece| piece.bytes as f64 * share(piece)).sum()
}

/// Built-in machines, and one whose HBM gives less than its DMA engines move.
const ARCHES: [&str; 4] = ["trn1", "trn2", "trn3", "trn3/300"];

fn assert_schedule(name: &str, program: &[Instruction], timeline: &Timeline) -> Result<(), TestCaseError> {
    let (arch, pieces, records) = (arch(name), timeline.transfers(), timeline.records());
    for engine in 0..arch.dma_engines as u16 {
        let mut own: Vec<_> = pieces.iter().filter(|piece| piece.dma_engine == engine).collect();
        own.sort_by_key(|piece| (piece.start, piece.end));
        prop_assert!(own.windows(2).all(|pair| pair[0].end <= pair[1].start), "engine {engine}: {own:?}");
    }
    prop_assert!(at_once(pieces) <= arch.dma_engines as i64);
    for piece in pieces {
        let record = records.at(piece.id as usize);
        prop_assert!(record.issued <= record.start && record.start <= piece.start);
        prop_assert!(piece.start <= piece.end && piece.end <= record.end);
    }
    for (record, instruction) in records.iter().zip(program) {
        let Work::Dma(transfer) = &instruction.work else { continue };
        let own = || pieces.iter().filter(|piece| piece.id == record.id);
        prop_assert_eq!(own().map(|piece| piece.bytes).sum::<u64>(), transfer.rows * transfer.row_bytes);
        prop_assert_eq!(own().map(|piece| piece.start).min().unwrap_or(record.start), record.start);
    }
    let rate = arch.dma_engines as f64 * arch.dma_engine_bytes_per_ns / 1e3;
    let moments: Vec<Picos> =
        pieces.iter().step_by(pieces.len() / 8 + 1).flat_map(|piece| [piece.start, piece.end]).collect();
    for (&from, &until) in moments.iter().flat_map(|from| moments.iter().map(move |until| (from, until))) {
        // A piece's bytes are whole, and so are the picoseconds of its work.
        let slack = pieces.iter().filter(|piece| piece.end > from && piece.start < until).count() as f64;
        let moved = bytes_between(pieces, from, until);
        prop_assert!(moved <= rate * until.since(from).0 as f64 + slack, "{moved} bytes in {from} to {until}");
    }
    for piece in pieces {
        let Work::Dma(transfer) = &program[piece.id as usize].work else { continue };
        // What has no bytes draws nothing.
        let bytes = (transfer.rows * transfer.row_bytes).max(1);
        let drawn = (transfer.hbm_read + transfer.hbm_write) as f64 / bytes as f64;
        let most = piece.end.since(piece.start).0 as f64 * arch.hbm_gbps / 1e3 / arch.dma_engines as f64;
        prop_assert!(piece.bytes as f64 * drawn <= most + 2.0 * drawn, "{piece:?} of {most}");
    }
    let times = stall::dma_engines(pieces);
    let any = stall::engines(records, timeline.triggers())[Engine::Dma as usize].busy;
    let mean = times.iter().map(|time| time.busy.0).sum::<u64>() / arch.dma_engines;
    prop_assert!(mean <= any.0 && any <= timeline.makespan(), "{mean} {any}");
    Ok(())
}

#[test]
fn test_loads_and_stores_of_a_plain_kernel_share_the_engines() {
    let program = plain(8, 8192);
    let timeline = run("trn3", &program);
    assert_schedule("trn3", &program, &timeline).expect("a schedule");
    // Stores run while later tiles are loaded, on the same engines.
    let start = |id: u32| timeline.records().at(id as usize).start;
    assert!((0..7).any(|tile| start(3 * tile + 2) < timeline.records().at(3 * tile as usize + 3).end));
    assert_eq!(at_once(timeline.transfers()), 16);
}

#[test]
fn test_what_is_due_first_goes_first() {
    let row = 33 * 1000;
    let load = |columns: std::ops::Range<u64>| {
        let transfer = transfer(Route::Load, 1, columns.end - columns.start);
        dma(transfer).writes(region(Space::Sbuf, 0..1, columns))
    };
    // The store stands earlier in the program but can start later: the load runs until then, gives way, and goes on.
    let store = dma(transfer(Route::Store, 1, row)).reads(region(Space::Sbuf, 0..1, 0..row));
    let timeline = run("trn3", &[load(0..row), store, load(row..3 * row)]);
    let of = |id: u32| timeline.transfers().iter().filter(|piece| piece.id == id).collect::<Vec<_>>();
    let (store, load) = (of(1), of(2));
    assert_eq!((of(0).len(), store.len(), load.len()), (1, 1, 2));
    assert_eq!((load[0].end, load[1].start), (store[0].start, store[0].end));
    assert!(load[0].start < store[0].start && load[0].bytes + load[1].bytes == 2 * row);
}

#[test]
fn test_asking_early_changes_nothing() {
    let program = plain(4, 4096);
    let (mut asked, mut left) = (run("trn3", &[]), run("trn3", &[]));
    for instruction in &program {
        instruction.issue(&mut asked);
        instruction.issue(&mut left);
        assert_eq!(asked.records().len(), left.records().len());
        asked.schedule();
        assert_eq!((asked.records(), asked.transfers()), (left.records(), left.transfers()));
    }
}

/// Loads of whole tiles into places of their own, at once: rows, bytes of a row and priority of each.
fn loads(list: &[(u64, u64, Option<u8>)]) -> Vec<Instruction> {
    let load = |(number, &(rows, row_bytes, priority)): (u64, &(u64, u64, Option<u8>))| {
        let place = number * 100_000..number * 100_000 + row_bytes;
        let transfer = Transfer { priority, trigger: Some(Engine::Sync), ..transfer(Route::Load, rows, row_bytes) };
        dma(transfer).writes(region(Space::Sbuf, 0..rows, place))
    };
    (0..).zip(list).map(load).collect()
}

fn ends(program: &[Instruction]) -> Vec<Picos> {
    run("trn3", program).records().iter().map(|record| record.end).collect()
}

#[test]
fn test_a_more_urgent_transfer_goes_first_and_the_other_pays() {
    let (long, short) = ((128, 50_000, Some(3)), (128, 5_000, Some(3)));
    let urgent = (128, 5_000, Some(0));
    let (alone, last) = (ends(&loads(&[long])), ends(&loads(&[long, short])));
    let first = ends(&loads(&[long, urgent]));
    assert_eq!(last[0], alone[0]);
    assert!(last[1] > last[0] && first[1] < alone[0]);
    // What it takes of each engine, eight rows with a descriptor each, the other waits.
    let work = Picos::from_nanoseconds(8.0 * arch("trn3").dma_descriptor_ns + 40_000.0 / 33.0);
    assert_eq!(first[0], alone[0] + work);
    // Once something uses the long one's bytes, its end stands.
    let mut asked = loads(&[long, urgent]);
    asked.insert(1, compute(Engine::Vector, 0, 0).reads(asked[0].writes[0].clone()));
    assert_eq!(ends(&asked)[0], alone[0]);
}

#[test]
fn test_a_transfer_that_comes_too_late_to_compete_costs_no_other_anything() {
    let mut program = loads(&[(128, 5_000, Some(3)), (128, 5_000, Some(0))]);
    program.insert(1, compute(Engine::Sync, 90_000_000, 90_000_000));
    assert_eq!(ends(&program)[0], ends(&program[..1])[0]);
}

#[test]
fn test_a_lone_transfer_takes_as_long_in_every_class() {
    let alone = |priority| ends(&loads(&[(77, 3_000, priority)]));
    assert!((0..4).all(|priority| alone(Some(priority)) == alone(None)));
}

proptest! {
    #[test]
    fn test_the_record_is_a_schedule(program in programs(), name in prop::sample::select(ARCHES.to_vec())) {
        assert_schedule(name, &program, &run(name, &program))?;
    }

    #[test]
    fn test_the_record_of_competing_transfers_is_a_schedule(
        tiles in 1u64..8,
        row_bytes in 1u64..20_000,
        name in prop::sample::select(ARCHES.to_vec()),
    ) {
        let program = plain(tiles, row_bytes);
        assert_schedule(name, &program, &run(name, &program))?;
    }

    #[test]
    fn test_the_record_of_programs_with_classes_is_a_schedule(
        program in programs(),
        classes in prop::collection::vec(prop::option::of(0u8..4), 60),
    ) {
        let mut program = program;
        for (instruction, class) in program.iter_mut().zip(classes) {
            if let Work::Dma(transfer) = &mut instruction.work {
                transfer.priority = class;
            }
        }
        let timeline = run("trn3", &program);
        assert_schedule("trn3", &program, &timeline)?;
        assert_dependencies("trn3", &program, timeline.records())?;
        prop_assert_eq!(timeline.records().iter().map(|record| record.end).max(), Some(timeline.makespan()));
    }

    #[test]
    fn test_a_raised_priority_makes_a_transfer_no_later_and_moves_no_work(
        list in prop::collection::vec((1u64..129, 1u64..30_000, prop::option::of(2u8..4)), 1..20),
        which in any::<prop::sample::Index>(),
        class in 0u8..2,
    ) {
        let (place, mut raised) = (which.index(list.len()), list.clone());
        raised[place].2 = Some(class);
        let (before, after) = (run("trn3", &loads(&list)), run("trn3", &loads(&raised)));
        prop_assert!(after.records().at(place).end <= before.records().at(place).end);
        for (before, after) in stall::dma_engines(before.transfers()).iter().zip(stall::dma_engines(after.transfers())) {
            prop_assert_eq!(*before, after);
        }
        assert_schedule("trn3", &loads(&raised), &after)?;
    }
}
