//! What the time of a run rests on: how much of it each figure of the machine's description decides.
//!
//! A figure's part of an instruction's time is found by asking the cost model again with that figure a little slower: no
//! list says which instruction uses which figure, so that none can be wrong. Instructions of one name and cost rest on
//! the same figures; they are asked about once. What no figure explains is the engines' clocks, and what the kernel asks
//! for.

use std::collections::HashMap;

use smallvec::SmallVec;

use super::dma::DmaEngines;
use super::record::{Cause, NO_INSTRUCTION, Record};
use super::tensor_array::Bound;
use super::work::{DescriptorMode, Transfer, Work};
use crate::arch::ArchSpec;
use crate::engine::Engine;
use crate::packed::PackedRows;
use crate::time::Picos;

/// Parts of a time, by the places of figures among [`ArchSpec::entries`].
type Parts = SmallVec<[(u16, f32); 4]>;

/// What the time of one kind of instruction rests on.
#[derive(Clone, Debug, Default)]
struct Rests {
    /// From one to the next of its kind, where its engine is what holds the next up.
    slot: Parts,
    /// From its start to its result.
    latency: Parts,
}

/// The kinds of instructions of a run, and of which kind each instruction is.
#[derive(Debug, Default)]
pub(crate) struct Basis {
    slowed: Vec<(u16, f64, ArchSpec)>,
    kinds: Vec<Rests>,
    numbers: HashMap<Key, u32>,
    /// The last instruction's of each name: loops repeat them.
    last: Vec<Option<(Work, u32)>>,
    of_instruction: PackedRows<u32>,
}

/// Name, engine and cost of an instruction.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key(u16, Engine, [u64; 5]);

impl Key {
    fn new(opcode: u16, engine: Engine, work: &Work) -> Self {
        let cost = match work {
            Work::Compute { interval, latency, .. } => [interval.0, latency.0, 0, 0, 0],
            Work::Matmul { load, load_latency, multiply, multiply_latency, .. } => {
                [load.0, load_latency.0, multiply.0, multiply_latency.0, 1]
            }
            Work::Dma(transfer) => [
                transfer.rows ^ (transfer.first_row << 32),
                transfer.row_bytes,
                transfer.row_descriptors,
                transfer.rate_share.to_bits(),
                (transfer.hbm_read + transfer.hbm_write) << 4 | (transfer.route as u64) << 2 | transfer.mode as u64,
            ],
            Work::Collective(part) => [part.duration.0, part.bytes, 0, 0, 2],
        };
        Self(opcode, engine, cost)
    }
}

impl Basis {
    /// Notes what the next instruction rests on; `work` asks the cost model what it would take on another machine.
    pub(crate) fn note(
        &mut self,
        arch: &ArchSpec,
        (opcode, engine): (u16, Engine),
        work: &Work,
        ask: impl Fn(&ArchSpec) -> Work,
    ) {
        if self.last.len() <= usize::from(opcode) {
            self.last.resize(usize::from(opcode) + 1, None);
        }
        let number = match &self.last[usize::from(opcode)] {
            Some((last, number)) if last == work => *number,
            _ => {
                let number = match self.numbers.get(&Key::new(opcode, engine, work)) {
                    Some(&number) => number,
                    None => self.add(arch, (opcode, engine), work, ask),
                };
                self.last[usize::from(opcode)] = Some((work.clone(), number));
                number
            }
        };
        self.of_instruction.push(number);
    }

    fn add(
        &mut self,
        arch: &ArchSpec,
        (opcode, engine): (u16, Engine),
        work: &Work,
        ask: impl Fn(&ArchSpec) -> Work,
    ) -> u32 {
        if self.slowed.is_empty() {
            let place = |place: usize| u16::try_from(place).unwrap_or(u16::MAX);
            self.slowed = arch.slowed().map(|(at, change, slower)| (place(at), change, slower)).collect();
        }
        let is = spans(work, arch);
        let mut rests = Rests::default();
        for (place, change, slower) in &self.slowed {
            let would = spans(&ask(slower), slower);
            let part = |now: u64, then: u64| then.saturating_sub(now) as f64 / (now as f64 * change);
            for (parts, now, then) in [(&mut rests.slot, is.0, would.0), (&mut rests.latency, is.1, would.1)] {
                if now > 0 && then > now {
                    parts.push((*place, part(now, then) as f32));
                }
            }
        }
        whole(&mut rests.slot);
        whole(&mut rests.latency);
        let number = u32::try_from(self.kinds.len()).unwrap_or(u32::MAX);
        self.kinds.push(rests);
        self.numbers.insert(Key::new(opcode, engine, work), number);
        number
    }

    /// Bytes of the host's memory that what is noted of instructions takes.
    pub(crate) fn kept_bytes(&self) -> usize {
        let kinds = self.kinds.capacity() * size_of::<Rests>() + self.numbers.capacity() * size_of::<(Key, u32)>();
        self.of_instruction.kept_bytes() + kinds
    }

    /// Forgets all instructions: a run begins anew.
    pub(crate) fn restart(&mut self) {
        self.of_instruction.clear();
        self.last.clear();
    }

    fn rests(&self, instruction: u32) -> Option<&Rests> {
        self.kinds.get(self.of_instruction.get(instruction as usize)? as usize)
    }

    /// How much of a path through the instructions rests on each figure, by the figures' places; what is missing to the
    /// path's end are clocks.
    pub(crate) fn of_path(
        &self,
        arch: &ArchSpec,
        records: &PackedRows<Record>,
        path: &[u32],
        modes: &Modes,
    ) -> Vec<(usize, Picos)> {
        let places = Places::of(arch);
        let mut sums = vec![0.0; arch.entries().len()];
        let mut before: Option<Record> = None;
        let mut steps = path.iter().filter_map(|&id| records.get(id as usize)).peekable();
        while let Some(record) = steps.next() {
            let from = before.map_or(0, |before| before.end.0);
            // What a queue holds up waits for the transfer before as a whole, not for its end.
            if record.cause != Cause::Queue || before.is_none() {
                let gap = record.start.0.saturating_sub(from);
                spread(&mut sums, gap, &places.between(before.as_ref(), &record, modes));
            }
            let (next, queued) = match steps.peek() {
                Some(next) => (next.start.0, next.cause == Cause::Queue),
                None => (record.end.0, false),
            };
            let held = if queued { next } else { next.min(record.end.0) }.saturating_sub(record.start.0);
            if let Some(rests) = self.rests(record.id) {
                let parts = if queued || next < record.end.0 { &rests.slot } else { &rests.latency };
                for &(place, part) in parts {
                    sums[usize::from(place)] += held as f64 * f64::from(part);
                }
            }
            before = Some(record);
        }
        let sums = sums.into_iter().enumerate().filter(|(_, sum)| *sum >= 1.0);
        sums.map(|(place, sum)| (place, Picos(sum as u64))).collect()
    }
}

/// A figure's place among [`ArchSpec::entries`] and its value, of those that pass between instructions.
#[derive(Debug, Default)]
struct Places {
    dma_semaphore: Option<(usize, f64)>,
    same_engine: Option<(usize, f64)>,
    semaphore: Option<(usize, f64)>,
    table_load: Option<(usize, f64)>,
    start_static: Option<(usize, f64)>,
    start_generated: Option<(usize, f64)>,
}

impl Places {
    fn of(arch: &ArchSpec) -> Self {
        let mut places = Self::default();
        for (place, entry) in arch.entries().iter().enumerate() {
            let of = match entry.key.as_str() {
                "dma_semaphore_ns" => &mut places.dma_semaphore,
                "same_engine_ns" => &mut places.same_engine,
                "semaphore_ns" => &mut places.semaphore,
                "activation_table_load_ns" => &mut places.table_load,
                "dma_start_static_ns" => &mut places.start_static,
                "dma_start_generated_ns" => &mut places.start_generated,
                _ => continue,
            };
            *of = Some((place, entry.value));
        }
        places
    }

    /// What passes from one instruction's result to the start of the next, in nanoseconds by figure.
    fn between(&self, before: Option<&Record>, next: &Record, modes: &Modes) -> SmallVec<[(usize, f64); 3]> {
        let waited = match before.map(|before| before.engine) {
            None => None,
            Some(Engine::Dma) => self.dma_semaphore,
            Some(engine) if engine == next.engine => self.same_engine,
            Some(_) => self.semaphore,
        };
        let table = if next.cause == Cause::TableLoad { self.table_load } else { None };
        let is_static = || modes.get(usize::from(next.queue)).is_none_or(|mode| *mode == DescriptorMode::Static);
        let start = match next.engine {
            Engine::Dma if is_static() => self.start_static,
            Engine::Dma => self.start_generated,
            _ => None,
        };
        [waited, table, start].into_iter().flatten().collect()
    }
}

/// How each DMA queue gets its descriptors.
pub(crate) type Modes = [DescriptorMode];

/// Gives a span to figures in proportion to their values.
fn spread(sums: &mut [f64], span: u64, values: &[(usize, f64)]) {
    let whole: f64 = values.iter().map(|(_, value)| value).sum();
    if whole > 0.0 {
        for &(place, value) in values {
            sums[place] += span as f64 * value / whole;
        }
    }
}

/// Parts of a product of figures come to more than the whole, each holding all of it: they share it.
fn whole(parts: &mut Parts) {
    let sum: f32 = parts.iter().map(|(_, part)| part).sum();
    if sum > 1.0 {
        parts.iter_mut().for_each(|(_, part)| *part /= sum);
    }
}

/// From one instruction to the next like it, and from its start to its result, in picoseconds.
fn spans(work: &Work, arch: &ArchSpec) -> (u64, u64) {
    match work {
        Work::Compute { interval, latency, .. } => (interval.0, latency.0),
        Work::Matmul { multiply, multiply_latency, .. } => (multiply.0, multiply_latency.0),
        Work::Dma(transfer) => transfer_spans(transfer, arch),
        Work::Collective(part) => (part.duration.0, part.duration.0),
    }
}

/// A transfer on idle engines, and one like it right behind.
fn transfer_spans(transfer: &Transfer, arch: &ArchSpec) -> (u64, u64) {
    let mut engines = DmaEngines::new(arch);
    let ready = Bound { at: 0, cause: Cause::None, on: NO_INSTRUCTION };
    let first = engines.run(0, transfer, ready, None);
    let second = engines.run(1, transfer, ready, None);
    (second.end.saturating_sub(first.end), first.end.saturating_sub(first.start))
}
