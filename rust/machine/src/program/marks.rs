//! Marks between instructions: loops that were unrolled, and stretches that keep their order.

use serde_json::{Map, Value, json};

use super::words::number;
use crate::core::NeuronCore;
use crate::trace::LoopKind;

/// A step that is no instruction, and leaves values and times as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A loop begins; how many iterations it has, where that is known beforehand.
    Loop {
        /// How it was written.
        kind: LoopKind,
        /// Iterations.
        trip: Option<u32>,
    },
    /// The next iteration of the innermost loop begins.
    Iteration,
    /// The innermost loop has ended.
    EndLoop,
    /// What follows keeps its order.
    NoReorder,
    /// What keeps its order has ended.
    EndNoReorder,
}

impl Mark {
    /// `op` of its step.
    pub const fn name(self) -> &'static str {
        match self {
            Mark::Loop { .. } => "loop",
            Mark::Iteration => "iteration",
            Mark::EndLoop => "end_loop",
            Mark::NoReorder => "no_reorder",
            Mark::EndNoReorder => "end_no_reorder",
        }
    }

    /// Whether such a step is a mark.
    pub(super) fn is_one(op: &str) -> bool {
        matches!(op, "loop" | "iteration" | "end_loop" | "no_reorder" | "end_no_reorder")
    }

    /// Tells a core, which notes it in the trace that it keeps; `is_ordered`: what follows keeps its order.
    pub(super) fn take(self, core: &mut NeuronCore, is_ordered: bool) {
        match self {
            Mark::Loop { kind, trip } => {
                let site = core.state.site;
                core.begin_loop(kind, trip, site);
            }
            Mark::Iteration => core.next_iteration(),
            Mark::EndLoop => core.end_loop(),
            Mark::NoReorder | Mark::EndNoReorder => core.set_ordered(is_ordered),
        }
    }

    /// The step's words.
    pub(super) fn encode(self) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("op".to_owned(), self.name().into());
        if let Mark::Loop { kind, trip } = self {
            map.insert("kind".to_owned(), kind.name().into());
            if let Some(trip) = trip {
                map.insert("trip".to_owned(), json!(trip));
            }
        }
        map
    }

    /// The mark of a step; None for a step of another kind.
    pub(super) fn decode(op: &str, step: &Map<String, Value>) -> Result<Option<Self>, String> {
        let (mark, known): (_, &[&str]) = match op {
            "loop" => (Mark::Loop { kind: kind_of(step)?, trip: trip_of(step)? }, &["kind", "trip"]),
            "iteration" => (Mark::Iteration, &[]),
            "end_loop" => (Mark::EndLoop, &[]),
            "no_reorder" => (Mark::NoReorder, &[]),
            "end_no_reorder" => (Mark::EndNoReorder, &[]),
            _ => return Ok(None),
        };
        match step.keys().find(|key| *key != "op" && !known.contains(&key.as_str())) {
            Some(key) if known.is_empty() => Err(format!("has argument {key:?}; it takes none")),
            Some(key) => Err(format!("has argument {key:?}; it takes {}", known.join(", "))),
            None => Ok(Some(mark)),
        }
    }
}

fn kind_of(step: &Map<String, Value>) -> Result<LoopKind, String> {
    let given = step.get("kind").unwrap_or(&Value::Null);
    let found = given.as_str().and_then(|name| name.parse().ok());
    found.ok_or_else(|| format!("kind is {given}; allowed: {}", LoopKind::ALL.map(LoopKind::name).join(", ")))
}

fn trip_of(step: &Map<String, Value>) -> Result<Option<u32>, String> {
    let trip = step.get("trip").filter(|trip| !trip.is_null());
    let read = |trip: &Value| Ok(number(trip, "trip", 0, i64::from(u32::MAX))?.unsigned_abs() as u32);
    trip.map(read).transpose()
}

/// Loops and stretches that have begun and not ended.
#[derive(Default)]
pub(super) struct Nesting {
    open: Vec<Open>,
    /// How many of them are stretches that keep their order.
    orders: usize,
}

enum Open {
    Loop { step: usize, trip: Option<u32>, iterations: u32 },
    Order { step: usize },
}

/// Loops and stretches in one another.
const DEEPEST: usize = 1024;

impl Nesting {
    /// Refuses a mark that does not belong where it stands.
    pub(super) fn take(&mut self, step: usize, mark: Mark) -> Result<(), String> {
        let is_full = self.open.len() >= DEEPEST;
        match (mark, self.open.last_mut()) {
            (Mark::Loop { .. } | Mark::NoReorder, _) if is_full => Err(format!("is nested more than {DEEPEST} deep")),
            (Mark::Loop { trip, .. }, _) => {
                self.open.push(Open::Loop { step, trip, iterations: 0 });
                Ok(())
            }
            (Mark::NoReorder, _) => {
                self.open.push(Open::Order { step });
                self.orders += 1;
                Ok(())
            }
            (Mark::Iteration, Some(Open::Loop { step, trip, iterations })) => {
                *iterations = iterations.saturating_add(1);
                match trip {
                    Some(trip) if *iterations > *trip => {
                        Err(format!("is one more than the trip of the loop of step {step}, which is {trip}"))
                    }
                    _ => Ok(()),
                }
            }
            (Mark::EndLoop, Some(Open::Loop { .. })) | (Mark::EndNoReorder, Some(Open::Order { .. })) => {
                self.orders -= usize::from(mark == Mark::EndNoReorder);
                self.open.pop();
                Ok(())
            }
            (mark, None) => Err(format!("belongs to a {}, and none is open", begins(mark))),
            (_, Some(open)) => {
                let (begun, step, end) = (begins_with(open), open.step(), open.end().name());
                Err(format!("stands in the {begun} that step {step} began; {end} comes first"))
            }
        }
    }

    /// Whether what stands here keeps its order.
    pub(super) fn is_ordered(&self) -> bool {
        self.orders > 0
    }

    /// What ends all that has begun, the innermost first.
    pub(super) fn ends(&self) -> impl Iterator<Item = Mark> + '_ {
        self.open.iter().rev().map(Open::end)
    }

    /// The step that began what has not ended, and what that is.
    pub(super) fn unended(&self) -> Option<(usize, &'static str)> {
        self.open.last().map(|open| (open.step(), begins_with(open)))
    }
}

impl Open {
    fn end(&self) -> Mark {
        match self {
            Open::Loop { .. } => Mark::EndLoop,
            Open::Order { .. } => Mark::EndNoReorder,
        }
    }

    fn step(&self) -> usize {
        match self {
            Open::Loop { step, .. } | Open::Order { step } => *step,
        }
    }
}

fn begins_with(open: &Open) -> &'static str {
    match open {
        Open::Loop { .. } => "loop",
        Open::Order { .. } => "no_reorder",
    }
}

fn begins(mark: Mark) -> &'static str {
    if matches!(mark, Mark::EndNoReorder) { "no_reorder" } else { "loop" }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(marks: &[Mark]) -> Result<Option<(usize, &'static str)>, String> {
        let mut nesting = Nesting::default();
        for (step, &mark) in marks.iter().enumerate() {
            nesting.take(step, mark).map_err(|text| format!("{step}: {text}"))?;
        }
        Ok(nesting.unended())
    }

    #[test]
    fn test_marks_nest() {
        let twice = Mark::Loop { kind: LoopKind::Affine, trip: Some(2) };
        let unknown = Mark::Loop { kind: LoopKind::Dynamic, trip: None };
        let whole = [
            twice,
            Mark::Iteration,
            Mark::NoReorder,
            unknown,
            Mark::Iteration,
            Mark::EndLoop,
            Mark::EndNoReorder,
            Mark::Iteration,
            Mark::EndLoop,
        ];
        assert_eq!(taken(&whole), Ok(None));
        assert_eq!(taken(&whole[..4]), Ok(Some((3, "loop"))));
        assert_eq!(taken(&[Mark::NoReorder]), Ok(Some((0, "no_reorder"))));
        for (marks, words) in [
            (&[Mark::Iteration][..], "0: belongs to a loop, and none is open"),
            (&[twice, Mark::EndLoop, Mark::EndLoop], "2: belongs to a loop, and none is open"),
            (&[Mark::EndNoReorder], "0: belongs to a no_reorder, and none is open"),
            (&[twice, Mark::EndNoReorder], "1: stands in the loop that step 0 began; end_loop comes first"),
            (
                &[twice, Mark::Iteration, Mark::NoReorder, Mark::EndLoop],
                "3: stands in the no_reorder that step 2 began; end_no_reorder comes first",
            ),
            (
                &[twice, Mark::Iteration, Mark::Iteration, Mark::Iteration],
                "3: is one more than the trip of the loop of step 0, which is 2",
            ),
        ] {
            assert_eq!(taken(marks), Err(words.to_owned()));
        }
        assert!(taken(&[Mark::NoReorder; DEEPEST + 1]).expect_err("too deep").contains("more than 1024 deep"));
    }

    #[test]
    fn test_words_are_read_as_they_are_written() {
        let kinds = LoopKind::ALL.map(|kind| Mark::Loop { kind, trip: Some(3) });
        let others = [Mark::Iteration, Mark::EndLoop, Mark::NoReorder, Mark::EndNoReorder];
        let unknown = Mark::Loop { kind: LoopKind::Dynamic, trip: None };
        for mark in kinds.into_iter().chain(others).chain([unknown]) {
            assert_eq!(Mark::decode(mark.name(), &mark.encode()), Ok(Some(mark)));
        }
        let refusal = |op: &str, words: Value| {
            let Value::Object(mut words) = words else { panic!("an object is meant") };
            words.insert("op".to_owned(), op.into());
            Mark::decode(op, &words).expect_err("a refusal")
        };
        let kinds = "allowed: affine_range, sequential_range, static_range, dynamic_range";
        assert_eq!(refusal("loop", json!({})), format!("kind is null; {kinds}"));
        assert_eq!(refusal("loop", json!({"kind": "range"})), format!("kind is \"range\"; {kinds}"));
        assert!(refusal("loop", json!({"kind": "static_range", "trip": -1})).starts_with("trip is -1; allowed"));
        assert!(refusal("loop", json!({"kind": "static_range", "label": "x"})).contains("it takes kind, trip"));
        assert!(refusal("iteration", json!({"label": "x"})).ends_with("it takes none"));
        assert_eq!(Mark::decode("memset", &Map::new()), Ok(None));
    }
}
