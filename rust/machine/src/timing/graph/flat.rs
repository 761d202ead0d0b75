//! A run with its changes, in the order in which it is timed, laid out for going through it again and again.

use super::variant::{FREE, GONE, Variant};
use crate::engine::Engine;
use crate::timing::ports::PortUse;
use crate::timing::repetition::{MIX, Repetition, lags, repetitions};
use crate::timing::work::Work;

/// In the place of a step's work: another one does it.
pub(super) const DONE: u32 = u32::MAX - 2;

/// Not there, or not yet.
const NOWHERE: u32 = u32::MAX;

/// A step of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlatStep {
    /// Its number in the run.
    pub(super) number: u32,
    /// By number; or of one that another one does, [`DONE`].
    pub(super) work: u32,
    pub(super) engine: Engine,
    /// Whose its result is.
    pub(super) producer: Engine,
    pub(super) dynamic: bool,
    /// Whether it is like no other: cores met, or it waits for what another core did.
    pub(super) is_single: bool,
    pub(super) ports: PortUse,
}

/// An edge to the step at an earlier place.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlatEdge {
    pub(super) on: u32,
    pub(super) stationary: bool,
    pub(super) released: bool,
}

/// By whom a step is done, as if that were what it waits for.
const fn done_at(on: u32) -> FlatEdge {
    FlatEdge { on, stationary: false, released: false }
}

/// The steps that are there, by place.
#[derive(Debug)]
pub(super) struct FlatRun {
    pub(super) steps: Vec<FlatStep>,
    /// Where the edges of each end.
    ends: Vec<u32>,
    edges: Vec<FlatEdge>,
}

/// Multiples of a lag that are tried where all but edges to what came before the loop repeats: operands in turn.
const TURNS: [usize; 6] = [1, 2, 3, 4, 6, 8];
/// Lags at which all steps are compared at most, multiples included.
const MOST_SCANS: usize = 10;

impl FlatRun {
    pub(super) fn of(variant: &Variant<'_>) -> Self {
        let graph = variant.graph;
        let count = graph.steps.len();
        let mut places = vec![NOWHERE; count];
        let mut flat = Self { steps: Vec::with_capacity(count), ends: Vec::with_capacity(count), edges: Vec::new() };
        let (merged, others) = (variant.merged(), variant.other_buffers());
        let has_meetings = !graph.meetings.is_empty() || !graph.floors.is_empty();
        for number in variant.order() {
            let place = number as usize;
            let step = graph.steps.at(place);
            let by = variant.done_by(number);
            if by.is_none() && variant.work[place] == GONE {
                continue;
            }
            let engine = variant.engine[place];
            let mut own = FlatStep {
                number,
                work: variant.work[place],
                engine,
                producer: engine,
                dynamic: step.dynamic,
                is_single: has_meetings && (graph.meeting(number).is_some() || graph.floor(number) > 0),
                ports: step.ports,
            };
            if let Some(by) = by {
                let on = places[by as usize];
                (own.work, own.is_single, own.producer) = (DONE, true, step.engine);
                if on != NOWHERE {
                    own.producer = flat.steps[on as usize].producer;
                    flat.edges.push(done_at(on));
                }
            } else {
                let parts = merged.get(place).into_iter().flatten().copied();
                for part in std::iter::once(number).chain(parts) {
                    let other = others.get(part as usize).copied().flatten();
                    variant.edges_of(part, other).for_each(|edge| {
                        let on = places[edge.on as usize];
                        // One that comes later in another order is nothing that is waited for.
                        if on != NOWHERE {
                            let (stationary, released) = (edge.stationary, edge.released);
                            flat.edges.push(FlatEdge { on, stationary, released });
                        }
                    });
                }
                if own.work != FREE {
                    own.producer = match variant.work_of(place) {
                        Work::Compute { .. } => engine,
                        Work::Matmul { .. } => Engine::Tensor,
                        Work::Dma(_) | Work::Collective(_) => Engine::Dma,
                    };
                }
            }
            places[place] = flat.steps.len() as u32;
            flat.steps.push(own);
            flat.ends.push(flat.edges.len() as u32);
        }
        flat
    }

    pub(super) fn edges(&self, at: usize) -> &[FlatEdge] {
        let first = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.edges[first as usize..self.ends[at] as usize]
    }

    /// Whether a step does what the one a lag before it does, whatever it waits for.
    fn does_alike(&self, at: usize, lag: usize) -> bool {
        let (own, other) = (&self.steps[at], &self.steps[at - lag]);
        (own.work, own.engine, own.dynamic, own.ports) == (other.work, other.engine, other.dynamic, other.ports)
            && !own.is_single
            && !other.is_single
    }

    /// Which edges of a step go as far back as those of the one a lag before it, a bit each; the others go to the same steps.
    /// None where it is unlike that one.
    fn likeness(&self, at: usize, lag: usize) -> Option<u64> {
        let (own, other) = (self.edges(at), self.edges(at - lag));
        if own.len() != other.len() || own.len() > u64::BITS as usize || !self.does_alike(at, lag) {
            return None;
        }
        let mut moving = 0;
        for (bit, (own, other)) in own.iter().zip(other).enumerate() {
            if (own.stationary, own.released) != (other.stationary, other.released) {
                return None;
            }
            match (own.on - other.on.min(own.on)) as usize {
                0 if own.on == other.on => {}
                distance if distance == lag => moving |= 1 << bit,
                _ => return None,
            }
        }
        Some(moving)
    }

    /// How far back the edges of a body go, of those that move with it; it is no first one.
    pub(super) fn reach(&self, body: std::ops::Range<usize>) -> usize {
        let lag = body.len();
        let edges = |at: usize| self.edges(at).iter().zip(self.edges(at - lag)).map(move |pair| (at, pair));
        let moving = body.flat_map(edges).filter(|(_, (own, other))| own.on != other.on);
        moving.map(|(at, (own, _))| at - own.on as usize).max().unwrap_or(0)
    }

    /// Where bodies repeat, by their first steps.
    pub(super) fn repetitions(&self) -> Vec<Repetition> {
        let count = self.steps.len();
        let likeness: Vec<u64> = self.steps.iter().enumerate().map(|(at, step)| guess(at, step)).collect();
        let mut found: Vec<Repetition> = Vec::new();
        let covered = |repetitions: &[Repetition]| {
            repetitions.iter().map(|repetition| repetition.end - repetition.first).sum::<usize>()
        };
        let mut scans = MOST_SCANS;
        for lag in lags(&likeness) {
            for turn in TURNS {
                let Some(left) = scans.checked_sub(1) else { break };
                scans = left;
                let lag = lag * turn;
                let mut alike = 0;
                let own = repetitions(count, lag, |at| {
                    alike += usize::from(likeness[at] == likeness[at - lag]);
                    self.likeness(at, lag)
                });
                let own_covered = covered(&own);
                found.extend(own);
                if own_covered >= alike / 2 {
                    break;
                }
            }
            if covered(&found) >= count - count / 8 {
                break;
            }
        }
        found.sort_unstable_by_key(|repetition| repetition.first);
        found
    }
}

/// A number that steps share which do alike, and hardly any others.
fn guess(at: usize, step: &FlatStep) -> u64 {
    let single = if step.is_single { at as u64 + 1 } else { 0 };
    let does = step.engine as u64 * 2 + u64::from(step.dynamic);
    let numbers = [u64::from(step.work), does, step.ports.bits(), single];
    numbers.into_iter().fold(0u64, |hash, number| (hash ^ number).wrapping_mul(MIX).rotate_left(29))
}
