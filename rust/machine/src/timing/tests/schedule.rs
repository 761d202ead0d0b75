//! What DMA engines did, as a schedule: laws that hold for every program.

use proptest::prelude::*;

use super::contract::{programs, run};
use super::{Instruction, arch, compute, dma, region, transfer};
use crate::engine::Engine;
use crate::time::Picos;
use crate::timing::record::TransferRecord;
use crate::timing::region::{Region, Space};
use crate::timing::stall;
use crate::timing::timeline::Timeline;
use crate::timing::work::{Route, Work};

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
        let record = &records[piece.id as usize];
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
    let moments: Vec<Picos> = pieces.iter().step_by(7).flat_map(|piece| [piece.start, piece.end]).collect();
    for (&from, &until) in moments.iter().flat_map(|from| moments.iter().map(move |until| (from, until))) {
        // A piece's bytes are whole, and so are the picoseconds of its work.
        let slack = pieces.iter().filter(|piece| piece.end > from && piece.start < until).count() as f64;
        let moved = bytes_between(pieces, from, until);
        prop_assert!(moved <= rate * until.since(from).0 as f64 + slack, "{moved} bytes in {from} to {until}");
    }
    for piece in pieces {
        let Work::Dma(transfer) = &program[piece.id as usize].work else { continue };
        let drawn = (transfer.hbm_read + transfer.hbm_write) as f64 / (transfer.rows * transfer.row_bytes) as f64;
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
    let start = |id: u32| timeline.records()[id as usize].start;
    assert!((0..7).any(|tile| start(3 * tile + 2) < timeline.records()[3 * tile as usize + 3].end));
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
}
