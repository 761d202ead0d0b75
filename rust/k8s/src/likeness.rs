//! How like two words are, by Ratcliff and Obershelp: what they share, in order, over what there is.

use std::collections::HashMap;

/// Twice the letters that two words share in order, over the letters of both; 1 for two empty words.
pub(crate) fn ratio(left: &str, right: &str) -> f64 {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let letters = left.len() + right.len();
    if letters == 0 { 1.0 } else { 2.0 * shared(&left, &right) as f64 / letters as f64 }
}

/// The letters of the longest common run, and of those before and after it.
fn shared(left: &[char], right: &[char]) -> usize {
    let (at, there, length) = longest(left, right);
    if length == 0 {
        return 0;
    }
    length + shared(&left[..at], &right[..there]) + shared(&left[at + length..], &right[there + length..])
}

/// Where the longest common run begins in each, the earliest of several, and its length.
fn longest(left: &[char], right: &[char]) -> (usize, usize, usize) {
    let mut places: HashMap<char, Vec<usize>> = HashMap::new();
    for (at, letter) in right.iter().enumerate() {
        places.entry(*letter).or_default().push(at);
    }
    let mut best = (0, 0, 0);
    let mut runs: HashMap<usize, usize> = HashMap::new();
    for (at, letter) in left.iter().enumerate() {
        let mut grown = HashMap::new();
        for &there in places.get(letter).map(Vec::as_slice).unwrap_or_default() {
            let length = there.checked_sub(1).and_then(|before| runs.get(&before)).unwrap_or(&0) + 1;
            grown.insert(there, length);
            if length > best.2 {
                best = (at + 1 - length, there + 1 - length, length);
            }
        }
        runs = grown;
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_ratios_count_what_is_shared_in_order() {
        assert_eq!(ratio("abcd", "bcde"), 0.75);
        assert_eq!(ratio("count", "cuont"), 0.8);
        assert_eq!(ratio("", ""), 1.0);
        assert_eq!(ratio("abc", "xyz"), 0.0);
    }
}
