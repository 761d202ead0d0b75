//! Requests that would fit if others were not there.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Why, constrained, first_largest, largest, matching};
use crate::attempt::{Pretence, try_node};
use crate::claims::{ClaimAsk, ClaimConstraint, ResourceClaim};
use crate::error::Result;
use crate::state::AllocationState;
use crate::values::AttributeValue;

/// Who holds a device of which that is not known.
const ANOTHER: &str = "another claim";

/// Devices that would do together: their node, their value of the constraint, how many of them are free.
struct Group {
    node: usize,
    value: String,
    devices: Vec<usize>,
    free: usize,
}

/// Explains a mode of which no set of nodes is free.
pub(super) fn no_set(state: &AllocationState, mode: usize) -> String {
    let slots = |size: usize| state.blocks.iter().flat_map(move |block| block.slots(size));
    let is_kept = |slot: &[usize]| state.slots.keys().flatten().any(|node| slot.contains(node));
    let is_open = |size: usize| slots(size).any(|slot| state.are_whole(slot) && (size == 1 || !is_kept(slot)));
    let smaller = [2, 1].into_iter().filter(|size| *size < mode).find(|size| is_open(*size));
    let whole = |slot: &[usize]| slot.iter().filter(|node| state.is_whole(**node)).count();
    let Some(best) = first_largest(slots(mode), |slot| whole(slot) as i64) else {
        let most = state.blocks.iter().map(|block| block.nodes.len()).max().unwrap_or(0);
        let hint = smaller.map(|size| format!(": mode {size} would work")).unwrap_or_default();
        return format!(
            "ultraserverMode {mode} needs {mode} nodes of one UltraServer; the largest of the inventory has {most}{hint}"
        );
    };
    let used: Vec<usize> = best.iter().copied().filter(|node| !state.is_whole(*node)).collect();
    let names: Vec<&str> = used.iter().map(|node| state.name_of(*node)).collect();
    let names = names.join(", ");
    let free = best.len() - used.len();
    let mut text =
        format!("ultraserverMode {mode} needs {mode} wholly free nodes of one aligned set; the best set has {free}");
    let mut hints: Vec<String> = smaller.map(|size| format!("mode {size}")).into_iter().collect();
    if used.is_empty() {
        text += ", which is kept for another claim of an UltraServer mode";
    } else {
        let devices = used.iter().flat_map(|node| &state.layouts[*node].devices);
        let holders: BTreeSet<&str> =
            devices.filter_map(|device| state.holders.get(device)).map(String::as_str).collect();
        let holders: Vec<&str> = holders.into_iter().collect();
        text += &format!(" ({names} used by {})", holders.join(", "));
        hints.push(format!("free {names}"));
    }
    if hints.is_empty() { text } else { format!("{text}: {} would work", hints.join(" or ")) }
}

/// Groups of matching devices that would do: by node, or by value of the constraint.
fn groups(
    state: &AllocationState,
    ask: &ClaimAsk,
    nodes: &[usize],
    rule: Option<&ClaimConstraint>,
) -> Result<Vec<Group>> {
    let mut groups: Vec<(usize, Option<&AttributeValue>, Vec<usize>)> = Vec::new();
    for (node, devices) in matching::per_node(state, ask)? {
        if !nodes.contains(&node) {
            continue;
        }
        let first = groups.len();
        let has_chips = devices.iter().any(|device| !state.devices[*device].is_node());
        for device in devices {
            let there = &state.devices[device];
            let value = rule.map(|rule| there.attribute(&rule.attribute.0, &rule.attribute.1));
            if (there.is_node() && has_chips) || value == Some(None) {
                continue;
            }
            let value = value.flatten();
            match groups[first..].iter_mut().find(|(_, known, _)| *known == value) {
                Some((_, _, devices)) => devices.push(device),
                None => groups.push((node, value, vec![device])),
            }
        }
    }
    let group = |(node, value, devices): (usize, Option<&AttributeValue>, Vec<usize>)| Group {
        node,
        value: value.map(AttributeValue::to_string).unwrap_or_default(),
        free: devices.iter().filter(|device| state.is_free(**device)).count(),
        devices,
    };
    Ok(groups.into_iter().map(group).collect())
}

/// Explains a request that would fit if others were not there.
pub(super) fn busy(
    state: &AllocationState,
    claim: &ResourceClaim,
    ask: &Arc<ClaimAsk>,
    nodes: &[usize],
    mode: usize,
) -> Why {
    let Some(count) = ask.count else {
        return if ask.admin { Ok(None) } else { busy_all(state, claim, ask, &groups(state, ask, nodes, None)?) };
    };
    let (most, place) = largest(state, claim, ask, nodes, Pretence::default())?;
    if ask.admin || most >= count {
        return Ok(None);
    }
    let rule = constrained::covering(claim, ask).find(|each| !each.distinct);
    let groups = groups(state, ask, nodes, rule)?;
    let text = match rule.and_then(|rule| Some((rule, first_largest(&groups, |group| group.free as i64)?))) {
        Some((rule, best)) => {
            let on_node: usize = groups.iter().filter(|group| group.node == best.node).map(|group| group.free).sum();
            format!(
                "asks for {count} devices with {rule}; {} of {on_node} free devices of {} share {} {}, and that is the \
                 largest free group",
                best.free,
                state.name_of(best.node),
                rule.attribute.1,
                best.value
            )
        }
        None => {
            let total: usize = groups.iter().map(|group| group.free).sum();
            let here = place.map(|node| format!(", at most {most} of them on one node ({})", state.name_of(node)));
            let reserved = if mode > 0 { String::new() } else { reserved(state) };
            format!("asks for {count} devices; {total} that match are free{}{reserved}", here.unwrap_or_default())
        }
    };
    let mut hints = Vec::new();
    if most > 0 {
        hints.push(format!("ask for {most}"));
    }
    let fitting = groups.iter().filter(|group| group.devices.len() >= count);
    if let Some(best) = first_largest(fitting, |group| group.free as i64) {
        let held = best.devices.iter().filter(|device| !state.is_free(**device));
        let held = held
            .take(count.saturating_sub(best.free))
            .map(|device| format!("{} (held by {})", state.devices[*device], state.holder(*device, ANOTHER)));
        let held: Vec<String> = held.collect();
        if !held.is_empty() {
            hints.push(format!("free {}", held.join(", ")));
        }
    }
    Ok(Some(if hints.is_empty() { text } else { format!("{text}: {}", hints.join(" or ")) }))
}

fn busy_all(state: &AllocationState, claim: &ResourceClaim, ask: &Arc<ClaimAsk>, groups: &[Group]) -> Why {
    for group in groups {
        if try_node(state, group.node, &[(claim, ask.clone())], Vec::new())?.is_some() {
            return Ok(None);
        }
    }
    let Some(best) = first_largest(groups, |group| group.free as i64 - group.devices.len() as i64) else {
        return Ok(Some(format!("All needs a node that matches and that no other claim keeps{}", reserved(state))));
    };
    let held: Vec<usize> = best.devices.iter().copied().filter(|device| !state.is_free(*device)).collect();
    let holders: BTreeSet<&str> = held.iter().map(|device| state.holder(*device, ANOTHER)).collect();
    let holders: Vec<&str> = holders.into_iter().collect();
    let left = best.devices.len() - held.len();
    let hint = if left > 0 { format!(", or ask for {left} with allocationMode ExactCount") } else { String::new() };
    Ok(Some(format!(
        "All needs every device of a node that matches to be free; {} comes nearest, with {} of {} held by {}: free \
         them{hint}",
        state.name_of(best.node),
        held.len(),
        best.devices.len(),
        holders.join(", ")
    )))
}

fn reserved(state: &AllocationState) -> String {
    let nodes = state.slots.keys().flatten().filter(|node| state.is_whole(**node));
    match nodes.collect::<BTreeSet<_>>().len() {
        0 => String::new(),
        count => format!(" ({count} nodes are kept for UltraServer modes)"),
    }
}
