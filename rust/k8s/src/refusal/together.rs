//! Requests that fit one by one and not together.

use std::sync::Arc;

use super::Reason;
use crate::attempt::{Way, try_node};
use crate::claims::{ClaimAsk, ClaimConstraint, ResourceClaim};
use crate::error::{Error, Result};
use crate::state::AllocationState;
use crate::workload::ClaimUnit;

/// Names the first request that is too much.
pub(super) fn together(state: &AllocationState, unit: &ClaimUnit, way: &Way<'_>, nodes: &[usize]) -> Result<Reason> {
    for end in 1..=way.len() {
        let fits = match fits(state, nodes, &way[..end]) {
            Err(Error::SearchLimit) => false,
            other => other?,
        };
        if fits {
            continue;
        }
        let (earlier, (claim, ask)) = (&way[..end - 1], &way[end - 1]);
        let mut hint = "drop it or the others".to_owned();
        for count in (1..ask.count.unwrap_or(1)).rev() {
            let mut smaller = earlier.to_vec();
            smaller.push((claim, Arc::new(ask.with_count(count))));
            if self::fits(state, nodes, &smaller)? {
                hint = format!("ask for {count} here");
                break;
            }
        }
        let before: Vec<&str> = earlier.iter().map(|(_, each)| each.name.as_str()).collect();
        let shared: Vec<String> = claim.constraints.iter().map(ClaimConstraint::to_string).collect();
        let under = if shared.is_empty() { String::new() } else { format!(" under {}", shared.join(", ")) };
        let of_pod = !unit.pod.is_empty() && unit.claims.len() > 1;
        let pod = if of_pod { format!(" of pod {}", unit.pod) } else { String::new() };
        let text = format!(
            "does not fit on one node together with {}{pod}{under}: each alone would; {hint}",
            before.join(", ")
        );
        return Ok((claim.label.clone(), ask.name.clone(), text));
    }
    Ok((unit.claims[0].label.clone(), String::new(), "fits in parts and not as a whole".to_owned()))
}

fn fits(state: &AllocationState, nodes: &[usize], part: &[(&ResourceClaim, Arc<ClaimAsk>)]) -> Result<bool> {
    for &node in nodes {
        if try_node(state, node, part, Vec::new())?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
