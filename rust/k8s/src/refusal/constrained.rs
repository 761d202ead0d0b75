//! Constraints that no node meets even when all of it is free.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use regex::Regex;

use super::{Why, largest, matching};
use crate::attempt::{Pretence, attempt};
use crate::claims::{ClaimAsk, ClaimConstraint, ResourceClaim};
use crate::error::{Result, guess};
use crate::state::AllocationState;

static FAMILY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(devicegroup|topology)([0-9]+)_id\z").expect("a pattern of ours"));

const EMPTY: Pretence<'static> = Pretence { empty: true, rule: None };

/// The constraints of a claim that hold for a request.
pub(super) fn covering<'a>(claim: &'a ResourceClaim, ask: &'a ClaimAsk) -> impl Iterator<Item = &'a ClaimConstraint> {
    claim.constraints.iter().filter(|constraint| constraint.covers(ask))
}

/// Explains constraints that no node meets.
pub(super) fn constrained(state: &AllocationState, claim: &ResourceClaim, ask: &Arc<ClaimAsk>) -> Why {
    let nodes: Vec<usize> = (0..state.layouts.len()).collect();
    let Some(count) = ask.count else { return constrained_all(state, claim, ask, &nodes) };
    let (most, _) = largest(state, claim, ask, &nodes, EMPTY)?;
    if most >= count {
        return Ok(None);
    }
    for constraint in covering(claim, ask) {
        if let Some(known) = without(state, ask, constraint)? {
            let (domain, identifier) = &constraint.attribute;
            let hint = guess(&format!("{domain}/{identifier}"), known.iter().map(String::as_str));
            let known = known.join(", ");
            return Ok(Some(format!(
                "{constraint}: no device that matches has this attribute{hint} (there are {known})"
            )));
        }
        let (reach, _) = largest(state, claim, ask, &nodes, Pretence { rule: Some(constraint), ..EMPTY })?;
        if reach < count {
            let what = if constraint.distinct { "different values" } else { "devices in a group" };
            let wider = wider(state, claim, ask, constraint, &nodes)?;
            return Ok(Some(format!(
                "asks for {count} devices with {constraint}, which has at most {reach} {what} on a node: ask for \
                 {reach}{wider}"
            )));
        }
    }
    Ok(Some(format!(
        "its constraints allow at most {most} devices on a node at once, and it asks for {count}: ask for {most}"
    )))
}

/// The attributes that there are, if no device that matches has that of a constraint.
fn without(state: &AllocationState, ask: &ClaimAsk, constraint: &ClaimConstraint) -> Result<Option<Vec<String>>> {
    let all = matching::matching(state, ask)?;
    let chips: Vec<usize> = all.iter().copied().filter(|device| !state.devices[*device].is_node()).collect();
    let devices = if chips.is_empty() { all } else { chips };
    let mut attributes =
        devices.iter().flat_map(|device| state.devices[*device].attributes.iter().map(|(name, _)| name));
    if attributes.clone().any(|name| *name == constraint.attribute) {
        return Ok(None);
    }
    let known: BTreeSet<String> = attributes.by_ref().map(|(domain, name)| format!("{domain}/{name}")).collect();
    Ok(Some(known.into_iter().collect()))
}

/// Names an attribute of the same family whose groups are large enough.
fn wider(
    state: &AllocationState,
    claim: &ResourceClaim,
    ask: &ClaimAsk,
    constraint: &ClaimConstraint,
    nodes: &[usize],
) -> Result<String> {
    let (domain, identifier) = &constraint.attribute;
    let Some(family) = FAMILY.captures(identifier).filter(|_| !constraint.distinct) else { return Ok(String::new()) };
    let mut names = BTreeSet::new();
    for device in matching::matching(state, ask)? {
        for ((place, name), _) in &state.devices[device].attributes {
            if let Some(found) = FAMILY.captures(name).filter(|found| place == domain && found[1] == family[1]) {
                names.insert((found[2].parse::<u64>().unwrap_or(u64::MAX), name.clone()));
            }
        }
    }
    for (_, name) in names {
        let other = ClaimConstraint { attribute: (domain.clone(), name.clone()), ..constraint.clone() };
        let (reach, _) = largest(state, claim, ask, nodes, Pretence { rule: Some(&other), ..EMPTY })?;
        if reach >= ask.count.unwrap_or(1) {
            return Ok(format!(", or match {domain}/{name}"));
        }
    }
    Ok(String::new())
}

fn constrained_all(state: &AllocationState, claim: &ResourceClaim, ask: &Arc<ClaimAsk>, nodes: &[usize]) -> Why {
    for &node in nodes {
        if attempt(state, node, &[(claim, ask.clone())], Vec::new(), EMPTY)?.is_some() {
            return Ok(None);
        }
    }
    let constraints: Vec<String> = covering(claim, ask).map(ClaimConstraint::to_string).collect();
    Ok(Some(format!(
        "All takes every device of a node that matches, and no node meets {} with all of them: narrow the selectors, or \
         ask for a count",
        constraints.join(", ")
    )))
}
