//! Edits of small traces: what they change, what they refuse, and that nothing else moves.

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
use crate::timing::work::Work;
use crate::trace::{Alternatives, Home, Trace, TraceOperand, TraceStep, TraceTensor, Use, time};

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
    let once = Edit::Once { tensors: vec![MADE] };
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
    assert_eq!(takes(&retimer(trace), &[Edit::Once { tensors: vec![MADE] }]), None);
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
