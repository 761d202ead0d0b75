//! The search for devices on one node: complete, deterministic, best first.
//!
//! For every way to fix the values of the match constraints, the requests are filled one after the other, each with its
//! sets of devices in the order of their score, and a set is given up when the requests after it cannot be filled. The
//! first full assignment of every way is kept, and the best of them wins. With one request that is the best set there is;
//! with several it is a good one **(choice)**.

mod seats;
mod sets;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::bits::Bits;
use crate::counters::NodeCounters;
use crate::error::{Error, Result, check_interrupt};
use crate::layout::LayoutShape;
use crate::score::PlacementScore;

/// Sets that are tried on a node before the search gives up.
const STEPS: usize = 200_000;

/// Combinations of values of match constraints that are tried.
const WAYS: usize = 4_096;

/// A request on a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Want {
    /// How many devices; `None` for all candidates.
    pub(crate) count: Option<usize>,
    /// Positions of the devices that match.
    pub(crate) candidates: Arc<[usize]>,
    /// Whether devices that are taken will do.
    pub(crate) admin: bool,
}

/// A constraint on a node: which wants it covers, and a number for each device's value of its attribute.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SearchRule {
    pub(crate) wants: Vec<usize>,
    pub(crate) values: Arc<[Option<u32>]>,
    pub(crate) distinct: bool,
}

/// Positions of devices by want, and what they cost.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assignment {
    pub(crate) sets: Vec<Vec<usize>>,
    pub(crate) score: PlacementScore,
}

/// The best assignment of devices to wants, or `None` if there is none; `opened` is the entry of the score that depends
/// on the node alone.
///
/// # Errors
/// [`Error::SearchLimit`] if there are too many ways.
pub(crate) fn search(
    shape: &LayoutShape,
    free: &Bits,
    counters: &NodeCounters,
    wants: &[Want],
    rules: &[SearchRule],
    opened: &[usize],
) -> Result<Option<Assignment>> {
    let distinct: Vec<&SearchRule> = rules.iter().filter(|rule| rule.distinct).collect();
    let matches: Vec<&SearchRule> = rules.iter().filter(|rule| !rule.distinct).collect();
    let Some(usable) = usable(shape, free, wants, &distinct) else { return Ok(None) };
    let choices: Vec<Vec<u32>> = matches.iter().map(|rule| values(rule, &usable)).collect();
    let mut best: Option<Assignment> = None;
    let mut steps = STEPS;
    for (number, way) in ways(&choices).enumerate() {
        if number >= WAYS {
            return Err(Error::SearchLimit);
        }
        let agrees = |index: usize, position: usize| {
            let mut fixed = matches.iter().zip(&way).filter(|(rule, _)| rule.wants.contains(&index));
            fixed.all(|(rule, value)| rule.values[position] == Some(*value))
        };
        let kept = |(index, positions): (usize, &Vec<usize>)| {
            positions.iter().copied().filter(|position| agrees(index, *position)).collect()
        };
        let allowed: Vec<Vec<usize>> = usable.iter().enumerate().map(kept).collect();
        let is_short = |index: usize| allowed[index].len() < wants[index].count.unwrap_or(usable[index].len());
        if (0..wants.len()).any(is_short) {
            continue;
        }
        // The most constrained request first: fewest sets to choose from.
        let mut order: Vec<usize> = (0..wants.len()).collect();
        order.sort_by_key(|index| {
            let count = wants[*index].count.unwrap_or(allowed[*index].len());
            (sets::choices(allowed[*index].len(), count), *index)
        });
        let filling = Filling { shape, free, counters, wants, allowed: &allowed, distinct: &distinct, order: &order };
        let mut done = vec![None; wants.len()];
        if !filling.fill(0, &mut done, &Bits::none(shape.footprint.len()), &mut steps)? {
            continue;
        }
        let sets: Vec<Vec<usize>> = done.into_iter().map(Option::unwrap_or_default).collect();
        let taken: Vec<usize> =
            sets.iter().zip(wants).filter(|(_, want)| !want.admin).flat_map(|(set, _)| set).copied().collect();
        let found = Assignment { score: shape.score(&taken, free, opened), sets };
        if best.as_ref().is_none_or(|best| (&found.score, &found.sets) < (&best.score, &best.sets)) {
            best = Some(found);
        }
    }
    Ok(best)
}

/// The devices that each want may have now; `None` if one has too few.
fn usable(shape: &LayoutShape, free: &Bits, wants: &[Want], distinct: &[&SearchRule]) -> Option<Vec<Vec<usize>>> {
    let mut usable = Vec::with_capacity(wants.len());
    for (index, want) in wants.iter().enumerate() {
        let is_free = |position: &usize| want.admin || shape.footprint[*position].is_within(free);
        let positions: Vec<usize> = want.candidates.iter().copied().filter(is_free).collect();
        // "All" means all: one that is taken, or cannot differ from others, fails the request.
        let misses = want.count.is_none() && positions.len() < want.candidates.len();
        if misses || positions.len() < want.count.unwrap_or(1) {
            return None;
        }
        let rules: Vec<_> = distinct.iter().filter(|rule| rule.wants.contains(&index)).collect();
        let has_all = |position: &usize| rules.iter().all(|rule| rule.values[*position].is_some());
        let kept: Vec<usize> = positions.iter().copied().filter(has_all).collect();
        if want.count.is_none() && kept.len() < positions.len() {
            return None;
        }
        usable.push(kept);
    }
    Some(usable)
}

/// The values that the devices of a rule's wants have, in the order of their texts.
fn values(rule: &SearchRule, usable: &[Vec<usize>]) -> Vec<u32> {
    let positions = rule.wants.iter().flat_map(|want| &usable[*want]);
    let found: BTreeSet<u32> = positions.filter_map(|position| rule.values[*position]).collect();
    let mut found: Vec<u32> = found.into_iter().collect();
    found.sort_by_key(u32::to_string);
    found
}

/// Every way to take one of each, the last changing first.
fn ways<T: Clone>(choices: &[Vec<T>]) -> impl Iterator<Item = Vec<T>> {
    let mut places = (!choices.iter().any(Vec::is_empty)).then(|| vec![0; choices.len()]);
    std::iter::from_fn(move || {
        let current = places.clone()?;
        let next = (0..choices.len()).rev().find(|index| current[*index] + 1 < choices[*index].len());
        places = next.map(|index| {
            let mut next = current.clone();
            next[index] += 1;
            next[index + 1..].fill(0);
            next
        });
        Some(current.iter().zip(choices).map(|(place, values)| values[*place].clone()).collect())
    })
}

/// One way, of which the wants are filled in an order.
struct Filling<'a> {
    shape: &'a LayoutShape,
    free: &'a Bits,
    counters: &'a NodeCounters,
    wants: &'a [Want],
    allowed: &'a [Vec<usize>],
    distinct: &'a [&'a SearchRule],
    order: &'a [usize],
}

impl Filling<'_> {
    /// Fills the wants from the `at`-th on; whether that can be done.
    fn fill(&self, at: usize, done: &mut Vec<Option<Vec<usize>>>, taken: &Bits, steps: &mut usize) -> Result<bool> {
        let Some(&index) = self.order.get(at) else { return Ok(true) };
        let want = &self.wants[index];
        let is_open = |position: &usize| want.admin || !self.shape.footprint[*position].meets(taken);
        let positions: Vec<usize> = self.allowed[index].iter().copied().filter(is_open).collect();
        let count = want.count.unwrap_or(self.allowed[index].len());
        let rules: Vec<&SearchRule> =
            self.distinct.iter().copied().filter(|rule| rule.wants.contains(&index)).collect();
        let mut free = self.free.clone();
        free.remove(taken);
        for chosen in sets::sets(self.shape, &free, &positions, count, &rules) {
            check_interrupt()?;
            *steps = steps.checked_sub(1).ok_or(Error::SearchLimit)?;
            if !self.is_disjoint(&chosen)
                || !self.is_counted(index, &chosen, done)
                || !differ_from(&rules, &chosen, done)
            {
                continue;
            }
            let mut bits = taken.clone();
            if !want.admin {
                chosen.iter().for_each(|position| bits.add(&self.shape.footprint[*position]));
            }
            if !seats::can_fill(self.shape, self.wants, self.allowed, &self.order[at + 1..], &bits) {
                continue;
            }
            done[index] = Some(chosen);
            if self.fill(at + 1, done, &bits, steps)? {
                return Ok(true);
            }
            done[index] = None;
        }
        Ok(false)
    }

    /// Whether counters have enough for a want's devices beside those of the wants that are done.
    fn is_counted(&self, index: usize, chosen: &[usize], done: &[Option<Vec<usize>>]) -> bool {
        let held = self.wants.iter().zip(done).filter(|(want, _)| !want.admin).filter_map(|(_, set)| set.as_ref());
        self.wants[index].admin || self.counters.allow(held.flatten().chain(chosen).copied())
    }

    fn is_disjoint(&self, chosen: &[usize]) -> bool {
        let mut bits = Bits::none(self.shape.footprint.len());
        chosen.iter().all(|position| {
            let footprint = &self.shape.footprint[*position];
            let apart = !footprint.meets(&bits);
            bits.add(footprint);
            apart
        })
    }
}

/// Whether devices differ from each other and from those that the rules' other wants have.
fn differ_from(rules: &[&SearchRule], chosen: &[usize], done: &[Option<Vec<usize>>]) -> bool {
    rules.iter().all(|rule| {
        let others = rule.wants.iter().filter_map(|want| done[*want].as_ref()).flatten();
        let all: Vec<usize> = chosen.iter().chain(others).copied().collect();
        sets::differ(&[*rule], &all)
    })
}

#[cfg(test)]
mod tests;
