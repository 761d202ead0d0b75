//! What lay where: from when to when, how much was free at the peak, what went to and from HBM.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::recorded::MEMORIES;
use crate::report::view::RunView;

/// Numbers of SBUF and PSUM among the memories.
const ON_CHIP: [u8; 2] = [0, 1];

/// When a tensor was used; times in picoseconds, instructions from 1 on, 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TensorSpan {
    pub(super) from_ps: u64,
    pub(super) to_ps: u64,
    pub(super) first_use: u64,
    pub(super) last_use: u64,
}

/// When each tensor was used: from the start of the first instruction to the end of the last; one that was not, at the
/// moment at which it came.
pub(super) fn spans_of(run: &RunView<'_>) -> Vec<TensorSpan> {
    let mut spans = vec![TensorSpan::default(); run.tensors.len()];
    let (start, end) = (&run.instructions.start_ps, &run.instructions.end_ps);
    for (instruction, tensor) in run.uses.instruction.iter().zip(&run.uses.tensor) {
        let (span, row) = (&mut spans[tensor as usize], instruction as usize);
        if span.first_use == 0 {
            *span = TensorSpan { from_ps: start[row], to_ps: 0, first_use: row as u64 + 1, last_use: 0 };
        }
        span.from_ps = span.from_ps.min(start[row]);
        span.to_ps = span.to_ps.max(end[row]);
        span.last_use = row as u64 + 1;
    }
    let mut reached = 0;
    let reached: Vec<u64> = start
        .iter()
        .map(|&start| {
            reached = start.max(reached);
            reached
        })
        .collect();
    for (span, came) in spans.iter_mut().zip(&run.tensors.came).filter(|(span, _)| span.first_use == 0) {
        let at = reached.get(came as usize).or(reached.last()).copied().unwrap_or(0);
        (span.from_ps, span.to_ps) = (at, at);
    }
    spans
}

/// How full a memory was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct MemoryPeak {
    pub(super) run: usize,
    pub(super) memory: &'static str,
    pub(super) capacity_bytes: u64,
    pub(super) partitions: u64,
    pub(super) peak_bytes: u64,
    pub(super) peak_ps: u64,
    pub(super) largest_free_bytes: u64,
    pub(super) free_bytes: u64,
}

/// How full SBUF and PSUM were, and how much was free when most tensors' bytes were live.
pub(super) fn peaks_of(number: usize, run: &RunView<'_>) -> Vec<MemoryPeak> {
    let (arch, occupancy) = (&run.columns.arch, run.occupancy);
    let of = |memory: u8| {
        let (capacity, bytes, peak) = match memory {
            0 => (arch.sbuf_partition_bytes, &occupancy.sbuf_bytes, occupancy.sbuf_peak_bytes),
            _ => (arch.psum_partition_bytes, &occupancy.psum_bytes, occupancy.psum_peak_bytes),
        };
        let (free_bytes, largest_free_bytes) = free_at_peak(run, memory, capacity as u64);
        let when = bytes.iter().position(|bytes| bytes == peak).map_or(0, |row| occupancy.time_ps.at(row));
        MemoryPeak {
            run: number,
            memory: MEMORIES[usize::from(memory)],
            capacity_bytes: capacity as u64,
            partitions: arch.partitions as u64,
            peak_bytes: peak,
            peak_ps: when,
            largest_free_bytes,
            free_bytes,
        }
    };
    ON_CHIP.map(of).into()
}

/// All bytes of a partition that no tensor had when most were taken, and the longest run of them.
fn free_at_peak(run: &RunView<'_>, memory: u8, capacity: u64) -> (u64, u64) {
    let rows = || (0..run.tensors.len()).filter(|&row| run.tensors.memory.at(row) == memory);
    let mut changes: BTreeMap<u32, i64> = BTreeMap::new();
    for row in rows() {
        let bytes = run.tensors.bytes.at(row) as i64;
        *changes.entry(run.tensors.came.at(row)).or_default() += bytes;
        *changes.entry(run.tensors.went.at(row)).or_default() -= bytes;
    }
    let (mut live, mut most, mut moment) = (0, 0, 0);
    for (&at, change) in &changes {
        live += change;
        if live > most {
            (most, moment) = (live, at);
        }
    }
    let is_live = |row: &usize| (run.tensors.came.at(*row)..run.tensors.went.at(*row)).contains(&moment);
    let place = |row: usize| (run.tensors.byte.at(row), run.tensors.byte.at(row) + run.tensors.bytes.at(row));
    let mut places: Vec<(u64, u64)> = rows().filter(is_live).map(place).collect();
    places.push((capacity, capacity));
    places.sort_unstable();
    let (mut until, mut free, mut largest) = (0, 0, 0);
    for (start, end) in places {
        let hole = start.min(capacity).saturating_sub(until);
        free += hole;
        largest = largest.max(hole);
        until = until.max(end);
    }
    (free, largest)
}

/// HBM bytes of a tensor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct TensorTraffic {
    pub(super) run: usize,
    pub(super) tensor: usize,
    pub(super) name: String,
    pub(super) shape: Vec<u64>,
    pub(super) dtype: String,
    pub(super) memory: &'static str,
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    pub(super) instructions: u64,
    pub(super) site: u64,
    /// Whether a compiler made it.
    #[serde(skip)]
    pub(super) is_made: bool,
}

/// HBM bytes by tensor, most first. An instruction's bytes are its HBM operands', evenly **(choice)**.
pub(super) fn traffic_of(number: usize, run: &RunView<'_>, sites: &[u64]) -> Vec<TensorTraffic> {
    let recorded = &run.columns.recorded;
    let is_hbm = |tensor: usize| !ON_CHIP.contains(&run.tensors.memory.at(tensor));
    let mut sums = vec![(0u64, 0u64, 0u64); run.tensors.len()];
    let rows: Vec<(u32, usize, u8)> = (0..run.uses.len())
        .map(|row| (run.uses.instruction.at(row), run.uses.tensor.at(row) as usize, run.uses.usage.at(row)))
        .filter(|&(_, tensor, _)| is_hbm(tensor))
        .collect();
    for uses in rows.chunk_by(|one, other| one.0 == other.0) {
        let instruction = uses[0].0 as usize;
        let share = |bytes: u64, count: usize, place: usize| {
            let count = count.max(1) as u64;
            bytes / count + u64::from((place as u64) < bytes % count)
        };
        let reads: Vec<usize> = uses.iter().filter(|each| each.2 != 2).map(|each| each.1).collect();
        let writes: Vec<usize> = uses.iter().filter(|each| each.2 > 1).map(|each| each.1).collect();
        for (place, &tensor) in reads.iter().enumerate() {
            sums[tensor].0 += share(run.instructions.hbm_read[instruction], reads.len(), place);
        }
        for (place, &tensor) in writes.iter().enumerate() {
            sums[tensor].1 += share(run.instructions.hbm_write[instruction], writes.len(), place);
        }
        let mut used: Vec<usize> = uses.iter().map(|each| each.1).collect();
        used.dedup();
        used.iter().for_each(|&tensor| sums[tensor].2 += 1);
    }
    let of = |(tensor, &(read, write, instructions)): (usize, &(u64, u64, u64))| TensorTraffic {
        run: number,
        tensor,
        name: recorded.names[run.tensors.name.at(tensor) as usize].clone(),
        shape: recorded.shapes[run.tensors.shape.at(tensor) as usize].clone(),
        dtype: recorded.dtypes[usize::from(run.tensors.dtype.at(tensor))].clone(),
        memory: MEMORIES[usize::from(run.tensors.memory.at(tensor))],
        read_bytes: read,
        write_bytes: write,
        instructions,
        site: sites[run.tensors.site.at(tensor) as usize],
        is_made: recorded.dtypes[usize::from(run.tensors.dtype.at(tensor))].is_empty(),
    };
    let mut found: Vec<TensorTraffic> = sums.iter().enumerate().filter(|(tensor, _)| is_hbm(*tensor)).map(of).collect();
    found.retain(|each| each.instructions > 0);
    found.sort_by_key(|each| std::cmp::Reverse(each.read_bytes + each.write_bytes));
    found
}
