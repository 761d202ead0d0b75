//! Where a body is cut: what comes again is found, so that it is compiled once.

use std::collections::HashMap;
use std::ops::Range;

/// How many instructions regions have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionSizes {
    /// At most, unless one step has more: larger regions lose less at their seams, and take more memory while they are
    /// compiled.
    pub(crate) largest: u64,
    /// Below this a region joins its neighbour, though it comes again: what a seam costs is more than what is saved.
    pub(crate) smallest: u64,
}

impl Default for RegionSizes {
    /// **(choice)**
    fn default() -> Self {
        Self { largest: 200_000, smallest: 2_000 }
    }
}

/// One step of a body, for the cut: what is the same of equal ones, and its instructions. None where a body has to be
/// cut on both sides, as at loops.
pub(crate) type CutStep = Option<(u32, u64)>;

/// A part of the steps while parts are joined.
#[derive(Clone, Debug)]
struct JoinedSteps {
    symbol: u32,
    steps: Range<usize>,
    instructions: u64,
    is_joint: bool,
}

/// Cuts steps into regions. The most frequent pair of neighbours becomes one again and again, so that equal sequences are
/// cut alike wherever they stand; what comes once joins its neighbours.
pub(crate) fn cut(steps: &[CutStep], sizes: RegionSizes) -> Vec<Range<usize>> {
    let mut pieces: Vec<JoinedSteps> = Vec::with_capacity(steps.len());
    let mut fresh = steps.iter().flatten().map(|&(kind, _)| kind + 1).max().unwrap_or(0);
    for (place, step) in steps.iter().enumerate() {
        let (symbol, instructions) = step.unwrap_or_else(|| {
            fresh += 1;
            (fresh, 0)
        });
        pieces.push(JoinedSteps { symbol, steps: place..place + 1, instructions, is_joint: step.is_some() });
    }
    while let Some(pair) = most_frequent(&pieces, sizes) {
        fresh += 1;
        pieces = joined(&pieces, |one, other| ((one.symbol, other.symbol) == pair).then_some(fresh));
    }
    let mut counts: HashMap<u32, u32> = HashMap::new();
    pieces.iter().for_each(|piece| *counts.entry(piece.symbol).or_default() += 1);
    // What came of a join is new, and comes once.
    let is_small = |piece: &JoinedSteps| {
        piece.instructions < sizes.smallest || counts.get(&piece.symbol).is_none_or(|&count| count == 1)
    };
    loop {
        let before = pieces.len();
        pieces = joined(&pieces, |one, other| {
            fresh += 1;
            (may_join(one, other, sizes) && is_small(one) && is_small(other)).then_some(fresh)
        });
        if pieces.len() == before {
            return pieces.into_iter().map(|piece| piece.steps).collect();
        }
    }
}

fn may_join(one: &JoinedSteps, other: &JoinedSteps, sizes: RegionSizes) -> bool {
    one.is_joint && other.is_joint && one.instructions.saturating_add(other.instructions) <= sizes.largest
}

/// The pair of neighbours that comes most often, twice at least; of several the first. Repetitions of one thing stay
/// apart: together they would be compiled in several lengths.
fn most_frequent(pieces: &[JoinedSteps], sizes: RegionSizes) -> Option<(u32, u32)> {
    let mut counts: HashMap<(u32, u32), (u32, usize)> = HashMap::new();
    for (place, pair) in pieces.windows(2).enumerate() {
        if may_join(&pair[0], &pair[1], sizes) && pair[0].symbol != pair[1].symbol {
            counts.entry((pair[0].symbol, pair[1].symbol)).or_insert((0, place)).0 += 1;
        }
    }
    let best = counts.into_iter().max_by_key(|&(_, (count, place))| (count, std::cmp::Reverse(place)))?;
    (best.1.0 > 1).then_some(best.0)
}

/// Joins neighbours for which there is a new symbol, from the left.
fn joined(
    pieces: &[JoinedSteps],
    mut symbol: impl FnMut(&JoinedSteps, &JoinedSteps) -> Option<u32>,
) -> Vec<JoinedSteps> {
    let mut made = Vec::with_capacity(pieces.len());
    let mut place = 0;
    while place < pieces.len() {
        let one = &pieces[place];
        let new = pieces.get(place + 1).and_then(|other| symbol(one, other).map(|symbol| (symbol, other)));
        let Some((symbol, other)) = new else {
            made.push(one.clone());
            place += 1;
            continue;
        };
        let instructions = one.instructions + other.instructions;
        made.push(JoinedSteps { symbol, steps: one.steps.start..other.steps.end, instructions, is_joint: true });
        place += 2;
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps by letters, of so many instructions each; a bar is a loop.
    fn steps(text: &str, instructions: u64) -> Vec<CutStep> {
        text.bytes().map(|letter| (letter != b'|').then_some((u32::from(letter), instructions))).collect()
    }

    fn words(text: &str, instructions: u64) -> Vec<&str> {
        cut(&steps(text, instructions), RegionSizes::default()).into_iter().map(|range| &text[range]).collect()
    }

    #[test]
    fn test_what_comes_again_is_cut_alike() {
        // Three layers between what comes once.
        let text = "xyabcdabcdabcdzw";
        let found = words(text, 10_000);
        assert_eq!(found.concat(), text);
        assert_eq!(found, ["xy", "abcd", "abcd", "abcd", "zw"]);
    }

    #[test]
    fn test_regions_are_no_longer_than_the_limit() {
        let text = "abcdefabcdef";
        let found = words(text, 80_000);
        assert_eq!(found.concat(), text);
        assert!(found.iter().all(|word| word.len() <= 2), "{found:?}");
        // A step that is larger by itself stays one.
        assert_eq!(words("aba", 900_000), ["a", "b", "a"]);
    }

    #[test]
    fn test_short_ones_are_no_regions_of_their_own() {
        assert_eq!(words("abxabyab", 10), ["abxabyab"]);
    }

    #[test]
    fn test_loops_stand_by_themselves() {
        assert_eq!(words("ab|ab", 10), ["ab", "|", "ab"]);
        assert_eq!(words("||", 10), ["|", "|"]);
        assert!(cut(&[], RegionSizes::default()).is_empty());
    }
}
