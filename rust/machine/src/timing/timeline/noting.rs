//! What is kept of each instruction for those who time the run otherwise.

use super::Timeline;
use super::running::Ran;
use crate::packed::PackedRows;
use crate::time::Picos;
use crate::timing::graph::{EdgeKind, GraphEdge, GraphMeeting, GraphStep, RunGraph};
use crate::timing::hazard::Waits;
use crate::timing::issue::TimedInstruction;
use crate::timing::record::Finished;
use crate::timing::tensor_array::Bound;
use crate::timing::work::Work;

impl Timeline {
    /// What it ran, edge by edge; None where records are not kept, and where other cores of the chip drew of its HBM.
    pub fn graph(&self) -> Option<&RunGraph> {
        self.graph.as_deref().filter(|_| self.dma.shared.is_none())
    }

    /// What bound each instruction, by number; None if records are not kept.
    pub fn steps(&self) -> Option<&PackedRows<GraphStep>> {
        self.graph.as_ref().map(|graph| graph.steps())
    }

    /// What an instruction comes after, by its number; nothing if records are not kept.
    pub fn comes_after(&self, number: usize) -> impl Iterator<Item = GraphEdge> + '_ {
        self.graph.as_ref().map(|graph| graph.edges(number)).into_iter().flatten()
    }

    pub(super) fn note_waits(&mut self, issue: &TimedInstruction, waits: &Waits, bound: Bound, stationary: bool) {
        let Some(graph) = &mut self.graph else { return };
        graph.ready = graph.ready.max(bound.at);
        for &(access, kind) in waits.seen() {
            let Some(Finished { end, .. }) = self.finished.get(access.id as usize) else { continue };
            let released = access.end < end && matches!(graph.work(access.id as usize), Work::Matmul { .. });
            if access.end != end && !released && kind != EdgeKind::Sum {
                // Another core's use, which the one where they met stands for.
                graph.note_floor(access.end.saturating_add(self.hops.dma));
            }
            graph.note(GraphEdge { on: access.id, kind, stationary, released });
        }
        let known = |id: &&u32| (**id as usize) < self.finished.len();
        for &on in issue.after.iter().filter(known) {
            graph.note(GraphEdge { on, kind: EdgeKind::Asked, stationary, released: false });
        }
    }

    pub(super) fn note_ran(&mut self, issue: &TimedInstruction, ran: &Ran) {
        if let Some(graph) = &mut self.graph {
            graph.push(issue, ran.engine, ran.ports, ran.bound);
            graph.latency = graph.latency.max(Picos(ran.end));
        }
    }

    pub(super) fn note_meeting(&mut self, step: u32, hop: Picos, latest: u64, is_last: bool) {
        if let Some(graph) = &mut self.graph {
            graph.meetings.push(GraphMeeting { step, hop, latest, is_last, ends: (0, 0) });
        }
    }

    pub(super) fn note_meeting_end(&mut self, own: u64, all: u64) {
        if let Some(meeting) = self.graph.as_mut().and_then(|graph| graph.meetings.last_mut()) {
            meeting.ends = (own, all);
        }
    }
}
