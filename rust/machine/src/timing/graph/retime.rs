//! A run timed otherwise: the same timeline, fed with edges.

use smallvec::SmallVec;

use super::rerun::Rerun;
use super::variant::{FREE, GONE, Retimed, Variant};
use crate::engine::Engine;
use crate::time::Picos;
use crate::timing::timeline::ReplayedStep;
use crate::timing::work::Work;

impl Variant<'_> {
    /// Times it.
    pub fn time(&self) -> Retimed {
        self.retime(true)
    }

    /// How long it takes.
    pub fn latency(&self) -> Picos {
        self.retime(false).latency
    }

    fn retime(&self, keeps: bool) -> Retimed {
        let is_regular = !self.graph.throttle && !self.has_classes();
        let rerun = is_regular.then(|| Rerun::of(self, keeps).run()).flatten();
        rerun.unwrap_or_else(|| self.run(keeps))
    }

    /// As [`Variant::time`], one step after the other, wherever bodies of loops go on alike: what that has to give.
    pub fn time_step_by_step(&self) -> Retimed {
        self.run(true)
    }

    fn has_classes(&self) -> bool {
        self.graph.works.iter().any(has_class) || self.more.iter().any(has_class)
    }

    fn run(&self, keeps: bool) -> Retimed {
        let graph = self.graph;
        let mut timeline = self.timeline();
        let count = graph.steps.len();
        let has_classes = self.has_classes();
        let mut numbers: Vec<u32> = vec![u32::MAX; count];
        let mut stationary_ends: Vec<u64> = vec![0; count];
        let [mut start, mut ready, mut slot_end] = [(); 3].map(|()| vec![Picos::ZERO; if keeps { count } else { 0 }]);
        let merged = self.merged();
        let mut uses: SmallVec<[(u64, Engine, bool); 16]> = SmallVec::new();
        let mut after: SmallVec<[u32; 16]> = SmallVec::new();
        for number in self.order() {
            let place = number as usize;
            let step = graph.steps.at(place);
            let parts = merged.get(place).into_iter().flatten().copied();
            uses.clear();
            if has_classes {
                after.clear();
                after.extend(self.edges(number).map(|edge| numbers[edge.on as usize]).filter(|on| *on != u32::MAX));
                if step.stands {
                    timeline.stand();
                }
                timeline.stand_before(&after);
            }
            if let Some(by) = self.done_by(number) {
                let by = numbers[by as usize];
                let (end, engine) = if by == u32::MAX { (0, step.engine) } else { timeline.replayed_end(by) };
                numbers[place] = timeline.next_number();
                timeline.replayed(end, engine);
                continue;
            }
            if self.work[place] == GONE {
                continue;
            }
            for part in std::iter::once(number).chain(parts) {
                for edge in self.edges(part) {
                    let on = numbers[edge.on as usize];
                    // One that comes later in another order is nothing that is waited for.
                    if on == u32::MAX {
                        continue;
                    }
                    let (end, engine) = timeline.replayed_end(on);
                    let end = if edge.released { end.min(stationary_ends[edge.on as usize]) } else { end };
                    uses.push((end, engine, edge.stationary));
                }
            }
            numbers[place] = timeline.next_number();
            if self.work[place] == FREE {
                let end = uses.iter().map(|used| used.0).max().unwrap_or(0);
                stationary_ends[place] = end;
                timeline.replayed(end, self.engine[place]);
                if keeps {
                    (start[place], ready[place], slot_end[place]) = (Picos(end), Picos(end), Picos(end));
                }
                continue;
            }
            if self.unordered == Some(self.engine[place]) {
                timeline.forget_queue(self.engine[place]);
            }
            let meeting = graph.meeting(number);
            let span = timeline.replay(&ReplayedStep {
                work: self.work_of(place),
                engine: self.engine[place],
                dynamic: step.dynamic,
                ports: step.ports,
                uses: &uses,
                after: &after,
                floor: graph.floor(number),
                meeting: meeting.map(|met| (met.latest, met.hop)),
            });
            if let Some(met) = meeting {
                timeline.replayed_until(met.until(span.end));
            }
            stationary_ends[place] = span.stationary_end;
            if keeps {
                start[place] = Picos(span.start);
                ready[place] = Picos(span.ready);
                slot_end[place] = Picos(span.slot_end);
            }
        }
        Retimed { latency: timeline.makespan(), start, ready, slot_end, repeated: 0 }
    }
}

fn has_class(work: &Work) -> bool {
    matches!(work, Work::Dma(transfer) if transfer.priority.is_some())
}
