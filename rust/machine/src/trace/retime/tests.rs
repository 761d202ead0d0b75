//! Edits of small traces: what they change, what they refuse, and that nothing else moves.

use std::ops::Range;
use std::sync::Arc;

use smallvec::smallvec;

use super::{Draft, Edit, Retimer};
use crate::arch::ArchSpec;
use crate::engine::Engine;
use crate::site::SiteId;
use crate::storage::Buffer;
use crate::time::Picos;
use crate::timing::region::Rect;
use crate::timing::timeline::{Timeline, TimelineOptions};
use crate::timing::work::{DescriptorMode, Route, Transfer, Work};
use crate::trace::{Alternatives, Forwarded, Home, Trace, TraceOperand, TraceStep, TraceTensor, Use, time};

const MADE: SiteId = SiteId(1);
const LOAD: SiteId = SiteId(2);
const WORK: SiteId = SiteId(3);
const STORE: SiteId = SiteId(4);
const TILE: u32 = 0;
const INPUT: u32 = 1;
const OUTPUT: u32 = 2;

fn operand(tensor: u32, usage: Use, row: u64) -> TraceOperand {
    TraceOperand { tensor, usage, offset: 0, rects: smallvec![Rect { rows: row..row + 128, columns: 0..512 }] }
}

fn step(site: SiteId, engine: Engine, operands: Vec<TraceOperand>) -> TraceStep {
    let work = Work::Compute { interval: Picos(1_000_000), latency: Picos(1_000_000), table: None };
    let mut step = TraceStep::new(engine, work, operands);
    (step.site, step.fingerprint) = (site, Some(u64::from(site.0)));
    step
}

/// A tile that each iteration fills, changes and takes away; `row` says of which rows of the input.
fn looped(iterations: u64, row: impl Fn(u64) -> u64) -> Trace {
    let mut trace = Trace::new(Arc::new(ArchSpec::load("trn3").expect("a built-in spec")));
    let tensor = |home| TraceTensor { home, name: "tile".into(), site: MADE, partitions: 128, bytes: 512, storage: 0 };
    for home in [Home::Open(Buffer::Sbuf), Home::Hbm(7), Home::Hbm(8)] {
        trace.add_tensor(tensor(home));
    }
    for iteration in 0..iterations {
        let fill = vec![operand(INPUT, Use::Read, row(iteration)), operand(TILE, Use::Write, 0)];
        trace.steps.push(step(LOAD, Engine::GpSimd, fill));
        let mut work = step(WORK, Engine::Vector, vec![operand(TILE, Use::Read, 0), operand(OUTPUT, Use::Write, 0)]);
        let other = Work::Compute { interval: Picos(10_000), latency: Picos(10_000), table: None };
        work.alternatives =
            Some(Box::new(Alternatives { engines: smallvec![(Engine::Scalar, other)], ..Default::default() }));
        trace.steps.push(work);
        let away = vec![operand(TILE, Use::Read, 0), operand(OUTPUT, Use::Write, 128 * iteration)];
        trace.steps.push(step(STORE, Engine::Scalar, away));
    }
    trace.events = vec![super::Event::made(0, TILE), super::Event::gone(3 * iterations as u32, TILE)];
    trace
}

fn retimer(trace: Trace) -> Retimer {
    let timeline = Timeline::new(Arc::clone(&trace.arch), TimelineOptions { throttle: false, keep_records: false });
    Retimer { traces: vec![trace], timelines: vec![timeline] }
}

fn takes(retimer: &Retimer, edits: &[Edit]) -> Option<Picos> {
    retimer.latency(edits).expect("a core that meets no other")
}

#[test]
fn test_without_edits_it_takes_what_the_trace_takes() {
    let mut trace = looped(4, |iteration| 128 * iteration);
    let retimer = retimer(trace.clone());
    assert!(trace.place_as_written());
    assert_eq!(takes(&retimer, &[]), Some(time(&trace, TimelineOptions::default()).expect("places").latency));
}

#[test]
fn test_a_tensor_made_anew_waits_for_no_reader() {
    let retimer = retimer(looped(4, |iteration| 128 * iteration));
    let anew = Edit::Anew { tensors: vec![MADE] };
    let traces = retimer.edited(std::slice::from_ref(&anew)).expect("a tensor that is refilled");
    let tiles: std::collections::BTreeSet<u32> =
        traces[0].steps.iter().filter(|step| step.site == LOAD).map(|step| step.operands[1].tensor).collect();
    assert_eq!(tiles.len(), 4);
    assert!(takes(&retimer, &[anew]) < takes(&retimer, &[]));
    assert_eq!(takes(&retimer, &[Edit::Anew { tensors: vec![LOAD] }]), None);
}

#[test]
fn test_a_tensor_that_goes_on_from_iteration_to_iteration_stays_one() {
    let mut trace = looped(4, |iteration| 128 * iteration);
    // Each fill adds to what is there.
    for step in trace.steps.iter_mut().filter(|step| step.site == LOAD) {
        step.operands.push(operand(TILE, Use::Read, 0));
    }
    assert_eq!(takes(&retimer(trace), &[Edit::Anew { tensors: vec![MADE] }]), None);
}

#[test]
fn test_equal_fills_are_done_once_and_others_each() {
    let once = Edit::Once { tensors: vec![MADE], around: vec![] };
    let loads = |retimer: &Retimer| {
        let traces = retimer.edited(std::slice::from_ref(&once))?;
        Some(traces[0].steps.iter().filter(|step| step.site == LOAD).count())
    };
    assert_eq!(loads(&retimer(looped(4, |_| 0))), Some(1));
    assert_eq!(loads(&retimer(looped(4, |iteration| 128 * (iteration % 2)))), Some(2));
    assert_eq!(loads(&retimer(looped(4, |iteration| 128 * iteration))), None);
}

#[test]
fn test_what_is_written_between_is_loaded_again() {
    let mut trace = looped(4, |_| 0);
    // The result of an iteration is the input of the next.
    for step in trace.steps.iter_mut().filter(|step| step.site == STORE) {
        step.operands[1] = operand(INPUT, Use::Write, 0);
    }
    assert_eq!(takes(&retimer(trace), &[Edit::Once { tensors: vec![MADE], around: vec![] }]), None);
}

#[test]
fn test_lines_change_engines_in_turn_where_they_may() {
    let retimer = retimer(looped(4, |iteration| 128 * iteration));
    let to = |engines: &[Engine]| Edit::Engines { line: WORK, engines: engines.to_vec() };
    let engines = |edit| -> Option<Vec<Engine>> {
        let traces = retimer.edited(&[edit])?;
        Some(traces[0].steps.iter().filter(|step| step.site == WORK).map(|step| step.engine).collect())
    };
    let (vector, scalar) = (Engine::Vector, Engine::Scalar);
    assert_eq!(engines(to(&[scalar])), Some(vec![scalar; 4]));
    assert_eq!(engines(to(&[vector, scalar])), Some(vec![vector, scalar, vector, scalar]));
    assert_eq!(engines(to(&[Engine::GpSimd])), None);
}

#[test]
fn test_the_first_part_goes_ahead_only_where_nothing_depends() {
    let retimer = retimer(looped(3, |iteration| 128 * iteration));
    let ahead = Edit::Ahead { head: vec![LOAD], tail: vec![WORK, STORE] };
    // One tile: the next fill has to wait for its readers.
    assert_eq!(retimer.edited(std::slice::from_ref(&ahead)).map(|_| ()), None);
    let edits = [Edit::Anew { tensors: vec![MADE] }, ahead];
    let traces = retimer.edited(&edits).expect("tiles of their own");
    let sites: Vec<SiteId> = traces[0].steps.iter().map(|step| step.site).collect();
    assert_eq!(sites, [LOAD, LOAD, WORK, STORE, LOAD, WORK, STORE, WORK, STORE]);
}

#[test]
fn test_lines_that_nothing_reads_go() {
    let retimer = retimer(looped(3, |iteration| 128 * iteration));
    let traces = retimer.edited(&[Edit::Without { lines: vec![WORK] }]).expect("steps of the line");
    assert_eq!(traces[0].steps.len(), 6);
    assert_eq!(takes(&retimer, &[Edit::Without { lines: vec![SiteId(9)] }]), None);
}

#[test]
fn test_no_edit_leaves_everything_where_it_was() {
    let trace = looped(3, |iteration| 128 * iteration);
    let done = Draft::of(&trace).finish().expect("a tile");
    assert_eq!(done.events, trace.events);
    let sites = |trace: &Trace| trace.steps.iter().map(|step| step.site).collect::<Vec<_>>();
    assert_eq!(sites(&done), sites(&trace));
}

/// A load of some rows and columns of the input into the same ones of the tile.
fn load(rows: Range<u64>, columns: Range<u64>) -> TraceStep {
    let part = |tensor, usage| TraceOperand {
        rects: smallvec![Rect { rows: rows.clone(), columns: columns.clone() }],
        ..operand(tensor, usage, 0)
    };
    let (rows, row_bytes) = (rows.end - rows.start, columns.end - columns.start);
    let mut step = step(LOAD, Engine::Dma, vec![part(INPUT, Use::Read), part(TILE, Use::Write)]);
    step.work = Work::Dma(Transfer {
        trigger: None,
        mode: DescriptorMode::Static,
        route: Route::Load,
        first_row: 0,
        rows,
        row_bytes,
        row_descriptors: 1,
        rate_share: 1.0,
        hbm_read: rows * row_bytes,
        hbm_write: 0,
        priority: None,
        ring: 0,
    });
    step.marks.takes_trigger = true;
    step
}

fn loads(steps: Vec<TraceStep>) -> Retimer {
    let mut trace = looped(1, |_| 0);
    let count = steps.len() as u32;
    trace.steps = steps;
    trace.events = vec![super::Event::made(0, TILE), super::Event::gone(count, TILE)];
    retimer(trace)
}

fn transfers(traces: &[Trace]) -> Vec<(u64, u64, u64)> {
    let figures = |step: &TraceStep| match &step.work {
        Work::Dma(transfer) => (transfer.rows, transfer.row_bytes, transfer.hbm_read),
        _ => (0, 0, 0),
    };
    traces[0].steps.iter().map(figures).collect()
}

#[test]
fn test_transfers_of_neighbouring_bytes_become_one() {
    let join = Edit::Joined { line: LOAD };
    let edited = |steps| loads(steps).edited(std::slice::from_ref(&join)).map(|traces| transfers(&traces));
    let columns = (0..4).map(|at| load(0..128, 128 * at..128 * at + 128)).collect();
    assert_eq!(edited(columns), Some(vec![(128, 512, 128 * 512)]));
    let rows = (0..128).map(|at| load(at..at + 1, 0..512)).collect();
    assert_eq!(edited(rows), Some(vec![(128, 512, 128 * 512)]));
    // Two rows of two parts each: the parts are neighbours, the rows of what becomes of them are not of one transfer.
    let parts = [(0, 0), (0, 256), (64, 0), (64, 256)].map(|(row, at)| load(row..row + 64, at..at + 256));
    assert_eq!(edited(parts.to_vec()), Some(vec![(64, 512, 64 * 512); 2]));
    assert_eq!(edited(vec![load(0..128, 0..128), load(0..128, 256..384)]), None);
    let together = loads((0..4).map(|at| load(0..128, 128 * at..128 * at + 128)).collect());
    assert!(takes(&together, &[join]) < takes(&together, &[]));
}

#[test]
fn test_a_transfer_that_waits_for_what_stands_between_stays() {
    let between = step(WORK, Engine::Vector, vec![operand(TILE, Use::Read, 0), operand(INPUT, Use::Write, 0)]);
    let steps = vec![load(0..128, 0..256), between, load(0..128, 256..512)];
    assert!(loads(steps.clone()).edited(&[Edit::Joined { line: LOAD }]).is_none());
    let mut free = steps;
    free[1] = step(WORK, Engine::Vector, vec![operand(OUTPUT, Use::Write, 0)]);
    assert_eq!(loads(free).edited(&[Edit::Joined { line: LOAD }]).map(|traces| traces[0].steps.len()), Some(2));
}

#[test]
fn test_sequencers_trigger_in_turn_what_may_name_them() {
    let sequencers = vec![Engine::Sync, Engine::Scalar];
    let edit = Edit::Triggers { line: LOAD, sequencers: sequencers.clone() };
    let mut steps: Vec<TraceStep> = (0..4).map(|at| load(0..128, 128 * at..128 * at + 128)).collect();
    let traces = loads(steps.clone()).edited(std::slice::from_ref(&edit)).expect("open transfers");
    let triggers = traces[0].steps.iter().map(|step| match &step.work {
        Work::Dma(transfer) => (transfer.trigger, transfer.mode),
        _ => (None, DescriptorMode::Static),
    });
    let wanted = sequencers.iter().cycle().take(4).map(|engine| (Some(*engine), DescriptorMode::Hardware));
    assert_eq!(triggers.collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
    steps[3].marks.takes_trigger = false;
    assert!(loads(steps).edited(&[edit]).is_none());
}

/// A tile that is copied, and the copy read; `instead` is what may be read in its place.
fn copied(instead: Option<u32>, between: Option<TraceStep>) -> Retimer {
    let mut trace = looped(1, |_| 0);
    let copy = trace.add_tensor(trace.tensors[TILE as usize].clone());
    let fill = step(LOAD, Engine::GpSimd, vec![operand(TILE, Use::Write, 0)]);
    let mut moved = step(WORK, Engine::Vector, vec![operand(TILE, Use::Read, 0), operand(copy, Use::Write, 0)]);
    (moved.marks.copies, moved.marks.overwrites) = (true, true);
    let mut reader = step(STORE, Engine::Scalar, vec![operand(copy, Use::Read, 0), operand(OUTPUT, Use::Write, 0)]);
    let forwarded = instead.map(|tensor| Forwarded {
        operand: 0,
        instead: operand(tensor, Use::Read, 0),
        work: reader.work.clone(),
        engines: Default::default(),
    });
    reader.alternatives =
        Some(Box::new(Alternatives { forwarded: forwarded.into_iter().collect(), ..Default::default() }));
    trace.steps = [fill, moved].into_iter().chain(between).chain([reader]).collect();
    let count = trace.steps.len() as u32;
    trace.events = [TILE, copy]
        .into_iter()
        .map(|tensor| super::Event::made(0, tensor))
        .chain([TILE, copy].into_iter().map(|tensor| super::Event::gone(count, tensor)))
        .collect();
    retimer(trace)
}

#[test]
fn test_copies_are_passed_by_where_every_reader_may() {
    let direct = [Edit::Direct { copy: WORK }];
    let retimer = copied(Some(TILE), None);
    let traces = retimer.edited(&direct).expect("a copy");
    assert_eq!(traces[0].steps.iter().map(|step| step.site).collect::<Vec<_>>(), [LOAD, STORE]);
    assert_eq!(traces[0].steps[1].operands[0].tensor, TILE);
    assert!(takes(&retimer, &direct) < takes(&retimer, &[]));
    assert!(copied(None, None).edited(&direct).is_none());
    // What it was copied from holds something else by then.
    let refill = step(LOAD, Engine::GpSimd, vec![operand(TILE, Use::Write, 0)]);
    assert!(copied(Some(TILE), Some(refill)).edited(&direct).is_none());
}

#[test]
fn test_engines_that_authors_named_may_be_others() {
    let mut trace = looped(2, |iteration| 128 * iteration);
    for step in trace.steps.iter_mut().filter(|step| step.site == WORK) {
        let Some(all) = &mut step.alternatives else { continue };
        all.renamed = std::mem::take(&mut all.engines).into_vec();
    }
    let traces = retimer(trace).edited(&[Edit::Engines { line: WORK, engines: vec![Engine::Scalar] }]);
    let moved = traces.expect("another engine");
    assert!(moved[0].steps.iter().filter(|step| step.site == WORK).all(|step| step.engine == Engine::Scalar));
}

#[test]
fn test_what_is_the_same_all_the_time_is_done_before_the_loop() {
    let mut trace = looped(3, |_| 0);
    for (number, step) in trace.steps.iter_mut().enumerate() {
        step.opcode = (number % 3) as u16;
    }
    // Something of the loop that comes before the fills.
    let other = step(SiteId(5), Engine::Scalar, vec![operand(OUTPUT, Use::Write, 512)]);
    (0..3).for_each(|iteration| trace.steps.insert(4 * iteration, other.clone()));
    trace.events[1] = super::Event::gone(12, TILE);
    let around = vec![SiteId(5), LOAD, WORK, STORE];
    let sites = |around| {
        let traces = retimer(trace.clone()).edited(&[Edit::Once { tensors: vec![MADE], around }]);
        traces.expect("equal fills")[0].steps.iter().map(|step| step.site).take(3).collect::<Vec<_>>()
    };
    assert_eq!(sites(around), [LOAD, SiteId(5), WORK]);
    assert_eq!(sites(Vec::new()), [SiteId(5), LOAD, WORK]);
}
