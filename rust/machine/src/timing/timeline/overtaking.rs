//! Transfers of four classes of service: a more urgent one goes ahead of those it competes with.
//!
//! - **(choice)** A transfer overtakes those before it in the program that are of a less urgent class, still under way
//!   when it could start, and asked for by nothing yet: no instruction uses their bytes or follows them, no meeting of
//!   cores and no collective lies between. Their time is worked out again behind it. An end that something was told
//!   stands.
//! - **(choice)** Those without a priority are in the last class; they give way from the first transfer on that names one.

use super::Timeline;
use crate::engine::Engine;
use crate::time::Picos;
use crate::timing::ceiling::HbmDraw;
use crate::timing::dma::{DmaEngines, Moved};
use crate::timing::hazard::Access;
use crate::timing::issue::TimedInstruction;
use crate::timing::region::Region;
use crate::timing::service::class;
use crate::timing::tensor_array::Bound;
use crate::timing::work::Transfer;

/// Transfers whose ends nothing has asked for, in the order in which they are served.
#[derive(Clone, Debug)]
pub(super) struct Overtaking {
    /// The DMA engines without them.
    base: DmaEngines,
    open: Vec<OpenTransfer>,
    /// The first of their shares.
    first_share: usize,
}

#[derive(Clone, Debug)]
struct OpenTransfer {
    id: u32,
    transfer: Transfer,
    ready: Bound,
    /// End of its trigger.
    slot_end: u64,
    end: u64,
    reads: Vec<Region>,
    writes: Vec<Region>,
}

/// **(choice)** Transfers that one can overtake at most.
const MOST: usize = 64;

impl Overtaking {
    /// Has what it goes back to draw where a copy of the timeline does.
    pub(super) fn fork(&mut self, own: Option<&HbmDraw>) {
        self.base.shared = self.base.shared.as_ref().zip(own).map(|(held, own)| held.beside(own));
    }

    /// Where a transfer is served: behind its own class and those more urgent, ahead of others that it competes with.
    fn place(&self, priority: Option<u8>, earliest: u64) -> usize {
        let is_urgent = |other: &OpenTransfer| class(other.transfer.priority) <= class(priority);
        let behind = self.open.iter().rposition(is_urgent).map_or(0, |last| last + 1);
        let competing = self.open[behind..].iter().position(|other| other.end > earliest);
        competing.map_or(self.open.len(), |ahead| behind + ahead)
    }

    pub(super) fn asked_after(&self, after: &[u32]) -> bool {
        self.open.iter().any(|open| after.contains(&open.id))
    }

    fn asked(&self, issue: &TimedInstruction) -> bool {
        let reads = || issue.reads.iter().chain(issue.stationary_reads);
        self.open.iter().any(|open| {
            issue.after.contains(&open.id)
                || reads().chain(issue.writes).any(|region| open.writes.iter().any(|written| meet(region, written)))
                || issue.writes.iter().any(|region| open.reads.iter().any(|read| meet(region, read)))
        })
    }
}

fn meet(one: &Region, other: &Region) -> bool {
    let overlap =
        |one: &std::ops::Range<u64>, other: &std::ops::Range<u64>| one.start < other.end && other.start < one.end;
    let meets = |rect: &crate::timing::region::Rect| {
        other.rects.iter().any(|rival| overlap(&rect.rows, &rival.rows) && overlap(&rect.columns, &rival.columns))
    };
    one.space == other.space && one.rects.iter().any(meets)
}

impl Timeline {
    /// Lets the ends of open transfers stand if an instruction asks for one of them.
    pub(super) fn stand_if_asked(&mut self, issue: &TimedInstruction) {
        if self.overtaking.as_ref().is_some_and(|overtaking| overtaking.asked(issue)) {
            if let Some(graph) = &mut self.graph {
                graph.stands = true;
            }
            self.stand();
        }
    }

    /// Lets the ends of open transfers stand.
    pub(in crate::timing) fn stand(&mut self) {
        if let Some(Overtaking { base, open, first_share }) = &mut self.overtaking {
            // What they drew of HBM that others share, they drew when they ran.
            base.shared = None;
            for open in open.drain(..) {
                base.run(open.id, &open.transfer, open.ready, None);
            }
            base.shared.clone_from(&self.dma.shared);
            *first_share = self.shares.len();
        }
    }

    /// The queue of collectives of a class.
    pub(super) fn collective_queue(&mut self, priority: Option<u8>) -> u16 {
        if let Some(overtaking) = &mut self.overtaking {
            overtaking.base.collectives(priority);
        }
        self.dma.collectives(priority)
    }

    /// Runs a transfer that is ready at a moment, ahead of those that it overtakes.
    pub(super) fn serve(
        &mut self,
        id: u32,
        issue: &TimedInstruction,
        transfer: &Transfer,
        ready: Bound,
        slot_end: u64,
    ) -> Moved {
        if self.overtaking.is_none() && transfer.priority.is_some() {
            let (base, first_share) = (self.dma.clone(), self.shares.len());
            self.overtaking = Some(Overtaking { base, open: Vec::new(), first_share });
        }
        let Some(mut overtaking) = self.overtaking.take() else {
            let keep = (self.options.keep_records || self.is_watched).then_some(&mut self.shares);
            return self.dma.run(id, transfer, ready, keep);
        };
        let place = overtaking.place(transfer.priority, self.dma.earliest(transfer, ready));
        let (reads, writes) = (issue.reads.to_vec(), issue.writes.to_vec());
        overtaking
            .open
            .insert(place, OpenTransfer { id, transfer: transfer.clone(), ready, slot_end, end: 0, reads, writes });
        let again = place + 1 < overtaking.open.len();
        if again {
            self.dma.reset(&overtaking.base);
            self.shares.truncate(overtaking.first_share);
            self.scheduled = self.scheduled.min(overtaking.first_share);
            self.asked.take();
        }
        let mut own = Moved::none(ready);
        for open in overtaking.open.iter_mut().skip(if again { 0 } else { place }) {
            let keep = self.options.keep_records.then_some(&mut self.shares);
            let moved = self.dma.run(open.id, &open.transfer, open.ready, keep);
            open.end = moved.end.max(open.slot_end);
            if open.id == id {
                own = moved;
            } else {
                self.revise(open, &moved);
            }
        }
        if again {
            self.shares[overtaking.first_share..].sort_by_key(|share| share.id);
        }
        let is_full = overtaking.open.len() >= MOST;
        self.overtaking = Some(overtaking);
        if is_full {
            self.stand();
        }
        own
    }

    /// Notes that a transfer which nothing has asked for ends later.
    fn revise(&mut self, open: &OpenTransfer, moved: &Moved) {
        let access = Access { end: open.end, id: open.id, engine: Engine::Dma };
        for region in &open.reads {
            self.hazards.read(region, access);
        }
        for region in &open.writes {
            self.hazards.write(region, access, false);
        }
        if let Some(shared) = &mut self.shared {
            shared.note(&open.reads, &open.writes, open.end);
        }
        self.finished.change(open.id as usize, |finished| finished.end = open.end);
        if open.end >= self.makespan {
            self.makespan = open.end;
            self.last_to_end = open.id;
        }
        self.records.change(open.id as usize, |record| {
            record.queue = moved.queue;
            record.start = Picos(moved.start);
            (record.slot_end, record.end) = (Picos(open.end), Picos(open.end));
            record.wait = Picos(moved.wait);
            (record.cause, record.waited_on) = (moved.cause, moved.waited_on);
        });
    }
}
