//! Random kernels: loops of every kind around loads, stores and operations on tiles that are made anew or filled again.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use proptest::prelude::*;
use smallvec::{SmallVec, smallvec};
use trn3_machine::arch::ArchSpec;
use trn3_machine::engine::Engine;
use trn3_machine::site::SiteId;
use trn3_machine::storage::Buffer;
use trn3_machine::time::Picos;
use trn3_machine::timing::region::Rect;
use trn3_machine::timing::work::{DescriptorMode, Route, Transfer, Work};
use trn3_machine::trace::{
    Alternatives, Forwarded, Home, LoopKind, NO_SCOPE, Trace, TraceOperand, TraceStep, TraceTensor, Use,
};

const ROWS: u64 = 2;
const CELLS: u64 = 4;
/// Names that a kernel has for tiles.
const NAMES: usize = 5;
/// Bytes of a cell: twelve tiles fill SBUF, eight fill PSUM.
const SBUF_UNIT: u64 = 4096;
const PSUM_UNIT: u64 = 512;

/// Bytes of a cell of a tensor.
pub(super) fn unit(tensor: &TraceTensor) -> u64 {
    match tensor.home {
        Home::Open(Buffer::Psum) => PSUM_UNIT,
        Home::Hbm(_) | Home::Register(_) => 1,
        _ => SBUF_UNIT,
    }
}

/// Of which loop an address is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    Fixed(u64),
    Loop(usize),
}

/// A line of a kernel.
#[derive(Clone, Debug)]
pub(super) enum Line {
    Loop(LoopKind, u32, Vec<Line>),
    Load { to: usize, from: Place, anew: bool },
    Store { from: usize, to: Place },
    Scratch { from: usize, to: Place },
    Compute { what: u32, of: Vec<usize>, to: usize, half: u8, anew: bool, kind: u8 },
    Fill { to: usize, psum: bool, anew: bool, half: u8 },
    Product { what: u32, of: [usize; 2], to: usize, half: u8, anew: bool, joins: bool },
    Copy { from: usize, to: usize, psum: bool, anew: bool },
}

pub(super) type Kernel = Vec<Line>;

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![(0u64..3).prop_map(Place::Fixed), (0usize..3).prop_map(Place::Loop)]
}

fn line() -> impl Strategy<Value = Line> {
    let name = 0..NAMES;
    let anew = prop::bool::weighted(0.7);
    prop_oneof![
        3 => (name.clone(), place(), anew).prop_map(|(to, from, anew)| Line::Load { to, from, anew }),
        2 => (name.clone(), place()).prop_map(|(from, to)| Line::Store { from, to }),
        1 => (name.clone(), place()).prop_map(|(from, to)| Line::Scratch { from, to }),
        5 => (0u32..3, prop::collection::vec(name.clone(), 0..3), name.clone(), 0u8..4, anew, 0u8..24).prop_map(
            |(what, of, to, half, anew, kind)| Line::Compute { what, of, to, half, anew, kind }
        ),
        1 => (name.clone(), any::<bool>(), anew, 0u8..4)
            .prop_map(|(to, psum, anew, half)| Line::Fill { to, psum, anew, half }),
        3 => (0u32..2, [name.clone(), name.clone()], name.clone(), 0u8..4, any::<bool>(), prop::bool::weighted(0.8))
            .prop_map(|(what, of, to, half, anew, joins)| Line::Product { what, of, to, half, anew, joins }),
        3 => (name.clone(), name, any::<bool>(), anew)
            .prop_map(|(from, to, psum, anew)| Line::Copy { from, to, psum, anew }),
    ]
}

pub(super) fn kernels() -> impl Strategy<Value = Kernel> {
    let kind = prop::sample::select(LoopKind::ALL.to_vec());
    let nested = line().prop_recursive(3, 40, 6, move |inner| {
        (kind.clone(), 1u32..4, prop::collection::vec(inner, 1..6))
            .prop_map(|(kind, trip, body)| Line::Loop(kind, trip, body))
    });
    prop::collection::vec(nested, 2..8)
}

struct Runner {
    trace: Trace,
    /// Tiles by name, and indices of the loops from the outermost on.
    names: [u32; NAMES],
    indices: Vec<u64>,
    copies: HashMap<u32, u32>,
    lines: u32,
}

const INPUT: u32 = 0;
const OUTPUT: u32 = 1;
const SCRATCH: u32 = 2;

fn arch() -> Arc<ArchSpec> {
    static ARCH: OnceLock<Arc<ArchSpec>> = OnceLock::new();
    Arc::clone(ARCH.get_or_init(|| Arc::new(ArchSpec::load("trn2").expect("built in"))))
}

/// The trace of a kernel.
pub(super) fn trace(kernel: &[Line]) -> Trace {
    let mut trace = Trace::new(arch());
    // Only copies change engines: opcode 0.
    trace.names.opcode("tensor_copy");
    let mut runner = Runner { trace, names: [0; NAMES], indices: Vec::new(), copies: HashMap::new(), lines: 0 };
    for number in 0..3 {
        let home = Home::Hbm(number + 1);
        let name = "hbm".into();
        let tensor = TraceTensor { home, name, site: SiteId(0), partitions: 1, bytes: 64, storage: number + 1 };
        runner.trace.add_tensor(tensor);
    }
    for name in 0..NAMES {
        runner.names[name] = runner.tile(Buffer::Sbuf, name);
        let whole = runner.all(runner.names[name], Use::Write, 0);
        runner.push(Engine::Vector, compute(60), 100 + name as u32, smallvec![whole], true);
    }
    runner.run(kernel);
    for name in 0..NAMES {
        runner.store(name, OUTPUT, 10 + name as u64);
    }
    runner.trace
}

fn compute(nanoseconds: u64) -> Work {
    let interval = Picos(nanoseconds * 1000);
    Work::Compute { interval, latency: interval + Picos(60_000), table: None }
}

fn transfer(route: Route) -> Work {
    Work::Dma(Transfer {
        trigger: None,
        ring: 0,
        mode: DescriptorMode::Static,
        route,
        first_row: 0,
        rows: ROWS,
        row_bytes: CELLS * SBUF_UNIT,
        row_descriptors: 1,
        rate_share: 1.0,
        hbm_read: 64,
        hbm_write: 64,
        priority: None,
    })
}

impl Runner {
    fn run(&mut self, lines: &[Line]) {
        for line in lines {
            self.lines += 1;
            let site = self.lines;
            if let Line::Loop(kind, trip, body) = line {
                self.trace.scopes.begin(*kind, Some(*trip), SiteId(site));
                for index in 0..*trip {
                    self.lines = site;
                    self.indices.push(u64::from(index));
                    self.trace.scopes.next_iteration();
                    self.run(body);
                    self.indices.pop();
                }
                self.trace.scopes.end();
            } else {
                self.line(line);
            }
        }
    }

    fn tile(&mut self, buffer: Buffer, name: usize) -> u32 {
        let unit = if buffer == Buffer::Psum { PSUM_UNIT } else { SBUF_UNIT };
        let name = format!("tile{name}").into();
        let partitions = ROWS as u32;
        let home = Home::Open(buffer);
        self.trace.add_tensor(TraceTensor {
            home,
            name,
            site: SiteId(self.lines),
            partitions,
            bytes: CELLS * unit,
            storage: 0,
        })
    }

    /// All of a tile, or half of it.
    fn all(&self, tensor: u32, usage: Use, half: u8) -> TraceOperand {
        let unit = unit(&self.trace.tensors[tensor as usize]);
        let columns = match half {
            2 => 0..CELLS / 2 * unit,
            3 => CELLS / 2 * unit..CELLS * unit,
            _ => 0..CELLS * unit,
        };
        let offset = (columns.start / unit) as i64;
        TraceOperand { tensor, usage, offset, rects: smallvec![Rect { rows: 0..ROWS, columns }] }
    }

    fn hbm(&self, tensor: u32, usage: Use, row: u64) -> TraceOperand {
        let rects = smallvec![Rect { rows: row * ROWS..(row + 1) * ROWS, columns: 0..CELLS }];
        TraceOperand { tensor, usage, offset: (row * ROWS * CELLS) as i64, rects }
    }

    fn row(&self, place: Place) -> u64 {
        match place {
            Place::Fixed(row) => row,
            Place::Loop(depth) => self.indices.iter().rev().nth(depth).copied().unwrap_or(0) + 3,
        }
    }

    /// The tile that a line writes, of that memory: a new one, or the one that has the name.
    fn target(&mut self, to: usize, buffer: Buffer, anew: bool) -> u32 {
        let known = self.names[to];
        if anew || self.trace.tensors[known as usize].open() != Some(buffer) {
            self.names[to] = self.tile(buffer, to);
        }
        self.names[to]
    }

    fn is_psum(&self, tensor: u32) -> bool {
        self.trace.tensors[tensor as usize].open() == Some(Buffer::Psum)
    }

    fn push(
        &mut self,
        engine: Engine,
        work: Work,
        label: u32,
        operands: SmallVec<[TraceOperand; 3]>,
        overwrites: bool,
    ) -> &mut TraceStep {
        let mut forwarded = Vec::new();
        let is_in_place = |tensor| operands.iter().any(|other| other.usage == Use::Write && other.tensor == tensor);
        for (place, operand) in operands.iter().enumerate().filter(|(_, operand)| operand.usage == Use::Read) {
            let unit_of = |tensor: u32| unit(&self.trace.tensors[tensor as usize]);
            let Some(&source) = self.copies.get(&operand.tensor) else { continue };
            if is_in_place(operand.tensor) || (engine == Engine::Tensor && self.is_psum(source)) {
                continue;
            }
            let (from, to) = (unit_of(operand.tensor), unit_of(source));
            let rect = |rect: &Rect| Rect {
                rows: rect.rows.clone(),
                columns: rect.columns.start / from * to..rect.columns.end / from * to,
            };
            let rects = operand.rects.iter().map(rect).collect();
            let instead = TraceOperand { tensor: source, rects, ..operand.clone() };
            forwarded.push(Forwarded { operand: place as u8, instead, work: work.clone(), engines: SmallVec::new() });
        }
        for operand in operands.iter().filter(|operand| operand.usage == Use::Write) {
            self.copies.remove(&operand.tensor);
        }
        let mut step = TraceStep::new(engine, work, operands);
        step.source = self.trace.steps.len() as u32;
        step.site = SiteId(self.lines);
        step.scope = self.trace.scopes.now();
        step.label = label;
        step.fingerprint = Some(u64::from(label) + 1000);
        step.marks.overwrites = overwrites;
        if !forwarded.is_empty() {
            step.alternatives = Some(Box::new(Alternatives { forwarded, ..Alternatives::default() }));
        }
        // Some steps wait for others: those may go.
        if step.source % 5 == 4 {
            step.after.push(step.source - 3);
        }
        self.trace.steps.push(step);
        self.trace.steps.last_mut().expect("pushed")
    }

    fn store(&mut self, name: usize, tensor: u32, row: u64) {
        let tile = self.names[name];
        if self.is_psum(tile) {
            return;
        }
        let (read, write) = (self.all(tile, Use::Read, 0), self.hbm(tensor, Use::Write, row));
        let step = self.push(Engine::Dma, transfer(Route::Store), 1, smallvec![read, write], true);
        step.marks.copies = true;
    }

    fn line(&mut self, line: &Line) {
        match *line {
            Line::Loop(..) => {}
            Line::Load { to, from, anew } => {
                let tile = self.target(to, Buffer::Sbuf, anew);
                // Scratch is written in between.
                let tensor = if self.lines.is_multiple_of(3) { SCRATCH } else { INPUT };
                let row = self.row(from);
                let operands = smallvec![self.hbm(tensor, Use::Read, row), self.all(tile, Use::Write, 0)];
                self.push(Engine::Dma, transfer(Route::Load), 2, operands, true);
            }
            Line::Store { from, to } => {
                let row = self.row(to);
                self.store(from, OUTPUT, row);
            }
            Line::Scratch { from, to } => {
                let row = self.row(to);
                self.store(from, SCRATCH, row);
            }
            Line::Compute { what, ref of, to, half, anew, kind } => {
                let inputs: Vec<u32> = of.iter().map(|&name| self.names[name]).collect();
                let tile = self.target(to, Buffer::Sbuf, anew && half < 2);
                let mut operands: SmallVec<[TraceOperand; 3]> =
                    inputs.iter().map(|&input| self.all(input, Use::Read, half)).collect();
                operands.push(self.all(tile, Use::Write, half));
                let second = if kind == 7 { Some(self.tile(Buffer::Sbuf, to)) } else { None };
                operands.extend(second.map(|second| self.all(second, Use::Write, 0)));
                let work = compute(60 + 20 * u64::from(what));
                // Copies alone change engines.
                let opcode = self.trace.names.opcode(if kind % 2 == 0 { "tensor_copy" } else { "tensor_tensor" });
                let step = self.push(Engine::Vector, work, 10 + what, operands, kind % 8 != 0);
                step.opcode = opcode;
                step.marks.is_fence = kind == 1;
                step.marks.is_ordered = kind == 2;
                step.marks.is_dynamic = kind == 3;
                if kind == 4 || kind == 1 {
                    step.fingerprint = None;
                }
                if kind > 8 && step.alternatives.is_none() {
                    let engines =
                        smallvec![(Engine::GpSimd, compute(200)), (Engine::Scalar, compute(u64::from(kind) * 10))];
                    step.alternatives = Some(Box::new(Alternatives { engines, ..Alternatives::default() }));
                }
                if let Some(second) = second {
                    self.names[(to + 1) % NAMES] = second;
                }
            }
            Line::Fill { to, psum, anew, half } => {
                let tile = self.target(to, if psum { Buffer::Psum } else { Buffer::Sbuf }, anew);
                let write = self.all(tile, Use::Write, half);
                let step = self.push(Engine::Vector, compute(60), 3, smallvec![write], true);
                step.marks.fills_zero = true;
            }
            Line::Product { what, of, to, half, anew, joins } => {
                let [one, other] = of.map(|name| self.names[name]);
                if self.is_psum(one) || self.is_psum(other) {
                    return;
                }
                let tile = self.target(to, Buffer::Psum, anew);
                let mut operands: SmallVec<[TraceOperand; 3]> = smallvec![
                    self.all(one, Use::Stationary, 0),
                    self.all(other, Use::Read, 0),
                    self.all(tile, Use::Write, half)
                ];
                if joins {
                    operands.push(self.all(tile, Use::Read, half));
                }
                let time = Picos(60_000);
                let work = Work::Matmul {
                    load: time,
                    load_latency: time,
                    multiply: time,
                    multiply_latency: time,
                    blocks: u16::MAX,
                    accumulates: joins,
                };
                let step = self.push(Engine::Tensor, work, 20 + what, operands, !joins);
                step.marks.joins_products = joins;
                step.fingerprint = Some(u64::from(20 + what) * 2 + u64::from(joins));
            }
            Line::Copy { from, to, psum, anew } => {
                let source = self.names[from];
                let tile = self.target(to, if psum { Buffer::Psum } else { Buffer::Sbuf }, anew);
                if tile == source {
                    return;
                }
                let operands = smallvec![self.all(source, Use::Read, 0), self.all(tile, Use::Write, 0)];
                let step = self.push(Engine::Vector, compute(80), 4, operands, true);
                step.marks.copies = true;
                self.copies.insert(tile, source);
            }
        }
        debug_assert!(self.trace.scopes.now() != NO_SCOPE || self.indices.is_empty());
    }
}
