//! What a timeline is at a moment, for those who skip what repeats.
//!
//! Numbers of instructions are no part of it: they say why something waited, which a run that is timed again does not tell.

use super::Timeline;
use crate::timing::schedule::Share;
use crate::timing::server::Server;

/// What is no moment and has to be the same wherever the same instructions take the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::timing) struct Constants {
    table: Option<u16>,
    last_pass: (u64, u16),
    queues: usize,
}

impl Timeline {
    /// Calls with each moment that what runs later may depend on, always in one order, but for those of servers.
    pub(in crate::timing) fn each_moment(&mut self, visit: &mut impl FnMut(&mut u64)) {
        self.streams.iter_mut().for_each(|stream| visit(&mut stream.free));
        self.tensor.each_moment(visit);
        self.dma.each_moment(visit);
        self.collectives.each_moment(visit);
        self.ports.each_moment(visit);
        visit(&mut self.makespan);
    }

    pub(in crate::timing) fn constants(&self) -> Constants {
        let (last_pass, queues) = (self.tensor.last_pass(), self.dma.queues().len());
        Constants { table: self.table, last_pass, queues }
    }

    /// What shares the rate of each DMA engine, in their order, and that of HBM.
    pub(in crate::timing) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.dma.servers()
    }

    /// As [`Timeline::servers`].
    pub(in crate::timing) fn servers_mut(&mut self) -> impl Iterator<Item = &mut Server> {
        self.dma.servers_mut()
    }

    /// Whether a server was asked what it cannot know.
    pub(in crate::timing) fn is_doubtful(&self) -> bool {
        self.servers().any(Server::is_doubtful)
    }

    /// Keeps shares of transfers, which [`Timeline::watched`] gives, or does no longer.
    pub(in crate::timing) fn watch(&mut self, is_watched: bool) {
        self.is_watched = is_watched;
        self.shares.clear();
    }

    /// Shares since this was asked last, and when the last transfer could begin.
    pub(in crate::timing) fn watched(&mut self) -> (impl Iterator<Item = Share>, u64) {
        let begun = self.dma.begun();
        (self.shares.drain(..), begun)
    }

    /// No step that the caller keeps the end of ends later.
    pub(in crate::timing) fn lasts_until(&mut self, end: u64) {
        self.makespan = self.makespan.max(end);
    }
}
