//! Why a claim cannot be met, and the nearest thing that would work.
//!
//! The checks of the allocator are taken one after the other, each over the whole inventory, and the first that leaves
//! nothing is what the error tells.

mod busy;
mod constrained;
mod matching;
mod together;

use crate::attempt::{Pretence, Way, attempt};
use crate::claims::{ClaimAsk, ResourceClaim};
use crate::config::ClaimSettings;
use crate::error::{Error, Result};
use crate::state::AllocationState;
use crate::workload::ClaimUnit;
use std::sync::Arc;

/// How many of a list are told.
const SHOWN: usize = 4;

/// Why, where there is a reason.
type Why = Result<Option<String>>;

/// The error for a unit that found no place.
///
/// # Errors
/// What went wrong on the way: a search that gave up.
pub(crate) fn refusal(
    state: &AllocationState,
    unit: &ClaimUnit,
    ways: &[Way<'_>],
    settings: &[ClaimSettings],
    nodes: &[usize],
) -> Result<Error> {
    let (claim, request, mut text) = why(state, unit, &ways[0], settings, nodes)?;
    if ways.len() > 1 {
        // The alternatives failed too; the preferred one is explained in full.
        let others = ways.len() - 1;
        let word = if others == 1 { "way" } else { "ways" };
        text = format!("{text} (and {others} other {word} to choose among firstAvailable)");
    }
    Ok(Error::unmet(&claim, &request, text))
}

/// Claim, request and reason.
type Reason = (String, String, String);

fn why(
    state: &AllocationState,
    unit: &ClaimUnit,
    way: &Way<'_>,
    settings: &[ClaimSettings],
    nodes: &[usize],
) -> Result<Reason> {
    let reason = |claim: &ResourceClaim, ask: &ClaimAsk, text| Ok((claim.label.clone(), ask.name.clone(), text));
    for (claim, ask) in way {
        for check in [matching::no_match, matching::tainted, matching::too_many] {
            if let Some(text) = check(state, ask)? {
                return reason(claim, ask, text);
            }
        }
    }
    let mode = settings.iter().filter_map(|each| each.mode).max().unwrap_or(0);
    if mode > 1 && nodes.is_empty() {
        return Ok((unit.claims[0].label.clone(), String::new(), busy::no_set(state, mode)));
    }
    for (claim, ask) in way {
        if let Some(text) = constrained::constrained(state, claim, ask)? {
            return reason(claim, ask, text);
        }
        if let Some(text) = busy::busy(state, claim, ask, nodes, mode)? {
            return reason(claim, ask, text);
        }
    }
    together::together(state, unit, way, nodes)
}

/// The largest number of devices that a node gives to the request alone, and the node.
fn largest(
    state: &AllocationState,
    claim: &ResourceClaim,
    ask: &ClaimAsk,
    nodes: &[usize],
    pretence: Pretence<'_>,
) -> Result<(usize, Option<usize>)> {
    let top = match ask.count {
        Some(count) => count,
        None => matching::per_node(state, ask)?.iter().map(|(_, devices)| devices.len()).max().unwrap_or(0),
    };
    let smaller: Vec<_> = (0..=top).map(|count| [(claim, Arc::new(ask.with_count(count)))]).collect();
    let (mut most, mut place) = (0, None);
    for &node in nodes {
        for count in (most + 1..=top).rev() {
            match attempt(state, node, &smaller[count], Vec::new(), pretence) {
                Err(Error::SearchLimit) | Ok(None) => {}
                Ok(Some(_)) => {
                    (most, place) = (count, Some(node));
                    break;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok((most, place))
}

/// Words in the order of a list, so many at most.
fn some(words: &[String], more: &str) -> String {
    let shown = words[..words.len().min(SHOWN)].join(", ");
    if words.len() > SHOWN { format!("{shown}{more}") } else { shown }
}

/// Adds a word that is not there yet.
fn put(words: &mut Vec<String>, word: String) {
    if !words.contains(&word) {
        words.push(word);
    }
}

/// The first of the largest, by a number.
fn first_largest<T>(entries: impl IntoIterator<Item = T>, size: impl Fn(&T) -> i64) -> Option<T> {
    entries.into_iter().reduce(|best, each| if size(&each) > size(&best) { each } else { best })
}
