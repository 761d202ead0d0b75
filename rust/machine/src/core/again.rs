//! What a core's time was made of, kept so that several cores can be timed once more, together.

use std::ops::Range;
use std::sync::Arc;

use super::NeuronCore;
use super::pending::Pending;
use crate::engine::Engine;
use crate::site::SiteId;
use crate::time::Picos;
use crate::timing::ceiling::HbmCeiling;
use crate::timing::record::Cause;
use crate::timing::region::Region;
use crate::timing::timeline::{TimedInstruction, Timeline};
use crate::timing::work::Work;

/// An instruction that got its time.
pub(crate) struct Timed {
    opcode: u16,
    engine: Engine,
    site: SiteId,
    label: u32,
    work: Work,
    /// What it reads, then what its stationary load reads, then what it writes.
    regions: Box<[Region]>,
    ends: [usize; 2],
    after: Box<[u32]>,
    dynamic: bool,
    macs: (u64, u64),
    /// The meeting it was part of.
    pub(crate) met: Option<Met>,
}

/// A core's part in a meeting.
#[derive(Clone)]
pub(crate) struct Met {
    /// The meeting: one for all that came.
    pub(crate) meeting: Arc<Meeting>,
    /// Which of those it is.
    pub(crate) place: usize,
}

/// What cores ran together.
pub(crate) struct Meeting {
    pub(crate) cores: usize,
    pub(crate) hop: Picos,
    pub(crate) sharing: Vec<Range<usize>>,
    pub(crate) cause: Cause,
}

impl Meeting {
    /// Gives the parts of all that came their time.
    pub(crate) fn run(&self, issues: &mut [(&mut Timeline, TimedInstruction<'_>)]) {
        let spans = Timeline::rendezvous(issues, self.hop, self.cause);
        for range in &self.sharing {
            if let (Some(cores), Some(spans)) = (issues.get_mut(range.clone()), spans.get(range.clone())) {
                Timeline::order_shared(cores, spans);
            }
        }
    }
}

impl Timed {
    pub(super) fn new(pending: Pending, met: Option<Met>) -> Self {
        let Pending { opcode, engine, site, label, work, reads, stationary, writes, after, dynamic, macs } = pending;
        let ends = [reads.len(), reads.len() + stationary.len()];
        let regions = reads.into_iter().chain(stationary).chain(writes).collect();
        Self { opcode, engine, site, label, work, regions, ends, after: after.into_vec().into(), dynamic, macs, met }
    }

    pub(crate) fn issue(&self) -> TimedInstruction<'_> {
        let [reads, stationary] = self.ends;
        TimedInstruction {
            opcode: self.opcode,
            engine: self.engine,
            site: self.site,
            label: self.label,
            work: self.work.clone(),
            reads: &self.regions[..reads],
            stationary_reads: &self.regions[reads..stationary],
            writes: &self.regions[stationary..],
            after: &self.after,
            dynamic: self.dynamic,
            macs: self.macs.0,
            peak_macs_per_cycle: self.macs.1,
        }
    }

    /// Whether it moves bytes of HBM, which other cores may be moving too.
    pub(crate) fn draws(&self) -> bool {
        matches!(self.work, Work::Dma(_) | Work::Collective(_))
    }
}

impl NeuronCore {
    /// Keeps what its time is made of from here on, for [`crate::chip::time_together`].
    pub fn keep_timed(&mut self) {
        self.timed.get_or_insert_default();
    }

    /// What its time was made of, and an empty timeline that draws from a ceiling; None where it was not kept.
    pub(crate) fn rewind(&mut self, ceiling: &HbmCeiling) -> Option<(Vec<Timed>, Timeline)> {
        self.settle(0);
        let timed = self.timed.take()?;
        Some((timed, self.timeline.again(Arc::clone(&self.state.arch), ceiling)))
    }
}
