//! When DMA engines move the bytes of each share: what is due first, first.
//!
//! [`super::dma`] says until when each share is done; in what order an engine gets there only the whole program tells,
//! since what stands later in it may start sooner. Each share can start at a moment, takes some time and is due at
//! another; those of one engine leave room for all of them ([`super::dma`]'s rule is that condition), and serving what
//! is due first whenever something new can start then keeps every due date. An engine works on one share at a time.
//! **(choice)** A share gives way at any byte, not between descriptors alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::record::{Record, TransferRecord, TriggerRecord};
use crate::packed::PackedRows;
use crate::time::Picos;

/// The share of a transfer that one DMA engine is to move.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// The transfer.
    pub(crate) id: u32,
    pub(crate) dma_engine: u16,
    /// When it can start.
    pub(crate) ready: u64,
    /// By when it is done.
    pub(crate) due: u64,
    /// How long it takes alone.
    pub(crate) work: u64,
    pub(crate) bytes: u64,
}

/// What each engine does and when, in program order; pieces of one share follow one another, and so do those of one
/// engine, in time.
pub(crate) fn pieces(shares: &[Share]) -> Vec<TransferRecord> {
    let mut engines: Vec<Vec<(u64, u32)>> = Vec::new();
    for (place, share) in (0..).zip(shares) {
        let engine = usize::from(share.dma_engine);
        if engine >= engines.len() {
            engines.resize(engine + 1, Vec::new());
        }
        engines[engine].push((share.ready, place));
    }
    // Of each share its first piece, and apart from those what comes after it: few have any.
    let untold = |share: &Share| TransferRecord {
        id: share.id,
        dma_engine: share.dma_engine,
        start: UNTOLD,
        end: UNTOLD,
        bytes: 0,
    };
    let mut pieces: Vec<TransferRecord> = shares.iter().map(untold).collect();
    let mut further: Vec<(u32, u64, u64)> = Vec::new();
    for mut coming in engines {
        serve(shares, &mut coming, |place, start, end| {
            let first = &mut pieces[place as usize];
            if first.start == UNTOLD {
                let bytes = bytes_after(&shares[place as usize], end - start);
                *first = TransferRecord { start: Picos(start), end: Picos(end), bytes, ..*first };
            } else {
                further.push((place, start, end));
            }
        });
    }
    if further.is_empty() { pieces } else { joined(shares, &pieces, further) }
}

/// No share starts when time ends and goes on later.
const UNTOLD: Picos = Picos(u64::MAX);

/// Bytes of a share that were moved once it was worked on for so long.
fn bytes_after(share: &Share, worked: u64) -> u64 {
    match worked == share.work {
        true => share.bytes,
        false => (u128::from(share.bytes) * u128::from(worked) / u128::from(share.work)) as u64,
    }
}

/// The first piece of each share and those after it, in order.
fn joined(shares: &[Share], firsts: &[TransferRecord], mut further: Vec<(u32, u64, u64)>) -> Vec<TransferRecord> {
    further.sort_unstable();
    let mut further = further.into_iter().peekable();
    let mut pieces = Vec::with_capacity(shares.len() + further.len());
    for ((place, share), first) in (0..).zip(shares).zip(firsts) {
        pieces.push(*first);
        let (mut worked, mut moved) = (first.end.since(first.start).0, first.bytes);
        while let Some((_, start, end)) = further.next_if(|piece| piece.0 == place) {
            worked += end - start;
            let so_far = bytes_after(share, worked);
            pieces.push(TransferRecord { start: Picos(start), end: Picos(end), bytes: so_far - moved, ..*first });
            moved = so_far;
        }
    }
    pieces
}

/// Serves the shares of one engine, when each can start and which it is, each time the one that is due first, and tells each
/// piece: share, start, end.
fn serve(shares: &[Share], coming: &mut [(u64, u32)], mut tell: impl FnMut(u32, u64, u64)) {
    coming.sort_by_key(|&(ready, _)| ready);
    let mut coming = coming.iter().copied().peekable();
    let mut waiting: BinaryHeap<Reverse<(u64, u32, u64)>> = BinaryHeap::new();
    let mut now = 0;
    // The piece under way: whose it is and since when.
    let mut held: Option<(u32, u64)> = None;
    loop {
        if waiting.is_empty() {
            let Some(&(ready, _)) = coming.peek() else { break };
            now = now.max(ready);
        }
        while let Some((_, next)) = coming.next_if(|&(ready, _)| ready <= now) {
            let share = &shares[next as usize];
            waiting.push(Reverse((share.due, next, share.work)));
        }
        let Some(Reverse((due, place, left))) = waiting.pop() else { break };
        let since = match held.take() {
            Some((before, since)) if before == place => since,
            Some((before, since)) => {
                tell(before, since, now);
                now
            }
            None => now,
        };
        let done = now.saturating_add(left);
        let stop = coming.peek().map_or(done, |&(ready, _)| ready.min(done));
        let rest = left - (stop - now);
        now = stop;
        // Time ends where figures are absurd.
        if rest == 0 || done == u64::MAX {
            tell(place, since, now);
        } else {
            waiting.push(Reverse((due, place, rest)));
            held = Some((place, since));
        }
    }
}

/// Sets the starts of transfers to those of their first pieces, and how long their queues stood idle before. `triggers`:
/// of every transfer; no other instruction is in a queue of theirs.
pub(crate) fn set_starts(records: &mut PackedRows<Record>, triggers: &[TriggerRecord], pieces: &[TransferRecord]) {
    let mut of_transfers = pieces.chunk_by(|piece, next| piece.id == next.id).peekable();
    let mut free: Vec<Picos> = Vec::new();
    records.change_at(triggers.iter().map(|trigger| trigger.id as usize), |record| {
        let queue = usize::from(record.queue);
        if queue >= free.len() {
            free.resize(queue + 1, Picos::ZERO);
        }
        if let Some(pieces) = of_transfers.next_if(|pieces| pieces[0].id == record.id) {
            record.start = pieces.iter().map(|piece| piece.start).min().unwrap_or(record.start);
            record.wait = record.start.since(free[queue]);
        }
        free[queue] = free[queue].max(record.end);
    });
}
