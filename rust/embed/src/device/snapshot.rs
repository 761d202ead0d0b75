//! Saving a device whole, and going on from there.
//!
//! A snapshot is `trn3snap`, the format's version, a head of JSON (time, queues, generators, programs) and the contents of
//! memories, of which zeros take no room; a checksum (CRC-32) ends it. All numbers are little-endian. It holds what the device is and knows; what the host
//! put in its parts' places (cost models, bit sources, a network with what it carries, a trace) is the host's to save.

use std::ops::{Range, RangeInclusive};

use crate::host::Snapshot;
use bytemuck::{Pod, bytes_of, pod_read_unaligned};
use serde::{Deserialize, Serialize};
use trn3_machine::chip::SavedRuns;
use trn3_machine::generator::Generator;
use trn3_machine::memory::Stretch;
use trn3_machine::stochastic::StochasticRounding;
use trn3_machine::storage::{Buffer, Zeroed};
use trn3_machine::time::Picos;

use super::meets::DeviceRooms;
use super::{Active, Device, Waiting, core};
use crate::command::{Completion, MemorySpace};
use crate::error::{Error, ErrorKind, Result};
use crate::links::{Links, Traffic};
use crate::spec::DeviceSpec;
use crate::stats::Stats;

const MAGIC: &[u8; 8] = b"trn3snap";
/// Since 4 a checksum of all before it ends the snapshot; since 5 it has runs whose ends others can move.
const VERSION: u32 = 5;
/// Older ones are still read, in which ends of runs are fixed. 2 is what 0.1.0 wrote.
const UNCHECKED: RangeInclusive<u32> = 2..=3;
const CHECKED: RangeInclusive<u32> = 4..=VERSION;
/// The most that a device can have counted: what it counts on from there does not overflow.
const MOST_COUNTED: u64 = 1 << 62;
/// Zeros are left out where so many bytes of them begin at a multiple of as many.
const GRAIN: usize = 64;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    spec: DeviceSpec,
    now: u64,
    sequence: u64,
    next_program: u64,
    stats: Stats,
    completions: Vec<Completion>,
    traffic: Option<Traffic>,
    programs: Vec<SavedProgram>,
    cores: Vec<SavedCore>,
    hbm: Vec<SavedStretch>,
    #[serde(default)]
    runs: Option<SavedRuns>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedProgram {
    number: u64,
    program: trn3_machine::Program,
    places: Vec<Option<(u64, u64)>>,
    kept: Vec<trn3_machine::program::Kept>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedCore {
    queue: Vec<Waiting>,
    active: Option<Active>,
    vector_random: (Vec<u32>, usize, bool),
    gpsimd_random: (Vec<u32>, usize, bool),
    stochastic_rounding: Option<Vec<u32>>,
    /// Bits of the running values of ScalarE and VectorE.
    scalar_reduce: Vec<u32>,
    vector_accumulator: Vec<u32>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedStretch {
    address: u64,
    length: u64,
    complete: bool,
}

impl Snapshot for Device {
    fn version(&self) -> u32 {
        VERSION
    }

    fn save(&mut self) -> trn3_machine::Result<Vec<u8>> {
        Ok(self.save_snapshot()?)
    }

    fn load(&mut self, saved: &[u8]) -> trn3_machine::Result<()> {
        Ok(self.load_snapshot(saved)?)
    }
}

impl Device {
    /// The whole state: what is done after [`Device::load_snapshot`] is what would have been done without, bit for bit and
    /// picosecond for picosecond.
    ///
    /// # Errors
    /// [`ErrorKind::Busy`] while a run waits for other ranks: its time so far is in no snapshot.
    ///
    /// ```
    /// use trn3_embed::{Device, DeviceSpec, MemorySpace};
    ///
    /// let mut device = Device::new(DeviceSpec::default())?;
    /// device.write(MemorySpace::Sbuf, 0, 77, &[5])?;
    /// let saved = device.save_snapshot()?;
    /// device.write(MemorySpace::Sbuf, 0, 77, &[6])?;
    /// device.load_snapshot(&saved)?;
    /// let mut byte = [0];
    /// device.read(MemorySpace::Sbuf, 0, 77, &mut byte)?;
    /// assert_eq!(byte, [5]);
    /// assert!(device.load_snapshot(&saved[1..]).is_err());
    /// # Ok::<(), trn3_embed::Error>(())
    /// ```
    pub fn save_snapshot(&mut self) -> Result<Vec<u8>> {
        if let Some(core) = self.waits_for_ranks() {
            let text = format!("core {core} waits for other ranks in a run; let these come, then save");
            return Err(Error::new(ErrorKind::Busy, text));
        }
        let mut cores = Vec::with_capacity(self.cores.len());
        for core in &mut self.cores {
            let state = &mut core.machine.state;
            cores.push(SavedCore {
                queue: core.queue.iter().cloned().collect(),
                active: core.active.clone(),
                vector_random: state.vector_random.save()?,
                gpsimd_random: state.gpsimd_random.save()?,
                stochastic_rounding: state.stochastic_rounding.as_ref().map(StochasticRounding::state),
                scalar_reduce: state.scalar_reduce.iter().map(|value| value.to_bits()).collect(),
                vector_accumulator: state.vector_accumulator.iter().map(|value| value.to_bits()).collect(),
            });
        }
        let runs = match &mut self.runs {
            Some(runs) => runs.save(self.now, &self.cores.iter().map(|core| &core.machine).collect::<Vec<_>>())?,
            None => None,
        };
        let stretches = self.hbm.save()?;
        let head = Head {
            spec: self.spec.clone(),
            now: self.now.0,
            sequence: self.sequence,
            next_program: self.next_program,
            stats: self.stats.clone(),
            completions: self.completions.iter().cloned().collect(),
            traffic: self.links.as_ref().map(Links::save),
            programs: self.saved_programs(),
            cores,
            runs,
            hbm: stretches
                .iter()
                .map(|stretch| SavedStretch {
                    address: stretch.address,
                    length: stretch.length,
                    complete: stretch.complete,
                })
                .collect(),
        };
        let head =
            serde_json::to_vec(&head).map_err(|error| Error::value(format!("the state cannot be saved: {error}")))?;
        let mut out = Writer::default();
        out.put(MAGIC)?;
        out.put(&VERSION.to_le_bytes())?;
        out.number(head.len())?;
        out.put(&head)?;
        for core in &self.cores {
            for buffer in [Buffer::Sbuf, Buffer::Psum] {
                for words in core.machine.state.memory.on_chip_words(buffer) {
                    out.runs(&words, std::iter::once(0..words.len()))?;
                }
            }
        }
        for Stretch { bytes, initialised, held, .. } in &stretches {
            out.runs(&bytes[..], held.iter().cloned())?;
            let words = |range: &Range<usize>| range.start / WORD..range.end.div_ceil(WORD).min(initialised.len());
            out.runs(&initialised[..], held.iter().map(words))?;
        }
        let checksum = crc32fast::hash(&out.0);
        out.put(&checksum.to_le_bytes())?;
        Ok(out.0)
    }

    /// Goes on from a saved state, of a device of the same spec. When it is refused, the device is as it was.
    ///
    /// # Errors
    /// [`crate::ErrorKind::Value`] for another version, another spec, or damage.
    pub fn load_snapshot(&mut self, saved: &[u8]) -> Result<()> {
        // Contents of every memory, as much again for marks of what is initialised, and what needs no making.
        let on_chip = self.size_of(MemorySpace::Sbuf) + self.size_of(MemorySpace::Psum);
        let on_chip = on_chip.saturating_mul(u64::from(self.spec.cores));
        let most =
            self.spec.host_memory_bytes.saturating_add(on_chip).saturating_mul(2).saturating_add(saved.len() as u64);
        let marks = self.hbm.capacity() / 8;
        let mut rest = Reader {
            bytes: saved,
            most: usize::try_from(most).unwrap_or(usize::MAX),
            addressed: usize::try_from(self.hbm.capacity().saturating_add(marks)).unwrap_or(usize::MAX),
        };
        if rest.take(MAGIC.len())? != MAGIC {
            return Err(Error::value("the bytes are no snapshot: they do not start with trn3snap"));
        }
        let version = rest.take(4)?.iter().rev().fold(0u32, |all, &byte| all << 8 | u32::from(byte));
        match version {
            _ if CHECKED.contains(&version) => rest.check(saved)?,
            _ if UNCHECKED.contains(&version) => {}
            _ => {
                let first = UNCHECKED.start();
                return Err(Error::value(format!("snapshot version is {version}; allowed: {first} to {VERSION}")));
            }
        }
        let length = rest.number()?;
        let head: Head = serde_json::from_slice(rest.take(length)?)
            .map_err(|error| Error::value(format!("the snapshot's head: {error}")))?;
        if head.spec != self.spec {
            return Err(Error::value("the snapshot is of a device with another spec; make one like it"));
        }
        // Times of commands add up to as much as the host says, and stop there.
        let counted = Stats { command_ps: 0, ..head.stats.clone() }.values();
        let counts = counted.into_iter().chain([head.sequence, head.next_program]);
        let numbers = head.programs.iter().map(|program| program.number);
        if head.cores.len() != self.cores.len()
            || counts.max().is_some_and(|most| most > MOST_COUNTED)
            || numbers.max().is_some_and(|last| last >= head.next_program)
        {
            return Err(damaged());
        }
        // Everything is built beside the device and put in its place at the end.
        let mut cores = Vec::with_capacity(head.cores.len());
        for saved in &head.cores {
            let mut fresh = core(&self.spec, &self.arch)?;
            for buffer in [Buffer::Sbuf, Buffer::Psum] {
                let words = [rest.words()?, rest.words()?];
                fresh.machine.state.memory.set_on_chip_words(buffer, words)?;
            }
            restore(&mut fresh.machine.state, saved)?;
            cores.push(fresh);
        }
        let mut stretches = Vec::with_capacity(head.hbm.len().min(1 << 16));
        for SavedStretch { address, length, complete } in head.hbm {
            let (bytes, held) = rest.runs::<u8>()?;
            let (initialised, marked) = rest.runs::<u64>()?;
            // Bytes that were written as zeros are held for their marks.
            let marked = marked.into_iter().map(|words| words.start * WORD..bytes.len().min(words.end * WORD));
            let mut held: Vec<_> = held.into_iter().chain(marked).collect();
            if complete {
                rest.most = rest.most.checked_sub(bytes.len()).ok_or_else(damaged)?;
                held = std::iter::once(0..bytes.len()).filter(|range| !range.is_empty()).collect();
            }
            stretches.push(Stretch { address, length, bytes, initialised, held, complete });
        }
        if !rest.bytes.is_empty() {
            return Err(damaged());
        }
        let hbm = self.hbm.with(stretches)?;
        let mut programs = std::collections::BTreeMap::new();
        for SavedProgram { number, program, places, kept } in head.programs {
            programs.insert(number, self.restored(program, places, kept)?);
        }
        let links = match head.traffic {
            None => None,
            Some(traffic) => {
                let links = Links::of_system(self.spec.system(&self.arch), &self.arch)?;
                links.load(traffic);
                Some(links)
            }
        };
        let active = head.cores.iter().map(|saved| saved.active.as_ref());
        let runs = self.restored_runs(head.runs, active, &mut cores)?;
        for (index, saved) in head.cores.iter().enumerate() {
            let sequences = saved.queue.iter().map(|waiting| waiting.sequence);
            let sequences = sequences.chain(saved.active.iter().map(|active| active.sequence));
            if sequences.max().is_some_and(|last| last >= head.sequence) {
                return Err(damaged());
            }
            for waiting in &saved.queue {
                let of_this = waiting.command.core() as usize == index;
                self.check_command_among(&waiting.command, &programs)?;
                if !of_this || saved.queue.len() > self.spec.queue_depth as usize {
                    return Err(damaged());
                }
            }
            if let Some(active) = &saved.active {
                self.check_active(index, active, head.now)?;
            }
        }
        for ((live, fresh), saved) in self.cores.iter_mut().zip(&mut cores).zip(head.cores) {
            std::mem::swap(&mut live.machine.state.memory, &mut fresh.machine.state.memory);
            // Sources and cost models of the host stay.
            restore(&mut live.machine.state, &saved)?;
            live.machine.restart();
            std::mem::swap(&mut live.machine.opcodes, &mut fresh.machine.opcodes);
            std::mem::swap(&mut live.machine.timeline, &mut fresh.machine.timeline);
            live.ran = None;
            (live.queue, live.active) = (saved.queue.into(), saved.active);
        }
        (self.hbm, self.programs, self.links) = (hbm, programs, links);
        (self.rooms, self.runs) = (DeviceRooms::default(), runs);
        (self.now, self.sequence, self.next_program) = (Picos(head.now), head.sequence, head.next_program);
        (self.completions, self.stats) = (head.completions.into(), head.stats);
        Ok(())
    }

    fn saved_programs(&self) -> Vec<SavedProgram> {
        let saved = |(&number, held): (&u64, &super::programs::Program)| SavedProgram {
            number,
            program: (*held.program).clone(),
            places: held.places.clone(),
            kept: held.kept(&self.cores),
        };
        self.programs.iter().map(saved).collect()
    }
}

fn restore(state: &mut trn3_machine::state::State, saved: &SavedCore) -> Result<()> {
    let put = |generator: &mut Generator, saved: &(Vec<u32>, usize, bool)| generator.load(&saved.0, saved.1, saved.2);
    put(&mut state.vector_random, &saved.vector_random)?;
    put(&mut state.gpsimd_random, &saved.gpsimd_random)?;
    let lanes = state.arch.partitions as usize;
    let rounding = saved.stochastic_rounding.as_ref().map(|words| StochasticRounding::load(words, lanes));
    state.stochastic_rounding = rounding.transpose()?;
    for (values, bits) in
        [(&mut state.scalar_reduce, &saved.scalar_reduce), (&mut state.vector_accumulator, &saved.vector_accumulator)]
    {
        if values.len() != bits.len() {
            return Err(damaged());
        }
        *values = bits.iter().map(|&bits| f32::from_bits(bits)).collect();
    }
    Ok(())
}

pub(super) fn damaged() -> Error {
    Error::value("the snapshot is damaged: its parts do not fit one another")
}

/// Bytes that a word of marks is of.
const WORD: usize = u64::BITS as usize;

fn full() -> Error {
    Error::new(ErrorKind::Capacity, "the host has no memory for the snapshot")
}

/// Elements of the memories, little-endian.
trait Element: Pod + PartialEq {
    fn is_zero(&self) -> bool;
    fn to_little(self) -> Self;
}

impl Element for u8 {
    fn is_zero(&self) -> bool {
        *self == 0
    }

    fn to_little(self) -> Self {
        self
    }
}

impl Element for u64 {
    fn is_zero(&self) -> bool {
        *self == 0
    }

    fn to_little(self) -> Self {
        self.to_le()
    }
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.try_reserve(bytes.len()).map_err(|_| full())?;
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn number(&mut self, number: usize) -> Result<()> {
        self.put(&(number as u64).to_le_bytes())
    }

    /// How many bytes there are, then runs: how many zeros, how many others, those. Outside of the ranges all are zeros.
    fn runs<T: Element>(&mut self, items: &[T], ranges: impl IntoIterator<Item = Range<usize>>) -> Result<()> {
        let (size, grain) = (size_of::<T>(), GRAIN / size_of::<T>());
        self.number(items.len() * size)?;
        let (mut at, mut zeros) = (0, 0);
        for range in ranges {
            zeros += range.start - at;
            at = range.end;
            let mut rest = &items[range];
            while !rest.is_empty() {
                let run = |rest: &[T], is_zero: bool| {
                    let pieces = rest.chunks(grain).take_while(|piece| piece.iter().all(T::is_zero) == is_zero);
                    pieces.map(<[T]>::len).sum::<usize>()
                };
                let skipped = run(rest, true);
                (rest, zeros) = (&rest[skipped..], zeros + skipped);
                let others = run(rest, false);
                if others > 0 {
                    self.number(zeros * size)?;
                    self.number(others * size)?;
                    self.0.try_reserve(others * size).map_err(|_| full())?;
                    rest[..others].iter().for_each(|item| self.0.extend_from_slice(bytes_of(&item.to_little())));
                    (rest, zeros) = (&rest[others..], 0);
                }
            }
        }
        zeros += items.len() - at;
        if zeros > 0 {
            self.number(zeros * size)?;
            self.number(0)?;
        }
        Ok(())
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    /// Bytes that may still be made: a small snapshot must not fill a large memory with zeros.
    most: usize,
    /// Bytes of HBM and their marks that may still be made, which zeros do not fill.
    addressed: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or_else(damaged)?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Takes the checksum off the end of what was saved and compares it.
    fn check(&mut self, saved: &[u8]) -> Result<()> {
        let (rest, checksum) = self.bytes.split_last_chunk().ok_or_else(damaged)?;
        if crc32fast::hash(&saved[..saved.len() - checksum.len()]) != u32::from_le_bytes(*checksum) {
            return Err(Error::value("the snapshot is damaged: its checksum is another one"));
        }
        self.bytes = rest;
        Ok(())
    }

    fn number(&mut self) -> Result<usize> {
        let number = self.take(8)?.iter().rev().fold(0u64, |all, &byte| all << 8 | u64::from(byte));
        usize::try_from(number).map_err(|_| damaged())
    }

    /// Elements, and the ranges of them that are not zeros.
    fn runs<T: Element>(&mut self) -> Result<(Zeroed<T>, Vec<Range<usize>>)> {
        let (size, length) = (size_of::<T>(), self.number()?);
        self.addressed = self.addressed.checked_sub(length).ok_or_else(damaged)?;
        if !length.is_multiple_of(size) {
            return Err(damaged());
        }
        let mut items = Zeroed::<T>::new(length / size).map_err(|shortage| shortage.of("a snapshot"))?;
        let mut ranges = Vec::new();
        let mut at = 0;
        while at < length {
            let (zeros, others) = (self.number()?, self.number()?);
            let end = zeros.checked_add(others).and_then(|run| run.checked_add(at));
            let end = end.filter(|&end| end <= length && end > at).ok_or_else(damaged)?;
            if !(zeros.is_multiple_of(size) && others.is_multiple_of(size)) {
                return Err(damaged());
            }
            self.most = self.most.checked_sub(others).ok_or_else(damaged)?;
            let range = (at + zeros) / size..end / size;
            for (item, bytes) in items[range.clone()].iter_mut().zip(self.take(others)?.chunks_exact(size)) {
                *item = pod_read_unaligned::<T>(bytes).to_little();
            }
            if others > 0 {
                ranges.push(range);
            }
            at = end;
        }
        Ok((items, ranges))
    }

    fn words(&mut self) -> Result<Vec<u64>> {
        let start = self.bytes;
        let length = self.number()?;
        self.most = self.most.checked_sub(length).ok_or_else(damaged)?;
        (self.bytes, self.addressed) = (start, self.addressed.saturating_add(length));
        Ok(self.runs::<u64>()?.0.to_vec())
    }
}
