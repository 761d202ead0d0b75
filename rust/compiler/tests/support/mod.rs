//! Traces for tests: small ones at random, over tiles that are used again.
#![allow(dead_code)]

use std::sync::Arc;

use proptest::prelude::*;
use smallvec::smallvec;
use trn3_machine::arch::ArchSpec;
use trn3_machine::engine::Engine;
use trn3_machine::site::SiteId;
use trn3_machine::storage::Buffer;
use trn3_machine::time::Picos;
use trn3_machine::timing::region::Rect;
use trn3_machine::timing::work::{DescriptorMode, Route, Transfer, Work};
use trn3_machine::trace::{Home, Trace, TraceOperand, TraceStep, TraceTensor, Use};

/// SBUF tiles of a random trace; half of them open, half at the author's addresses.
pub(crate) const TILES: u64 = 6;
/// Bytes of a tile in a partition.
pub(crate) const TILE_BYTES: u64 = 1024;
const BANKS: u64 = 3;
const BANK_BYTES: u64 = 2048;

/// What a random step is made of.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) kind: u8,
    pub(crate) from: u64,
    pub(crate) other: u64,
    pub(crate) to: u64,
    pub(crate) part: u8,
    pub(crate) time: u64,
    pub(crate) mark: u8,
}

pub(crate) fn plans(steps: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Plan>> {
    let plan = (0u8..10, 0..TILES, 0..TILES, 0..TILES, 0u8..4, 1u64..9, 0u8..30);
    let plan =
        plan.prop_map(|(kind, from, other, to, part, time, mark)| Plan { kind, from, other, to, part, time, mark });
    prop::collection::vec(plan, steps)
}

pub(crate) fn empty() -> Trace {
    let mut trace = Trace::new(Arc::new(ArchSpec::load("trn3").expect("a built-in spec")));
    let tensor =
        |home, bytes| TraceTensor { home, name: Box::default(), site: SiteId(0), partitions: 128, bytes, storage: 0 };
    for _ in 0..TILES / 2 {
        trace.add_tensor(tensor(Home::Open(Buffer::Sbuf), TILE_BYTES));
    }
    trace.add_tensor(tensor(Home::Addressed(Buffer::Sbuf), 196_608));
    trace.add_tensor(tensor(Home::Addressed(Buffer::Psum), 16_384));
    trace.add_tensor(tensor(Home::Hbm(7), 1 << 20));
    trace.add_tensor(tensor(Home::Hbm(8), 1 << 20));
    trace
}

const SBUF: u32 = (TILES / 2) as u32;
const PSUM: u32 = SBUF + 1;
const INPUT: u32 = SBUF + 2;
const OUTPUT: u32 = SBUF + 3;

fn operand(tensor: u32, usage: Use, rows: std::ops::Range<u64>, columns: std::ops::Range<u64>) -> TraceOperand {
    TraceOperand { tensor, usage, offset: 0, rects: smallvec![Rect { rows, columns }] }
}

/// All or a quarter of a tile.
pub(crate) fn tile(number: u64, part: u8, usage: Use) -> TraceOperand {
    let (rows, columns) = match part {
        1 => (0..64, 0..TILE_BYTES / 2),
        2 => (32..128, TILE_BYTES / 2..TILE_BYTES),
        _ => (0..128, 0..TILE_BYTES),
    };
    if number < TILES / 2 {
        return operand(number as u32, usage, rows, columns);
    }
    let first = (number - TILES / 2) * TILE_BYTES;
    operand(SBUF, usage, rows, columns.start + first..columns.end + first)
}

/// A bank of PSUM.
pub(crate) fn bank(number: u64, usage: Use) -> TraceOperand {
    let first = number % BANKS * BANK_BYTES;
    operand(PSUM, usage, 0..128, first..first + BANK_BYTES)
}

/// Some rows of an HBM tensor.
pub(crate) fn rows(tensor: u32, number: u64, usage: Use) -> TraceOperand {
    operand(tensor, usage, number * 128..(number + 1) * 128, 0..TILE_BYTES)
}

fn repeatable(mut step: TraceStep) -> TraceStep {
    step.fingerprint = Some(1);
    step.marks.overwrites = !matches!(step.work, Work::Matmul { accumulates: true, .. });
    step
}

pub(crate) fn compute(engine: Engine, nanoseconds: u64, operands: Vec<TraceOperand>) -> TraceStep {
    let interval = Picos(nanoseconds * 1000);
    let work = Work::Compute { interval, latency: Picos(interval.0 + 60_000), table: None };
    repeatable(TraceStep::new(engine, work, operands))
}

pub(crate) fn matmul(nanoseconds: u64, accumulates: bool, operands: Vec<TraceOperand>) -> TraceStep {
    let work = Work::Matmul {
        load: Picos(13_333),
        load_latency: Picos(80_333),
        multiply: Picos(nanoseconds * 1000),
        multiply_latency: Picos(nanoseconds * 1000 + 180_000),
        blocks: 0xffff,
        accumulates,
    };
    repeatable(TraceStep::new(Engine::Tensor, work, operands))
}

pub(crate) fn transfer(route: Route, trigger: Option<Engine>, operands: Vec<TraceOperand>) -> TraceStep {
    let bytes = 128 * TILE_BYTES;
    let work = Work::Dma(Transfer {
        trigger,
        mode: DescriptorMode::Hardware,
        route,
        first_row: 0,
        rows: 128,
        row_bytes: TILE_BYTES,
        row_descriptors: 1,
        rate_share: 1.0,
        hbm_read: if route == Route::Load { bytes } else { 0 },
        hbm_write: if route == Route::Store { bytes } else { 0 },
        priority: None,
        ring: 0,
    });
    repeatable(TraceStep::new(Engine::Dma, work, operands))
}

pub(crate) fn load(row: u64, to: TraceOperand) -> TraceStep {
    transfer(Route::Load, None, vec![rows(INPUT, row, Use::Read), to])
}

pub(crate) fn store(row: u64, from: TraceOperand) -> TraceStep {
    transfer(Route::Store, None, vec![from, rows(OUTPUT, row, Use::Write)])
}

fn step(plan: &Plan) -> TraceStep {
    let Plan { kind, from, other, to, part, time, .. } = *plan;
    let read = |number| tile(number, part, Use::Read);
    let write = |number| tile(number, part, Use::Write);
    let time = time * 50;
    match kind {
        0 | 1 => load(from, write(to)),
        2 => store(to, read(from)),
        3 | 4 => {
            let accumulates = kind == 4;
            let mut operands = vec![tile(other, 0, Use::Stationary), read(from), bank(to, Use::Write)];
            operands.extend(accumulates.then(|| bank(to, Use::Read)));
            matmul(time, accumulates, operands)
        }
        5 => compute(Engine::Vector, time, vec![bank(from, Use::Read), write(to)]),
        6 => compute(Engine::Scalar, time, vec![bank(from, Use::Read), write(to)]),
        7 => compute(Engine::Vector, time, vec![read(from), read(other), write(to)]),
        8 => compute(Engine::Scalar, time, vec![read(from), write(to)]),
        _ => compute(Engine::GpSimd, time, vec![write(to)]),
    }
}

/// A trace of steps at random, placed, in which all that is read was written.
pub(crate) fn trace(plans: &[Plan]) -> Trace {
    let fills =
        (0..TILES).map(|number| tile(number, 0, Use::Write)).chain((0..BANKS).map(|number| bank(number, Use::Write)));
    extended(fills.map(|filled| compute(Engine::GpSimd, 50, vec![filled])).collect(), plans)
}

/// A trace of steps at random, placed, that begins with given ones.
pub(crate) fn extended(first: Vec<TraceStep>, plans: &[Plan]) -> Trace {
    let mut trace = empty();
    trace.steps = first;
    for plan in plans {
        let mut step = step(plan);
        let number = trace.steps.len();
        match plan.mark {
            0 => step.marks.is_fence = true,
            1..=3 => step.marks.is_ordered = true,
            4 => step.marks.draws = true,
            5 | 6 if number > 0 => step.after.push((number - 1 - plan.to as usize % number) as u32),
            _ => {}
        }
        trace.steps.push(step);
    }
    for (step, number) in trace.steps.iter_mut().zip(0u32..) {
        (step.source, step.fingerprint) = (number, Some(u64::from(number) + 10));
    }
    for (tensor, place) in trace.places.iter_mut().enumerate().take(SBUF as usize) {
        *place = Some((0, (TILES / 2 + tensor as u64 / 2) * TILE_BYTES));
    }
    trace
}

/// A matrix multiplication in tiles, of so many steps or a few more, placed: for each tile of the result four loads and
/// accumulating matmuls, a copy out of PSUM, a scaling and a store. Tiles take turns.
pub(crate) fn tiled(steps: usize) -> Trace {
    let mut trace = empty();
    let sbuf = |number: u64, usage| operand(SBUF, usage, 0..128, number * TILE_BYTES..(number + 1) * TILE_BYTES);
    let mut tiles = 0u64;
    while trace.steps.len() < steps {
        for part in 0..4 {
            let loaded = (tiles * 4 + part) % 32;
            let from = rows(INPUT, tiles % 16 * 4 + part, Use::Read);
            trace.steps.push(transfer(Route::Load, None, vec![from, sbuf(loaded, Use::Write)]));
            let mut operands = vec![sbuf(64 + part, Use::Stationary), sbuf(loaded, Use::Read)];
            operands.push(bank(tiles, Use::Write));
            operands.extend((part > 0).then(|| bank(tiles, Use::Read)));
            trace.steps.push(matmul(213, part > 0, operands));
        }
        let result = 96 + tiles % 4;
        trace.steps.push(compute(Engine::Vector, 267, vec![bank(tiles, Use::Read), sbuf(result, Use::Write)]));
        let scaled = vec![sbuf(result, Use::Read), sbuf(result, Use::Write)];
        trace.steps.push(compute(Engine::Scalar, 267, scaled));
        trace.steps.push(store(tiles, sbuf(result, Use::Read)));
        tiles += 1;
    }
    for (step, number) in trace.steps.iter_mut().zip(0u32..) {
        (step.source, step.fingerprint) = (number, Some(u64::from(number)));
    }
    for place in trace.places.iter_mut().take(SBUF as usize) {
        *place = Some((0, 0));
    }
    trace
}
