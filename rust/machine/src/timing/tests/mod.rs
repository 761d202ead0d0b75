//! The timeline against independent oracles, its contract, and published measurements.

mod contract;
mod graph;
mod hazards;
mod published;
mod repeating;
mod schedule;

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::region::{Rect, Region, Space};
use super::timeline::{Span, TimedInstruction, Timeline, TimelineOptions};
use super::work::{DescriptorMode, Route, Transfer, Work};
use crate::arch::ArchSpec;
use crate::engine::Engine;
use crate::site::SiteId;
use crate::time::Picos;

/// An instruction that owns its operands.
#[derive(Clone, Debug)]
struct Instruction {
    engine: Engine,
    work: Work,
    reads: Vec<Region>,
    stationary_reads: Vec<Region>,
    writes: Vec<Region>,
    after: Vec<u32>,
    dynamic: bool,
}

impl Instruction {
    fn new(engine: Engine, work: Work) -> Self {
        let (reads, stationary_reads, writes) = (Vec::new(), Vec::new(), Vec::new());
        Self { engine, work, reads, stationary_reads, writes, after: Vec::new(), dynamic: false }
    }

    fn reads(mut self, region: Region) -> Self {
        self.reads.push(region);
        self
    }

    fn stationary(mut self, region: Region) -> Self {
        self.stationary_reads.push(region);
        self
    }

    fn writes(mut self, region: Region) -> Self {
        self.writes.push(region);
        self
    }

    fn issue(&self, timeline: &mut Timeline) -> Span {
        timeline.issue(&TimedInstruction {
            opcode: 0,
            engine: self.engine,
            site: SiteId(0),
            label: 0,
            work: self.work.clone(),
            reads: &self.reads,
            stationary_reads: &self.stationary_reads,
            writes: &self.writes,
            after: &self.after,
            dynamic: self.dynamic,
            macs: 0,
            peak_macs_per_cycle: 0,
        })
    }
}

/// A built-in spec, or one with so much HBM bandwidth: `trn3/300`.
fn arch(name: &str) -> Arc<ArchSpec> {
    let (base, gbps) = name.split_once('/').map_or((name, None), |(base, gbps)| (base, gbps.parse().ok()));
    let mut spec = ArchSpec::load(base).expect("a built-in spec");
    spec.hbm_gbps = gbps.unwrap_or(spec.hbm_gbps);
    Arc::new(spec)
}

fn timeline(name: &str) -> Timeline {
    Timeline::new(arch(name), TimelineOptions::default())
}

fn region(space: Space, rows: Range<u64>, columns: Range<u64>) -> Region {
    Region { space, rects: SmallVec::from_vec(vec![Rect { rows, columns }]) }
}

fn compute(engine: Engine, interval: u64, latency: u64) -> Instruction {
    let work = Work::Compute { interval: Picos(interval), latency: Picos(latency), table: None };
    Instruction::new(engine, work)
}

/// A transfer of rows of some bytes with one descriptor a row.
fn transfer(route: Route, rows: u64, row_bytes: u64) -> Transfer {
    Transfer {
        trigger: None,
        mode: DescriptorMode::Static,
        route,
        first_row: 0,
        rows,
        row_bytes,
        row_descriptors: 1,
        rate_share: 1.0,
        hbm_read: if route == Route::Load { rows * row_bytes } else { 0 },
        hbm_write: if route == Route::Store { rows * row_bytes } else { 0 },
        priority: None,
        ring: 0,
    }
}

fn dma(transfer: Transfer) -> Instruction {
    Instruction::new(Engine::Dma, Work::Dma(transfer))
}

/// A matmul over the whole array, of so many stationary and moving columns and passes, as its cost model has it.
fn matmul(arch: &ArchSpec, stationary: u64, moving: u64, passes: u64) -> Instruction {
    let clock = arch.tensor_clock();
    let load = clock.cycles(stationary.div_ceil(arch.stationary_columns_per_cycle) * passes);
    let multiply = clock.cycles(moving.max(stationary.min(arch.matmul_minimum_cycles)) * passes);
    let work = Work::Matmul {
        load,
        load_latency: load + Picos::from_nanoseconds(arch.stationary_fixed_ns),
        multiply,
        multiply_latency: multiply + Picos::from_nanoseconds(arch.matmul_fixed_ns),
        blocks: 0xffff,
        accumulates: false,
    };
    Instruction::new(Engine::Tensor, work)
}
