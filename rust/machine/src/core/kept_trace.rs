//! The trace that a core keeps for a compiler, and the time that it gets from one.

use std::sync::Arc;

use super::{LivePoint, NeuronCore, RunAsWritten};
use crate::error::Result;
use crate::packed::PackedRows;
use crate::site::SiteId;
use crate::storage::Storage;
use crate::timing::timeline::{Timeline, TimelineOptions};
use crate::trace::{LoopKind, NO_SCOPE, Scopes, Trace};

impl NeuronCore {
    /// Whether a trace of its run is kept.
    pub fn keeps_trace(&self) -> bool {
        self.trace.is_some()
    }

    /// What it ran, which it keeps no longer; None where it kept nothing.
    pub fn take_trace(&mut self) -> Option<Trace> {
        self.settle(0);
        for id in self.state.memory.take_gone() {
            if let Some(trace) = &mut self.trace {
                trace.released(id);
            }
        }
        let draws = self.state.stochastic_rounding.is_some();
        let mut trace = self.trace.take()?.finish(&self.opcodes, draws);
        trace.sites = self.sites.clone();
        Some(trace)
    }

    fn scopes(&mut self) -> Option<&mut Scopes> {
        self.trace.as_mut().map(|trace| &mut trace.trace.scopes)
    }

    /// A loop of the kernel begins; of what keeps no trace nothing is noted, here and below.
    pub fn begin_loop(&mut self, kind: LoopKind, trip: Option<u32>, site: SiteId) {
        if let Some(scopes) = self.scopes() {
            scopes.begin(kind, trip, site);
        }
    }

    /// The next iteration of the innermost loop begins; the first one too.
    pub fn next_iteration(&mut self) {
        if let Some(scopes) = self.scopes() {
            scopes.next_iteration();
        }
    }

    /// The innermost loop has ended.
    pub fn end_loop(&mut self) {
        if let Some(scopes) = self.scopes() {
            scopes.end();
        }
    }

    /// The iteration that the kernel is in, for [`NeuronCore::set_scope`].
    pub fn scope(&self) -> u32 {
        self.trace.as_ref().map_or(NO_SCOPE, |trace| trace.trace.scopes.now())
    }

    /// What is issued from here on is part of that iteration: an instruction that waited.
    pub fn set_scope(&mut self, scope: u32) {
        if let Some(scopes) = self.scopes() {
            scopes.set_now(scope);
        }
    }

    /// The author orders what is issued from here on, or no longer.
    pub fn set_ordered(&mut self, is_ordered: bool) {
        if let Some(trace) = &mut self.trace {
            trace.set_ordered(is_ordered);
        }
    }

    /// A tensor comes that a host laid over its memories and that has no address; `is_fresh`: its bytes are uninitialised.
    ///
    /// # Errors
    /// [`Error::HostMemory`](crate::Error::HostMemory).
    pub(crate) fn came(&mut self, storage: &Storage, is_fresh: bool) -> Result<()> {
        self.reserve(storage)?;
        if is_fresh {
            self.state.memory.renew(storage);
            if let (Some(shadow), Some(place)) = (&mut self.shadow, storage.place) {
                shadow.forget(storage.buffer, place)?;
            }
        }
        if let Some(trace) = &mut self.trace {
            trace.allocated(storage);
        }
        self.log_tensor(storage);
        Ok(())
    }

    /// A tensor's bytes are uninitialised from here on, as when a program makes it.
    pub(crate) fn renew(&mut self, storage: &Storage) {
        self.state.memory.renew(storage);
        if let Some(trace) = &mut self.trace {
            trace.renewed(storage);
        }
    }

    /// Such a tensor is needed no longer.
    pub(crate) fn went(&mut self, storage: &Storage) {
        if let Some(trace) = &mut self.trace {
            trace.released(storage.id);
        }
        self.tensors.went(storage.id, self.issued);
    }

    /// Makes room for such a tensor, where places have no limit.
    ///
    /// # Errors
    /// As [`NeuronCore::came`].
    pub(crate) fn reserve(&mut self, storage: &Storage) -> Result<()> {
        let Some(place) = storage.place.filter(|_| self.options.unlimited) else { return Ok(()) };
        if let Some(shadow) = &mut self.shadow {
            shadow.reach(storage.buffer, place)?;
        }
        self.state.memory.reach(storage.buffer, place)
    }

    /// An empty timeline for another time of its run.
    pub(crate) fn empty_timeline(&self, keep_records: bool) -> Timeline {
        let options = TimelineOptions { throttle: self.options.throttle, keep_records };
        self.timeline.emptied(Arc::clone(&self.state.arch), options)
    }

    /// Its run took this time instead, and had so many bytes live from each instruction on; instructions that it had not
    /// have names as well.
    pub(crate) fn set_timeline(&mut self, timeline: Timeline, occupancy: PackedRows<LivePoint>, trace: &Trace) {
        self.timeline = timeline;
        self.occupancy = occupancy;
        self.opcodes = trace.names.clone();
        self.tensors = self.tensors.of_trace(trace);
    }

    /// Keeps, beside the time that it is given next, what its run takes as written; what DMA engines did when is worked out
    /// when somebody looks at it.
    pub(crate) fn keep_as_written(&mut self, timeline: Timeline, occupancy: PackedRows<LivePoint>, trace: &Trace) {
        let tensors = self.tensors.of_trace(trace);
        self.as_written = Some(Arc::new(RunAsWritten { timeline, tensors, occupancy }));
    }
}
