//! What each engine did over the busy window: busy, waiting by cause, with nothing to do.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::cause::{CAUSES, DMA, ENGINES};
use crate::intervals::union_length;
use crate::rows::PS_PER_US;
use crate::run_columns::RunColumns;

/// How long something stood waiting, by cause, in microseconds, longest first; causes that took no time are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitTimes(pub Vec<(&'static str, f64)>);

impl WaitTimes {
    /// Of picoseconds in the order of [`CAUSES`].
    pub(crate) fn of_picoseconds(by_cause: &[u64]) -> Self {
        let mut waits: Vec<_> = CAUSES.iter().zip(by_cause).filter(|(_, wait)| **wait > 0).collect();
        waits.sort_by_key(|(_, wait)| std::cmp::Reverse(**wait));
        Self(waits.into_iter().map(|(cause, &wait)| (*cause, wait as f64 / PS_PER_US)).collect())
    }

    /// Those of several cores, each divided by `share`, together.
    pub(crate) fn merged<'a>(parts: impl Iterator<Item = &'a WaitTimes>, share: f64) -> Self {
        let mut sums: Vec<(&'static str, f64)> = Vec::new();
        for &(cause, time) in parts.flat_map(|part| &part.0) {
            match sums.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, sum)) => *sum += time / share,
                None => sums.push((cause, time / share)),
            }
        }
        sums.sort_by(|one, other| other.1.total_cmp(&one.1));
        Self(sums)
    }

    /// The cause that took most time, and how long, in microseconds.
    pub fn longest(&self) -> Option<(&'static str, f64)> {
        self.0.first().copied()
    }
}

impl Serialize for WaitTimes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (cause, time) in &self.0 {
            map.serialize_entry(cause, time)?;
        }
        map.end()
    }
}

/// What one engine did; times in microseconds. Of several cores, times are means over them **(choice)**, so that they stay
/// comparable with the latency, and instructions a sum.
///
/// `dma` counts time in which at least one DMA engine moved bytes; its waits are summed over queues and may exceed the
/// latency.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EngineTotal {
    /// Name of the engine.
    pub engine: &'static str,
    /// Instructions that it ran.
    pub instructions: u64,
    /// How long it held its issue slot.
    pub busy_us: f64,
    /// That as part of the latency, from 0 to 1.
    pub busy_share: f64,
    /// How long it stood waiting.
    pub wait_us: f64,
    /// That, by cause.
    pub waits: WaitTimes,
    /// What is left of the latency.
    pub idle_us: f64,
}

impl EngineTotal {
    fn new(number: usize, instructions: u64, busy_us: f64, wait_us: f64, waits: WaitTimes, latency_us: f64) -> Self {
        let waited = if number == usize::from(DMA) { 0.0 } else { wait_us };
        Self {
            engine: ENGINES[number],
            instructions,
            busy_us,
            busy_share: if latency_us > 0.0 { busy_us / latency_us } else { 0.0 },
            wait_us,
            waits,
            idle_us: (latency_us - busy_us - waited).max(0.0),
        }
    }
}

/// What each engine did in a run, in the order of [`ENGINES`].
pub(crate) fn of_run(columns: &RunColumns) -> Vec<EngineTotal> {
    let instructions = &columns.instructions;
    let mut waits = [[0u64; CAUSES.len()]; ENGINES.len()];
    let mut counts = [0; ENGINES.len()];
    for (row, &engine) in instructions.engine.iter().enumerate() {
        let wait = &mut waits[usize::from(engine)][usize::from(instructions.cause[row])];
        *wait = wait.saturating_add(instructions.wait_ps[row]);
        counts[usize::from(engine)] += 1;
    }
    let total = |number: usize| {
        let busy = union_length(columns.busy_spans(number as u8)) as f64 / PS_PER_US;
        let waited = waits[number].iter().fold(0u64, |sum, &wait| sum.saturating_add(wait)) as f64 / PS_PER_US;
        let by_cause = WaitTimes::of_picoseconds(&waits[number]);
        EngineTotal::new(number, counts[number], busy, waited, by_cause, columns.latency_us())
    };
    (0..ENGINES.len()).map(total).collect()
}

/// What each engine did on several cores, whose run took that long.
pub(crate) fn of_cores(cores: &[&[EngineTotal]], latency_us: f64) -> Vec<EngineTotal> {
    let count = cores.len() as f64;
    let total = |number: usize| {
        let parts = cores.iter().map(|core| &core[number]);
        let busy = parts.clone().map(|part| part.busy_us).sum::<f64>() / count;
        let waited = parts.clone().map(|part| part.wait_us).sum::<f64>() / count;
        let waits = WaitTimes::merged(parts.clone().map(|part| &part.waits), count);
        EngineTotal::new(number, parts.map(|part| part.instructions).sum(), busy, waited, waits, latency_us)
    };
    (0..ENGINES.len()).map(total).collect()
}
