//! Attempts: the ways to read what is asked for, and one of them tried on one node.

use std::sync::Arc;

use crate::bits::Bits;
use crate::claims::{ClaimAsk, ClaimConstraint, ResourceClaim};
use crate::error::{Error, Result, check_interrupt};
use crate::search::{self, Assignment, SearchRule, Want};
use crate::state::AllocationState;
use crate::workload::ClaimUnit;

/// Choices among the alternatives of all requests that are tried.
const MAX_WAYS: usize = 4_096;

/// One choice of alternatives: what each request asks for, and whose it is.
pub(crate) type Way<'a> = Vec<(&'a ResourceClaim, Arc<ClaimAsk>)>;

/// The choices of alternatives of a unit's requests, the preferred first.
pub(crate) fn ways(unit: &ClaimUnit) -> Result<Vec<Way<'_>>> {
    let requests = || unit.claims.iter().flat_map(|claim| claim.requests.iter().map(move |request| (claim, request)));
    let counts = requests().map(|(_, request)| request.alternatives.len());
    let count = counts.fold(1_u128, |product, count| product.saturating_mul(count as u128));
    if count > MAX_WAYS as u128 {
        let reason = format!(
            "firstAvailable gives {count} ways to choose, and at most {MAX_WAYS} are tried: give fewer alternatives, or \
             split the claim"
        );
        return Err(Error::unmet(&unit.claims[0].label, "", reason));
    }
    let mut ways: Vec<Way<'_>> = vec![Vec::new()];
    for (claim, request) in requests() {
        let mut longer = Vec::with_capacity(ways.len() * request.alternatives.len());
        for way in &ways {
            longer.extend(
                request.alternatives.iter().map(|ask| way.iter().cloned().chain([(claim, ask.clone())]).collect()),
            );
        }
        ways = longer;
    }
    Ok(ways)
}

/// What is pretended of a node and of the claims, for explanations.
#[derive(Clone, Copy, Default)]
pub(crate) struct Pretence<'a> {
    /// That all of the node is free.
    pub(crate) empty: bool,
    /// That the claims have this constraint alone.
    pub(crate) rule: Option<&'a ClaimConstraint>,
}

/// Searches one node as it is.
pub(crate) fn try_node(
    state: &AllocationState,
    node: usize,
    way: &[(&ResourceClaim, Arc<ClaimAsk>)],
    opened: Vec<usize>,
) -> Result<Option<Assignment>> {
    attempt(state, node, way, opened, Pretence::default())
}

/// Searches one node.
pub(crate) fn attempt(
    state: &AllocationState,
    node: usize,
    way: &[(&ResourceClaim, Arc<ClaimAsk>)],
    opened: Vec<usize>,
    pretence: Pretence<'_>,
) -> Result<Option<Assignment>> {
    let free: &Bits = if pretence.empty { state.all_of(node) } else { &state.free[node] };
    let mut wants = Vec::with_capacity(way.len());
    for (_, ask) in way {
        let candidates = state.candidates(ask, node)?;
        wants.push(Want { count: ask.count, candidates, admin: ask.admin });
    }
    let mut rules = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (claim, _) in way {
        if seen.contains(&claim.label.as_str()) {
            continue;
        }
        seen.push(&claim.label);
        let constraints = pretence.rule.map_or(claim.constraints.as_slice(), std::slice::from_ref);
        for constraint in constraints {
            let covers = |(_, (owner, ask)): &(usize, &(&ResourceClaim, Arc<ClaimAsk>))| {
                owner.label == claim.label && constraint.covers(ask)
            };
            let wants = way.iter().enumerate().filter(covers).map(|(index, _)| index).collect();
            let values = state.numbered(node, &constraint.attribute);
            rules.push(SearchRule { wants, values, distinct: constraint.distinct });
        }
    }
    // Nodes that look alike have the same answer.
    let counters = state.counters_of(node, pretence.empty);
    let key = (state.kinds[node], free.clone(), counters, wants, rules, opened);
    if let Some(known) = state.found.borrow().get(&key) {
        return Ok(known.clone());
    }
    check_interrupt()?;
    let (_, _, counters, wants, rules, opened) = &key;
    let found = search::search(&state.layouts[node].shape, free, counters, wants, rules, opened)?;
    state.found.borrow_mut().insert(key, found.clone());
    Ok(found)
}
