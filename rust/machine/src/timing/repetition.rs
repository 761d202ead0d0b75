//! Repetition in a sequence: how far apart lies what is alike, and how far that goes.
//!
//! What is found first, by windows of a few places, is a guess; what is alike place by place is then for the caller to say.

use std::collections::HashMap;

/// Places each of which is like the one a lag before it, but for the first ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repetition {
    /// The first place.
    pub first: usize,
    /// Places of a body.
    pub lag: usize,
    /// Behind the last place.
    pub end: usize,
}

/// Places that are looked for again together: of loops within loops the outer ones are found where inner ones begin and end.
const WINDOW: usize = 12;
/// Lags that are tried at most.
const MOST_LAGS: usize = 8;
/// Different gaps beyond which nothing is regular.
const MOST_GAPS: usize = 4096;
/// What hashes multiply by: odd, and as good as any.
pub(super) const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// How far apart lies what may repeat, those first that most places have to do with.
///
/// ```
/// use trn3_machine::timing::repetition::lags;
///
/// let sequence: Vec<u64> = (0..300).map(|place| place % 7).collect();
/// assert_eq!(lags(&sequence), [7]);
/// assert!(lags(&(0..300).map(|place| place * place).collect::<Vec<u64>>()).is_empty());
/// ```
pub fn lags(likeness: &[u64]) -> Vec<usize> {
    let bits = (2 * likeness.len()).next_power_of_two().trailing_zeros().clamp(8, 20);
    let mut seen = vec![u32::MAX; 1 << bits];
    let oldest = (0..WINDOW).fold(1u64, |power, _| power.wrapping_mul(MIX));
    let mut gaps: HashMap<usize, usize> = HashMap::new();
    let (mut hash, mut gap, mut places) = (0u64, 0, 0);
    for (at, like) in likeness.iter().enumerate() {
        hash = hash.wrapping_mul(MIX).wrapping_add(*like);
        let Some(before) = at.checked_sub(WINDOW) else { continue };
        hash = hash.wrapping_sub(likeness[before].wrapping_mul(oldest));
        let last = &mut seen[(hash.wrapping_mul(MIX) >> (u64::BITS - bits)) as usize];
        let own = if *last == u32::MAX { 0 } else { at - *last as usize };
        *last = at as u32;
        if own != gap {
            *gaps.entry(gap).or_default() += places;
            (gap, places) = (own, 0);
            if gaps.len() > MOST_GAPS {
                return Vec::new();
            }
        }
        places += 1;
    }
    *gaps.entry(gap).or_default() += places;
    // What falls into one slot by chance does so a place at a time.
    gaps.retain(|gap, places| *gap > 0 && *places >= WINDOW);
    let mut gaps: Vec<(usize, usize)> =
        gaps.into_iter().map(|(gap, places)| (gap.saturating_mul(places), gap)).collect();
    gaps.sort_unstable_by(|one, other| other.cmp(one));
    let counts = gaps.into_iter().take(MOST_LAGS).filter(|(weight, _)| *weight >= likeness.len() / 8);
    counts.map(|(_, gap)| gap).collect()
}

/// Repetitions of three bodies at least, `count` places in all. `likeness`: None where a place is unlike the one a lag before
/// it; else in what way it is like it, which within a repetition is the same a lag later.
pub fn repetitions(count: usize, lag: usize, mut likeness: impl FnMut(usize) -> Option<u64>) -> Vec<Repetition> {
    let mut found = Vec::new();
    if lag == 0 {
        return found;
    }
    let mut keep = |first: usize, end: usize| {
        if end - first >= 3 * lag {
            found.push(Repetition { first, lag, end });
        }
    };
    let mut ways = vec![0; lag];
    let (mut first, mut place) = (0, 0);
    for at in lag..count {
        match likeness(at) {
            None => {
                keep(first, at);
                first = at + 1 - lag;
            }
            Some(way) => {
                let before = std::mem::replace(&mut ways[place], way);
                if at >= first + 2 * lag && before != way {
                    keep(first, at);
                    first = at + 1 - 2 * lag;
                }
            }
        }
        place = if place + 1 == lag { 0 } else { place + 1 };
    }
    keep(first, count.max(first));
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn alike(sequence: &[u64], lag: usize) -> Vec<Repetition> {
        repetitions(sequence.len(), lag, |at| (sequence[at] == sequence[at - lag]).then_some(0))
    }

    #[test]
    fn test_loops_within_loops_have_both_lags() {
        let outer = || (100..120).chain((0..30).flat_map(|_| 0..5u64));
        let sequence: Vec<u64> = (0..40).flat_map(|_| outer()).collect();
        let found = lags(&sequence);
        assert!(found.contains(&5) && found.contains(&170), "{found:?}");
        assert_eq!(alike(&sequence, 170), [Repetition { first: 0, lag: 170, end: 40 * 170 }]);
        let inner = alike(&sequence, 5);
        assert_eq!((inner.len(), inner[1]), (40, Repetition { first: 190, lag: 5, end: 340 }));
    }

    #[test]
    fn test_another_way_of_being_alike_is_another_repetition() {
        let found = repetitions(100, 4, |at| Some(u64::from(at >= 50)));
        assert_eq!(found, [Repetition { first: 0, lag: 4, end: 50 }, Repetition { first: 46, lag: 4, end: 100 }]);
    }

    proptest! {
        #[test]
        fn test_what_is_found_repeats(sequence in prop::collection::vec(0u64..3, 0..200), lag in 1usize..9) {
            for repetition in alike(&sequence, lag) {
                prop_assert!(repetition.end >= repetition.first + 3 * lag);
                prop_assert!((repetition.first + lag..repetition.end).all(|at| sequence[at] == sequence[at - lag]));
            }
        }
    }
}
