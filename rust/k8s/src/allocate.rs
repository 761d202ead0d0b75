//! The allocator: claims in, claims with `status.allocation` out, or one error that says why not.
//!
//! Claims are taken in the order of the file, the claims of a pod together; a claim that was placed is not moved for a
//! later one, and if one cannot be met nothing is allocated **(choice)**. All devices of a claim are on one node, as a pod
//! is. A claim with `ultraserverMode` 2 or 4 gets a node of an aligned set of so many nodes of one UltraServer, which is
//! kept for the claims of that mode that follow until it is full **(choice)**.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::attempt::{Way, try_node, ways};
use crate::claims::{ResourceClaim, given, read_claim};
use crate::config::{ClaimSettings, from_claim, from_class};
use crate::device::PoolDevice;
use crate::document::{Document, Object, of_kind};
use crate::error::{Error, Result, guess};
use crate::names::{HOSTNAME, MAX_RESULTS};
use crate::refusal::refusal;
use crate::score::PlacementScore;
use crate::search::Assignment;
use crate::state::AllocationState;
use crate::workload::{ClaimUnit, ClaimWorkload};

/// What allocations take for granted.
pub const ASSUMPTIONS: [&str; 4] = [
    "claims are placed in the order of the file; one that was placed is not moved for another",
    "a claim's devices are on one node",
    "a device of type neuron_node holds all devices of its pool",
    "UltraServer sets of 2 and 4 nodes are aligned to the first server of a rack",
];

/// A claim that was met.
#[derive(Clone, Debug)]
pub struct PlacedClaim {
    /// The claim.
    pub claim: ResourceClaim,
    /// The node where its devices are.
    pub node: String,
    /// Pairs of request (with the alternative that was taken) and device.
    pub devices: Vec<(String, PoolDevice)>,
    /// What the placement costs.
    pub score: PlacementScore,
    /// The claim as a ResourceClaim with `status.allocation`.
    pub body: Value,
}

impl PlacedClaim {
    /// All of it as plain data.
    pub fn plain(&self) -> Value {
        let devices: Vec<Value> =
            self.devices.iter().map(|(request, device)| json!([request, device.plain()])).collect();
        json!({
            "claim": {
                "source": &*self.claim.document.source, "document": self.claim.document.body,
                "name": self.claim.name, "origin": self.claim.origin,
            },
            "node": self.node, "devices": devices, "score": self.score, "body": self.body,
        })
    }
}

/// What [`allocate`] gives.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// Claims in their order.
    pub placed: Vec<PlacedClaim>,
    /// ResourceClaims that were allocated before.
    pub kept: Vec<Object>,
    /// What the caller should know: objects that had no say, UltraServer sets that are not full.
    pub notes: Vec<String>,
}

impl Allocation {
    /// All of it as plain data.
    pub fn plain(&self) -> Value {
        let placed: Vec<Value> = self.placed.iter().map(PlacedClaim::plain).collect();
        json!({"placed": placed, "kept": self.kept, "notes": self.notes})
    }
}

/// Allocates devices to claims.
///
/// `claims` are ResourceClaims, ResourceClaimTemplates and the pods that use them, and DeviceClasses; `inventory` are
/// ResourceSlices and DeviceClasses, of which one of the name of a driver is implied; `allocated` are claims with
/// `status.allocation`, whose devices are taken.
///
/// # Errors
/// [`Error::Unmet`] if a claim cannot be met; the text says what is in the way and what would work. [`Error::Malformed`]
/// if an object is.
///
/// ```
/// use serde_json::{Value, json};
/// use trn3_k8s::{Document, SliceOptions, allocate, resource_slices};
///
/// let claim = json!({
///     "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "four"},
///     "spec": {"devices": {"requests": [
///         {"name": "chips", "exactly": {"deviceClassName": "trn3.internal", "count": 4}}]}}});
/// let slices = resource_slices("trn2", &SliceOptions::default())?;
/// let inventory: Vec<_> = slices.into_iter().flat_map(|body| Document::read("slices", body).unwrap()).collect();
/// let result = allocate(&Document::read("claims", claim)?, &inventory, &[])?;
/// let names: Vec<_> = result.placed[0].devices.iter().map(|(_, device)| device.name.as_str()).collect();
/// assert_eq!(names, ["neuron-device-0", "neuron-device-1", "neuron-device-2", "neuron-device-3"]);
/// # Ok::<(), trn3_k8s::Error>(())
/// ```
pub fn allocate(claims: &[Document], inventory: &[Document], allocated: &[Document]) -> Result<Allocation> {
    let mut state = AllocationState::new(inventory, claims)?;
    let work = ClaimWorkload::read(claims)?;
    state.hold_all(allocated)?;
    let mut kept = Vec::new();
    let mut pending: Vec<ClaimUnit> = Vec::new();
    for unit in work.units {
        let mut new = Vec::new();
        for claim in unit.claims {
            if claim.allocation().is_some() {
                state.hold(&claim)?;
                kept.push(claim.document.body);
            } else {
                new.push(claim);
            }
        }
        if !new.is_empty() {
            pending.push(ClaimUnit { claims: new, pod: unit.pod });
        }
    }
    let mut seen = HashSet::new();
    for claim in pending.iter().flat_map(|unit| &unit.claims) {
        if !seen.insert(&claim.label) {
            let text = format!("{}: a claim of the name {} exists twice", claim.document, claim.label);
            return Err(Error::Malformed(text));
        }
    }
    let mut placed = Vec::new();
    for unit in &pending {
        placed.extend(place(&mut state, unit)?);
    }
    let mut notes: Vec<String> =
        work.ignored.iter().map(|each| format!("{each} has no claims and was left aside")).collect();
    notes.extend(half_full(&state));
    Ok(Allocation { placed, kept, notes })
}

impl AllocationState {
    /// Takes the devices of all claims that have some.
    pub(crate) fn hold_all(&mut self, allocated: &[Document]) -> Result<()> {
        for document in of_kind(allocated, "ResourceClaim") {
            let claim = read_claim(document, None, "")?;
            if claim.allocation().is_some() {
                self.hold(&claim)?;
            }
        }
        Ok(())
    }
}

/// Notes on UltraServer sets that are not full.
fn half_full(state: &AllocationState) -> Vec<String> {
    let names = |nodes: &[usize]| nodes.iter().map(|node| state.name_of(*node).to_owned()).collect::<Vec<_>>();
    let mut slots: Vec<_> = state.slots.iter().map(|(slot, mode)| (names(slot), slot, mode)).collect();
    slots.sort();
    let note = |(_, slot, mode): (Vec<String>, &Vec<usize>, &usize)| {
        let empty: Vec<usize> = slot.iter().copied().filter(|node| state.is_whole(*node)).collect();
        let list = names(&empty).join(", ");
        let count = empty.len();
        let text =
            format!("ultraserverMode {mode}: {count} of the {mode} nodes of its set are not claimed yet: {list}");
        (count > 0).then_some(text)
    };
    slots.into_iter().filter_map(note).collect()
}

/// Refuses classes that there are not, and modes without UltraServers.
fn check(state: &AllocationState, claim: &ResourceClaim) -> Result<ClaimSettings> {
    for ask in claim.requests.iter().flat_map(|request| &request.alternatives) {
        if !state.classes.contains_key(&ask.class_name) {
            let known: Vec<&str> = state.classes.keys().map(String::as_str).collect();
            let hint = guess(&ask.class_name, known.iter().copied());
            let reason = format!("there is no DeviceClass {}; known: {}{hint}", ask.class_name, known.join(", "));
            return Err(Error::unmet(&claim.label, &ask.name, reason));
        }
    }
    let settings = ClaimSettings::read(claim, &state.drivers)?;
    match settings.mode.filter(|_| state.blocks.is_empty()) {
        None => Ok(settings),
        Some(mode) => Err(Error::unmet(
            &claim.label,
            "",
            format!(
                "ultraserverMode {mode} needs nodes of an UltraServer (devices with capacityBlockId); the inventory has \
                 none: leave UltraServerConfig out, or take slices of gen1, gen2 or trn2_ultraserver"
            ),
        )),
    }
}

/// Places the claims of a unit on the best node, or says why there is none.
fn place(state: &mut AllocationState, unit: &ClaimUnit) -> Result<Vec<PlacedClaim>> {
    let settings = unit.claims.iter().map(|claim| check(state, claim)).collect::<Result<Vec<_>>>()?;
    let nodes = state.allowed_nodes(&settings);
    let gave_up = |error| match error {
        Error::SearchLimit => Error::unmet(
            &unit.claims[0].label,
            "",
            "the search gave up: too many combinations of devices; ask with matchAttribute or fewer distinct values",
        ),
        other => other,
    };
    let ways = ways(unit)?;
    for way in &ways {
        if let Some((node, found)) = best(state, &nodes, way, &settings).map_err(gave_up)? {
            return commit(state, unit, &settings, way, node, &found);
        }
    }
    Err(refusal(state, unit, &ways, &settings, &nodes).unwrap_or_else(gave_up))
}

/// The best node for a way; of equally good ones that which has the fewest free devices, then the first.
fn best(
    state: &AllocationState,
    nodes: &[usize],
    way: &Way<'_>,
    settings: &[ClaimSettings],
) -> Result<Option<(usize, Assignment)>> {
    let mut best: Option<(usize, Assignment)> = None;
    for &node in nodes {
        let Some(found) = try_node(state, node, way, state.opened(node, settings))? else { continue };
        let is_better = best.as_ref().is_none_or(|(other, known)| {
            (&found.score, state.free[node].count()) < (&known.score, state.free[*other].count())
        });
        if is_better {
            best = Some((node, found));
        }
    }
    Ok(best)
}

fn commit(
    state: &mut AllocationState,
    unit: &ClaimUnit,
    settings: &[ClaimSettings],
    way: &Way<'_>,
    node: usize,
    found: &Assignment,
) -> Result<Vec<PlacedClaim>> {
    let name = state.name_of(node).to_owned();
    let mut placed = Vec::new();
    for (claim, chosen) in unit.claims.iter().zip(settings) {
        let (mut devices, mut results, mut config, mut used) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for ((_, ask), positions) in way.iter().zip(&found.sets).filter(|((owner, _), _)| std::ptr::eq(*owner, claim)) {
            used.push(ask.name.as_str());
            let places: Vec<usize> = positions.iter().map(|position| state.layouts[node].devices[*position]).collect();
            let members: Vec<&PoolDevice> = places.iter().map(|place| &state.devices[*place]).collect();
            chosen.check(claim, &ask.name, &members)?;
            for device in members {
                devices.push((ask.name.clone(), device.clone()));
                let mut result = json!({
                    "request": ask.name, "driver": device.driver, "pool": device.pool, "device": device.name,
                });
                if ask.admin {
                    result["adminAccess"] = true.into();
                }
                if !ask.tolerations.is_empty() {
                    result["tolerations"] = ask.tolerations.iter().map(|each| Value::from(each.body.clone())).collect();
                }
                results.push(result);
            }
            let class = state.classes.get(&ask.class_name);
            config.extend(class.map(|class| from_class(&class.config, &ask.name)).unwrap_or_default());
            if !ask.admin {
                places.iter().for_each(|place| state.take(&claim.label, *place, chosen.mode));
            }
        }
        if results.len() > MAX_RESULTS {
            let count = results.len();
            let reason = format!("{count} devices; a claim holds at most {MAX_RESULTS}, so ask in several claims");
            return Err(Error::unmet(&claim.label, "", reason));
        }
        config.extend(from_claim(claim, &used));
        let body = body(claim, state.reached_by(node), results, config);
        placed.push(PlacedClaim {
            claim: claim.clone(),
            node: name.clone(),
            devices,
            score: found.score.clone(),
            body,
        });
    }
    Ok(placed)
}

/// The claim as a ResourceClaim that holds what it was given.
fn body(claim: &ResourceClaim, nodes: &[String], results: Vec<Value>, config: Vec<Value>) -> Value {
    let body = &claim.document.body;
    let mut metadata = given(body, "metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut spec = &body["spec"];
    if claim.document.kind() == "ResourceClaimTemplate" {
        // Only what the template gives its claims is theirs.
        let namespace = given(&metadata, "namespace").cloned();
        metadata = Object::new();
        metadata.insert("name".to_owned(), claim.name.as_str().into());
        metadata.extend(namespace.map(|namespace| ("namespace".to_owned(), namespace)));
        if let Some(Value::Object(inner)) = spec.get("metadata") {
            let kept = ["labels", "annotations"].map(|key| Some((key.to_owned(), given(inner, key)?.clone())));
            metadata.extend(kept.into_iter().flatten());
        }
        spec = &spec["spec"];
    }
    let mut held = json!({"results": results});
    if !config.is_empty() {
        held["config"] = config.into();
    }
    let term = match nodes {
        // A field takes one value, a label many.
        [node] => json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}),
        nodes => json!({"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": nodes}]}),
    };
    let mut status = given(body, "status").and_then(Value::as_object).cloned().unwrap_or_default();
    let selector = json!({"nodeSelectorTerms": [term]});
    status.insert("allocation".to_owned(), json!({"devices": held, "nodeSelector": selector}));
    json!({
        "apiVersion": body["apiVersion"], "kind": "ResourceClaim", "metadata": metadata, "spec": spec, "status": status,
    })
}
