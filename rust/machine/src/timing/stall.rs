//! Where the time went: busy and idle of each engine and why, totals of each kernel line, the critical path.

use std::collections::BTreeMap;

use super::record::{Cause, NO_INSTRUCTION, Record, TransferRecord, TriggerRecord};
use crate::engine::Engine;
use crate::packed::PackedRows;
use crate::site::SiteId;
use crate::time::Picos;

/// The time of one engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineTime {
    /// The engine.
    pub engine: Engine,
    /// Instructions it ran; transfers count for the DMA engines.
    pub instructions: u64,
    /// Time in which at least one of its instructions held it; table loads count, and so do triggers of transfers.
    pub busy: Picos,
    /// Time in which it stood idle before an instruction, by cause. The sum with `busy` is less than the makespan by
    /// the time after its last instruction.
    pub idle: BTreeMap<Cause, Picos>,
}

/// The time of one line of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteTime {
    /// The line.
    pub site: SiteId,
    /// Instructions it issued.
    pub instructions: u64,
    /// Sum of their issue slots; of transfers, from the first byte to the end.
    pub busy: Picos,
    /// Time in which their engines and queues stood idle before them, by cause.
    pub idle: BTreeMap<Cause, Picos>,
}

/// The time of one DMA engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DmaEngineTime {
    /// Time in which at least one queue moved bytes with it.
    pub busy: Picos,
    /// Bytes.
    pub bytes: u64,
}

/// Sums busy and idle time by engine, in the order of [`Engine::ALL`]. The DMA engines together are busy when any
/// transfer is under way; idle before a transfer is then not theirs but its queue's, and is left to
/// [`sites`].
pub fn engines(records: &PackedRows<Record>, triggers: &[TriggerRecord]) -> Vec<EngineTime> {
    let mut slots: [Vec<(Picos, Picos, Picos, Cause)>; Engine::ALL.len()] = Default::default();
    let mut instructions = [0u64; Engine::ALL.len()];
    for record in records {
        slots[record.engine as usize].push((record.start, record.slot_end, record.wait, record.cause));
        instructions[record.engine as usize] += 1;
    }
    for trigger in triggers {
        slots[trigger.engine as usize].push((trigger.start, trigger.slot_end, trigger.wait, trigger.cause));
    }
    let mut times = Vec::new();
    for engine in Engine::ALL {
        let slots = &mut slots[engine as usize];
        slots.sort_unstable();
        let mut idle = BTreeMap::new();
        let mut busy = covered(slots.iter().map(|slot| (slot.0, slot.1)));
        for &(_, _, wait, cause) in slots.iter().filter(|slot| slot.2 > Picos::ZERO) {
            match cause {
                _ if engine == Engine::Dma => {}
                Cause::TableLoad => busy += wait,
                cause => *idle.entry(cause).or_default() += wait,
            }
        }
        times.push(EngineTime { engine, instructions: instructions[engine as usize], busy, idle });
    }
    times
}

/// Sums by line of the kernel, in the order of their numbers.
pub fn sites(records: &PackedRows<Record>) -> Vec<SiteTime> {
    let mut sites: BTreeMap<SiteId, SiteTime> = BTreeMap::new();
    for record in records {
        let empty = SiteTime { site: record.site, instructions: 0, busy: Picos::ZERO, idle: BTreeMap::new() };
        let site = sites.entry(record.site).or_insert(empty);
        site.instructions += 1;
        site.busy += record.slot_end.since(record.start);
        if record.wait > Picos::ZERO {
            *site.idle.entry(record.cause).or_default() += record.wait;
        }
    }
    sites.into_values().collect()
}

/// Sums by DMA engine.
pub fn dma_engines(transfers: &[TransferRecord]) -> Vec<DmaEngineTime> {
    let mut spans: Vec<Vec<(Picos, Picos)>> = Vec::new();
    let mut times: Vec<DmaEngineTime> = Vec::new();
    for transfer in transfers {
        let engine = usize::from(transfer.dma_engine);
        if engine >= times.len() {
            times.resize(engine + 1, DmaEngineTime::default());
            spans.resize(engine + 1, Vec::new());
        }
        times[engine].bytes = times[engine].bytes.saturating_add(transfer.bytes);
        spans[engine].push((transfer.start, transfer.end));
    }
    for (time, spans) in times.iter_mut().zip(&mut spans) {
        spans.sort_unstable();
        time.busy = covered(spans.iter().copied());
    }
    times
}

/// The instructions that led to the end of one, first to last: each waited on the one before.
pub fn critical_path(records: &PackedRows<Record>, last: u32) -> Vec<u32> {
    let mut path = Vec::new();
    let mut id = last;
    while id != NO_INSTRUCTION
        && let Some(record) = records.get(id as usize)
    {
        path.push(id);
        // A transfer that waited only for another's trigger may move its bytes before that one does: what it waited for
        // is what that trigger waited for.
        let mut before = record;
        id = loop {
            let on = before.waited_on;
            // An instruction waits on earlier ones alone; anything else would have no end.
            match records.get(on as usize).filter(|_| on < before.id) {
                Some(earlier) if earlier.start > record.start => before = earlier,
                Some(_) => break on,
                None => break NO_INSTRUCTION,
            }
        };
    }
    path.reverse();
    path
}

/// Time covered by spans in the order of their starts.
fn covered(spans: impl Iterator<Item = (Picos, Picos)>) -> Picos {
    let mut until = Picos::ZERO;
    let mut sum = Picos::ZERO;
    for (start, end) in spans {
        sum += end.since(start.max(until));
        until = until.max(end);
    }
    sum
}
