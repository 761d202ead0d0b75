//! Patterns: the elementary exchanges that schedules are made of, on members `0..n` and units of data.
//!
//! All that gather begin with unit `i` at member `i` and end with all units everywhere.

use std::ops::Range;

/// A transfer of a pattern. Numbers are indices of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// The member that sends.
    pub from: u32,
    /// The member that receives.
    pub to: u32,
    /// A second member that receives from the same read.
    pub with: Option<u32>,
    /// The units.
    pub units: Range<u32>,
    /// Whether it is the exchange of a pair's own units.
    pub is_own: bool,
}

/// An elementary exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepPattern {
    /// Gathers: in step `s` member `i` sends unit `i - s` to member `i + 1`.
    Ring,
    /// Gathers: members `2 p` and `2 p + 1` are a pair; pairs are a ring and come chip by chip, `pairs` on each. The
    /// first of a pair sends both members' units on and writes to both of the next pair. What comes from a chip does
    /// not return to it by wire: its first pair takes it from the pair that it began at.
    PairRing {
        /// Pairs on a chip.
        pairs: u32,
    },
    /// Gathers in one step: everyone sends its unit to everyone.
    Exchange,
    /// First half of a mesh: members come chip by chip, `per_chip` on each. The units of a chip go to every other chip,
    /// there to the member whose turn it is.
    MeshAcross {
        /// Members on a chip.
        per_chip: u32,
    },
    /// Second half of a mesh: what came is passed on within the chip.
    MeshWithin {
        /// Members on a chip.
        per_chip: u32,
    },
    /// Gathers: `n` is a power of two; in step `s` the partners `i` and `i ^ 2^s` exchange all that they have.
    Doubling,
    /// Reduces in one step: everyone sends all units to everyone.
    ReduceExchange {
        /// Number of units.
        units: u32,
    },
    /// Spreads units of member 0 along a chain, one unit behind the other.
    Chain {
        /// Number of units.
        units: u32,
    },
    /// Spreads units of member 0 over a tree: in step `s` members below `2^s` send to the member `2^s` above.
    Binomial {
        /// Number of units.
        units: u32,
    },
    /// Unit `i * n + j` goes from `i` to `j`, in one step.
    AllPairs,
    /// The same; in step `s` member `i` sends to `i + s + 1`.
    Rotation,
    /// One step of given moves: `(from, to, unit)`.
    Given(Vec<(u32, u32, u32)>),
}

impl StepPattern {
    /// Whether targets reduce although the pattern is not run backwards.
    pub(super) fn reduces(&self) -> bool {
        matches!(self, Self::ReduceExchange { .. })
    }

    /// Steps for `n` members.
    pub fn steps(&self, n: usize) -> u32 {
        let n = n as u32;
        match self {
            _ if n <= 1 => 0,
            Self::Ring | Self::Rotation => n - 1,
            Self::PairRing { .. } => (n / 2 - 1).max(1),
            Self::Exchange | Self::ReduceExchange { .. } | Self::AllPairs => 1,
            Self::MeshAcross { per_chip } => u32::from(n > *per_chip),
            Self::MeshWithin { per_chip } => u32::from(*per_chip > 1),
            Self::Doubling | Self::Binomial { .. } => n.next_power_of_two().ilog2(),
            Self::Chain { units } => n - 1 + units - 1,
            Self::Given(moves) => u32::from(!moves.is_empty()),
        }
    }

    /// Steps whose moves have equal sizes and the same senders and receivers, as `(one of them, how many)`.
    pub(super) fn classes(&self, n: usize) -> Vec<(u32, u32)> {
        let steps = self.steps(n);
        match self {
            _ if steps == 0 => Vec::new(),
            Self::Ring => vec![(0, steps)],
            // The first step has the pairs' own exchange; the last ones have no wire.
            Self::PairRing { pairs } if steps > *pairs + 1 => {
                let mut classes = vec![(0, 1), (1, steps - pairs)];
                classes.extend((steps - pairs + 1..steps).map(|step| (step, 1)));
                classes
            }
            _ => (0..steps).map(|step| (step, 1)).collect(),
        }
    }

    /// Calls `each` with the moves of a step.
    pub(super) fn moves(&self, n: usize, step: u32, each: &mut dyn FnMut(Move)) {
        let n = n as u32;
        let mut one = |from: u32, to: u32, units: Range<u32>| each(Move { from, to, with: None, units, is_own: false });
        match self {
            Self::Ring => {
                for i in 0..n {
                    let unit = (i + n - step) % n;
                    one(i, (i + 1) % n, unit..unit + 1);
                }
            }
            Self::PairRing { pairs } => pair_ring(n / 2, *pairs, step, each),
            Self::Exchange => {
                for i in 0..n {
                    (0..n).filter(|&j| j != i).for_each(|j| one(i, j, i..i + 1));
                }
            }
            Self::MeshAcross { per_chip } => {
                let chips = n / per_chip;
                for chip in 0..chips {
                    for other in (0..chips).filter(|&other| other != chip) {
                        let turn = (other + chips - chip - 1) % chips % per_chip;
                        for k in 0..*per_chip {
                            let unit = chip * per_chip + k;
                            one(unit, other * per_chip + turn, unit..unit + 1);
                        }
                    }
                }
            }
            Self::MeshWithin { per_chip } => {
                let chips = n / per_chip;
                for chip in 0..chips {
                    for unit in 0..n {
                        let (origin, k) = (unit / per_chip, unit % per_chip);
                        let turn = if origin == chip { k } else { (chip + chips - origin - 1) % chips % per_chip };
                        for other in (0..*per_chip).filter(|&other| other != turn) {
                            one(chip * per_chip + turn, chip * per_chip + other, unit..unit + 1);
                        }
                    }
                }
            }
            Self::Doubling => {
                for i in 0..n {
                    let first = i >> step << step;
                    one(i, i ^ (1 << step), first..first + (1 << step));
                }
            }
            Self::ReduceExchange { units } => {
                for i in 0..n {
                    (0..n).filter(|&j| j != i).for_each(|j| one(i, j, 0..*units));
                }
            }
            Self::Chain { units } => {
                for i in 0..n - 1 {
                    if let Some(unit) = step.checked_sub(i).filter(|unit| unit < units) {
                        one(i, i + 1, unit..unit + 1);
                    }
                }
            }
            Self::Binomial { units } => {
                for i in 0..(1 << step).min(n) {
                    if i + (1 << step) < n {
                        one(i, i + (1 << step), 0..*units);
                    }
                }
            }
            Self::AllPairs => {
                for i in 0..n {
                    (0..n).filter(|&j| j != i).for_each(|j| one(i, j, i * n + j..i * n + j + 1));
                }
            }
            Self::Rotation => {
                for i in 0..n {
                    let j = (i + step + 1) % n;
                    one(i, j, i * n + j..i * n + j + 1);
                }
            }
            Self::Given(moves) => moves.iter().for_each(|&(from, to, unit)| one(from, to, unit..unit + 1)),
        }
    }
}

fn pair_ring(count: u32, per_chip: u32, step: u32, each: &mut dyn FnMut(Move)) {
    if step == 0 {
        for pair in 0..count {
            for (from, to) in [(2 * pair, 2 * pair + 1), (2 * pair + 1, 2 * pair)] {
                each(Move { from, to, with: None, units: from..from + 1, is_own: true });
            }
        }
    }
    for pair in 0..count {
        let next = (pair + 1) % count;
        let origin = (pair + count - step) % count;
        if next == origin {
            continue;
        }
        let returns = next.is_multiple_of(per_chip) && origin / per_chip == next / per_chip;
        let mut send = |from: u32, units: Range<u32>| {
            each(Move { from, to: 2 * next, with: Some(2 * next + 1), units, is_own: false });
        };
        if step == 0 || returns {
            send(2 * origin, 2 * origin..2 * origin + 1);
            send(2 * origin + 1, 2 * origin + 1..2 * origin + 2);
        } else {
            send(2 * pair, 2 * origin..2 * origin + 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a gathering pattern on sets of units.
    fn gathers(pattern: &[StepPattern], n: usize) {
        let mut held: Vec<Vec<bool>> = (0..n).map(|i| (0..n).map(|unit| unit == i).collect()).collect();
        for pattern in pattern {
            for step in 0..pattern.steps(n) {
                let before = held.clone();
                pattern.moves(n, step, &mut |one| {
                    for unit in one.units {
                        assert!(before[one.from as usize][unit as usize], "{pattern:?} step {step} unit {unit}");
                        for to in [Some(one.to), one.with].into_iter().flatten() {
                            // Never twice: run backwards, a contribution would be counted twice.
                            assert!(!held[to as usize][unit as usize], "{pattern:?} step {step} unit {unit} again");
                            held[to as usize][unit as usize] = true;
                        }
                    }
                });
            }
        }
        assert!(held.iter().flatten().all(|&is_there| is_there), "{pattern:?} of {n}");
    }

    #[test]
    fn test_gathering_patterns_bring_every_unit_everywhere_once() {
        for n in [1, 2, 3, 7, 16] {
            gathers(&[StepPattern::Ring], n);
            gathers(&[StepPattern::Exchange], n);
        }
        for n in [1, 2, 8, 64] {
            gathers(&[StepPattern::Doubling], n);
        }
        for per_chip in [1, 2, 4] {
            for chips in [1, 2, 3, 8] {
                let n = (per_chip * chips) as usize;
                gathers(&[StepPattern::MeshAcross { per_chip }, StepPattern::MeshWithin { per_chip }], n);
                gathers(&[StepPattern::PairRing { pairs: per_chip }], 2 * n);
            }
        }
    }

    #[test]
    fn test_classes_cover_all_steps() {
        for (pattern, n) in [
            (StepPattern::Ring, 16),
            (StepPattern::PairRing { pairs: 2 }, 64),
            (StepPattern::PairRing { pairs: 4 }, 128),
            (StepPattern::PairRing { pairs: 2 }, 4),
            (StepPattern::Doubling, 16),
            (StepPattern::Chain { units: 5 }, 9),
        ] {
            let total: u32 = pattern.classes(n).iter().map(|(_, count)| count).sum();
            assert_eq!(total, pattern.steps(n), "{pattern:?}");
        }
    }

    #[test]
    fn test_pair_ring_takes_half_the_steps() {
        assert_eq!(StepPattern::PairRing { pairs: 2 }.steps(64), 31);
        assert_eq!(StepPattern::Ring.steps(64), 63);
    }
}
