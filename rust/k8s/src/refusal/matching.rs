//! Requests that no device of the inventory matches, whatever is free.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::{Why, first_largest, put, some};
use crate::claims::ClaimAsk;
use crate::device::PoolDevice;
use crate::error::{Result, guess};
use crate::names::NODE;
use crate::shown::quoted;
use crate::state::AllocationState;
use crate::values::ResourceQuantity;

/// What in an expression may name an attribute.
static NAME: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"[.\[]\s*['"]?([A-Za-z_]\w*)"#).expect("a pattern of ours"));

/// Devices that match but for their taints.
fn selected(state: &AllocationState, ask: &ClaimAsk) -> Result<Vec<usize>> {
    let mut found = Vec::new();
    for device in 0..state.devices.len() {
        if state.is_selected(ask, device)? {
            found.push(device);
        }
    }
    Ok(found)
}

/// Devices that match.
pub(super) fn matching(state: &AllocationState, ask: &ClaimAsk) -> Result<Vec<usize>> {
    let mut found = selected(state, ask)?;
    found.retain(|device| ask.tolerates(&state.devices[*device]));
    Ok(found)
}

/// Devices that match, by node, in the order of the inventory.
pub(super) fn per_node(state: &AllocationState, ask: &ClaimAsk) -> Result<Vec<(usize, Vec<usize>)>> {
    let mut found: Vec<(usize, Vec<usize>)> = Vec::new();
    let mut places = vec![None; state.layouts.len()];
    for device in matching(state, ask)? {
        let node = state.node_of(device);
        match places[node] {
            Some(place) => {
                let (_, devices): &mut (usize, Vec<usize>) = &mut found[place];
                devices.push(device);
            }
            None => {
                places[node] = Some(found.len());
                found.push((node, vec![device]));
            }
        }
    }
    Ok(found)
}

/// Class, selectors or capacities that leave no device.
pub(super) fn no_match(state: &AllocationState, ask: &ClaimAsk) -> Why {
    if !selected(state, ask)?.is_empty() {
        return Ok(None);
    }
    let name = &ask.class_name;
    let mut left: Vec<&PoolDevice> = state.devices.iter().collect();
    let class = state.classes.get(name).map(|class| class.selectors.as_slice()).unwrap_or_default();
    for selector in class {
        left = passing(selector, &left)?;
    }
    if left.is_empty() {
        let drivers = state.drivers.join(", ");
        return Ok(Some(format!(
            "no device of the inventory belongs to DeviceClass {name}; its drivers are {drivers}: take one of their classes"
        )));
    }
    for selector in &ask.selectors {
        let kept = passing(selector, &left)?;
        if kept.is_empty() {
            let expression = selector.expression();
            return Ok(Some(format!(
                "none of {} devices of DeviceClass {name} that are left passes the selector {}{}",
                left.len(),
                quoted(expression),
                present(expression, &left)
            )));
        }
        left = kept;
    }
    Ok(Some(too_small(ask, &left)))
}

fn passing<'a>(selector: &crate::Selector, devices: &[&'a PoolDevice]) -> Result<Vec<&'a PoolDevice>> {
    let mut kept = Vec::new();
    for device in devices {
        if selector.accepts(device)? {
            kept.push(*device);
        }
    }
    Ok(kept)
}

/// The values that the attributes of an expression do have.
fn present(expression: &str, devices: &[&PoolDevice]) -> String {
    let mut words = Vec::new();
    NAME.captures_iter(expression).for_each(|found| put(&mut words, found[1].to_owned()));
    let mut parts = Vec::new();
    for word in words {
        let mut values = Vec::new();
        let attributes = devices.iter().flat_map(|device| &device.attributes);
        let named = attributes.filter(|((_, identifier), _)| *identifier == word);
        named.for_each(|(_, value)| put(&mut values, value.to_string()));
        if !values.is_empty() {
            parts.push(format!("{word} is {}", some(&values, ", ...")));
        }
    }
    if parts.is_empty() { String::new() } else { format!(": here {}", parts.join("; ")) }
}

fn too_small(ask: &ClaimAsk, left: &[&PoolDevice]) -> String {
    for (domain, identifier, amount) in &ask.capacity {
        let there =
            |device: &&'_ PoolDevice| device.capacity(domain.as_ref().unwrap_or(&device.driver), identifier).cloned();
        let mut most: Option<ResourceQuantity> = None;
        for each in left.iter().filter_map(there) {
            if most.as_ref().is_none_or(|most| each > *most) {
                most = Some(each);
            }
        }
        let Some(most) = most else {
            let known: BTreeSet<&str> =
                left.iter().flat_map(|device| device.capacity.iter().map(|((_, name), _)| name.as_str())).collect();
            let known: Vec<&str> = known.into_iter().collect();
            let list = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            return format!("no device has a capacity {identifier}; there are {list}{}", guess(identifier, known));
        };
        if most < *amount {
            return format!("{identifier} of {amount} is more than any device has; the most is {most}");
        }
    }
    "no device has all the capacities at once".to_owned()
}

/// Taints of all devices that match.
pub(super) fn tainted(state: &AllocationState, ask: &ClaimAsk) -> Why {
    let matching = selected(state, ask)?;
    if matching.iter().any(|device| ask.tolerates(&state.devices[*device])) {
        return Ok(None);
    }
    let mut taints = Vec::new();
    for taint in matching.iter().flat_map(|device| &state.devices[*device].taints) {
        let sign = if taint.value.is_empty() { "" } else { "=" };
        put(&mut taints, format!("{}{sign}{}:{}", taint.key, taint.value, taint.effect));
    }
    Ok(Some(format!(
        "all {} devices that match have taints ({}); add tolerations to the request, or repair the devices",
        matching.len(),
        some(&taints, "")
    )))
}

/// Counts that no node has, and "all" of what excludes itself.
pub(super) fn too_many(state: &AllocationState, ask: &ClaimAsk) -> Why {
    let per_node = per_node(state, ask)?;
    let is_node = |device: &usize| state.devices[*device].is_node();
    let Some(count) = ask.count else {
        let is_mixed = |(_, devices): &(usize, Vec<usize>)| devices.iter().any(is_node) && !devices.iter().all(is_node);
        let mixed = per_node.iter().all(is_mixed) && !ask.admin;
        return Ok(mixed.then(|| {
            format!(
                "All matches {NODE} devices and the devices that they stand for; select one kind with resourceType == \
                 'neuron_device' or resourceType == 'neuron_node'"
            )
        }));
    };
    let chips = |(_, devices): &(usize, Vec<usize>)| match devices.iter().filter(|device| !is_node(device)).count() {
        0 => devices.len(),
        parts => parts,
    };
    let largest = first_largest(per_node.iter().map(chips), |chips| *chips as i64).unwrap_or(0);
    if count <= largest {
        return Ok(None);
    }
    let claims = count.div_ceil(largest.max(1));
    Ok(Some(format!(
        "asks for {count} devices; a claim is for a pod, which runs on one node, and no node has more than {largest} that \
         match: ask for at most {largest}, in {claims} claims for {claims} pods"
    )))
}
