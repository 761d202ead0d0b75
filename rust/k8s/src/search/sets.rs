//! Sets of devices for one request, in the order in which they are tried.

use crate::bits::Bits;
use crate::layout::LayoutShape;
use crate::score::PlacementScore;
use crate::search::SearchRule;

/// Sets of a request that are all scored before any is tried; beyond, sets are grown from seeds.
const SCORED_SETS: u128 = 13_000;

/// How many sets of `count` there are; the largest number if there are more.
pub(super) fn choices(of: usize, count: usize) -> u128 {
    if count > of {
        return 0;
    }
    let mut found: u128 = 1;
    for step in 1..=count.min(of - count) as u128 {
        match found.checked_mul(of as u128 + 1 - step) {
            Some(product) => found = product / step,
            None => return u128::MAX,
        }
    }
    found
}

/// All sets of `count` positions, the best first as far as they can all be scored.
pub(super) fn sets<'a>(
    shape: &'a LayoutShape,
    free: &'a Bits,
    positions: &'a [usize],
    count: usize,
    rules: &'a [&'a SearchRule],
) -> Box<dyn Iterator<Item = Vec<usize>> + 'a> {
    if count == 0 || count > positions.len() {
        return Box::new(std::iter::empty());
    }
    let all = Combinations { positions, count, places: Some((0..count).collect()) };
    if !rules.is_empty() {
        // Sets that a distinct constraint rules out are never built.
        return Box::new(Distinct { positions, count, rules, places: Vec::new(), next: 0 });
    }
    if choices(positions.len(), count) <= SCORED_SETS {
        return Box::new(best_first(shape, free, all));
    }
    let mut grown: Vec<Vec<usize>> = positions.iter().map(|seed| grow(shape, positions, *seed, count)).collect();
    grown.sort_unstable();
    grown.dedup();
    Box::new(best_first(shape, free, grown.into_iter()).chain(all))
}

fn best_first(
    shape: &LayoutShape,
    free: &Bits,
    sets: impl Iterator<Item = Vec<usize>>,
) -> impl Iterator<Item = Vec<usize>> {
    let mut scored: Vec<(PlacementScore, Vec<usize>)> = sets.map(|set| (shape.score(&set, free, &[]), set)).collect();
    scored.sort_unstable();
    scored.into_iter().map(|(_, set)| set)
}

/// Whether the devices have values of each rule's attribute, all different.
pub(super) fn differ(rules: &[&SearchRule], chosen: &[usize]) -> bool {
    rules.iter().all(|rule| {
        let mut seen = Vec::with_capacity(chosen.len());
        chosen.iter().all(|position| match rule.values[*position] {
            Some(value) if !seen.contains(&value) => {
                seen.push(value);
                true
            }
            _ => false,
        })
    })
}

/// A set grown from a seed by what is nearest to all of it.
fn grow(shape: &LayoutShape, positions: &[usize], seed: usize, count: usize) -> Vec<usize> {
    let mut chosen = vec![seed];
    let mut rest: Vec<usize> = positions.iter().copied().filter(|position| *position != seed).collect();
    while chosen.len() < count {
        let far = |position: usize| chosen.iter().map(|each| shape.distance(position, *each)).sum::<u32>();
        let Some(nearest) = rest.iter().copied().min_by_key(|position| (far(*position), *position)) else { break };
        chosen.push(nearest);
        rest.retain(|position| *position != nearest);
    }
    chosen.sort_unstable();
    chosen
}

/// Sets in the order of their positions.
struct Combinations<'a> {
    positions: &'a [usize],
    count: usize,
    places: Option<Vec<usize>>,
}

impl Iterator for Combinations<'_> {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        let places = self.places.clone()?;
        let last = self.positions.len() - self.count;
        let moving = (0..self.count).rev().find(|index| places[*index] < last + index);
        self.places = moving.map(|index| {
            let mut next = places.clone();
            let first = next[index] + 1;
            next[index..].iter_mut().enumerate().for_each(|(step, place)| *place = first + step);
            next
        });
        Some(places.iter().map(|place| self.positions[*place]).collect())
    }
}

/// The same without those whose values are not all different.
struct Distinct<'a> {
    positions: &'a [usize],
    count: usize,
    rules: &'a [&'a SearchRule],
    /// Places of the devices that are chosen, and the place that is looked at next.
    places: Vec<usize>,
    next: usize,
}

impl Iterator for Distinct<'_> {
    type Item = Vec<usize>;

    fn next(&mut self) -> Option<Vec<usize>> {
        loop {
            let wanted = self.count - self.places.len();
            if self.next + wanted > self.positions.len() {
                // None is left for this place: the one before it moves on.
                self.next = self.places.pop()? + 1;
                continue;
            }
            self.places.push(self.next);
            let chosen: Vec<usize> = self.places.iter().map(|place| self.positions[*place]).collect();
            self.next += 1;
            if !differ(self.rules, &chosen) {
                self.places.pop();
            } else if chosen.len() == self.count {
                self.places.pop();
                return Some(chosen);
            }
        }
    }
}
