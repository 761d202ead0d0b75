//! What each line of the kernel cost.

use std::collections::HashMap;

use serde::Serialize;

use crate::cause::CAUSES;
use crate::engines::WaitTimes;
use crate::rows::PS_PER_US;
use crate::run_columns::RunColumns;

/// What one line of the kernel cost; times in microseconds, summed over its instructions, and over cores.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineTotal {
    /// File.
    pub file: String,
    /// Line, from 1; 0 is unknown.
    pub line: u32,
    /// Function that holds the line.
    pub function: String,
    /// Instructions that it issued.
    pub instructions: u64,
    /// Its part of the critical path: these parts add up to the path's whole length.
    pub critical_us: f64,
    /// Time in issue slots; of DMA instructions, in their queue.
    pub slot_us: f64,
    /// How long its instructions waited.
    pub wait_us: f64,
    /// That, by cause.
    pub waits: WaitTimes,
    /// HBM bytes, read and written.
    pub hbm_bytes: u64,
}

/// Sums of whole numbers.
#[derive(Clone, Default)]
struct Sums {
    instructions: u64,
    critical_ps: u64,
    slot_ps: u64,
    waits_ps: [u64; CAUSES.len()],
    hbm_bytes: u64,
}

/// What each line cost on one core, costliest first.
///
/// **(choice)** The costliest line holds most of the critical path, and among equals most time in issue slots: only the
/// critical path, made shorter, makes the kernel faster.
pub(crate) fn of_run(columns: &RunColumns) -> Vec<LineTotal> {
    let instructions = &columns.instructions;
    let mut sums = vec![Sums::default(); columns.sites.len()];
    for (row, &site) in instructions.site.iter().enumerate() {
        let sum = &mut sums[site as usize];
        sum.instructions += 1;
        sum.slot_ps = sum.slot_ps.saturating_add(instructions.slot_end_ps[row] - instructions.start_ps[row]);
        let wait = &mut sum.waits_ps[usize::from(instructions.cause[row])];
        *wait = wait.saturating_add(instructions.wait_ps[row]);
        sum.hbm_bytes = sum.hbm_bytes.saturating_add(columns.hbm_bytes_of(row));
    }
    for (&row, length) in columns.critical.iter().zip(columns.critical_ps()) {
        sums[instructions.site[row as usize] as usize].critical_ps += length;
    }
    let mut found: Vec<_> = columns.sites.iter().zip(&sums).filter(|(_, sums)| sums.instructions > 0).collect();
    found.sort_by_key(|(_, sums)| std::cmp::Reverse((sums.critical_ps, sums.slot_ps)));
    let total = |((file, line, function), sums): (&(String, u32, String), &Sums)| LineTotal {
        file: file.clone(),
        line: *line,
        function: function.clone(),
        instructions: sums.instructions,
        critical_us: sums.critical_ps as f64 / PS_PER_US,
        slot_us: sums.slot_ps as f64 / PS_PER_US,
        wait_us: sums.waits_ps.iter().fold(0u64, |sum, &wait| sum.saturating_add(wait)) as f64 / PS_PER_US,
        waits: WaitTimes::of_picoseconds(&sums.waits_ps),
        hbm_bytes: sums.hbm_bytes,
    };
    found.into_iter().map(total).collect()
}

/// What each line cost on several cores, costliest first, from what it cost on each; `critical_ps` is the joint path's.
pub(crate) fn of_cores<'a>(
    lines: impl Iterator<Item = &'a LineTotal>,
    critical_ps: &HashMap<(&str, u32, &str), u64>,
) -> Vec<LineTotal> {
    let mut places: HashMap<(&str, u32, &str), usize> = HashMap::new();
    let mut parts: Vec<Vec<&LineTotal>> = Vec::new();
    for line in lines {
        let place = *places.entry((&line.file, line.line, &line.function)).or_insert(parts.len());
        if place == parts.len() {
            parts.push(Vec::new());
        }
        parts[place].push(line);
    }
    let total = |parts: Vec<&LineTotal>| {
        let LineTotal { file, line, function, .. } = parts[0].clone();
        let critical = critical_ps.get(&(file.as_str(), line, function.as_str())).copied().unwrap_or(0);
        LineTotal {
            instructions: parts.iter().map(|part| part.instructions).sum(),
            critical_us: critical as f64 / PS_PER_US,
            slot_us: parts.iter().map(|part| part.slot_us).sum(),
            wait_us: parts.iter().map(|part| part.wait_us).sum(),
            waits: WaitTimes::merged(parts.iter().map(|part| &part.waits), 1.0),
            hbm_bytes: parts.iter().fold(0, |sum, part| sum.saturating_add(part.hbm_bytes)),
            file,
            line,
            function,
        }
    };
    let mut totals: Vec<LineTotal> = parts.into_iter().map(total).collect();
    let cost = |total: &LineTotal| (total.critical_us, total.slot_us);
    totals.sort_by(|one, other| {
        let (one, other) = (cost(one), cost(other));
        other.0.total_cmp(&one.0).then(other.1.total_cmp(&one.1))
    });
    totals
}
