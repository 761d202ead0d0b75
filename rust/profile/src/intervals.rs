//! Spans of time, each a start and an end: unions, gaps, lanes and sums by bin.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A start, and an end that is no earlier.
pub(crate) type Span = (u64, u64);

/// How long at least one span lasts.
pub(crate) fn union_length(mut spans: Vec<Span>) -> u64 {
    if !spans.is_sorted() {
        spans.sort_unstable();
    }
    let (mut until, mut sum) = (0, 0);
    for (start, end) in spans {
        sum += end.saturating_sub(start.max(until));
        until = until.max(end);
    }
    sum
}

/// Places of spans by rising start, and of equal starts by rising end.
pub(crate) fn order(spans: &[Span]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..spans.len()).collect();
    order.sort_by_key(|&place| spans[place]);
    order
}

/// For each span, how long no earlier one, nor time before 0, covers ahead of its start.
pub(crate) fn gaps(spans: &[Span]) -> Vec<u64> {
    let mut room = vec![0; spans.len()];
    let mut until = 0;
    for place in order(spans) {
        let (start, end) = spans[place];
        room[place] = start.saturating_sub(until);
        until = until.max(end);
    }
    room
}

/// For each span a lane, from 0, the lowest that is free, such that no two spans of one lane overlap.
pub(crate) fn lanes(spans: &[Span]) -> Vec<usize> {
    let mut chosen = vec![0; spans.len()];
    let mut free = BinaryHeap::new();
    let mut running: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut used = 0;
    for place in order(spans) {
        let (start, end) = spans[place];
        while let Some(&Reverse((until, lane))) = running.peek()
            && until <= start
        {
            running.pop();
            free.push(Reverse(lane));
        }
        let lane = free.pop().map_or(used, |Reverse(lane)| lane);
        used = used.max(lane + 1);
        chosen[place] = lane;
        running.push(Reverse((end, lane)));
    }
    chosen
}

/// How much of amounts, each spread evenly over its span, falls between edges that rise. A span without length counts as
/// one of length 1.
///
/// ```
/// let sums = trn3_profile::sum_by_bin(&[(0, 4)], &[8.0], &[0.0, 1.0, 4.0, 9.0]);
/// assert_eq!(sums, [2.0, 6.0, 0.0]);
/// ```
pub fn sum_by_bin(spans: &[(u64, u64)], amounts: &[f64], edges: &[f64]) -> Vec<f64> {
    if spans.is_empty() || edges.is_empty() {
        return vec![0.0; edges.len().saturating_sub(1)];
    }
    // The rate changes where a span begins or ends; between, the sum grows linearly.
    let mut changes = Vec::with_capacity(2 * spans.len());
    let rate = |&((start, end), amount): &(Span, f64)| amount / (end.max(start + 1) - start) as f64;
    let rated = || spans.iter().copied().zip(amounts.iter().copied());
    changes.extend(rated().map(|span| (span.0.0, rate(&span))));
    changes.extend(rated().map(|span| (span.0.1.max(span.0.0 + 1), -rate(&span))));
    changes.sort_by_key(|&(time, _)| time);
    let mut sums = Vec::with_capacity(changes.len());
    let (mut total, mut rate, mut before) = (0.0, 0.0f64, changes[0].0);
    for &(time, change) in &changes {
        total += rate.max(0.0) * (time - before) as f64;
        sums.push((time as f64, total));
        rate += change;
        before = time;
    }
    let at: Vec<f64> = edges.iter().map(|&edge| interpolate(&sums, edge)).collect();
    at.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// The value at a place of what is linear between points; before the first and after the last, theirs.
fn interpolate(points: &[(f64, f64)], place: f64) -> f64 {
    let next = points.partition_point(|point| point.0 <= place);
    let (Some(left), Some(right)) = (next.checked_sub(1).map(|last| points[last]), points.get(next)) else {
        return if next == 0 { points[0].1 } else { points[points.len() - 1].1 };
    };
    if left.0 == place {
        return left.1;
    }
    (right.1 - left.1) / (right.0 - left.0) * (place - left.0) + left.1
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn spans() -> impl Strategy<Value = Vec<Span>> {
        prop::collection::vec((0u64..60, 0u64..20).prop_map(|(start, length)| (start, start + length)), 0..12)
    }

    #[test]
    fn test_examples_by_hand() {
        assert_eq!(union_length(vec![(0, 5), (2, 4), (10, 12)]), 7);
        assert_eq!(gaps(&[(3, 5), (4, 8), (10, 12)]), [3, 0, 2]);
        assert_eq!(lanes(&[(0, 5), (2, 4), (5, 7), (6, 7)]), [0, 1, 0, 1]);
    }

    proptest! {
        #[test]
        fn test_unions_and_lanes_against_sets_of_points(spans in spans()) {
            let covered: BTreeSet<u64> = spans.iter().flat_map(|&(start, end)| start..end).collect();
            prop_assert_eq!(union_length(spans.clone()), covered.len() as u64);
            let found = lanes(&spans);
            for lane in &found {
                let own = spans.iter().zip(&found).filter(|(_, other)| *other == lane);
                let points: Vec<u64> = own.flat_map(|(&(start, end), _)| start..end).collect();
                prop_assert_eq!(points.iter().collect::<BTreeSet<_>>().len(), points.len());
            }
            let deep = |point: &u64| spans.iter().filter(|&&(start, end)| (start..end).contains(point)).count();
            let deepest = covered.iter().map(deep).max().unwrap_or(0);
            let long = spans.iter().zip(&found).filter(|((start, end), _)| end > start);
            prop_assert!(long.map(|(_, lane)| lane).collect::<BTreeSet<_>>().len() <= deepest.max(1));
        }

        #[test]
        fn test_gaps_reach_back_to_the_latest_end(mut spans in spans()) {
            spans.sort_unstable();
            let ends = |i: usize| spans[..i].iter().map(|span| span.1).max().unwrap_or(0);
            let expected: Vec<u64> = (0..spans.len()).map(|i| spans[i].0.saturating_sub(ends(i))).collect();
            prop_assert_eq!(gaps(&spans), expected);
        }

        #[test]
        fn test_sums_by_bin_against_points(spans in spans()) {
            let spans: Vec<Span> = spans.into_iter().map(|(start, end)| (start, end.max(start + 1))).collect();
            let amounts: Vec<f64> = spans.iter().map(|(start, end)| 3.0 * (end - start) as f64).collect();
            let edges = [0.0, 7.0, 8.0, 30.0, 90.0];
            for (pair, found) in edges.windows(2).zip(sum_by_bin(&spans, &amounts, &edges)) {
                let points = pair[0] as u64..pair[1] as u64;
                let inside = |span: &Span| points.clone().filter(|point| (span.0..span.1).contains(point)).count();
                let expected = 3.0 * spans.iter().map(inside).sum::<usize>() as f64;
                prop_assert!((found - expected).abs() < 1e-9);
            }
        }
    }
}
